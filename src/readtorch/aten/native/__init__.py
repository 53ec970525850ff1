# Tangled from chapters/00_tensor/, chapters/a1_operators/ — edit there, or here and run `readtorch sync`.
"""The kernels, a module per upstream file (twin of `aten/src/ATen/native/`). Importing this package fills the table."""

from readtorch.aten.native import binary_ops as binary_ops

from readtorch.aten.native import unary_ops as unary_ops

from readtorch.aten.native import copy as copy
from readtorch.aten.native import tensor_conversions as tensor_conversions

from readtorch.aten.native import tensor_factories as tensor_factories

from readtorch.aten.native import fill as fill

from readtorch.aten.native import reduce_ops as reduce_ops

from readtorch.aten.native import tensor_shape as tensor_shape

from readtorch.aten.native import linear_algebra as linear_algebra

from readtorch.aten.native import tensor_advanced_indexing as tensor_advanced_indexing

from readtorch.aten.native import distributions as distributions
