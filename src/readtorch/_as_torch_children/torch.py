# Tangled from chapters/01_import/9_as_torch.py — edit there, or here and run `readtorch sync`.
"""Found by child processes as `torch`: installs readtorch's finder, and is replaced by readtorch."""


def _step_aside() -> None:
    import sys

    from readtorch import as_torch

    del sys.modules["torch"]
    as_torch.install()
    import torch as torch


if __name__ == "torch":
    _step_aside()
