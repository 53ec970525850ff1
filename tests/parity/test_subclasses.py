"""Subclasses of `Tensor`, types that only behave like tensors, and modes: who is asked, with what, and what comes out, on both libraries.

Each case is an expression or a small program written against a name `torch`. It is run on readtorch and on PyTorch, and what can be said
about its outcome without naming a library, classes, values and the record of what was asked, must be the same.
"""

from __future__ import annotations

import copy
import functools
import io
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import readtorch

upstream = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch


def described(value: Any, lib: Any) -> Any:
    """A value in words that are the same for both libraries."""
    if isinstance(value, lib.Tensor):
        numbers = value.as_subclass(lib.Tensor).detach()
        kind = "Tensor" if type(value) is lib.Tensor else type(value).__name__
        return (
            kind,
            tuple(numbers.shape),
            str(numbers.dtype),
            [round(float(x), 2) for x in numbers.double().flatten().tolist()],
        )
    if isinstance(value, list | tuple):
        return [described(item, lib) for item in value]
    if isinstance(value, dict):
        return {key: described(item, lib) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str | slice):
        return value
    if value is NotImplemented or value is Ellipsis:
        return repr(value)
    return type(value).__name__


def outline(value: Any, lib: Any) -> Any:
    """`described` without the numbers, for arguments."""
    if isinstance(value, lib.Tensor):
        return "Tensor" if type(value) is lib.Tensor else type(value).__name__
    if isinstance(value, list | tuple):
        return [outline(item, lib) for item in value]
    return described(value, lib)


def named(function: Any, lib: Any) -> str:
    """The name under which users know what a `__torch_function__` was given."""
    name = getattr(function, "__name__", "?")
    if name == "fn" or "max_pool" in name:  # upstream chooses between two functions by a third, called `fn`
        return "max_pool"
    if name in ("__get__", "__set__", "__delete__"):
        owner = function.__self__
        for cls in lib.Tensor.__mro__:
            for attribute, member in vars(cls).items():
                if member is owner:
                    return f"Tensor.{attribute}.{name}"
    return name


class Records:
    """The classes of a case, made anew for each library."""

    def __init__(self, lib: Any) -> None:
        self.lib = lib
        self.log: list[Any] = []
        records = self

        def note(func: Any, types: Any, args: Any, kwargs: Any) -> None:
            handed = None if kwargs is None else {key: outline(value, lib) for key, value in kwargs.items()}
            kinds = [kind.__name__ for kind in types]
            records.log.append((named(func, lib), kinds, outline(args, lib), handed))

        class Noted(lib.Tensor):
            @classmethod
            def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                note(func, types, args, kwargs)
                return super().__torch_function__(func, types, args, kwargs)

        class Plain(lib.Tensor):
            pass

        class Duck:
            @classmethod
            def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                note(func, types, args, kwargs)
                return "quack"

        self.Noted, self.Plain, self.Duck, self.note = Noted, Plain, Duck, note

    def names(self) -> dict[str, Any]:
        lib = self.lib
        torch_names = {"torch": lib, "F": lib.nn.functional, "nn": lib.nn}
        values = lib.tensor([3.0, 1.0, 2.0])
        matrix = lib.tensor([[2.0, 1.0], [0.5, 3.0]])
        return {
            **torch_names,
            "D": self.Duck(),
            "t": lib.tensor([0.5, 1.5, 2.5]),
            "N": values.clone().as_subclass(self.Noted),
            "S": values.clone().as_subclass(self.Plain),
            "M": matrix.clone().as_subclass(self.Plain),
            "P": matrix.clone().as_subclass(self.Noted),
            "B": lib.tensor([True, False, True]).as_subclass(self.Plain),
            "I": lib.tensor([2, 0, 1]).as_subclass(self.Plain),
            "J": lib.tensor([2, 0, 1]).as_subclass(self.Noted),
        }


def outcome(expression: str, lib: Any) -> Any:
    """What an expression gives, and what was asked on the way."""
    records = Records(lib)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = described(eval(expression, records.names()), lib)
        except Exception as error:
            value = type(error).__name__
    return value, records.log


PRESERVED = """
S + 1 | 1 + S | S - t | t - S | S * S | 2 / S | S // 2 | S % 2 | S ** 2 | 2 ** S | -S | abs(S) | S @ S | S == 1 | S != t | S < 2 | ~B | B & B | B | B ^ B
S.add(1) | S.exp() | S.log() | S.sqrt() | S.sigmoid() | S.tanh() | S.relu() | S.clamp(1, 2) | S.round() | S.floor() | S.pow(2) | S.abs() | S.neg() | S.sign()
S.sum() | S.mean() | S.prod() | S.max() | S.min() | S.std() | S.var() | S.norm() | S.argmax() | S.cumsum(0) | M.sum(0) | M.sum(1, keepdim=True) | M.mean(dim=1) | M.max(0) | M.min(1)
S.sort() | S.topk(2) | S.argsort() | S.unique() | S.median() | S.kthvalue(1) | M.mode(0) | S.sort(descending=True) | torch.sort(S) | torch.max(M, 1)
S.view(3, 1) | S.reshape(1, 3) | M.t() | M.transpose(0, 1) | M.permute(1, 0) | M.flatten() | S.unsqueeze(0) | S.view(1, 3).squeeze() | S.expand(2, 3) | S.repeat(2) | M.T | M.mT | S.real
S[0] | S[1:] | S[None] | S[..., 0] | S[I] | S[B] | M[0, 1] | M[:, 0] | t[I] | t[B] | M.diagonal() | S.narrow(0, 0, 2) | S.index_select(0, I) | S.gather(0, I) | S.masked_select(B) | S.select(0, 1)
S.split(1) | S.split([1, 2]) | S.chunk(2) | S.unbind() | list(S) | torch.split(S, 2) | torch.chunk(S, 3) | torch.unbind(M) | M.svd()[1].shape | torch.meshgrid(S, S, indexing="ij") | torch.broadcast_tensors(S, M[:, :1])
S.add_(1) | S.mul_(2) | S.zero_() | S.fill_(3) | S.copy_(t) | S.clamp_(max=2) | S.sub_(t) | S.exp_() | S.masked_fill_(B, 0.0) | S.index_add_(0, I, t) | t.add_(S) | torch.relu_(S)
torch.add(S, t) | torch.add(t, S, alpha=2) | torch.where(B, S, t) | torch.cat([S, t]) | torch.stack((t, S)) | torch.mm(M, M) | torch.matmul(M, M) | torch.dot(S, t) | torch.einsum("i,i->", S, t)
torch.add(S, 1, out=t) | torch.add(t, 1, out=S) | torch.sum(M, 0, out=torch.empty(2)) | torch.exp(t, out=S)
torch.zeros_like(S) | torch.ones_like(M) | torch.full_like(S, 2) | torch.empty_like(S).shape | S.new_zeros(2) | S.new_ones(1, 2) | S.new_tensor([1.0]) | S.new_full((2,), 3.0)
S.clone() | S.detach() | S.data | S.contiguous() | S.to(torch.float64) | S.double() | S.long() | S.cpu() | S.type(torch.int32) | S.requires_grad_().detach() | S.as_subclass(torch.Tensor) | S.float()
S.numpy() | S.tolist() | S[0].item() | S.numel() | S.dim() | S.size() | S.shape | S.dtype | S.is_contiguous() | S.stride() | len(S) | bool(S[0]) | float(S[1]) | int(S[2]) | S.equal(S) | torch.allclose(S, S)
torch.linalg.inv(M) | torch.linalg.det(M) | torch.linalg.norm(S) | torch.linalg.solve(M, torch.eye(2)) | torch.linalg.qr(M) | torch.outer(S, t) | torch.cross(S, t, dim=0) | torch.diag(S) | torch.triu(M)
F.relu(S) | F.softmax(S, 0) | F.log_softmax(S, dim=0) | F.gelu(S) | F.silu(S) | F.leaky_relu(S) | F.elu(S) | F.softplus(S) | F.hardtanh(S) | F.dropout(S, 0.5, False) | F.normalize(S, dim=0) | F.sigmoid(S)
F.linear(M, torch.eye(2)) | F.layer_norm(M, (2,)) | F.mse_loss(S, t) | F.l1_loss(S, t) | F.cross_entropy(M, torch.tensor([0, 1])) | F.smooth_l1_loss(S, t) | F.binary_cross_entropy_with_logits(S, t)
F.max_pool1d(M, 2) | F.avg_pool1d(M, 2) | F.pad(S, (1, 1)) | F.one_hot(I) | F.embedding(I, torch.eye(3)) | F.cosine_similarity(S, t, dim=0) | F.interpolate(S[None, None], scale_factor=2.0) | F.conv1d(M[None], torch.ones(1, 2, 1))
torch.nn.Parameter(torch.ones(2)) * S[:2] | torch.nn.Parameter(S) | torch.nn.Parameter(torch.ones(2)) * 2 | torch.nn.Linear(2, 1, bias=False)(M).shape | torch.nn.ReLU()(S) | torch.nn.Flatten(0)(M)
torch.special.expit(S) | torch.fft.ifft(torch.fft.fft(S)).real | torch.atleast_2d(S) | torch.block_diag(S, S) | torch.cartesian_prod(S, t) | torch.cdist(M, M) | torch.tensordot(M, M) | torch.vander(S)
torch.isnan(S) | torch.isfinite(S) | torch.numel(S) | torch.is_floating_point(S) | torch.result_type(S, 1) | torch.as_tensor(S) | torch.tensor(S) | torch.is_tensor(S) | repr(S) | str(M) | f"{S}"
"""

ASKED = """
torch.add(D, 1) | torch.add(t, D) | torch.add(t, t, alpha=D) | torch.add(t, t, out=D) | torch.mul(input=D, other=2) | torch.sum(D, dim=0) | torch.stack([t, D]) | torch.cat((D, D)) | torch.zeros(D) | torch.full((2,), D)
torch.zeros_like(D) | torch.rand_like(D) | torch.arange(D) | torch.linspace(D, 1, 3) | torch.einsum("i->", D) | torch.split(D, 2) | torch.meshgrid(D, D) | torch.broadcast_tensors(t, D) | torch.norm(D) | torch.where(D, t, t)
torch.max(D) | torch.is_floating_point(D) | torch.numel(D) | torch.is_tensor(D) | torch.result_type(D, t) | torch.reshape(D, (3, D)) | torch.block_diag(D) | torch.unique(D) | torch.cdist(D, t) | torch.tensordot(D, t)
torch.atleast_1d(D) | torch.tensor(D) | torch.as_tensor(D) | torch.from_numpy(D) | torch.Tensor.backward(D) | torch.Tensor.split(D, 1) | torch.is_nonzero(D) | torch.dropout(D, 0.5, True)
t + D | D + t | t - D | t @ D | t.add(D) | t.add_(D) | t[D] | t[D, 0] | t[[D]] | t.reshape(D) | t.to(D) | t.view(D) | t.copy_(D) | t.type_as(D) | t.expand_as(D) | t / D | t > D
N + 1 | 1 + N | N - 1 | 1 - N | N * 2 | 2 * N | N / 2 | N // 2 | 2 // N | N % 2 | 2 % N | 2 ** N | N @ N | t @ N | t + N | -N | abs(N) | ~(N > 0) | N == 1 | N != 1 | N < 1 | N <= 1 | N >= 1
J & 1 | J | 1 | J ^ 1 | J << 1 | 1 << J | J >> 1 | N.__iadd__(1) | N.__isub__(1) | N.__imul__(1) | N.__itruediv__(1) | J.__iand__(1) | N.__ifloordiv__(1) | N.__imod__(2)
bool(N[0]) | float(N[0]) | int(N[0]) | N[0] | N[0, ...] | N[N > 0] | t[N > 0] | t[(N > 0,)] | t.__setitem__(0, N[0]) | N.__setitem__(0, 1) | 1 in N | repr(N) | str(N) | dir(N) and 1 | "{}".format(N) | len(N)
N.shape | N.dtype | N.device | N.grad | N.grad_fn | N.requires_grad | N.is_leaf | N.data | N.T | N.real | N.ndim | N._version | N.is_cuda | N.layout | N.itemsize | N.nbytes | N.output_nr | N.retains_grad | N.is_sparse | N.is_meta
setattr(N, "requires_grad", False) | setattr(N, "data", t) | setattr(N, "grad", None) | delattr(N, "grad") | N.size() | N.size(0) | N.dim() | N.numel() | N[0].item() | N.tolist() | N.numpy() | N.detach() | N.clone()
N.to(torch.float64) | N.double() | N.type() | N.contiguous() | N.requires_grad_() | N.sum() | N.max() | N.max(0) | N.sort() | N.split(1) | N.chunk(2) | N.unbind() | N.norm() | N.unique() | N.topk(1) | N.view(1, 3)
N.is_floating_point() | N.is_contiguous() | N.stride() | N.storage_offset() | N.element_size() | N.new_zeros(2) | N.new_tensor([1.0]) | N.is_shared() | N.retain_grad() | N.zero_() | N.fill_(1) | N.copy_(t) | N.uniform_().shape
N.__deepcopy__({}) | N.__reduce_ex__(2) and 1 | N.is_set_to(t) | N.eq(1) | N.allclose(N) | N.where(N > 0, N) | N.masked_fill(N > 0, 0.0) | N.as_subclass(torch.Tensor) | N.unflatten(0, (3, 1)) | N.share_memory_()
torch.add(N, t) | torch.add(t, N) | torch.stack([t, N]) | torch.einsum("i->", N) | nn.Parameter(N) | nn.Parameter(t) * N | torch.isnan(N) | torch.is_nonzero(N[0]) | torch.typename(N) | torch.tensor(N)
F.relu(D) | F.relu(D, True) | F.softmax(D, 0) | F.linear(D, t) | F.layer_norm(D, (3,)) | F.batch_norm(D, t, t) | F.mse_loss(D, t) | F.cross_entropy(D, t) | F.dropout(D) | F.conv1d(D, t) | F.interpolate(D, 2) | F.pad(D, (1, 1))
F.gelu(D) | F.leaky_relu(D, 0.1) | F.embedding(D, t) | F.normalize(D) | F.group_norm(D, 2) | F.one_hot(D) | F.nll_loss(D, t) | F.kl_div(D, t) | F.unfold(D, 2) | F.glu(D) | F.rms_norm(D, (3,)) | F.hardswish(D) | F.l1_loss(D, t)
F.max_pool1d(D, 2) | F.max_pool2d(P[None], 2, stride=1) | F.sigmoid(N) | F.relu(N) | F.cosine_similarity(N, t, dim=0) | F.scaled_dot_product_attention(P, P, P) | F.multi_margin_loss(D, t) | F.huber_loss(D, t)
nn.init.uniform_(N).shape | nn.init.kaiming_uniform_(P).shape | nn.init.zeros_(N) | nn.init.constant_(N, 2.0) | nn.init.normal_(N).shape | nn.Linear(2, 2)(P).shape | nn.LayerNorm(2)(P) | nn.MaxPool1d(2)(P) | nn.Dropout(0.5)(N).shape
nn.utils.clip_grad_norm_([N], 1.0) | torch.linalg.vector_norm(N) | torch.autograd.grad((N.requires_grad_().sum(),), (N,)) | torch.autograd.backward((N.requires_grad_().sum(),)) | N.requires_grad_().sum().backward()
"""


def cases(table: str) -> list[str]:
    """The expressions of a table. `A | B` between names is the operator, between blanks and other things the end of one."""
    return [part.strip() for line in table.strip().splitlines() for part in line.split(" | ") if part.strip()]


@pytest.mark.parametrize("expression", cases(PRESERVED))
def test_the_class_of_the_arguments_is_the_class_of_the_result(expression: str) -> None:
    ours, theirs = outcome(expression, readtorch), outcome(expression, upstream)
    assert ours == theirs


@pytest.mark.parametrize("expression", cases(ASKED))
def test_the_same_is_asked_in_the_same_order_with_the_same_arguments(expression: str) -> None:
    ours, theirs = outcome(expression, readtorch), outcome(expression, upstream)
    assert ours == theirs


# -- programs ----------------------------------------------------------------------------------------------------------


def logging_tensor(torch: Any) -> Any:
    """The example of the notes on extending torch: a tensor that says which function was called."""
    said = []

    class LoggingTensor(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            said.append(func.__name__)
            return super().__torch_function__(func, types, args, {} if kwargs is None else kwargs)

    class SubLoggingTensor(LoggingTensor):
        pass

    a, b = torch.ones(2).as_subclass(SubLoggingTensor), torch.ones(2).as_subclass(LoggingTensor)
    c = b + a
    kinds = [type(value).__name__ for value in (a + b, b + a, c[0], c.add_(1), torch.stack([b, a]))]
    return said, kinds, isinstance(LoggingTensor([1.0, 2.0]) * 2, LoggingTensor)


def metadata_tensor(torch: Any) -> Any:
    """A wrapper, no subclass: the other example of the notes, with data and metadata side by side."""

    class MetadataTensor:
        def __init__(self, data: Any, metadata: Any = None) -> None:
            self._t = torch.as_tensor(data)
            self._metadata = metadata

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            metadatas = tuple(a._metadata for a in args if hasattr(a, "_metadata"))
            assert len(metadatas) > 0
            bare = [getattr(a, "_t", a) for a in args]
            return cls(func(*bare, **(kwargs or {})), metadata=metadatas[0])

    m = MetadataTensor([[1.0, 2.0], [3.0, 4.0]], "owner: Ministry of Silly Walks")
    results = (
        torch.add(torch.tensor([[1.0, 2.0], [1.0, 2.0]]), m),
        torch.mul(m, 2),
        torch.sum(m, dim=0),
        torch.nn.functional.relu(m),
    )
    return [(described(result._t, torch), result._metadata) for result in results]


def scalar_tensor(torch: Any) -> Any:
    """A duck type with a table of the functions it has an answer for."""
    handled: dict[Any, Callable[..., Any]] = {}

    def implements(function: Any) -> Callable[[Any], Any]:
        def register(implementation: Any) -> Any:
            handled[function] = (
                functools.wraps(function)(implementation) if hasattr(function, "__doc__") else implementation
            )
            return implementation

        return register

    class ScalarTensor:
        def __init__(self, n: int, value: float) -> None:
            self.n, self.value = n, value

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func not in handled or not all(issubclass(t, torch.Tensor | ScalarTensor) for t in types):
                return NotImplemented
            return handled[func](*args, **(kwargs or {}))

    @implements(torch.mean)
    def mean(input: Any) -> float:
        return float(input.value) / input.n

    @implements(torch.add)
    def add(input: Any, other: Any) -> Any:
        if isinstance(input, ScalarTensor) and isinstance(other, ScalarTensor):
            return ScalarTensor(input.n, input.value + other.value)
        return torch.add(
            torch.eye(input.n) * input.value if isinstance(input, ScalarTensor) else input,
            torch.eye(other.n) * other.value if isinstance(other, ScalarTensor) else other,
        )

    @implements(torch.nn.functional.softplus)
    def softplus(input: Any, *args: Any) -> str:
        return "soft"

    @implements(torch.Tensor.matmul)
    def matmul(input: Any, other: Any) -> Any:
        return input * other.value

    d = ScalarTensor(2, 3.0)
    refused = []
    for call in (
        lambda: torch.mul(d, 3),
        lambda: torch.nn.functional.relu(d),
        lambda: torch.ones(2) - d,
        lambda: torch.ones(2)[d],
    ):
        try:
            call()
        except TypeError as error:
            refused.append(
                [
                    phrase in str(error)
                    for phrase in (
                        "Multiple dispatch failed",
                        "no implementation found for 'torch.nn.functional.relu'",
                        "unsupported operand",
                        "returned NotImplemented",
                    )
                ]
            )
    return (
        torch.mean(d),
        torch.add(d, d).value,
        described(torch.add(d, torch.ones(2, 2)), torch),
        torch.nn.functional.softplus(d),
        described(torch.ones(2, 2) @ d, torch),
        refused,
    )


def order_of_asking(torch: Any) -> Any:
    """Subclasses before their bases, from the left; each class once; NotImplemented passes the question on."""
    asked = []

    def make(name: str, bases: tuple, answers: bool) -> type:
        def ask(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append((name, [kind.__name__ for kind in types]))
            return name if answers else NotImplemented

        return type(name, bases, {"__torch_function__": classmethod(ask)})

    a = make("A", (torch.Tensor,), False)
    b = make("B", (a,), False)
    c = make("C", (torch.Tensor,), False)
    d = make("D", (), True)
    x, y, z = (torch.ones(2).as_subclass(cls) for cls in (a, b, c))
    answers = [
        torch.stack([x, y, z, x, d()]),
        torch.where(torch.ones(2) > 0, x, d()),
        torch.add(d(), y),
    ]
    try:
        torch.add(x, y)
    except TypeError as error:
        answers.append("Multiple dispatch failed for 'torch.add'" in str(error))
    try:
        answers.append(x + z)
    except TypeError as error:
        answers.append("unsupported operand" in str(error))
    return answers, asked


def unrelated_subclasses(torch: Any) -> Any:
    """The default takes part only where the other classes are its bases."""

    class Metres(torch.Tensor):
        pass

    class Seconds(torch.Tensor):
        pass

    class Kilometres(Metres):
        pass

    m, s, k = (torch.ones(1).as_subclass(cls) for cls in (Metres, Seconds, Kilometres))
    try:
        torch.add(m, s)
    except TypeError as error:
        refused = "returned NotImplemented" in str(error)
    return type(m + k).__name__, type(k * m).__name__, refused, type(m + torch.nn.Parameter(torch.ones(1))).__name__


def switched_off(torch: Any) -> Any:
    """The contexts, and classes that say they take over nothing."""

    class Plain(torch.Tensor):
        pass

    class Silent(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    class Weight(torch.nn.Parameter):
        pass

    p, s = torch.ones(2).as_subclass(Plain), torch.ones(2).as_subclass(Silent)
    kinds = []
    with torch._C.DisableTorchFunctionSubclass():
        kinds.append(type(p * 2).__name__)
        with torch._C.DisableTorchFunction():
            kinds.append(type(p * 2).__name__)
        kinds.append((type(p[0]).__name__, torch._C._is_torch_function_enabled()))
    kinds += [
        type(p * 2).__name__,
        type(s * 2).__name__,
        type(s[0]).__name__,
        type(s + p).__name__,
        type(Weight(torch.ones(2)) * 2).__name__,
    ]
    return kinds, torch._C._is_torch_function_enabled(), torch.DisableTorchFunction is torch._C.DisableTorchFunction


def modes(torch: Any) -> Any:
    """Modes see what no argument announces; they nest; a mode is not asked about what it does itself."""
    from importlib import import_module

    overrides = import_module(f"{torch.__name__}.overrides")
    seen = []

    class Seen(overrides.TorchFunctionMode):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append((self.name, named(func, torch), sorted(kwargs or {})))
            return func(*args, **(kwargs or {}))

    class Doubled(overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            return result * 2 if func in (torch.ones, torch.add) else result

    class Plain(torch.Tensor):
        pass

    plain = torch.ones(2).as_subclass(Plain)
    values = []
    with Seen("outer"):
        torch.zeros(2)
        torch.tensor([1.0])
        torch.arange(3, dtype=torch.float32)
        with Seen("inner"):
            x = torch.ones(2) + 1
            torch.nn.functional.relu(x)
            len(x)
            values.append(tuple(x.shape))
            values.append(type(torch.add(plain, 1)).__name__)
            with torch._C.DisableTorchFunctionSubclass():
                torch.add(plain, 1)
            with torch._C.DisableTorchFunction():
                torch.add(plain, 1)
        with Doubled():
            values.append(described(torch.ones(2), torch))
            values.append(described(torch.add(torch.zeros(1) + 1, 1), torch))
    before = len(seen)
    torch.ones(1)
    with overrides.BaseTorchFunctionMode():
        values.append(described(torch.ones(1) + 1, torch))
    try:
        with overrides.TorchFunctionMode():
            torch.ones(1)
    except NotImplementedError:
        values.append("refused")

    class Reticent(overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    try:
        with Reticent():
            torch.ones(1)
    except TypeError as error:
        values.append("mode object" in str(error))
    try:
        with Reticent():
            plain * 2
    except TypeError as error:
        values.append("unsupported operand" in str(error))
    return seen, values, len(seen) - before, overrides._get_current_function_mode_stack()


def inside_itself(torch: Any) -> Any:
    """A mode that enters itself again sees what a Python function is made of."""
    from importlib import import_module

    overrides = import_module(f"{torch.__name__}.overrides")
    seen = []

    class All(overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    def halved(x: Any) -> Any:
        if overrides.has_torch_function_unary(x):
            return overrides.handle_torch_function(halved, (x,), x)
        return x / 2

    @overrides.wrap_torch_function(lambda x: (x,))
    def tripled(x: Any) -> Any:
        return x * 3

    class Plain(torch.Tensor):
        pass

    plain = torch.ones(1).as_subclass(Plain)
    with All():
        halved(torch.ones(1))
    return seen, type(halved(plain)).__name__, type(tripled(plain)).__name__, described(tripled(torch.ones(1)), torch)


def gradients(torch: Any) -> Any:
    """Autograd goes through subclasses: leaves, views, in-place writes, hooks, twice, and custom functions."""

    class Plain(torch.Tensor):
        pass

    x = Plain([1.0, 2.0, 3.0])
    x.requires_grad_()
    y = (x * x).sum()
    y.backward()
    first = described(x.grad, torch)
    w = torch.ones(3, requires_grad=True)
    hooked = []
    z = (w * x.detach()) ** 2
    z.register_hook(lambda grad: hooked.append(described(grad.as_subclass(torch.Tensor), torch)))
    (g,) = torch.autograd.grad(z.sum(), w, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), w)
    base = torch.ones(2, 3, requires_grad=True)
    whole = (base * 1).as_subclass(Plain)
    part = whole[0]
    part.mul_(5)
    whole.sum().backward()

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (a,) = ctx.saved_tensors
            return grad * 2 * a

    v = Plain([3.0]).requires_grad_()
    Square.apply(v).sum().backward()
    return (
        first, type(x.grad).__name__, x.is_leaf, type(y.grad_fn).__name__, hooked, type(g).__name__, described(g.as_subclass(torch.Tensor), torch),
        described(h.as_subclass(torch.Tensor), torch), described(base.grad, torch), described(v.grad.as_subclass(torch.Tensor), torch),
        type(whole).__name__, x.as_subclass(torch.Tensor).is_leaf,
    )  # fmt: skip


def training(torch: Any) -> Any:
    """A module fed with a subclass, its parameters ordinary ones, steps as ever."""

    class Plain(torch.Tensor):
        pass

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))
    for n, parameter in enumerate(net.parameters()):
        with torch.no_grad():
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape) * (n + 1) / 4)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    x = torch.arange(6.0).reshape(2, 3).as_subclass(Plain)
    losses, kinds = [], []
    for _ in range(3):
        out = net(x)
        loss = torch.nn.functional.cross_entropy(out, torch.tensor([0, 1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 3))
        kinds.append((type(out).__name__, type(loss).__name__, {type(p.grad).__name__ for p in net.parameters()}))
    return losses, kinds


def copies_and_pickles(torch: Any) -> Any:
    """What survives: class and attributes, in copies, pickles and files; `deepcopy` needs a `new_empty` of the class."""
    Kept = KEPT[torch.__name__]
    x = torch.ones(2).as_subclass(Kept)
    x.tag = ["a"]
    copies = copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))
    outcomes: list[Any] = [(type(y).__name__, y.tag, y.tag is x.tag, described(y * 2, torch)) for y in copies]
    buffer = io.BytesIO()
    torch.save(x, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    outcomes.append((type(loaded).__name__, loaded.tag))

    class Careless(torch.Tensor):
        pass

    try:
        copy.deepcopy(torch.ones(1).as_subclass(Careless))
    except RuntimeError as error:
        outcomes.append("new_empty()" in str(error))
    outcomes.append(hasattr(x * 2, "tag"))
    outcomes.append(repr(x))
    outcomes.append(type(copy.deepcopy(torch.nn.Parameter(x))).__name__)
    return outcomes


def parameters_of_a_subclass(torch: Any) -> Any:
    class Plain(torch.Tensor):
        pass

    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.ones(2).as_subclass(Plain))
    module.register_buffer("b", torch.ones(1).as_subclass(Plain))
    own = torch.nn.Parameter(torch.ones(2))
    made = torch.Tensor._make_subclass(Plain, torch.ones(2), True)
    return (
        type(module.weight).__name__, isinstance(module.weight, torch.nn.Parameter), [name for name, _ in module.named_parameters()], type(module.weight * 2).__name__,
        type(own * 2).__name__, type(own[0]).__name__, type(own * module.b).__name__, list(module.state_dict()), type(module.double().weight).__name__,
        type(made).__name__, made.is_leaf, made.requires_grad, type(made * 2).__name__,
    )  # fmt: skip


def the_module_overrides(torch: Any) -> Any:
    from importlib import import_module

    o = import_module(f"{torch.__name__}.overrides")
    F = torch.nn.functional

    class Duck:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return -1

    class Plain(torch.Tensor):
        pass

    functions = (
        torch.add,
        torch.Tensor.add,
        torch.Tensor.shape.__get__,
        torch.Tensor.grad.__set__,
        F.relu,
        F.linear,
        torch.linalg.inv,
        torch.nn.init.uniform_,
        print,
        torch.Tensor.__getitem__,
    )
    t = torch.ones(1)
    overridable = o.get_overridable_functions()
    testing = o.get_testing_overrides()
    return (
        [o.resolve_name(f) for f in functions],
        [o.is_tensor_method_or_property(f) for f in (torch.Tensor.add, torch.add, torch.Tensor.shape.__get__)],
        [o.is_tensor_like(v) for v in (t, Duck(), torch.nn.Parameter(t), t.as_subclass(Plain), 1, None)],
        [o.has_torch_function((v,)) for v in (t, Duck(), torch.nn.Parameter(t), t.as_subclass(Plain), 1)],
        o.has_torch_function_unary(Duck()), o.has_torch_function_variadic(1, t), o.has_torch_function_variadic(1, Duck()),
        [f in overridable[owner] for owner, f in ((torch.Tensor, torch.Tensor.add), (F, F.relu), (torch, torch.add), (torch.Tensor, torch.Tensor.sum), (torch.linalg, torch.linalg.inv))],
        testing[torch.Tensor.add] is not None and testing[torch.add](t, t), torch.add in o.get_ignored_functions(),
        torch.Tensor.grad.__get__ in o.get_default_nowrap_functions(), torch.add is torch.Tensor.add, len(o._get_overloaded_args((t.as_subclass(Plain), Duck(), Duck()))),
    )  # fmt: skip


def plain_method(torch: Any) -> Any:
    """A `__torch_function__` that is no classmethod works, with a warning."""

    class Old:
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return type(self).__name__

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = torch.add(Old(), 1), torch.nn.functional.relu(Old())
    return results, any("as a plain method is deprecated" in str(w.message) for w in caught)


def identities(torch: Any) -> Any:
    """What was imported before anybody had a say is what `func` is compared with."""
    add, relu, shape = torch.add, torch.nn.functional.relu, torch.Tensor.shape.__get__
    given = []

    class Plain(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.ones(1).as_subclass(Plain)
    add(x, 1), relu(x), x.shape, x + 1
    return [func == known for func, known in zip(given, (add, relu, shape, torch.Tensor.add), strict=True)]


def _make_kept(torch: Any) -> type:
    class Kept(torch.Tensor):
        tag: Any

        def new_empty(self, *args: Any, **kwargs: Any) -> Any:
            return super().new_empty(*args, **kwargs).as_subclass(type(self))

    Kept.__qualname__ = f"Kept_{torch.__name__}"
    Kept.__name__ = "Kept"
    setattr(sys.modules[__name__], Kept.__qualname__, Kept)
    return Kept


KEPT = {lib.__name__: _make_kept(lib) for lib in (readtorch, upstream)}

PROGRAMS = (
    logging_tensor, metadata_tensor, scalar_tensor, order_of_asking, unrelated_subclasses, switched_off, modes, inside_itself, gradients, training,
    copies_and_pickles, parameters_of_a_subclass, the_module_overrides, plain_method, identities,
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_has_the_same_outcome(program: Callable[[Any], Any]) -> None:
    assert program(readtorch) == program(upstream)
