# Tangled from chapters/01_import/8b_neighbours.py — edit there, or here and run `readtorch sync`.
"""Nests of containers, taken apart into leaves and put together again (twin of `torch/utils/_pytree.py`)."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple


class NodeDef(NamedTuple):
    """How one type of container is taken apart (children, context) and made of children and context."""

    type: type[Any]
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]


SUPPORTED_NODES: dict[type[Any], NodeDef] = {}


def register_pytree_node(
    cls: type[Any], flatten_fn: Callable[..., Any], unflatten_fn: Callable[..., Any], **_: Any
) -> None:
    """Let `cls` be a container. ValueError if it is one already."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)


register_pytree_node(tuple, lambda nest: (list(nest), None), lambda children, _: tuple(children))
register_pytree_node(list, lambda nest: (list(nest), None), lambda children, _: list(children))
for _kind in (dict, OrderedDict):
    register_pytree_node(
        _kind,
        lambda nest: (list(nest.values()), list(nest)),
        lambda children, keys, kind=_kind: kind(zip(keys, children, strict=True)),
    )
register_pytree_node(
    defaultdict,
    lambda nest: (list(nest.values()), (nest.default_factory, list(nest))),
    lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
)
register_pytree_node(
    deque, lambda nest: (list(nest), nest.maxlen), lambda children, maxlen: deque(children, maxlen=maxlen)
)


def _kind_of(tree: Any) -> type[Any]:
    """Tuples with named items are tuples: those of `collections` and `typing`, and what operators with several results return."""
    return tuple if isinstance(tree, tuple) and (hasattr(tree, "_fields") or hasattr(tree, "n_fields")) else type(tree)


class TreeSpec:
    """A nest without its leaves. `type` is None for a leaf."""

    def __init__(
        self, type: type[Any] | None, context: Any = None, children_specs: list[TreeSpec] | None = None
    ) -> None:
        self.type, self.context, self.children_specs = type, context, children_specs or []
        self.num_leaves: int = 1 if type is None else sum(child.num_leaves for child in self.children_specs)

    def is_leaf(self) -> bool:
        """Whether it stands for one leaf."""
        return self.type is None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and (self.type, self.context, self.children_specs) == (
            other.type,
            other.context,
            other.children_specs,
        )

    __hash__ = None  # type: ignore[assignment]  # what Python itself writes for a class with __eq__ alone

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.context}, {self.children_specs})"

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The nest with these leaves. ValueError for another number of them."""
        given = list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(given)} but the spec holds {self.num_leaves}"
            )
        return self._built(iter(given))

    def _built(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        children = [child._built(leaves) for child in self.children_specs]
        if hasattr(self.type, "_fields"):
            return self.type(*children)
        if hasattr(self.type, "n_fields"):
            return self.type(children)
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """What stands in `tree` where this has leaves. ValueError for a nest of another form."""
        if self.type is None:
            return [tree]
        if type(tree) is not self.type:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = SUPPORTED_NODES[_kind_of(tree)].flatten_fn(tree)
        if self.type in (dict, OrderedDict) and set(context) == set(self.context):
            children, context = [tree[key] for key in self.context], self.context
        if len(children) != len(self.children_specs) or context != self.context:
            raise ValueError(f"Node arity or context mismatch; expected {self!r}, but got {tree!r}.")
        return [
            leaf
            for spec, child in zip(self.children_specs, children, strict=True)
            for leaf in spec.flatten_up_to(child)
        ]


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, from left to right, and what is left without them. `is_leaf` may stop at a container."""
    leaves: list[Any] = []
    return leaves, _flatten_into(leaves, tree, is_leaf)


def _flatten_into(leaves: list[Any], tree: Any, is_leaf: Callable[[Any], bool] | None) -> TreeSpec:
    node = SUPPORTED_NODES.get(_kind_of(tree))
    if node is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return TreeSpec(None)
    children, context = node.flatten_fn(tree)
    return TreeSpec(type(tree), context, [_flatten_into(leaves, child, is_leaf) for child in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The nest again."""
    return treespec.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves alone."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """What is left without the leaves."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """A nest of the same form, of `func` of each leaf, and of what stands in its place in each of `rests`."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *(spec.flatten_up_to(rest) for rest in rests)))


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """`tree_map` for the leaves of a type, or of several, or those of which a function says yes; the others stay."""
    wanted = type_or_types_or_pred
    chosen = wanted if callable(wanted) and not isinstance(wanted, type) else lambda leaf: isinstance(leaf, wanted)
    return tree_map(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether all leaves are such."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether one leaf is such."""
    return any(map(pred, tree_leaves(tree, is_leaf)))
