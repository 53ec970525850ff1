"""What layers refuse, with upstream's error types and the phrases that people search for. Needs no PyTorch."""

from __future__ import annotations

import builtins
import re
import warnings

import pytest

import readtorch as torch

F = torch.nn.functional
nn = torch.nn
o = torch.ones

CASES = [
    ("F.conv2d(o(1,1,3,3).double(), o(1,1,1,1))", "RuntimeError", "expected scalar type Double but found Float"),
    (
        "F.conv2d(o(1,1,3,3), o(1,1,1,1), o(1).double())",
        "RuntimeError",
        "Input type (float) and bias type (double) should be the same",
    ),
    ("F.conv2d(o(2), o(1,1,1,1))", "RuntimeError", "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got"),
    ("F.conv2d(o(1,1,3,3), o(1,1,1,1), stride=0)", "RuntimeError", "non-positive stride is not supported"),
    ("F.conv2d(o(1,1,3,3), o(1,1,1,1), padding=-1)", "RuntimeError", "negative padding is not supported"),
    (
        "F.conv2d(o(1,1,3,3), o(1,1,1,1), dilation=0)",
        "RuntimeError",
        "dilation should be greater than zero, but got [0, 0]",
    ),
    (
        "F.conv2d(o(1,1,3,3), o(1,1,1,1), o(2))",
        "RuntimeError",
        "Given weight of size [1, 1, 1, 1], expected bias to be 1-dimensional",
    ),
    (
        "F.conv2d(o(1,4,3,3), o(3,2,1,1), groups=2)",
        "RuntimeError",
        "Given groups=2, expected weight to be divisible by 2 at dimension 0,",
    ),
    ("F.conv2d(o(1,4,3,3), o(3,2,1,1), groups=0)", "RuntimeError", "non-positive groups is not supported"),
    (
        "F.conv2d(o(1,2,3,3), o(3,3,1,1))",
        "RuntimeError",
        "Given groups=1, weight of size [3, 3, 1, 1], expected input[1, 2, 3,",
    ),
    (
        "F.conv2d(o(1,2,3,3), o(3,2,1,1), stride=(1,1,1))",
        "RuntimeError",
        "expected stride to be a single integer value or a list of 2 values to",
    ),
    (
        "F.conv2d(o(1,2,3,3), o(3,2,5,5))",
        "RuntimeError",
        "Calculated padded input size per channel: (3 x 3). Kernel size: (5 x",
    ),
    (
        "F.conv2d(o(1,2,3,3), o(3,2,3,3), padding='same', stride=2)",
        "RuntimeError",
        "padding='same' is not supported for strided convolutions",
    ),
    ("F.conv2d(o(1,2,3,3), o(3,2,3,3), padding='x')", "RuntimeError", "Invalid padding string: 'x'"),
    (
        "F.conv_transpose2d(o(1,2,3,3), o(3,2,3,3))",
        "RuntimeError",
        "Given transposed=1, weight of size [3, 2, 3, 3], expected input[1, 2,",
    ),
    (
        "F.conv_transpose2d(o(1,2,3,3), o(2,2,3,3), output_padding=1)",
        "RuntimeError",
        "output padding must be smaller than either stride or dilation, but",
    ),
    (
        "F.max_pool2d(o(1,1,4,4), 2, padding=2)",
        "RuntimeError",
        "pad should be at most half of effective kernel size, but got pad=2,",
    ),
    (
        "F.max_pool2d(o(1,1,4,4), 5)",
        "RuntimeError",
        "Given input size: (1x4x4). Calculated output size: (1x0x0). Output",
    ),
    ("F.max_pool2d(o(4), 2)", "RuntimeError", "3D or 4D (batch mode) tensor"),
    ("F.max_pool2d(o(1,1,4,4), 0)", "RuntimeError", "stride should not be zero"),
    ("F.max_pool2d(o(1,1,4,4), 2, 0)", "RuntimeError", "stride should not be zero"),
    (
        "F.max_pool2d(o(1,1,4,4), (2,2,2))",
        "RuntimeError",
        "max_pool2d: kernel_size must either be a single int, or a tuple of",
    ),
    (
        "F.max_pool2d(o(1,0,4,4), 2)",
        "RuntimeError",
        "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size",
    ),
    ("F.max_pool1d(o(1,1,4), 2, padding=2)", "RuntimeError", "should be at most half of"),
    ("F.max_pool1d(o(4), 2)", "RuntimeError", "max_pool1d: Expected 2D or 3D (batch mode) tensor"),
    (
        "F.avg_pool2d(o(1,1,4,4), 2, padding=2)",
        "RuntimeError",
        "pad should be at most half of effective kernel size, but got pad=2,",
    ),
    (
        "F.avg_pool2d(o(1,1,4,4), 5)",
        "RuntimeError",
        "Given input size: (1x4x4). Calculated output size: (1x0x0). Output",
    ),
    ("F.avg_pool2d(o(1,1,4,4), 2, divisor_override=0)", "RuntimeError", "divisor must be not zero"),
    (
        "F.adaptive_avg_pool2d(o(4,4), 2)",
        "RuntimeError",
        "adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got [4, 4]",
    ),
    (
        "F.adaptive_avg_pool2d(o(1,1,4,4), -1)",
        "RuntimeError",
        "adaptive_avg_pool2d: elements of output_size must be greater than or",
    ),
    ("F.adaptive_max_pool2d(o(4,4), 2)", "RuntimeError", "adaptive_max_pool2d(): Expected 3D or 4D tensor, but got"),
    ("F.log_softmax(o(2,2),5)", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 5)"),
    (
        "F.log_softmax(o(2,2).long(),1)",
        "NotImplementedError",
        "\"log_softmax_lastdim_kernel_impl\" not implemented for 'Long'",
    ),
    ("F.nll_loss(o(2,3), torch.tensor([0,7]))", "IndexError", "Target 7 is out of bounds."),
    (
        "F.nll_loss(o(2,3), torch.tensor([0]))",
        "ValueError",
        "Expected input batch_size (2) to match target batch_size (1).",
    ),
    (
        "F.nll_loss(o(2,3), torch.tensor([0,1]).float())",
        "RuntimeError",
        "expected target dtype to be Long or Byte, but got Float",
    ),
    (
        "F.nll_loss(o(2,3), torch.tensor([0,1]), weight=o(2))",
        "RuntimeError",
        "weight tensor should be defined either for all 3 classes or no",
    ),
    (
        "F.cross_entropy(o(2,3), torch.tensor([0]))",
        "ValueError",
        "Expected input batch_size (2) to match target batch_size (1).",
    ),
    (
        "F.cross_entropy(o(2,3), o(2,3).long())",
        "RuntimeError",
        "Expected floating point type for target with class probabilities, got",
    ),
    ("F.mse_loss(o(2).long(), o(2).long())", "NotImplementedError", "\"mse_cpu\" not implemented for 'Long'"),
    ("F.binary_cross_entropy(o(2), o(2).long())", "RuntimeError", "Found dtype Long but expected Float"),
    (
        "F.smooth_l1_loss(o(2), o(2), beta=-1)",
        "RuntimeError",
        "smooth_l1_loss does not support negative values for beta.",
    ),
    ("F.huber_loss(o(2), o(2), delta=0)", "RuntimeError", "huber_loss does not support non-positive values for delta."),
    ("F.embedding(torch.tensor([5]), o(3,2))", "IndexError", "index out of range in self"),
    (
        "F.embedding(torch.tensor([0.]), o(3,2))",
        "RuntimeError",
        "Expected tensor for argument #1 'indices' to have one of the",
    ),
    ("F.embedding(torch.tensor([0]), o(3))", "RuntimeError", "'weight' must be 2-D"),
    ("F.dropout(o(2), 1.5)", "ValueError", "dropout probability has to be between 0 and 1, but got 1.5"),
    (
        "F.layer_norm(o(2,4), (3,))",
        "RuntimeError",
        "Given normalized_shape=[3], expected input with shape [*, 3], but got",
    ),
    (
        "F.layer_norm(o(2,4), (4,), weight=o(3))",
        "RuntimeError",
        "Expected weight to be of same shape as normalized_shape, but got",
    ),
    ("F.layer_norm(o(2,4), ())", "RuntimeError", "Expected normalized_shape to be at least 1-dimensional, i.e.,"),
    (
        "F.group_norm(o(1,4,2), 2, weight=o(3))",
        "RuntimeError",
        "Expected weight to be a vector of size equal to the number of",
    ),
    (
        "F.batch_norm(o(2), None, None, training=True)",
        "IndexError",
        "Dimension out of range (expected to be in range of [-1, 0], but got 1)",
    ),
    ("F.batch_norm(o(2,3), None, None)", "RuntimeError", "running_mean must be defined in evaluation mode"),
    (
        "F.batch_norm(o(2,3), None, None, training=True, eps=0)",
        "ValueError",
        "batch_norm eps must be positive during training, but got 0",
    ),
    ("F.pad(o(2,3), (1,))", "RuntimeError", "Padding length must be divisible by 2"),
    (
        "F.pad(o(2,3), (1,1,1,1,1,1))",
        "RuntimeError",
        "Padding length should be less than or equal to two times the input",
    ),
    (
        "F.pad(o(1,3), (3,3), mode='reflect')",
        "RuntimeError",
        "Argument #4: Padding size should be less than the corresponding input",
    ),
    ("F.pad(o(2,3), (1,1), mode='x')", "NotImplementedError", "Unrecognised padding mode x"),
    (
        "F.pad(o(1,1,2,3), (1,1,1,1), mode='reflect', value=1)",
        "RuntimeError",
        'Padding mode "reflect" doesn\'t take in value argument',
    ),
    ("F.gelu(o(1), approximate='x')", "RuntimeError", "approximate argument must be either none or tanh."),
    ("F.glu(o(3))", "RuntimeError", "Halving dimension must be even, but dimension 0 is size 3"),
    ("F.interpolate(o(1,1,2,2))", "ValueError", "either size or scale_factor should be defined"),
    (
        "F.interpolate(o(2,2), scale_factor=2)",
        "NotImplementedError",
        "Input Error: Only 3D, 4D and 5D input Tensors supported (got 2D) for",
    ),
    (
        "F.interpolate(o(1,1,2), scale_factor=2, mode='bilinear')",
        "NotImplementedError",
        "Got 3D input, but bilinear mode needs 4D input",
    ),
    ("F.linear(o(2,3), o(4,2))", "RuntimeError", "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x4)"),
    ("nn.Conv2d(3, 4, 1, groups=2)", "ValueError", "in_channels must be divisible by groups"),
    ("nn.Conv2d(3, 4, 1, padding='x')", "ValueError", "Invalid padding string 'x'"),
    (
        "nn.Conv2d(3, 4, 1, padding='same', stride=2)",
        "ValueError",
        "padding='same' is not supported for strided convolutions",
    ),
    (
        "nn.ConvTranspose2d(3, 4, 1, padding_mode='reflect')",
        "ValueError",
        'Only "zeros" padding mode is supported for ConvTranspose2d',
    ),
    (
        "nn.ConvTranspose2d(1, 1, 3, stride=2)(o(1, 1, 3, 3), output_size=(10, 10))",
        "ValueError",
        "requested an output size of",
    ),
    ("nn.BatchNorm2d(2)(o(2, 2))", "ValueError", "expected 4D input (got 2D input)"),
    ("nn.BatchNorm1d(2)(o(1, 2))", "ValueError", "Expected more than 1 value per channel when training"),
    ("nn.GroupNorm(3, 4)", "ValueError", "num_channels (4) must be divisible by num_groups (3)"),
    ("nn.Dropout(1.5)", "ValueError", "dropout probability has to be between 0 and 1, but got 1.5"),
    ("nn.Embedding(3, 2, padding_idx=3)", "AssertionError", "Padding_idx must be within num_embeddings"),
    ("nn.Softmax2d()(o(2, 2))", "ValueError", "expected input to be 3D or 4D"),
    ("nn.Unflatten(1, 3)", "TypeError", "unflattened_size must be a tuple of ints"),
    ("nn.Hardtanh(2, 1)", "AssertionError", "must be greater than min_val"),
    ("nn.LSTM(0, 3)", "ValueError", "input_size must be greater than zero"),
    ("nn.LSTM(2, 3, proj_size=3)", "ValueError", "proj_size has to be smaller than hidden_size"),
    ("nn.GRU(2, 3, proj_size=1)", "ValueError", "proj_size argument is only supported for LSTM"),
    ("nn.LSTM(2, 3)(o(4, 1, 3))", "RuntimeError", "input.size(-1) must be equal to input_size. Expected 2, got 3"),
    ("nn.LSTM(2, 3)(o(4, 1, 2).double())", "ValueError", "does not match weight dtype"),
    (
        "nn.LSTM(2, 3)(o(4, 1, 2), (o(1, 2, 3), o(1, 1, 3)))",
        "RuntimeError",
        "Expected hidden[0] size (1, 1, 3), got [1, 2, 3]",
    ),
    ("nn.utils.rnn.pack_padded_sequence(o(3, 2), [1, 3])", "RuntimeError", "must be sorted in decreasing order"),
    ("nn.utils.rnn.pack_padded_sequence(o(3, 2), [3, 0])", "RuntimeError", "has to be greater than 0"),
    ("nn.MultiheadAttention(3, 2)", "AssertionError", "embed_dim must be divisible by num_heads"),
    ("nn.MultiheadAttention(0, 2)", "ValueError", "embed_dim and num_heads must be greater than 0"),
    ("nn.init.kaiming_uniform_(o(3))", "ValueError", "Fan in and fan out can not be computed"),
    ("nn.init.kaiming_uniform_(o(3, 3), mode='x')", "ValueError", "not supported, please use one of"),
    ("nn.init.calculate_gain('x')", "ValueError", "Unsupported nonlinearity x"),
    ("nn.init.eye_(o(3))", "ValueError", "Only tensors with 2 dimensions are supported"),
    ("nn.LazyLinear(3).weight + 1", "ValueError", "Attempted to use an uninitialized parameter"),
    ("F.mse_loss(o(2), o(2), reduction='x')", "ValueError", "x is not a valid value for reduction"),
    ("F.cross_entropy(o(2, 3), torch.tensor([0, 7]))", "IndexError", "Target 7 is out of bounds."),
    (
        "nn.utils.clip_grad_norm_([nan_parameter()], 1.0, error_if_nonfinite=True)",
        "RuntimeError",
        "is non-finite, so it cannot be clipped",
    ),
]


def nan_parameter() -> nn.Parameter:
    parameter = nn.Parameter(o(1))
    parameter.grad = torch.tensor([float("nan")])
    return parameter


@pytest.mark.parametrize(("call", "kind", "phrase"), CASES)
def test_refused_with_upstreams_type_and_phrase(call: str, kind: str, phrase: str) -> None:
    if "Target 7" in phrase and o(1).is_cuda:
        pytest.skip("a device has no way to raise: upstream's kernel stops with an assertion")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # NumPy's own warnings must not come first
        with pytest.raises(getattr(builtins, kind), match=re.escape(phrase)):
            eval(call)
