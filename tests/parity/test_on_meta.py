"""The tables once more on the device `meta`: shapes, strides, dtypes, devices and errors beside upstream's. `left_out_meta.txt` says what differs, and why."""

from __future__ import annotations

import io
from typing import Any

import pytest
from listed import reasons
from on_meta import difference, forms, lines

import readtorch

upstream = pytest.importorskip("torch", reason="compares with the real PyTorch (extra `parity`)")
pytestmark = pytest.mark.torch


def test_every_line_gives_on_meta_the_forms_that_upstream_gives() -> None:
    known, faults, met = reasons("left_out_meta.txt"), [], set()
    for line in lines():
        differs = difference(forms(readtorch, line), forms(upstream, line))
        if differs and line.id not in known:
            faults.append(f"{line.id}: {differs}")
        if line.id in known:
            met.add(line.id)
            if not differs:
                faults.append(f"{line.id} agrees now: take it off left_out_meta.txt")
    faults.extend(f"{name} is in left_out_meta.txt and in no table" for name in known.keys() - met)
    assert not faults, "\n".join(faults)


def described(torch: Any, value: Any) -> Any:
    """All there is to know of tensors without elements, in lists and dicts."""
    if isinstance(value, dict):
        return {key: described(torch, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [described(torch, item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    return type(value).__name__, tuple(value.shape), str(value.dtype), str(value.device), value.requires_grad


def block(torch: Any, channels: int, wider: int, stride: int) -> Any:
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(
                nn.Conv2d(channels, wider, 3, stride, 1, bias=False), nn.BatchNorm2d(wider), nn.ReLU(inplace=True)
            )
            self.second = nn.Sequential(nn.Conv2d(wider, wider, 3, 1, 1, bias=False), nn.BatchNorm2d(wider))
            self.beside = nn.Conv2d(channels, wider, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            y = self.second(self.first(x))
            y += self.beside(x)
            return nn.functional.relu(y, inplace=True)

    return Block()


def residual(torch: Any) -> Any:
    nn = torch.nn
    stem = [nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(64, 10)]
    model = nn.Sequential(*stem, block(torch, 16, 32, 1), block(torch, 32, 64, 2), *head)
    loss = nn.functional.cross_entropy(model(torch.randn(4, 3, 64, 64)), torch.randint(10, (4,)), label_smoothing=0.1)
    return model, loss


def recurrent(torch: Any) -> Any:
    nn = torch.nn
    model = nn.ModuleList(
        [nn.Embedding(100, 16), nn.LSTM(16, 32, 2, dropout=0.5, bidirectional=True), nn.Linear(64, 100)]
    )
    words = torch.randint(100, (9, 4))
    out = model[2](model[1](model[0](words))[0])
    return model, nn.functional.cross_entropy(out.flatten(0, 1), words.flatten())


def attending(torch: Any) -> Any:
    nn = torch.nn
    model = nn.Transformer(32, 4, 2, 2, 64, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    return model, model(torch.randn(2, 7, 32), torch.randn(2, 5, 32), tgt_mask=mask, tgt_is_causal=True).square().mean()


@pytest.mark.parametrize("network", [residual, recurrent, attending])
def test_a_network_is_trained_on_meta(network: Any) -> None:
    def train(torch: Any) -> Any:
        with torch.device("meta"):
            model, loss = network(torch)
        optimizer = torch.optim.AdamW(model.parameters())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        grads = [parameter.grad for parameter in model.parameters()]
        state = [held for _, held in sorted(optimizer.state_dict()["state"].items())]
        return described(torch, [loss, norm, grads, model.state_dict(), state])

    assert train(readtorch) == train(upstream)


@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize(
    "name", ["Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"]
)
def test_an_optimizer_steps_where_upstreams_does(name: str, foreach: bool) -> None:
    def steps(torch: Any, inside: bool) -> Any:
        parameter = torch.nn.Parameter(torch.ones(2, 3, device="meta"))
        parameter.grad = torch.ones(2, 3, device="meta")
        try:
            with torch.device("meta" if inside else "cpu"):
                optimizer = getattr(torch.optim, name)([parameter], lr=0.1, foreach=foreach)
                optimizer.step()
        except RuntimeError as error:
            return "RuntimeError" if "item" in str(error) else str(error)
        return described(torch, dict(optimizer.state[parameter]))

    for inside in (False, True):
        assert steps(readtorch, inside) == steps(upstream, inside)


@pytest.mark.parametrize("weights_only", [True, False])
def test_files_of_tensors_without_elements_are_read_by_both(weights_only: bool) -> None:
    def state(torch: Any) -> Any:
        return {
            "model": torch.nn.Linear(2, 3, device="meta").state_dict(),
            "x": torch.nn.Parameter(torch.ones(2, device="meta")),
        }

    for writer, reader in ((readtorch, upstream), (upstream, readtorch), (readtorch, readtorch)):
        file = io.BytesIO()
        writer.save(state(writer), file)
        file.seek(0)
        found = reader.load(file, weights_only=weights_only)
        assert described(reader, found) == described(upstream, state(upstream))


CALLS = [
    "range(i[0])", "t.ones(i[0])", "int(i[0])", "t.tensor([a[0, 0], a[0, 1]])", "a.item()", "bool(a[0, 0])", "a.tolist()", "a.numpy()",
    "a.cpu()", "t.normal(a, a)", "t.normal(0.0, a)", "a.__setitem__(m, a[0])", "a.__setitem__(m, 1.0)", "a[m]", "a.masked_select(m)",
    "a.nonzero()", "t.unique(a)", "i.bincount()", "t.equal(a, a)", "a.view(t.int16)", "a.view(t.float64)", "a[:, :3].view(t.float64)",
    "a.as_strided((2, 2), (1, 2))", "t.triu_indices(3, 3, device='meta')", "t.testing.assert_close(a, a)", "t.multinomial(a, 2)",
    "t.nn.functional.one_hot(i, 4)", "t.nn.functional.one_hot(i)", "a.repeat_interleave(i)", "a.repeat_interleave(i, 0, output_size=5)",
    "t.linalg.inv(b)", "t.linalg.inv(a)", "t.linalg.solve(b, b)", "t.linalg.cholesky(b)", "t.linalg.cholesky_ex(b, check_errors=True)",
    "t.linalg.lu_factor(b)", "t.linalg.lstsq(b, b)", "t.linalg.matrix_power(b, -1)", "t.linalg.cond(b)", "t.linalg.eig(b)",
    "t.renorm(a, 2, 0, 1.0)", "a.norm()", "t.linalg.norm(a)", "t.linalg.matrix_norm(a, 'nuc')", "t.cdist(a, a)",
    "t.nn.functional.normalize(a)", "t.nn.functional.cosine_similarity(a, a)", "t.nn.functional.embedding(i, a, max_norm=1.0)",
    "t.nn.utils.get_total_norm([a, b])", "t.nn.utils.weight_norm(t.nn.Linear(4, 2, device='meta'))(a)",
    "t.nn.utils.parametrizations.weight_norm(t.nn.Linear(4, 2, device='meta'))(a)",
    "t.nn.utils.spectral_norm(t.nn.Linear(4, 2, device='meta'))(a)",
    "t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(4, 2, device='meta'))(a)", "a.bernoulli()", "a.exponential_()", "t.poisson(a)",
    "t.quantile(a, a[0, :2])", "t.histc(a)", "a.searchsorted(a)", "a.index_reduce(0, i, b[:, :1].expand(3, 4), 'mean')", "a + t.tensor(1.0)",
    "a + t.ones(3, 4)", "t.cat([a, t.ones(3, 4)])", "a.copy_(t.ones(3, 4))", "t.ones(3, 4).copy_(a)",
]  # fmt: skip


@pytest.mark.parametrize("expression", CALLS)
def test_a_call_gives_a_shape_or_the_error_that_upstream_gives(expression: str) -> None:
    def called(torch: Any) -> Any:
        a, b, i = (
            torch.ones(3, 4, device="meta"),
            torch.ones(3, 3, device="meta"),
            torch.ones(3, dtype=torch.long, device="meta"),
        )
        try:
            return described(torch, eval(expression, {"t": torch, "a": a, "b": b, "i": i, "m": a > 0}))
        except Exception as error:
            return type(error).__name__

    assert called(readtorch) == called(upstream)


def geometry(torch: Any, value: Any) -> Any:
    """Where a tensor's elements would lie."""
    if isinstance(value, list | tuple):
        return [geometry(torch, item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    formats = {"memory_format": torch.channels_last} if value.dim() == 4 else {}
    return (
        tuple(value.shape), value.stride(), value.storage_offset(), value.is_contiguous(), value.is_contiguous(**formats),
        value.untyped_storage().nbytes(), value.data_ptr(),
    )  # fmt: skip


VIEWS = [
    "a.t()", "a.t()[1:]", "a[:, 1::2]", "a[..., None]", "a.t()[None, :, None]", "a.t().unsqueeze(-1)", "a[0]", "a[:, 0]",
    "a.narrow(1, 1, 2)", "a.unfold(1, 2, 1)", "a.diagonal(1)", "a.as_strided((2, 2), (1, 2), 3)", "a[:1].expand(5, 4)", "x.permute(0, 2, 3, 1)",
    "x.movedim(1, -1).flatten(1, 2)", "a.split(2, 1)", "a.unbind(1)", "a.chunk(2)", "a.t().squeeze()", "x[:, :1].squeeze(1)", "a.view(2, 6)",
    "a.t().view(12)", "a.t().reshape(12)", "a.reshape(2, -1)", "a.reshape(3, 4)", "x.transpose(1, 2).view(2, 4, 15)", "x.view(2, 3, 20)",
    "x.transpose(2, 3).view(6, 5, 4)", "a.view(t.int32)", "a.view(t.int16)", "a.view(t.float64)", "t.view_as_complex(a.view(3, 2, 2))",
    "t.view_as_real(c)", "c.real", "c.imag", "c[1:].real", "a.t().contiguous()", "a.contiguous()", "a.t().clone()", "a[:, ::2].clone()",
    "a.t().clone(memory_format=t.contiguous_format)", "x.to(memory_format=t.channels_last)", "x.contiguous(memory_format=t.channels_last)",
    "x.to(memory_format=t.channels_last).to(memory_format=t.channels_last)", "a.t().double()", "a.t().to('meta')", "t.empty_like(a.t())",
    "t.zeros_like(a.t()[:, ::2])", "t.empty_like(a.t(), memory_format=t.contiguous_format)", "t.empty_like(a[:1].expand(5, 4))",
    "t.empty_strided((2, 3), (5, 1), device='meta')", "t.empty(2, 3, 4, 5, memory_format=t.channels_last, device='meta')",
    "t.empty_like(x, memory_format=t.channels_last)", "t.randn_like(a.t())", "t.full_like(a.t(), 2)", "a.t().sin()", "a.t() + 1",
    "a.t() + t.ones(4, 3, device='meta')", "t.ones(4, 3, device='meta') + a.t()", "a[:1].expand(3, 4) + 1", "x.permute(0, 2, 3, 1) * 2",
    "x.permute(0, 2, 3, 1) + t.ones(5, 3, device='meta')", "a.t().gt(0)", "a.t().sum(0)", "x.to(memory_format=t.channels_last).sum(1)",
    "t.relu(x.to(memory_format=t.channels_last))", "t.cat([x.to(memory_format=t.channels_last)] * 2)", "t.cat([a.t(), a.t()])",
    "t.nn.functional.max_pool2d(x.to(memory_format=t.channels_last), 2)", "t.softmax(a.t(), 0)", "a.t().cumsum(0)", "a.t().sort(0)", "a.t() @ a",
    "a.t().flip(0)", "a.clone().t_()", "a.clone().unsqueeze_(0)", "a.clone().resize_(2, 2)", "a.clone().resize_(20, 2)",
    "t.empty(0, device='meta').set_(a.untyped_storage(), 1, (2, 2), (4, 1))", "a.detach()[1:]", "a.t().add_(1)", "t.ones(3, 4).t().to('meta')",
    "t.ones(3, 1).expand(3, 4).to('meta')", "a[a.size(0) - 1:]", "[v.storage_offset() for v in a]", "a.t().dim_order()",
    "[v._is_view() for v in (a.reshape(3, 4), a.reshape(12), a.t().reshape(12), a.t(), a.contiguous(), a.t().contiguous())]",
]  # fmt: skip


@pytest.mark.parametrize("expression", VIEWS)
def test_a_tensor_without_elements_tells_where_they_would_lie(expression: str) -> None:
    def told(torch: Any) -> Any:
        names = {
            "t": torch,
            "a": torch.ones(3, 4, device="meta"),
            "c": torch.ones(3, 4, dtype=torch.complex64, device="meta"),
            "x": torch.ones(2, 3, 4, 5, device="meta"),
        }
        try:
            return geometry(torch, eval(expression, names))
        except Exception as error:
            return type(error).__name__

    assert told(readtorch) == told(upstream)


def test_views_of_a_tensor_without_elements_share_its_storage() -> None:
    for torch in (readtorch, upstream):
        x = torch.ones(4, 4, device="meta")
        assert x[1:].untyped_storage()._cdata == x.untyped_storage()._cdata != x.clone().untyped_storage()._cdata
        assert torch.ones(1 << 20, 1 << 20, device="meta").t()[3:].storage_offset() == 3
