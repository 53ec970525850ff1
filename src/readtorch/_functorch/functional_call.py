# Tangled from chapters/02_module/, chapters/a2_layers/ — edit there, or here and run `readtorch sync`.
"""Calling a module with other tensors in place of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from readtorch import stack

if TYPE_CHECKING:
    from readtorch import Tensor, nn


def functional_call(
    module: nn.Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with the given tensors in place of the parameters and buffers of those names; the module is unchanged.

    `tie_weights`: a tensor given for one name of a shared parameter stands for all its names. `strict`: all names must be
    given, and no others. ValueError for a name in two dicts, RuntimeError for what `strict` forbids.
    """
    given = _merge(parameter_and_buffer_dicts)
    own: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    own.update(module.named_buffers(remove_duplicate=False))
    if strict:
        _check_names(module, given, own)
    if tie_weights:
        given = _tie(given, own)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _swapped(module, given):
        return module(*arguments, **({} if kwargs is None else kwargs))


def _merge(dicts: Any) -> dict[str, Tensor]:
    if isinstance(dicts, dict):
        return dict(dicts)
    if not isinstance(dicts, Sequence):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or several in a list or tuple, not {type(dicts)}"
        )
    if not all(isinstance(each, dict) for each in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    repeated = [key for key, count in Counter(key for each in dicts for key in each).items() if count > 1]
    if repeated:
        raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {key: value for each in dicts for key, value in each.items()}


def _check_names(module: nn.Module, given: dict[str, Tensor], own: dict[str, Tensor]) -> None:
    missing, unexpected = sorted(own.keys() - given.keys()), sorted(given.keys() - own.keys())
    if missing or unexpected:
        parts = [
            f"{what} key(s): {', '.join(map(repr, names))}."
            for what, names in (("Unexpected", unexpected), ("Missing", missing))
            if names
        ]
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(parts))


def _tie(given: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """`given` with every other name of a shared tensor added."""
    names_of: dict[int, list[str]] = {}
    for name, tensor in own.items():
        names_of.setdefault(id(tensor), []).append(name)
    tied = dict(given)
    for names in names_of.values():
        values = {id(given[name]): given[name] for name in names if name in given}
        if len(values) > 1:
            raise ValueError(f"functional_call got values for both {names[0]} and {names[1]}, which are tied")
        for name in names if values else ():
            tied[name] = next(iter(values.values()))
    return tied


@contextmanager
def _swapped(module: nn.Module, given: dict[str, Tensor]) -> Iterator[None]:
    """The tensors of `given` in place of the module's own, for a block."""
    replaced: list[tuple[Any, str, Any]] = []
    try:
        for path, tensor in given.items():
            owner_path, _, name = path.rpartition(".")
            _check_pair(name, tensor)
            owner = module.get_submodule(owner_path)
            home = _home(owner, name)
            if home is owner:
                replaced.append((owner, name, getattr(owner, name)))
                setattr(owner, name, tensor)
            else:
                replaced.append((home, name, home.get(name, _MISSING)))
                home[name] = tensor
        yield
    finally:
        for home, name, original in reversed(replaced):
            if not isinstance(home, dict):
                setattr(home, name, original)
            elif original is _MISSING:
                del home[name]
            else:
                home[name] = original


_MISSING: Any = object()


def _check_pair(name: str, tensor: Any) -> None:
    from readtorch import Tensor

    if not name:
        raise KeyError("tensor name can't be empty")
    if tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"`{name}` stands for a tensor: {tensor!r} is not an instance of torch.Tensor")


def _home(owner: nn.Module, name: str) -> Any:
    """The dictionary a name is lent in; plain attributes are lent too. The module itself where its class computes the attribute.

    TypeError for an attribute that is no tensor.
    """
    from readtorch import Tensor

    for table in (owner._parameters, owner._buffers):
        if name in table:
            return table
    present = getattr(owner, name, _MISSING)
    if present is not _MISSING and not isinstance(present, Tensor):
        raise TypeError(
            f"attribute `{name}` of {type(owner).__name__} cannot be exchanged: it is not an instance of torch.Tensor"
        )
    return owner if hasattr(getattr(type(owner), name, None), "__set__") else vars(owner)


def construct_stacked_leaf(tensors: Sequence[Tensor], name: str) -> Tensor:
    """One leaf of the same parameter of many models. RuntimeError if only some of them are trained."""
    trained = {tensor.requires_grad for tensor in tensors}
    if len(trained) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    joined = stack(tuple(tensors))
    return joined.detach().requires_grad_() if True in trained else joined


def stack_module_state(models: Sequence[nn.Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of models of one kind, stacked by name: what an ensemble is vectorized over."""
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(tables: list[dict[str, Tensor]]) -> dict[str, Any]:
        together = {}
        for name, first in tables[0].items():
            tensors = [table[name] for table in tables]
            joined = stack([tensor.detach() for tensor in tensors])
            together[name] = joined.requires_grad_(first.requires_grad)
        return together

    parameters = stacked([dict(model.named_parameters()) for model in models])
    return parameters, stacked([dict(model.named_buffers()) for model in models])
