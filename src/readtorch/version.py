# Tangled from chapters/00_tensor/11b_namespace.py — edit there, or here and run `readtorch sync`.

from readtorch.torch_version import __version__ as __version__

cuda: str | None = None
hip: str | None = None
debug = False
git_version = "readtorch"
