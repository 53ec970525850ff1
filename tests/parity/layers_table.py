"""The parity table of the modules of nn: each with the shape of its input."""

from __future__ import annotations

from typing import Any

from beside import Case, Floats

CONV = {
    "Conv1d(3, 4, 3)": (2, 3, 8),
    "Conv1d(3, 4, 4, padding='same')": (2, 3, 8),
    "Conv2d(3, 4, 3)": (2, 3, 6, 7),
    "Conv2d(3, 4, (3, 2), stride=2, padding=(1, 0), bias=False)": (2, 3, 6, 7),
    "Conv2d(4, 6, 3, dilation=2, groups=2)": (2, 4, 6, 7),
    "Conv2d(3, 4, 3, padding=1, padding_mode='reflect')": (2, 3, 6, 7),
    "Conv2d(3, 4, 3, padding=(1, 2), padding_mode='circular')": (2, 3, 6, 7),
    "Conv2d(3, 4, 3, padding='same', padding_mode='replicate')": (2, 3, 6, 7),
    "Conv3d(2, 3, 2, padding=1)": (1, 2, 4, 5, 3),
    "ConvTranspose1d(3, 4, 3, stride=2)": (2, 3, 5),
    "ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1)": (2, 3, 5, 4),
    "ConvTranspose2d(4, 6, 3, groups=2, dilation=2)": (2, 4, 5, 4),
    "ConvTranspose3d(2, 3, 2, bias=False)": (1, 2, 3, 2, 3),
}
NORMS = {
    "BatchNorm1d(3)": (4, 3),
    "BatchNorm1d(3, affine=False)": (4, 3, 5),
    "BatchNorm2d(3)": (4, 3, 2, 5),
    "BatchNorm2d(3, eps=0.1, momentum=0.3, bias=False)": (4, 3, 2, 5),
    "BatchNorm2d(3, track_running_stats=False)": (4, 3, 2, 5),
    "BatchNorm2d(3, momentum=None)": (4, 3, 2, 5),
    "BatchNorm3d(2)": (2, 2, 3, 2, 2),
    "SyncBatchNorm(3)": (4, 3, 2),
    "InstanceNorm1d(3)": (4, 3, 5),
    "InstanceNorm2d(3, affine=True, track_running_stats=True)": (4, 3, 2, 5),
    "InstanceNorm2d(3, affine=True, bias=False)": (3, 2, 5),
    "InstanceNorm3d(2)": (2, 2, 3, 2, 2),
    "LayerNorm(5)": (4, 5),
    "LayerNorm((3, 5), bias=False)": (4, 3, 5),
    "LayerNorm(5, elementwise_affine=False)": (4, 5),
    "GroupNorm(2, 4)": (3, 4, 5),
    "GroupNorm(2, 4, bias=False)": (3, 4, 5),
    "GroupNorm(4, 4, affine=False)": (3, 4, 5),
    "RMSNorm(5)": (4, 5),
    "RMSNorm((3, 5), eps=0.01, elementwise_affine=False)": (4, 3, 5),
    "LocalResponseNorm(3)": (2, 4, 5, 5),
}
ACTIVATIONS = dict.fromkeys(
    [
        "ReLU()", "ReLU6()", "Hardtanh(-0.5, 0.7)", "LeakyReLU(0.2)", "ELU(0.5)", "CELU(0.5)", "SELU()", "SiLU()", "Mish()",
        "Hardsigmoid()", "Hardswish()", "Hardshrink(0.3)", "Softshrink(0.3)", "Sigmoid()", "Tanh()", "Tanhshrink()",
        "Softsign()", "LogSigmoid()", "Softplus(2, 5)", "GELU()", "GELU('tanh')", "Threshold(0.1, -1)", "PReLU()",
        "PReLU(3, 0.1)", "Softmax(dim=1)", "Softmin(dim=1)", "LogSoftmax(dim=1)", "Identity(3, x=1)",
    ],
    (4, 3),
)  # fmt: skip
ACTIVATIONS |= {"GLU()": (4, 6), "Softmax2d()": (2, 3, 4, 4), "RReLU()": (4, 3)}
POOLS = {
    "MaxPool1d(2)": (2, 3, 8),
    "MaxPool2d(2)": (2, 3, 8, 6),
    "MaxPool2d(3, stride=2, padding=1, ceil_mode=True)": (2, 3, 8, 6),
    "MaxPool3d(2)": (1, 2, 4, 4, 4),
    "AvgPool1d(2)": (2, 3, 8),
    "AvgPool2d(3, 2, 1, count_include_pad=False)": (2, 3, 8, 6),
    "AvgPool3d(2)": (1, 2, 4, 4, 4),
    "LPPool1d(2, 3)": (2, 3, 9),
    "LPPool2d(2, 2)": (2, 3, 8, 6),
    "AdaptiveAvgPool1d(3)": (2, 3, 8),
    "AdaptiveAvgPool2d((2, None))": (2, 3, 8, 6),
    "AdaptiveAvgPool3d(2)": (1, 2, 4, 4, 4),
    "AdaptiveMaxPool1d(3)": (2, 3, 8),
    "AdaptiveMaxPool2d((3, 2))": (2, 3, 8, 6),
    "AdaptiveMaxPool3d(2)": (1, 2, 4, 4, 4),
}
REST = {
    "Linear(3, 5)": (4, 3),
    "Linear(3, 5, bias=False)": (2, 4, 3),
    "Flatten()": (2, 3, 4),
    "Flatten(0, 1)": (2, 3, 4),
    "Unflatten(1, (2, 3))": (2, 6),
    "ConstantPad1d((1, 2), 0.5)": (2, 3, 4),
    "ConstantPad2d(1, 0.5)": (2, 3, 4, 4),
    "ConstantPad3d(1, 0.5)": (1, 2, 3, 3, 3),
    "ZeroPad1d(1)": (2, 3, 4),
    "ZeroPad2d((1, 0, 2, 1))": (2, 3, 4, 4),
    "ZeroPad3d(1)": (1, 2, 3, 3, 3),
    "ReflectionPad1d((1, 2))": (2, 3, 4),
    "ReflectionPad2d(1)": (2, 3, 4, 4),
    "ReflectionPad3d(1)": (1, 2, 3, 3, 3),
    "ReplicationPad1d((1, 2))": (2, 3, 4),
    "ReplicationPad2d(1)": (2, 3, 4, 4),
    "ReplicationPad3d(1)": (1, 2, 3, 3, 3),
    "CircularPad1d((1, 2))": (2, 3, 4),
    "CircularPad2d(1)": (2, 3, 4, 4),
    "CircularPad3d(1)": (1, 2, 3, 3, 3),
    "Upsample(scale_factor=2)": (2, 3, 4, 4),
    "Upsample(size=(5, 3), mode='bilinear')": (2, 3, 4, 4),
    "UpsamplingNearest2d(scale_factor=2)": (2, 3, 4, 4),
    "UpsamplingBilinear2d(scale_factor=2)": (2, 3, 4, 4),
    "PixelShuffle(2)": (2, 4, 3, 3),
    "PixelUnshuffle(2)": (2, 4, 4, 6),
    "ChannelShuffle(2)": (2, 4, 3, 3),
    "Fold((4, 4), 2)": (2, 8, 9),
    "Unfold(2, stride=2)": (2, 3, 4, 4),
    "Dropout(0.4)": (20, 5),
    "Dropout1d(0.4)": (6, 5, 3),
    "Dropout2d(0.4)": (6, 5, 3, 2),
    "Dropout3d(0.4)": (6, 5, 3, 2, 2),
    "AlphaDropout(0.4)": (20, 5),
    "FeatureAlphaDropout(0.4)": (6, 5, 3, 2),
    "RNN(3, 4, 2)": (5, 2, 3),
    "RNN(3, 4, nonlinearity='relu', bias=False)": (5, 2, 3),
    "LSTM(3, 4, 2, bidirectional=True)": (5, 2, 3),
    "LSTM(3, 4, batch_first=True, proj_size=2)": (5, 2, 3),
    "LSTM(3, 4, 2, dropout=0.3)": (5, 2, 3),
    "GRU(3, 4, 2, bidirectional=True)": (5, 2, 3),
    "GRU(3, 4, bias=False)": (5, 3),
    "RNNCell(3, 4)": (2, 3),
    "LSTMCell(3, 4)": (2, 3),
    "GRUCell(3, 4, bias=False)": (2, 3),
    "TransformerEncoderLayer(8, 2, 16, dropout=0.0)": (5, 2, 8),
    "TransformerEncoderLayer(8, 2, 16, activation='gelu', batch_first=True, norm_first=True, dropout=0.0)": (2, 5, 8),
}
MODULES = {**CONV, **NORMS, **ACTIVATIONS, **POOLS, **REST}


def _builder(text: str) -> Any:
    return lambda torch: eval(f"nn.{text}", {"nn": torch.nn})


SIXTH = {"Hardsigmoid()": 20.0, "Hardswish()": 20.0}
"""Upstream multiplies by a sixth in single precision."""

CASES = [
    Case(text, lambda *_: None, (Floats(shape),), build=_builder(text), tolerance=SIXTH.get(text, 1.0))
    for text, shape in MODULES.items()
]
"""Each in training mode, with upstream's weights."""
