# Tangled from chapters/02_module/, chapters/03_norm.py, chapters/a2_layers/, chapters/06_data_parallel.py — edit there, or here and run `readtorch sync`.

from readtorch.nn import modules as modules
from readtorch.nn import parameter as parameter
from readtorch.nn.modules import *  # noqa: F403 - its __all__ is this namespace
from readtorch.nn.parameter import Buffer as Buffer
from readtorch.nn.parameter import Parameter as Parameter
from readtorch.nn.parameter import UninitializedBuffer as UninitializedBuffer
from readtorch.nn.parameter import UninitializedParameter as UninitializedParameter

from typing import Any as _Any


def factory_kwargs(kwargs: dict[str, _Any] | None) -> dict[str, _Any]:
    """The `device`, `dtype` and `memory_format` in a layer's keyword arguments, or in their `factory_kwargs`.

    TypeError for any others, and for one that is given in both places.
    """
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    if strange := kwargs.keys() - simple - {"factory_kwargs"}:
        raise TypeError(f"unexpected kwargs {strange}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in simple & kwargs.keys():
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        found[name] = kwargs[name]
    return found


from readtorch.nn import functional as functional
from readtorch.nn import init as init

from readtorch.nn import attention as attention

from readtorch.nn import utils as utils

from readtorch.nn import parallel as parallel
from readtorch.nn.parallel import DataParallel as DataParallel
