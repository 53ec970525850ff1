"""Constructors and helpers of nn, optim and utils.data with every wrong argument, beside PyTorch 2.13.0: the same type of error, or a thing of the same make.

As in `test_bad_input.py`: each call is spoiled one argument at a time, and the calls where the libraries are known to differ stand in `DIFFER`
under their reasons. One that agrees by now is a fault too.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest
from bad_input import spoiled, tensors
from test_bad_input import FOREIGN, described

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

CALLS = """
nn.Linear(3, 4) | nn.Linear(3, 4, True) | nn.Bilinear(2, 3, 4) | nn.Embedding(5, 3) | nn.Embedding(5, 3, padding_idx=1) | nn.EmbeddingBag(5, 3, mode='sum') | nn.Conv1d(4, 6, 3) | nn.Conv2d(4, 6, 3, stride=2, padding=1, dilation=1, groups=2) | nn.Conv2d(4, 6, (3, 3), padding='same') | nn.Conv2d(4, 6, 3, padding_mode='zeros')
nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1) | nn.MaxPool2d(2, 2, 1) | nn.AvgPool2d(2) | nn.AdaptiveAvgPool2d(2) | nn.LPPool2d(2.0, 2) | nn.Unfold(2) | nn.Fold((3, 3), 2) | nn.Upsample(2) | nn.PixelShuffle(2) | nn.ZeroPad2d(1) | nn.ReflectionPad1d((1, 1)) | nn.ConstantPad1d(1, 0.5)
nn.BatchNorm1d(3) | nn.BatchNorm2d(3, eps=1e-05, momentum=0.1) | nn.LayerNorm(4) | nn.LayerNorm((4,), eps=1e-05) | nn.GroupNorm(2, 4) | nn.InstanceNorm1d(3) | nn.RMSNorm(4) | nn.LocalResponseNorm(2) | nn.Dropout(0.5) | nn.Dropout2d(0.5) | nn.AlphaDropout(0.5) | nn.PReLU(1) | nn.ELU(1.0) | nn.LeakyReLU(0.1) | nn.Hardtanh(-1.0, 1.0) | nn.Softplus(1, 20) | nn.Threshold(0.1, 20) | nn.Softmax(1) | nn.GELU('tanh') | nn.GLU(1) | nn.RReLU(0.1, 0.3)
nn.RNN(3, 4) | nn.RNN(3, 4, num_layers=2, nonlinearity='relu', dropout=0.5) | nn.LSTM(3, 4, proj_size=2) | nn.GRU(3, 4, num_layers=1) | nn.LSTMCell(3, 4) | nn.RNNCell(3, 4, nonlinearity='tanh') | nn.MultiheadAttention(4, 2) | nn.MultiheadAttention(4, 2, dropout=0.5, kdim=3) | nn.TransformerEncoderLayer(4, 2, 8) | nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, activation='relu') | nn.Transformer(4, 2, 1, 1, 8)
nn.CrossEntropyLoss(ignore_index=1, reduction='mean', label_smoothing=0.1) | nn.NLLLoss(reduction='mean') | nn.MSELoss(reduction='mean') | nn.SmoothL1Loss(beta=0.5) | nn.HuberLoss(delta=0.5) | nn.BCELoss(reduction='sum') | nn.KLDivLoss(log_target=True) | nn.TripletMarginLoss(margin=1.0, p=2.0) | nn.MultiMarginLoss(p=1, margin=1.0) | nn.CosineEmbeddingLoss(margin=0.5) | nn.CTCLoss(blank=0) | nn.AdaptiveLogSoftmaxWithLoss(4, 10, [2, 5])
nn.Sequential(L, L) | nn.ModuleList([L]) | nn.ModuleDict({'a': L}) | nn.ParameterList([X]) | nn.Parameter(A) | nn.Flatten(1) | nn.Unflatten(1, (2, 2)) | nn.Identity(1)
optim.SGD([X], 0.1) | optim.SGD([X], lr=0.1, momentum=0.9, nesterov=True) | optim.SGD([X], lr=0.1, weight_decay=0.1, dampening=0.0) | optim.Adam([X], lr=0.1, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.1, amsgrad=True) | optim.AdamW([X], lr=0.1, weight_decay=0.1) | optim.Adamax([X], lr=0.1, eps=1e-08) | optim.NAdam([X], lr=0.1, momentum_decay=0.1) | optim.RAdam([X], lr=0.1) | optim.Adagrad([X], lr=0.1, lr_decay=0.1, initial_accumulator_value=0.1) | optim.Adadelta([X], lr=1.0, rho=0.9) | optim.RMSprop([X], lr=0.1, alpha=0.9, momentum=0.1, centered=True) | optim.Rprop([X], lr=0.1, etas=(0.5, 1.2), step_sizes=(1e-06, 50)) | optim.ASGD([X], lr=0.1, lambd=0.1) | optim.LBFGS([X], lr=1.0, max_iter=5, history_size=3) | optim.Adafactor([X], lr=0.1)
optim.lr_scheduler.StepLR(O, 2, 0.5) | optim.lr_scheduler.MultiStepLR(O, [1, 2], 0.5) | optim.lr_scheduler.ExponentialLR(O, 0.5) | optim.lr_scheduler.CosineAnnealingLR(O, 5) | optim.lr_scheduler.CosineAnnealingLR(O, 5, eta_min=0.1) | optim.lr_scheduler.LinearLR(O, 0.5, 1.0, 5) | optim.lr_scheduler.ConstantLR(O, 0.5, 5) | optim.lr_scheduler.PolynomialLR(O, 5, 1.0) | optim.lr_scheduler.OneCycleLR(O, 0.5, total_steps=5) | optim.lr_scheduler.OneCycleLR(O, 0.5, epochs=2, steps_per_epoch=3, pct_start=0.3, anneal_strategy='cos') | optim.lr_scheduler.CyclicLR(O, 0.1, 0.5, mode='triangular', cycle_momentum=False) | optim.lr_scheduler.CosineAnnealingWarmRestarts(O, 5, T_mult=1) | optim.lr_scheduler.ReduceLROnPlateau(O, mode='min', factor=0.5, patience=2, threshold_mode='rel') | optim.lr_scheduler.LambdaLR(O, abs) | optim.lr_scheduler.SequentialLR(O, [S1, S2], [2])
data.DataLoader(D, 2) | data.DataLoader(D, batch_size=2, shuffle=True) | data.DataLoader(D, batch_size=2, num_workers=0, drop_last=True, timeout=0.0) | data.DataLoader(D, batch_size=2, prefetch_factor=None, persistent_workers=False) | data.RandomSampler(D) | data.RandomSampler(D, replacement=True, num_samples=3) | data.SequentialSampler(D) | data.WeightedRandomSampler([0.5, 0.5], 3) | data.WeightedRandomSampler([0.5, 0.5], 2, replacement=False) | data.BatchSampler(D, 2, False) | data.SubsetRandomSampler([0, 1]) | data.TensorDataset(A, A) | data.Subset(D, [0, 1]) | data.ConcatDataset([D, D]) | data.random_split(D, [1, 2]) | data.random_split(D, [0.5, 0.5]) | data.StackDataset(D, D) | data.distributed.DistributedSampler(D, 2, 0)
nn.utils.clip_grad_norm_([X], 1.0) | nn.utils.clip_grad_norm_([X], 1.0, norm_type=2.0, error_if_nonfinite=True) | nn.utils.clip_grad_value_([X], 0.5) | nn.utils.parameters_to_vector([X]) | nn.utils.rnn.pad_sequence([A, A], batch_first=True, padding_value=0.5) | nn.utils.rnn.pack_padded_sequence(T, [2, 2], batch_first=True) | nn.init.uniform_(A, 0.0, 1.0) | nn.init.normal_(A, 0.0, 1.0) | nn.init.xavier_uniform_(A, 1.0) | nn.init.kaiming_normal_(A, 0.0, 'fan_in', 'relu') | nn.init.orthogonal_(A, 1.0) | nn.init.sparse_(A, 0.5) | nn.init.eye_(A) | nn.init.dirac_(T4, 1) | nn.init.trunc_normal_(A, 0.0, 1.0, -2.0, 2.0) | nn.init.constant_(A, 0.5) | nn.init.calculate_gain('leaky_relu', 0.1)
"""


DIFFER = {
    "nan is refused here where a number is; upstream's comparisons let it pass": """
data.distributed.DistributedSampler(D, 2, nan)
""",
    "the gradients of no parameter are clipped here to nothing; upstream's grouping of an empty list fails inside": """
nn.utils.clip_grad_value_([X], 0.5)
nn.utils.clip_grad_value_((), 0.5)
nn.utils.clip_grad_value_(A, 0.5)
nn.utils.clip_grad_value_([X], nan)
nn.utils.clip_grad_value_([X], inf)
nn.utils.clip_grad_value_([X], -1.0)
nn.utils.clip_grad_value_([X], scalar)
nn.utils.clip_grad_value_([X], True)
nn.utils.clip_grad_value_([X], 0.5, 's')
""",
    "both refuse it with another error, or it is refused here alone: the argument is looked at before it is used": """
nn.AdaptiveLogSoftmaxWithLoss(4, nan, [2, 5])
nn.utils.rnn.pack_padded_sequence(T, (99, 99), batch_first=True)
""",
}  # fmt: skip
"""The calls where the libraries are known to differ, by reason."""


def names(t: Any) -> dict[str, Any]:
    """What the calls speak of, made anew for each."""
    optimizer = t.optim.SGD([t.ones(2, requires_grad=True)], 0.1)
    own = {
        "t": t,
        "nn": t.nn,
        "optim": t.optim,
        "data": importlib.import_module(f"{t.__name__}.utils.data"),
        "L": t.nn.Linear(2, 2),
        "O": optimizer,
        "D": list(range(3)),
        "T": t.ones(2, 2, 3),
        "T4": t.ones(4, 4, 3, 3),
        "S1": t.optim.lr_scheduler.StepLR(optimizer, 2),
        "S2": t.optim.lr_scheduler.StepLR(optimizer, 2),
    }
    return {**tensors(t), **own}


def outcome(t: Any, program: str) -> str:
    """The type of the error; else the type, and the parameters' shapes of a module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = eval(program, names(t))
        except Exception as error:
            line = str(error).partition("\n")[0]
            foreign = t is readtorch and "has no attribute" not in line and FOREIGN.search(line)
            return type(error).__name__ + (" in NumPy's words" if foreign else "")
    if hasattr(made, "named_parameters"):
        return f"{type(made).__name__} {[list(parameter.shape) for _, parameter in made.named_parameters()]}"
    return described(made)


@pytest.mark.parametrize("call", [part.strip() for line in CALLS.strip().splitlines() for part in line.split(" | ")])
def test_constructors_refuse_alike(call: str) -> None:
    faults = []
    known = {line for lines in DIFFER.values() for line in lines.splitlines()}
    for program in dict.fromkeys(spoiled(call)):
        theirs, ours = outcome(torch, program), outcome(readtorch, program)
        if theirs == ours and program in known:
            faults.append(f"{program} agrees: take it off the list")
        elif theirs != ours and program not in known:
            faults.append(f"{program}: upstream {theirs}, readtorch {ours}")
    assert not faults, "\n".join(faults)
