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
# # Members of a model by their path, and weights in another order
#
# Reference: what `functional_call` and `torch.func` are made of upstream, and two functions that turn the memory of convolutions around.

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %% [markdown]
# ## `NamedMemberAccessor`
#
# Exchange the tensors of a model for others, call it, and put them back: by paths (`"0.weight"`), many at once, all or none. A path is walked once; the modules on it are remembered.

# %%
#| into: nn/utils/_named_member_accessor.py
#| imports
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from readtorch import Tensor
from readtorch.nn.modules.module import Module


# %%
#| into: nn/utils/_named_member_accessor.py
#| upstream: torch/nn/utils/_named_member_accessor.py#swap_tensor
_MISSING: Any = object()
"""In the place of a tensor: there is none, or there is to be none."""


def _check(kind: str, module: Any, name: str) -> None:
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain "."')
    if not name:
        raise KeyError(f'{kind} name can\'t be empty string ""')


def _check_tensor(value: Any, about: str = "") -> None:
    if value is not None and not isinstance(value, Tensor):
        raise TypeError(f"{about}{value} is not an instance of torch.Tensor")


def _table(module: Module, name: str) -> dict[str, Any] | None:
    """Where a module keeps that parameter or buffer; None for what is a plain attribute."""
    return next((table for table in (module._parameters, module._buffers) if name in table), None)


def set_tensor(module: Module, name: str, tensor: Any) -> None:
    """Put a tensor in the place of a parameter, buffer or attribute, without asking what kind it is."""
    _check("tensor", module, name)
    _check_tensor(tensor)
    table = _table(module, name)
    if table is None:
        setattr(module, name, tensor)
    else:
        table[name] = tensor


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """`set_tensor`; returns what was there. AttributeError if nothing was, unless `allow_missing`."""
    _check("tensor", module, name)
    if tensor is not _MISSING:
        _check_tensor(tensor)
    table = _table(module, name)
    before = table[name] if table is not None else getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if before is not _MISSING:
        _check_tensor(before, f"attribute `{name}`: ")
    if tensor is not _MISSING:
        set_tensor(module, name, tensor)
    elif table is not None:
        del table[name]
    elif before is not _MISSING:
        delattr(module, name)
    return before


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Put a module in the place of a child; returns the child. KeyError if there is none of that name."""
    _check("submodule", module, name)
    if not isinstance(submodule, Module):
        raise TypeError(f"{submodule} is not an instance of torch.nn.Module")
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    before = module._modules[name]
    if not isinstance(before, Module):
        raise TypeError(f"{name} attribute is not an instance of torch.nn.Module")
    module._modules[name] = submodule
    return before


# %%
#| into: nn/utils/_named_member_accessor.py
#| upstream: torch/nn/utils/_named_member_accessor.py#NamedMemberAccessor
class NamedMemberAccessor:
    """The tensors and modules of a model by their paths."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.memo: dict[str, Module] = {}

    def get_submodule(self, name: str) -> Module:
        """The module at a path; the model itself for none. AttributeError if there is none, TypeError if it is something else."""
        if not name:
            return self.module
        if name not in self.memo:
            owner, attribute = self._owner(name)
            found = getattr(owner, attribute, _MISSING)
            if found is _MISSING:
                raise AttributeError(f"{owner._get_name()} has no attribute `{attribute}`")
            if not isinstance(found, Module):
                raise TypeError(f"submodule `{name}`: {found} is not an instance of torch.nn.Module")
            self.memo[name] = found
        return self.memo[name]

    def _owner(self, path: str) -> tuple[Module, str]:
        prefix, _, attribute = path.rpartition(".")
        return self.get_submodule(prefix), attribute

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Exchange a module; returns the one that was there."""
        owner, attribute = self._owner(path)
        return swap_submodule(owner, attribute, value)

    def get_tensor(self, name: str) -> Any:
        """The tensor at a path. AttributeError if there is nothing, TypeError if it is something else."""
        owner, attribute = self._owner(name)
        found = getattr(owner, attribute, _MISSING)
        if found is _MISSING:
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        _check_tensor(found)
        return found

    def set_tensor(self, name: str, value: Any) -> None:
        """Put a tensor at a path."""
        owner, attribute = self._owner(name)
        set_tensor(owner, attribute, value)

    def del_tensor(self, name: str) -> None:
        """Take away the tensor at a path."""
        owner, attribute = self._owner(name)
        if not hasattr(owner, attribute):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        delattr(owner, attribute)

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        """Put a tensor at a path; returns what was there."""
        owner, attribute = self._owner(name)
        return swap_tensor(owner, attribute, value, allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        """The tensors at these paths."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Any]) -> None:
        """Put tensors at these paths."""
        for name, value in _pairs(names, values):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Any]) -> None:
        """Put tensors at the paths that are the keys."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names: Iterable[str]) -> None:
        """Take away the tensors at these paths."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names: Iterable[str], values: Iterable[Any], allow_missing: bool = False) -> list[Any]:
        """Put tensors at these paths; returns what was there."""
        return [self.swap_tensor(name, value, allow_missing) for name, value in _pairs(names, values)]

    def swap_tensors_dict(
        self, named_tensors: dict[str, Any], allow_missing: bool = False
    ) -> tuple[dict[str, Any], list[str]]:
        """Put tensors at the paths that are the keys; returns what was there, and the paths with nothing.

        If one cannot be put, or is missing and may not be, all that was exchanged is put back before the error is raised.
        """
        before: dict[str, Any] = {}
        try:
            for name, tensor in named_tensors.items():
                before[name] = self.swap_tensor(name, tensor, allow_missing=True)
            missing = [name for name, value in before.items() if value is _MISSING]
            if missing and not allow_missing:
                raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        except Exception:
            for name, value in before.items():
                self.swap_tensor(name, value, allow_missing=True)
            raise
        return before, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """The model's paths that are not among the keys, and the keys that are no paths of the model."""
        given, there = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(there - given), sorted(given - there)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """The model's parameters by their paths."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """The model's buffers by their paths."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """Parameters, then buffers."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """The model and all modules in it."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)


def _pairs(names: Iterable[str], values: Iterable[Any]) -> list[tuple[str, Any]]:
    names, values = list(names), list(values)
    if len(names) != len(values):
        raise AssertionError(f"names and values must have the same length, got {len(names)} and {len(values)}")
    return list(zip(names, values, strict=True))


# %%
#| claim: an exchange of tensors is undone if one of them has no place
#| upstream: torch/nn/utils/_named_member_accessor.py#NamedMemberAccessor.swap_tensors_dict
def _(torch):
    import importlib

    accessor = importlib.import_module(f"{torch.__name__}.nn.utils._named_member_accessor").NamedMemberAccessor
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    weight = model[0].weight
    try:
        accessor(model).swap_tensors_dict({"0.weight": torch.ones(2, 2), "0.other": torch.ones(1)})
    except RuntimeError as error:
        assert "Missing key(s): '0.other'" in str(error)
    else:
        raise AssertionError("put")
    assert model[0].weight is weight and not hasattr(model[0], "other")
    before, missing = accessor(model).swap_tensors_dict({"0.weight": torch.zeros(2, 2)})
    assert before["0.weight"] is weight and missing == [] and model(torch.ones(1, 2)).equal(model[0].bias[None])


# %% [markdown]
# ## The memory of convolutions' weights
#
# A convolution in `channels_last` reads its weight in that order. The functions turn the weights of all convolutions of a model around, and leave everything else as it is.

# %%
#| into: nn/utils/memory_format.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d


# %%
#| into: nn/utils/memory_format.py
#| upstream: torch/nn/utils/memory_format.py#convert_conv2d_weight_memory_format
__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Any, kinds: Any, memory_format: Any) -> Any:
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Give the weights of all `Conv2d` and `ConvTranspose2d` in `module` this order in memory; returns `module`."""
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Give the weights of all `Conv3d` and `ConvTranspose3d` in `module` this order in memory; returns `module`."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)


# %%
#| into: nn/utils/__init__.py
from readtorch.nn.utils.memory_format import convert_conv2d_weight_memory_format as convert_conv2d_weight_memory_format
from readtorch.nn.utils.memory_format import convert_conv3d_weight_memory_format as convert_conv3d_weight_memory_format


# %%
#| claim: only the weights of convolutions of two dimensions are turned around
#| upstream: torch/nn/utils/memory_format.py#convert_conv2d_weight_memory_format
def _(torch):
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.Conv1d(2, 3, 3), torch.nn.Conv2d(2, 3, 3))
    values = [layer.weight.detach().clone() for layer in model]
    assert torch.nn.utils.convert_conv2d_weight_memory_format(model, torch.channels_last) is model
    assert [layer.weight.stride() for layer in model] == [(18, 1, 6, 2), (6, 3, 1), (18, 1, 6, 2)]
    assert all(layer.weight.equal(value) for layer, value in zip(model, values))


# %% [markdown]
# ## Which form has a checkpoint of a spectral norm?
#
# Before PyTorch 1.0 the old `spectral_norm` saved the normed weight and `u`, and no `v`. Its two hooks write a version into the metadata of a `state_dict`, and make a checkpoint without one whole: they solve for the `v` that gives this `u` and this scale.


# %%
#| into: nn/utils/spectral_norm.py
#| upstream: torch/nn/utils/spectral_norm.py#SpectralNormStateDictHook
class SpectralNormStateDictHook:
    """Notes the version of the hook's form in a `state_dict`'s metadata."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]) -> None:
        noted, key = local_metadata.setdefault("spectral_norm", {}), f"{self.fn.name}.version"
        if key in noted:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        noted[key] = self.fn._version


class SpectralNormLoadStateDictPreHook:
    """Gives a checkpoint of the first form, with the weight and without `v`, its `v`."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version = local_metadata.get("spectral_norm", {}).get(f"{self.fn.name}.version")
        if version is not None and version >= 1:
            return
        key = prefix + self.fn.name
        whole = all(key + suffix in state_dict for suffix in ("_orig", "_u", "_v"))
        if version is None and whole and key not in state_dict:
            return  # of today's form, by somebody who did not write the metadata
        absent = [key + suffix for suffix in ("_orig", "", "_u") if key + suffix not in state_dict]
        if absent:
            missing_keys.extend(absent if strict else [])
            return
        with no_grad():
            weight, original = state_dict.pop(key), state_dict[key + "_orig"]
            matrix, u = self.fn.reshape_weight_to_matrix(original), state_dict[key + "_u"]
            v = torch.linalg.pinv(matrix.t() @ matrix) @ (matrix.t() @ u)
            state_dict[key + "_v"] = v * ((original / weight).mean() / torch.dot(u, matrix @ v))


# %%
#| claim: a checkpoint of a spectral norm tells its version, and one of the first form is completed
#| upstream: torch/nn/utils/spectral_norm.py#SpectralNormLoadStateDictPreHook
def _(torch):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        layer = torch.nn.utils.spectral_norm(torch.nn.Linear(3, 4))
        layer(torch.ones(1, 3))
        saved = layer.state_dict()
        assert saved._metadata[""]["spectral_norm"] == {"weight.version": 1}
        v = saved.pop("weight_v").clone()
        saved["weight"] = layer.weight.detach()
        del saved._metadata[""]["spectral_norm"]
        torch.nn.init.zeros_(layer.weight_v)
        layer.load_state_dict(saved)
        assert torch.allclose(layer.weight_v, v, atol=1e-4)


# %% [markdown]
# ## Matrices by groups
#
# `grouped_mm` multiplies many pairs of matrices whose sizes differ in one dimension: the tokens of each expert with that expert's weights. `offs` says where each group ends. Upstream's kernel takes bfloat16 on a GPU of some age and falls back to a loop elsewhere; this is the loop. Its relatives with scales
# (`scaled_mm`, `scaled_grouped_mm`) need numbers of eight bits.


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#assert_int_or_pair
def assert_int_or_pair(arg: Any, arg_name: str, message: str) -> None:
    """AssertionError with `message`, into which the name is put, unless `arg` is a number or has two elements."""
    if not (isinstance(arg, int) or len(arg) == 2):
        raise AssertionError(message.format(arg_name))


# %%
#| into: nn/functional.py
#| imports
import enum
import itertools


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#grouped_mm
def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """Products of pairs of matrices: (G, M, K) · (G, K, N); or (M, K) · (G, K, N), (G, M, K) · (K, N) and (M, K) · (K, N), where
    `offs`, int32, says at which row of M, column of N, or place of K each of the G groups ends.

    Rows and columns after the last group are zero. RuntimeError for other dtypes than float32, bfloat16 and float16, for
    matrices whose rows (or columns) do not begin at multiples of 16 bytes, and where sizes do not fit.
    """
    for name, matrix in (("mat_a", mat_a), ("mat_b", mat_b)):
        if str(matrix.dtype).removeprefix("torch.") not in ("float32", "bfloat16", "float16"):
            raise RuntimeError(f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {matrix.dtype}")
        if matrix.dim() not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    flat = mat_a.dim() == 2, mat_b.dim() == 2
    if not all(flat) and mat_a.size(-1) != mat_b.size(-2):
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    for matrix in (mat_a, mat_b):
        first, second = (step * matrix.element_size() for step in matrix.stride()[-2:])
        inner, outer = sorted((first, second))
        if inner != matrix.element_size() or outer % 16:
            raise RuntimeError("strides should be multiple of 16 bytes")
    if (offs is None) == any(flat):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype != mat_a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    if offs is None:
        if mat_a.size(0) != mat_b.size(0):
            raise RuntimeError("batched dimension has to match")
        return torch.bmm(mat_a, mat_b)
    if offs.dim() != 1:
        raise RuntimeError("offs has to be 1D")
    if offs.dtype != torch.int32:
        raise RuntimeError("Offsets have to be int32")
    if any(not is_flat and matrix.size(0) != len(offs) for is_flat, matrix in zip(flat, (mat_a, mat_b), strict=True)):
        raise RuntimeError("matrix batch sizes have to match")
    return _grouped(mat_a, mat_b, [0, *offs.tolist()], *flat)


def _grouped(mat_a: Tensor, mat_b: Tensor, ends: list[int], a_is_flat: bool, b_is_flat: bool) -> Tensor:
    spans = [slice(start, max(start, end)) for start, end in itertools.pairwise(ends)]
    if a_is_flat and b_is_flat:
        return torch.stack([mat_a[:, span] @ mat_b[span] for span in spans])
    if a_is_flat:
        parts = [mat_a[span] @ mat_b[number] for number, span in enumerate(spans)]
        parts.append(mat_a.new_zeros(max(mat_a.size(0) - ends[-1], 0), mat_b.size(-1)))
        return torch.cat(parts)
    parts = [mat_a[number] @ mat_b[:, span] for number, span in enumerate(spans)]
    parts.append(mat_a.new_zeros(mat_a.size(1), max(mat_b.size(-1) - ends[-1], 0)))
    return torch.cat(parts, 1)


class ScalingType(enum.Enum):
    """What one scale of `scaled_mm` belongs to."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.Enum):
    """In which order the scales of `scaled_mm` lie."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def _are_recipes(*recipes: Any) -> None:
    """AttributeError, as upstream's, for what is no `ScalingType` and no list of them."""
    for recipe in recipes:
        for kind in recipe if isinstance(recipe, list) else [recipe]:
            if not hasattr(kind, "value"):
                raise AttributeError(f"'{type(kind).__name__}' object has no attribute 'value'")


def scaled_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Any,
    scale_recipe_a: Any,
    scale_b: Any,
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: Tensor | None = None,
    output_dtype: Any = torch.bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """ValueError: it multiplies numbers of eight bits, and there are no dtypes of them here."""
    _are_recipes(scale_recipe_a, scale_recipe_b)
    raise ValueError(
        f"Invalid scaling configuration: a and b should be float8 or float4, and are {mat_a.dtype} and {mat_b.dtype}"
    )


def scaled_grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Any,
    scale_recipe_a: Any,
    scale_b: Any,
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: Tensor | None = None,
    offs: Tensor | None = None,
    output_dtype: Any = torch.bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """NotImplementedError: there is a kernel for GPUs only, and there are no dtypes of eight bits here."""
    _are_recipes(scale_recipe_a, scale_recipe_b)
    raise NotImplementedError("Could not run 'aten::_scaled_grouped_mm_v2' with arguments from the 'CPU' backend.")


# %%
#| claim: a product by groups is the products of the groups
#| upstream: torch/nn/functional.py#grouped_mm
def _(torch):
    rows, experts = torch.arange(20.0).reshape(5, 4), torch.arange(32.0).reshape(2, 4, 4)
    made = torch.nn.functional.grouped_mm(rows, experts, offs=torch.tensor([2, 5], dtype=torch.int32))
    assert made.equal(torch.cat([rows[:2] @ experts[0], rows[2:] @ experts[1]]))
