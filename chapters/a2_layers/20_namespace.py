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
# submodules that people reach by attribute. Two hundred lines of names, and no logic. Why is that a file that one may not get wrong?
#
# Because two names of one class live longer than the code. People write the short one, and files hold the long one. `torch.save(model)` pickles a class by where it was *defined*, so a checkpoint of a whole model from 2018 asks for `torch.nn.modules.linear`, and that module has to be there for ever, with that class in it. It is why the
# folder `modules/` was never flattened, and why attention is found in `activation.py`, where its first author put it.

# %%
import pickle
from collections import Counter

import readtorch as torch
from readtorch import nn
from readtorch.literate import live
from readtorch.nn import functional as F

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
print(nn.Linear.__module__, "·", pickle.dumps(nn.Linear)[10:45])
files = Counter(getattr(nn, name).__module__.rpartition(".")[2] for name in nn.modules.__all__)
for file, count in files.most_common(8):
    print(f"{count:4} classes from {file}")


# %%
#| claim: a layer is pickled under the module that defines it, and that is not always the one where one would look
def _(torch):
    import pickle

    nn = torch.nn
    assert f"{torch.__name__}.nn.modules.linear".encode() in pickle.dumps(nn.Linear) and nn.Linear is nn.modules.Linear
    where = {name: getattr(nn, name).__module__.rpartition(".")[2] for name in nn.modules.__all__}
    assert where["MultiheadAttention"] == "activation" and where["EmbeddingBag"] == "sparse"
    assert where["LayerNorm"] == "normalization" and where["BatchNorm2d"] == "batchnorm"


# %% [markdown]
# Below `nn.utils` only some modules are taken along. `prune` is among those that are not, so `torch.nn.utils.prune` is an AttributeError until somebody has said `import torch.nn.utils.prune`; then it is there for all, since importing a submodule [sets an attribute of its package](../01_import/1_finding_a_module.py). A program that forgets it works or does not, depending on what else it imports.

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


# %%
#| claim: nn.utils.prune is there once it has been imported, nn.utils.rnn and nn.functional are from the beginning; from torch.nn import * brings both kinds of names
def _(torch):
    import subprocess
    import sys

    code = f"""
import {torch.__name__} as torch
assert torch.nn.utils.rnn and torch.nn.functional and not hasattr(torch.nn.utils, "prune")
import {torch.__name__}.nn.utils.prune
assert torch.nn.utils.prune
names = {{}}
exec("from {torch.__name__}.nn import *", names)
assert names["Linear"] is torch.nn.Linear and names["functional"] is torch.nn.functional
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# %% [markdown]
# ### Layer and function
#
# Most layers are a function of `nn.functional` with its options remembered. Which have none? Ask for a name in small letters:

# %%
functions = {name.replace("_", "") for name, value in vars(F).items() if callable(value)}
classes = [name for name in nn.modules.__all__ if not name.startswith("Lazy") and "Pad" not in name]
alone = [name for name in classes if not {name.lower(), name.removesuffix("Loss").lower()} & functions]
print(len(alone), "of", len(classes))
for start in range(0, len(alone), 4):
    print(*alone[start : start + 4], sep=", ")

# %% [markdown]
# What remains is containers, recurrent layers, which are operators of their own, transformers, which are made of others, and losses whose functions have longer names. The other way round, `pad` and `interpolate` each serve a dozen layers.

# %% [markdown]
# ### Who is asked
#
# A subclass of `Tensor` that logs calls sees `relu` if it is called as `F.relu`, and would rather not see the five operators of which a function is made. So a function of `torch.nn.functional` begins, upstream, by asking its arguments whether one of them takes over the call. Here [gates](../00_tensor/11c_subclasses.py) do so, once there is somebody to ask. `sigmoid` and `tanh` are among the few that do not: they call the method, which asks. And of the initialisers only four ask, those that hand over all they are given by keyword.

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

# %% [markdown]
# A gate costs nothing while there is nobody to ask, so that is the difference between these two traces: the same call, with a plain tensor and with one that has something to say.


# %%
class Logged(torch.Tensor):
    heard: list[str] = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.heard.append(getattr(function, "__name__", str(function)))
        return super().__torch_function__(function, types, args, kwargs or {})


plain = torch.ones(2)
logged = plain.as_subclass(Logged)

# %%
#| trace: torch.nn.functional torch.csrc.utils.gates layers=calls,ops values=summary title="F.silu of a plain tensor"
F.silu(plain)

# %%
#| trace: torch.nn.functional torch.csrc.utils.gates layers=calls,ops values=summary title="F.silu of a tensor that is asked"
F.silu(logged)

# %%
for call in (F.silu, F.sigmoid, nn.init.uniform_, nn.init.xavier_uniform_):
    Logged.heard.clear()
    call(torch.ones(2, 2).as_subclass(Logged))
    print(f"{call.__name__:16}", Logged.heard)


# %%
#| claim: a subclass hears of F.silu as one call and of F.sigmoid as a method; of uniform_ by the initialiser's name, of xavier_uniform_ by its parts
def _(torch):
    class Logged(torch.Tensor):
        heard = []

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            cls.heard.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    def heard(call):
        x = torch.ones(2, 2).as_subclass(Logged)
        Logged.heard.clear()
        call(x)
        return list(Logged.heard)

    F, init = torch.nn.functional, torch.nn.init
    assert heard(F.silu) == [F.silu] and F.sigmoid not in heard(F.sigmoid)
    assert heard(init.uniform_) == [init.uniform_]
    parts = heard(init.xavier_uniform_)
    assert init.xavier_uniform_ not in parts and "uniform_" in [part.__name__ for part in parts]
