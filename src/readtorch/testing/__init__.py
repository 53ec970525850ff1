# Tangled from chapters/a1_operators/y_testing.py — edit there, or here and run `readtorch sync`.
"""What tests compare with (twin of `torch/testing/__init__.py`)."""

from readtorch.testing._comparison import assert_allclose as assert_allclose
from readtorch.testing._comparison import assert_close as assert_close
from readtorch.testing._creation import make_tensor as make_tensor
