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
# # Linear layers, embeddings, reshaping
#
# A layer of this appendix is a thin object: it owns parameters, remembers arguments, and calls one function of `nn.functional`. What
# the function computes, and its derivative, stands in appendix A1.

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %% [markdown]
# ## Small tools of the layer files
#
# A kernel size of 3 means 3 in each dimension. Upstream's files share the converters below.

# %%
#| into: nn/modules/utils.py
#| imports
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any


# %%
#| into: nn/modules/utils.py
#| upstream: torch/nn/modules/utils.py#_ntuple
def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    def parse(value: Any) -> tuple[Any, ...]:
        return tuple(value) if isinstance(value, Iterable) else (value,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


# %%
#| into: nn/modules/utils.py
#| upstream: torch/nn/modules/utils.py#_reverse_repeat_tuple
#| upstream: torch/nn/modules/utils.py#_list_with_default
def _reverse_repeat_tuple(values: Sequence[int], n: int) -> tuple[int, ...]:
    """Padding per dimension, first to last, in the order of `F.pad`: last dimension first, each value for both sides."""
    return tuple(value for value in reversed(values) for _ in range(n))


def _list_with_default(out_size: Any, defaults: Sequence[int]) -> Any:
    """`out_size` with each None replaced by the size of the same dimension in `defaults`, counted from the end."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return [d if v is None else v for v, d in zip(out_size, defaults[-len(out_size) :], strict=False)]


# %%
#| into: nn/modules/utils.py
#| upstream: torch/nn/modules/utils.py#consume_prefix_in_state_dict_if_present
def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Strip `prefix` from the keys that start with it, in place: what loads a DataParallel checkpoint into a bare model."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    for key in list(metadata):
        # the prefix's own module is listed without the dot, the root as ""
        if key and (key == prefix.replace(".", "") or key.startswith(prefix)):
            metadata[key[len(prefix) :]] = metadata.pop(key)


# %% [markdown]
# ## Linear and Bilinear

# %%
#| into: nn/modules/linear.py
#| imports
from __future__ import annotations

import math
from functools import partial
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn import init
from readtorch.nn.modules.module import Module
from readtorch.nn.parameter import Parameter


# %%
#| into: nn/modules/linear.py
#| upstream: torch/nn/modules/linear.py#Identity
class Identity(Module):
    """Returns its input; takes and ignores any arguments, so that it can stand in for any layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


# %%
#| into: nn/modules/linear.py
#| upstream: torch/nn/modules/linear.py#Linear
class Linear(Module):
    """`y = x W^T + b` over the last dimension: `(*, in_features)` to `(*, out_features)`."""

    in_features: int
    out_features: int
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        empty = partial(torch.empty, device=device, dtype=dtype)
        self.weight = Parameter(empty((out_features, in_features)))
        self.register_parameter("bias", Parameter(empty(out_features)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Both parameters from U(-b, b), b = 1 / sqrt(in_features)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


# %% [markdown]
# `MultiheadAttention` holds its output projection as a `Linear` under another name, which quantization leaves alone. The name shows
# in every printed transformer.


# %%
#| into: nn/modules/linear.py
#| upstream: torch/nn/modules/linear.py#NonDynamicallyQuantizableLinear
class NonDynamicallyQuantizableLinear(Linear):
    """A `Linear` that quantization passes over."""


# %%
#| into: nn/modules/linear.py
#| upstream: torch/nn/modules/linear.py#Bilinear
class Bilinear(Module):
    """`y_k = x1^T A_k x2 + b_k`: `(*, in1_features)` and `(*, in2_features)` to `(*, out_features)`."""

    in1_features: int
    in2_features: int
    out_features: int
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        empty = partial(torch.empty, device=device, dtype=dtype)
        self.weight = Parameter(empty((out_features, in1_features, in2_features)))
        self.register_parameter("bias", Parameter(empty(out_features)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Both parameters from U(-b, b), b = 1 / sqrt(in1_features)."""
        if self.in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={self.in1_features})")
        bound = 1 / math.sqrt(self.weight.size(1))
        for parameter in (self.weight, self.bias):
            if parameter is not None:
                init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


# %%
torch.manual_seed(0)
nn.Linear(3, 2)(torch.ones(4, 3))

# %% [markdown]
# ## Embedding
#
# A table of vectors and a lookup. The row at `padding_idx` starts at zero and gets no gradient; nothing else keeps it at zero.

# %%
#| into: nn/modules/sparse.py
#| imports
from __future__ import annotations


from collections.abc import Callable
from typing import Any, Self

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.autograd.grad_mode import no_grad
from readtorch.nn import functional as F
from readtorch.nn import init
from readtorch.nn.modules.module import Module
from readtorch.nn.parameter import Parameter


# %%
#| into: nn/modules/sparse.py
def _unusual(layer: Module, usual: dict[str, Any], shown: Callable[[Any], str] = str) -> list[str]:
    """The options of a layer that differ from the given values, as its repr shows them; None and False are told from zero."""
    found = {name: getattr(layer, name) for name in usual}
    return [
        f"{name}={shown(value)}"
        for name, value in found.items()
        if (value is not usual[name] if usual[name] in (None, False) else value != usual[name])
    ]


def _wrapped_padding_index(index: int | None, rows: int, name: str) -> int | None:
    if index is None:
        return None
    if index >= rows if index > 0 else index < -rows:
        raise AssertionError(f"{name} must be within num_embeddings")
    return index + rows if index < 0 else index


def _check_given_weight(weight: Tensor, rows: int, columns: int) -> Tensor:
    if list(weight.shape) != [rows, columns]:
        raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
    return weight


def _table_shape(embeddings: Tensor) -> tuple[int, int]:
    if embeddings.dim() != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
    rows, columns = embeddings.shape
    return rows, columns


# %%
#| into: nn/modules/sparse.py
#| upstream: torch/nn/modules/sparse.py#Embedding
class Embedding(Module):
    """A table `(num_embeddings, embedding_dim)`; integer indices `(*)` give `(*, embedding_dim)`.

    `padding_idx`: that row starts at zero and gets no gradient. `max_norm`: rows looked up are first scaled down, in
    place, to that `norm_type`-norm. `scale_grad_by_freq`: gradients are divided by how often an index occurs in the batch.
    `sparse`: the table's gradient lists the rows that were looked up. Raises AssertionError for a `padding_idx` outside the table.
    """

    weight: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _wrapped_padding_index(padding_idx, num_embeddings, "Padding_idx")
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        if _weight is None:
            table = torch.empty((num_embeddings, embedding_dim), device=device, dtype=dtype)
            self.weight = Parameter(table, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            table = _check_given_weight(_weight, num_embeddings, embedding_dim)
            self.weight = Parameter(table, requires_grad=not _freeze)
        self.sparse = sparse

    def reset_parameters(self) -> None:
        """N(0, 1), and zero at `padding_idx`."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        usual = {"padding_idx": None, "max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}
        shown = [f"{self.num_embeddings}, {self.embedding_dim}", *_unusual(self, usual)]
        return ", ".join(shown + ["sparse=True"] * (self.sparse is not False))

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """An embedding over a given table, frozen by default."""
        rows, columns = _table_shape(embeddings)
        return cls(
            num_embeddings=rows,
            embedding_dim=columns,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


# %%
#| into: nn/modules/sparse.py
#| upstream: torch/nn/modules/sparse.py#EmbeddingBag
class EmbeddingBag(Module):
    """Looks rows up and reduces them bag by bag (`mode` sum, mean or max) without keeping the rows.

    Input `(B, N)`: each row is a bag. Input `(L,)` with `offsets (B,)`: where each bag starts. Output `(B, embedding_dim)`.
    """

    weight: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = _wrapped_padding_index(padding_idx, num_embeddings, "padding_idx")
        if _weight is None:
            self.weight = Parameter(torch.empty((num_embeddings, embedding_dim), device=device, dtype=dtype))
            self.reset_parameters()
        else:
            self.weight = Parameter(_check_given_weight(_weight, num_embeddings, embedding_dim))
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def reset_parameters(self) -> None:
        """N(0, 1), and zero at `padding_idx`."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        before = _unusual(self, {"max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}, repr)
        after = _unusual(self, {"padding_idx": None}, repr)
        return ", ".join([f"{self.num_embeddings}, {self.embedding_dim}", *before, f"mode={self.mode!r}", *after])

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """A bag over a given table, frozen by default."""
        rows, columns = _table_shape(embeddings)
        bag = cls(
            num_embeddings=rows,
            embedding_dim=columns,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            _weight=embeddings,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag


# %%
#| claim: padding_idx zeroes a row once and shields it from gradients; assigning to the row sticks
def _(torch):
    table = torch.nn.Embedding(3, 2, padding_idx=0)
    assert table.weight[0].abs().sum() == 0
    with torch.no_grad():
        table.weight[0] = 5.0
    table(torch.tensor([0, 1])).sum().backward()
    assert table.weight[0, 0] == 5
    assert table.weight.grad[0].abs().sum() == 0 and table.weight.grad[1].sum() == 2


# %% [markdown]
# ## Flatten and Unflatten

# %%
#| into: nn/modules/flatten.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch._tensor import Tensor
from readtorch.nn.modules.module import Module


# %%
#| into: nn/modules/flatten.py
#| upstream: torch/nn/modules/flatten.py#Flatten
class Flatten(Module):
    """Dimensions `start_dim` to `end_dim` become one; by default all but the first."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


# %%
#| into: nn/modules/flatten.py
#| upstream: torch/nn/modules/flatten.py#Unflatten
class Unflatten(Module):
    """One dimension becomes several. Raises TypeError if `unflattened_size` is no tuple or list of integers."""

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        self._require_tuple_int(unflattened_size)
        self.dim = dim
        self.unflattened_size = unflattened_size

    def _require_tuple_int(self, input: Any) -> None:
        if not isinstance(input, tuple | list):
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {type(input).__name__}")
        for place, element in enumerate(input):
            if not isinstance(element, int):
                found = type(element).__name__
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {found} at pos {place}"
                )

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


# %% [markdown]
# ### A forward pass that writes
#
# With `max_norm` a lookup first scales the rows that are too long, in place, in the parameter itself, and below autograd: no gradient knows of it. So a forward pass under `no_grad`, for validation say, changes the model. And a weight that took part in the graph before the lookup (a tied output layer, a
# penalty on its norm) is found changed in backward. An index of -1 is no last row, as it would be between brackets, but an error.


# %%
#| claim: a lookup with max_norm changes the weight, which backward notices if the weight was used before; negative indices are refused
#| upstream: torch/nn/functional.py#embedding
def _(torch):
    table = torch.nn.Embedding(2, 2, max_norm=1.0)
    with torch.no_grad():
        table.weight.fill_(3)
        table(torch.tensor([1]))
    assert table.weight[0].tolist() == [3, 3] and abs(table.weight[1].norm().item() - 1) < 1e-5
    penalty = (table.weight * table.weight).sum()
    try:
        (penalty + table(torch.tensor([0])).sum()).backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        raise AssertionError("not noticed")
    try:
        table(torch.tensor([-1]))
    except IndexError as error:
        assert "index out of range in self" in str(error)
    else:
        raise AssertionError("found a last row")
