# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Into the namespace
#
# `nn.Linear` is `nn.modules.linear.Linear`: `nn/modules/__init__.py` collects the classes, `nn/__init__.py` takes all of them and the
# submodules that people reach by attribute.

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %%
#| into: nn/modules/__init__.py
from readtorch.nn.modules.activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    MultiheadAttention,
    PReLU,
    RReLU,
    ReLU,
    ReLU6,
    SiLU,
    Sigmoid,
    Softmax,
    Softmax2d,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from readtorch.nn.modules.adaptive import AdaptiveLogSoftmaxWithLoss
from readtorch.nn.modules.batchnorm import LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d
from readtorch.nn.modules.channelshuffle import ChannelShuffle
from readtorch.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    LazyConv1d,
    LazyConv2d,
    LazyConv3d,
    LazyConvTranspose1d,
    LazyConvTranspose2d,
    LazyConvTranspose3d,
)
from readtorch.nn.modules.distance import CosineSimilarity, PairwiseDistance
from readtorch.nn.modules.dropout import AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout
from readtorch.nn.modules.flatten import Flatten, Unflatten
from readtorch.nn.modules.fold import Fold, Unfold
from readtorch.nn.modules.instancenorm import LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d
from readtorch.nn.modules.linear import Bilinear, Identity, LazyLinear, Linear
from readtorch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions
from readtorch.nn.modules.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CTCLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    LinearCrossEntropyLoss,
    MSELoss,
    MarginRankingLoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    NLLLoss,
    NLLLoss2d,
    PoissonNLLLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from readtorch.nn.modules.padding import (
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
from readtorch.nn.modules.pixelshuffle import PixelShuffle, PixelUnshuffle
from readtorch.nn.modules.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    FractionalMaxPool2d,
    FractionalMaxPool3d,
    LPPool1d,
    LPPool2d,
    LPPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
)
from readtorch.nn.modules.rnn import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase
from readtorch.nn.modules.sparse import Embedding, EmbeddingBag
from readtorch.nn.modules.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from readtorch.nn.modules.upsampling import Upsample, UpsamplingBilinear2d, UpsamplingNearest2d

__all__ += [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "GRU",
    "LSTM",
    "RNN",
    "SELU",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveLogSoftmaxWithLoss",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AlphaDropout",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "Bilinear",
    "CTCLoss",
    "ChannelShuffle",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "Embedding",
    "EmbeddingBag",
    "FeatureAlphaDropout",
    "Flatten",
    "Fold",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "GRUCell",
    "GaussianNLLLoss",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "LSTMCell",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
    "LeakyReLU",
    "Linear",
    "LinearCrossEntropyLoss",
    "LinearCrossEntropyOptions",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "Mish",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "MultiheadAttention",
    "NLLLoss",
    "NLLLoss2d",
    "PReLU",
    "PairwiseDistance",
    "PixelShuffle",
    "PixelUnshuffle",
    "PoissonNLLLoss",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
    "RReLU",
    "ReLU",
    "ReLU6",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
    "Unflatten",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]

# %%
#| into: nn/utils/__init__.py
from readtorch.nn.utils import parametrizations as parametrizations
from readtorch.nn.utils import parametrize as parametrize
from readtorch.nn.utils import rnn as rnn
from readtorch.nn.utils import stateless as stateless
from readtorch.nn.utils.clip_grad import clip_grad_norm as clip_grad_norm
from readtorch.nn.utils.clip_grad import clip_grad_norm_ as clip_grad_norm_
from readtorch.nn.utils.clip_grad import clip_grad_value_ as clip_grad_value_
from readtorch.nn.utils.clip_grad import clip_grads_with_norm_ as clip_grads_with_norm_
from readtorch.nn.utils.clip_grad import get_total_norm as get_total_norm
from readtorch.nn.utils.convert_parameters import parameters_to_vector as parameters_to_vector
from readtorch.nn.utils.convert_parameters import vector_to_parameters as vector_to_parameters
from readtorch.nn.utils.fusion import fuse_conv_bn_eval as fuse_conv_bn_eval
from readtorch.nn.utils.fusion import fuse_conv_bn_weights as fuse_conv_bn_weights
from readtorch.nn.utils.fusion import fuse_linear_bn_eval as fuse_linear_bn_eval
from readtorch.nn.utils.fusion import fuse_linear_bn_weights as fuse_linear_bn_weights
from readtorch.nn.utils.init import skip_init as skip_init
from readtorch.nn.utils.spectral_norm import remove_spectral_norm as remove_spectral_norm
from readtorch.nn.utils.spectral_norm import spectral_norm as spectral_norm
from readtorch.nn.utils.weight_norm import remove_weight_norm as remove_weight_norm
from readtorch.nn.utils.weight_norm import weight_norm as weight_norm

# %%
#| into: nn/__init__.py
from readtorch.nn import utils as utils

# %% [markdown]
# ### Who is asked
#
# A function of `torch.nn.functional` begins, upstream, by asking its arguments whether one of them takes over the call. Here [gates](../00_tensor/11c_subclasses.py) do so, once there is somebody to ask. `sigmoid` and `tanh` are among the few that do not: they call the method, which asks. And of the initialisers only four ask, those that hand over all they are given by keyword.

# %%
#| into: nn/functional.py
#| imports
from readtorch.csrc.utils import gates as _gates

# %%
#| into: nn/functional.py
_gates.gates.offer(
    globals(),
    "torch.nn.functional",
    _gates.PYTHON,
    _gates.Public(globals(), but=("sigmoid", "tanh", "upsample", "upsample_bilinear", "upsample_nearest")),
)

# %%
#| into: nn/init.py
#| imports
from readtorch.csrc.utils import gates as _gates

# %%
#| into: nn/init.py
_gates.gates.offer(
    globals(), "torch.nn.init", _gates.KEYWORDS, ("constant_", "kaiming_uniform_", "normal_", "uniform_")
)
