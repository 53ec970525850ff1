# Tangled from chapters/01_import/8b_neighbours.py — edit there, or here and run `readtorch sync`.
"""The older names of two functions of `torch.hub`."""

from readtorch.hub import download_url_to_file as _download_url_to_file  # noqa: F401 - a name of this module
from readtorch.hub import load_state_dict_from_url as load_url  # noqa: F401 - a name of this module
