# Tangled from chapters/00_tensor/, chapters/a1_operators/, chapters/a2_layers/, chapters/04_optim/ — edit there, or here and run `readtorch sync`.
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

from readtorch.aten.native import pointwise_ops as pointwise_ops
from readtorch.aten.native import tensor_compare as tensor_compare

from readtorch.aten.native import activation as activation

from readtorch.aten.native import tensor_advanced_indexing as tensor_advanced_indexing

from readtorch.aten.native import triangular_ops as triangular_ops

from readtorch.aten.native import batch_linear_algebra as batch_linear_algebra

from readtorch.aten.native.sparse import sparse_tensor as sparse_tensor
from readtorch.aten.native.sparse import sparse_unary_ops as sparse_unary_ops
from readtorch.aten.native.sparse import sparse_tensor_math as sparse_tensor_math
from readtorch.aten.native.sparse import sparse_blas as sparse_blas
from readtorch.aten.native.sparse import soft_max as sparse_soft_max

from readtorch.aten.native import sorting as sorting

from readtorch.aten.native import unique as unique

from readtorch.aten.native import distributions as distributions

from readtorch.aten.native import foreach_ops_kernels as foreach_ops_kernels

from readtorch.aten.native import spectral_ops as spectral_ops

from readtorch.aten.native import convolution as convolution

from readtorch.aten.native import pooling as pooling
from readtorch.aten.native import max_unpooling as max_unpooling
from readtorch.aten.native import average_pool2d as average_pool2d
from readtorch.aten.native import adaptive_average_pooling as adaptive_average_pooling
from readtorch.aten.native import adaptive_max_pooling2d as adaptive_max_pooling2d

from readtorch.aten.native import normalization as normalization
from readtorch.aten.native import layer_norm as layer_norm
from readtorch.aten.native import group_norm as group_norm

from readtorch.aten.native import gated_linear_unit as gated_linear_unit

from readtorch.aten.native import soft_max as soft_max
from readtorch.aten.native import loss_nll as loss_nll
from readtorch.aten.native import loss as loss
from readtorch.aten.native import loss_multi_margin as loss_multi_margin
from readtorch.aten.native import loss_multi_label_margin as loss_multi_label_margin

from readtorch.aten.native import linear as linear
from readtorch.aten.native import embedding as embedding
from readtorch.aten.native import embedding_bag as embedding_bag
from readtorch.aten.native import distance as distance
from readtorch.aten.native import dropout as dropout

from readtorch.aten.native import constant_pad_nd as constant_pad_nd
from readtorch.aten.native import pad_nd as pad_nd
from readtorch.aten.native import pixel_shuffle as pixel_shuffle
from readtorch.aten.native import chanel_shuffle as chanel_shuffle
from readtorch.aten.native import up_sample as up_sample
from readtorch.aten.native import im2_col as im2_col

from readtorch.aten.native import rnn as rnn

from readtorch.aten.native.transformers import attention as attention

from readtorch.aten.native import affine_grid_generator as affine_grid_generator
from readtorch.aten.native import fractional_max_pool2d as fractional_max_pool2d
from readtorch.aten.native import grid_sampler as grid_sampler
from readtorch.aten.native import loss_ctc as loss_ctc

from readtorch.aten import dispatch as dispatch

from readtorch.aten.native import weight_norm as weight_norm

from readtorch.aten.native import cpu_blas as cpu_blas
from readtorch.aten.native import fused_adam as fused_adam
from readtorch.aten.native import fused_sgd as fused_sgd
