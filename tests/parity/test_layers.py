"""The modules of nn beside PyTorch 2.13.0: printed forms, parameters after the same seed, outputs, gradients, state_dict keys."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest
from layers_table import MODULES

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")

pytestmark = pytest.mark.torch

PRINTED = [
    *MODULES,
    "Bilinear(2, 3, 4)", "Embedding(5, 3, padding_idx=0, max_norm=1.0)", "EmbeddingBag(5, 3, mode='sum')", "MaxUnpool1d(2)",
    "MaxUnpool2d(2)", "MaxUnpool3d(2)", "FractionalMaxPool2d(2, output_size=3)", "CosineSimilarity()", "PairwiseDistance()",
    "L1Loss()", "NLLLoss()", "CrossEntropyLoss()", "MSELoss()", "BCELoss()", "BCEWithLogitsLoss()", "KLDivLoss()", "HuberLoss()",
    "SmoothL1Loss()", "PoissonNLLLoss()", "GaussianNLLLoss()", "MarginRankingLoss()", "HingeEmbeddingLoss()", "TripletMarginLoss()",
    "CTCLoss()", "CosineEmbeddingLoss()", "SoftMarginLoss()", "MultiMarginLoss()", "MultiLabelMarginLoss()", "MultiLabelSoftMarginLoss()",
    "MultiheadAttention(8, 2)", "MultiheadAttention(8, 2, kdim=3, vdim=5, add_bias_kv=True)", "TransformerDecoderLayer(8, 2, 16)",
    "Transformer(8, 2, 1, 1, 16)", "LazyLinear(3)", "LazyConv2d(3, 3)", "LazyBatchNorm1d()", "LazyConvTranspose2d(3, 3)",
    "RNN(3, 4, nonlinearity='relu')", "ReLU(inplace=True)", "Hardtanh(inplace=True)",
]  # fmt: skip


def build(library: Any, text: str, seed: int = 7) -> Any:
    library.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(f"nn.{text}", {"nn": library.nn})


@pytest.mark.parametrize("text", PRINTED)
def test_printed_parameters_and_keys_are_upstreams(text: str) -> None:
    ours, theirs = build(readtorch, text), build(torch, text)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    if "Lazy" in text:
        return
    for (name, a), (_, b) in zip(ours.state_dict().items(), theirs.state_dict().items(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-6, err_msg=name)
        if a.numel() < 16 and name not in ("bias_k", "bias_v"):  # these two are normal numbers
            assert np.array_equal(a.numpy(), b.numpy()), f"{name} differs in the last bits"


def _flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _flat(item)] if isinstance(value, tuple | list) else [value]


@pytest.mark.parametrize("text", MODULES)
@pytest.mark.parametrize("training", [True, False])
def test_outputs_gradients_and_buffers_are_upstreams(text: str, training: bool) -> None:
    numbers = np.random.default_rng(3).standard_normal(MODULES[text])
    found = []
    for library in (readtorch, torch):
        module = build(library, text).double().train(training)
        x = library.from_numpy(numbers.copy()).requires_grad_()
        library.manual_seed(11)
        outputs = [y for y in _flat(module(x)) if y is not None]
        sum((y * (i + 1)).pow(2).sum() for i, y in enumerate(outputs)).backward()
        grads = [p.grad for p in module.parameters()]
        found.append([*outputs, x.grad, *grads, *module.buffers()])
    for number, (a, b) in enumerate(zip(*found, strict=True)):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(
                a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-7, err_msg=f"tensor {number}"
            )


@pytest.mark.parametrize("name", sorted(set(torch.nn.modules.__all__) & set(dir(readtorch.nn)) - {"Container"}))
def test_signatures_are_upstreams(name: str) -> None:
    def described(cls: Any) -> list[tuple[str, Any, Any]]:
        return [
            (p.name, p.kind, getattr(p.default, "__name__", p.default))
            for p in inspect.signature(cls).parameters.values()
        ]

    assert described(getattr(readtorch.nn, name)) == described(getattr(torch.nn, name))


def test_attention_with_masks_and_weights() -> None:
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((4, 2, 8)), rng.standard_normal((5, 2, 8))
    padding = np.array([[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]], bool)
    for options in ({}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"bias": False}, {"kdim": 8, "vdim": 8}):
        for call in ({}, {"average_attn_weights": False}, {"need_weights": False}):
            results = []
            for library in (readtorch, torch):
                library.manual_seed(1)
                module = library.nn.MultiheadAttention(8, 2, **options).double()
                tensors = [library.from_numpy(array.copy()) for array in (q, k, k)]
                mask = library.from_numpy(padding.copy())
                results.append(module(*tensors, key_padding_mask=mask, **call))
            for a, b in zip(*results, strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-7)


def test_transformer_with_causal_mask() -> None:
    rng = np.random.default_rng(0)
    src, tgt = rng.standard_normal((5, 2, 8)), rng.standard_normal((4, 2, 8))
    results = []
    for library in (readtorch, torch):
        library.manual_seed(1)
        module = library.nn.Transformer(8, 2, 2, 2, 16, dropout=0.0).double()
        mask = module.generate_square_subsequent_mask(4).double()
        out = module(library.from_numpy(src.copy()), library.from_numpy(tgt.copy()), tgt_mask=mask)
        out.pow(2).sum().backward()
        results.append([out, *(p.grad for p in module.parameters())])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("sort", [True, False])
def test_packed_sequences(kind: str, sort: bool) -> None:
    lengths = [5, 3, 2] if sort else [2, 5, 3]
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((n, 4)) for n in lengths]
    results = []
    for library in (readtorch, torch):
        library.manual_seed(1)
        module = getattr(library.nn, kind)(4, 3, 2, bidirectional=True).double()
        rnn = library.nn.utils.rnn
        packed = rnn.pack_sequence([library.from_numpy(row.copy()) for row in rows], enforce_sorted=sort)
        output, states = module(packed)
        padded, sizes = rnn.pad_packed_sequence(output, batch_first=True, padding_value=-1.0)
        loss = padded.pow(2).sum() + sum(state.sum() for state in _flat(states))
        loss.backward()
        results.append([packed.batch_sizes, padded, sizes, *_flat(states), *(p.grad for p in module.parameters())])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-9)


INITS = [
    "uniform_(t, -1, 2)", "normal_(t, 1, 2)", "trunc_normal_(t)", "trunc_normal_(t, 0, 1, 1.5, 4)", "constant_(t, 3)", "ones_(t)",
    "zeros_(t)", "eye_(t)", "xavier_uniform_(t)", "xavier_normal_(t, 2)", "kaiming_uniform_(t)",
    "kaiming_normal_(t, mode='fan_out', nonlinearity='relu')", "orthogonal_(t)", "sparse_(t, 0.3)",
]  # fmt: skip


@pytest.mark.parametrize("call", INITS)
def test_initializers_draw_upstreams_numbers(call: str) -> None:
    results = []
    for library in (readtorch, torch):
        library.manual_seed(5)
        t = library.empty(6, 9)
        assert eval(f"init.{call}", {"init": library.nn.init, "t": t}) is t
        results.append((t.numpy(), library.rand(1).item()))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=2e-5, atol=2e-6)
    assert results[0][1] == results[1][1], "the generator is left in another state"


def test_dirac_in_groups() -> None:
    for shape, groups in (((4, 2, 3), 1), ((4, 2, 3, 3), 2), ((3, 3, 3, 3, 3), 1)):
        ours, theirs = (lib.nn.init.dirac_(lib.empty(shape), groups) for lib in (readtorch, torch))
        assert np.array_equal(ours.numpy(), theirs.numpy())
