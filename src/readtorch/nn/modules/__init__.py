# Tangled from chapters/02_module/5_containers.py — edit there, or here and run `readtorch sync`.

from readtorch.nn.modules.container import (
    Container,
    ModuleDict,
    ModuleList,
    ParameterDict,
    ParameterList,
    Sequential,
)
from readtorch.nn.modules.module import Module

__all__ = [
    "Container",
    "Module",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "Sequential",
]
