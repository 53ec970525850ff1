"""One call with many an `out=`: what the test of `out_calls.txt` runs on both libraries.

A *variant* names what is given: the right tensor, one of another dtype or shape, a view of an input. It is made from what upstream returns without `out=`.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from options import NAME, TOLERANCE, Tensors, plain

DTYPES = ("float64", "float16", "int64", "int32", "bool", "complex64", "float32")
FILL = 3  # what stands in `out` before the call


def call_with(program: str, given: str = "OUT") -> Any:
    """The call of `program` with one more keyword, compiled."""
    tree = ast.parse(program, mode="eval")
    assert isinstance(tree.body, ast.Call)
    tree.body.keywords.append(ast.keyword("out", ast.parse(given, mode="eval").body))
    return compile(ast.fix_missing_locations(tree), program, "eval")


def call_with_another(program: str) -> Any:
    """The call of `program` with `OUT` as one more positional argument."""
    tree = ast.parse(program, mode="eval")
    assert isinstance(tree.body, ast.Call)
    tree.body.args.append(ast.Name("OUT", ast.Load()))
    return compile(ast.fix_missing_locations(tree), program, "eval")


class Made:
    """What upstream returns for a call without `out=`: shapes and dtypes of one or more tensors."""

    def __init__(self, torch: Any, program: str) -> None:
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = eval(program, {}, Tensors(torch, False))
        self.several = isinstance(result, tuple | list)
        results = list(result) if self.several else [result]
        self.right = [plain(one) for one in results]
        self.outs = [(tuple(one.shape), str(one.dtype).removeprefix("torch.")) for one in results]


Maker = Callable[[Any, Tensors, Made], Any]


def _filled(t: Any, shape: Any, kind: str) -> Any:
    return t.full(tuple(shape), FILL, dtype=getattr(t, kind))


def _each(make: Callable[[Any, tuple[int, ...], str], Any]) -> Maker:
    """The variant whose every output is `make(torch, shape, dtype)`."""

    def maker(t: Any, names: Tensors, made: Made) -> Any:
        found = tuple(make(t, shape, kind) for shape, kind in made.outs)
        return found if made.several else found[0]

    return maker


def _turned(t: Any, shape: tuple[int, ...], kind: str) -> Any:
    return _filled(t, shape[::-1], kind).permute(*range(len(shape))[::-1]) if shape else _filled(t, shape, kind)


def _gaps(t: Any, shape: tuple[int, ...], kind: str) -> Any:
    return _filled(t, (*shape, 2), kind)[..., 0]


def _input(number: int, change: Callable[[Any], Any] = lambda x: x) -> Maker:
    """An input of the call, or a view of one, as the first output."""

    def maker(t: Any, names: Tensors, made: Made) -> Any:
        inputs = [names.made[name] for name in sorted(names.made)]
        tensor = change(inputs[number])
        if not made.several:
            return tensor
        return (tensor, *(_filled(t, shape, kind) for shape, kind in made.outs[1:]))

    return maker


def _shifted(tensor: Any) -> Any:
    """The tensor one element further, in the memory of which it is a part."""
    return tensor.as_strided(tuple(tensor.shape), tensor.stride(), tensor.storage_offset() + 1)


def _mark(t: Any, shape: tuple[int, ...], kind: str) -> Any:
    made = _filled(t, shape, kind)
    return made.requires_grad_() if made.is_floating_point() or made.is_complex() else made


def _wrong_kinds() -> dict[str, Maker]:
    out = _each(_filled)

    def first(t: Any, names: Tensors, made: Made) -> Any:
        found = out(t, names, made)
        return found[0] if made.several else found

    def same(t: Any, names: Tensors, made: Made) -> Any:
        return (first(t, names, made),) * len(made.outs)

    return {
        "None": lambda t, names, made: None,
        "number": lambda t, names, made: 3,
        "text": lambda t, names, made: "s",
        "array": lambda t, names, made: np.zeros(made.outs[0][0], "f4"),
        "()": lambda t, names, made: (),
        "(None,)": lambda t, names, made: (None,) * len(made.outs),
        "a tuple of one": lambda t, names, made: (first(t, names, made),),
        "a tuple of one more": lambda t, names, made: (first(t, names, made),) * (len(made.outs) + 1),
        "a list": lambda t, names, made: list(out(t, names, made)) if made.several else [first(t, names, made)],
        "one tensor": first,
        "one twice": same,
    }  # fmt: skip


VARIANTS: dict[str, Maker] = {
    "right": _each(_filled),
    **{f"as {kind}": _each(lambda t, shape, _, kind=kind: _filled(t, shape, kind)) for kind in DTYPES},
    **{f"first as {kind}": lambda t, names, made, kind=kind: (_filled(t, made.outs[0][0], kind), *_each(_filled)(t, names, made)[1:]) for kind in DTYPES},
    "empty as int64": _each(lambda t, shape, _: _filled(t, (0,), "int64")),
    "empty as float64": _each(lambda t, shape, _: _filled(t, (0,), "float64")),
    "longer": _each(lambda t, shape, kind: _filled(t, (7,), kind)),
    "flat": _each(lambda t, shape, kind: _filled(t, (int(np.prod(shape)),), kind)),
    "one row more": _each(lambda t, shape, kind: _filled(t, (1, *shape), kind)),
    "empty": _each(lambda t, shape, kind: _filled(t, (0,), kind)),
    "empty matrix": _each(lambda t, shape, kind: _filled(t, (0, 3), kind)),
    "turned": _each(_turned),
    "turned, longer": _each(lambda t, shape, kind: _turned(t, (4, 5), kind)),
    "gaps": _each(_gaps),
    "gaps, longer": _each(lambda t, shape, kind: _gaps(t, (7,), kind)),
    "expanded": _each(lambda t, shape, kind: _filled(t, (), kind).expand(shape)),
    "expanded, longer": _each(lambda t, shape, kind: _filled(t, (1,), kind).expand(7)),
    "an input": _input(0),
    "another input": _input(-1),
    "a view of an input": _input(0, lambda x: x.view(x.shape)),
    "an input, turned": _input(0, lambda x: x.transpose(0, -1) if x.ndim else x),
    "part of an input": _input(0, lambda x: x[:1] if x.ndim else x),
    "an input, shifted": _input(0, _shifted),
    "another input, shifted": _input(-1, _shifted),
    "requires grad": _each(_mark),
    "requires grad, no_grad": _each(_mark),
    "input requires grad": _each(_filled),
    "input requires grad, no_grad": _each(_filled),
    "autocast": _each(_filled),
    "meta": _each(lambda t, shape, kind: t.empty(shape, dtype=getattr(t, kind), device="meta")),
    "inference": _each(_filled),
    "positional": _each(_filled),
    **_wrong_kinds(),
}  # fmt: skip


#: here upstream writes past the end of its memory
UNSAFE = [
    ("linalg.svd(", "an input"),
    ("linalg.svd(", "another input"),
    ("linalg.svd(", "part of an input"),
    ("narrow_copy", "expanded"),
    ("pool", "expanded"),
]


def variants(program: str, made: Made) -> Iterator[str]:
    """Those that make sense for this call."""
    inputs = NAME.search(program) is not None
    for name in VARIANTS:
        if ("input" in name and not inputs) or ("first" in name and not made.several):
            continue
        if any(call in program and part in name for call, part in UNSAFE):
            continue
        yield name


def _room(torch: Any, names: Tensors, program: str) -> None:
    """Make the inputs, each a part of memory with one element more than it has."""
    for found in NAME.finditer(program):
        name = found[0]
        if name in names.made:
            continue
        tensor = names[name]
        base = torch.zeros(tensor.numel() + 2, dtype=tensor.dtype)
        view = base[: tensor.numel()].view(tuple(tensor.shape))
        view.copy_(tensor)
        names.made[name] = names[name] = view


def outcome(torch: Any, program: str, variant: str, made: Made) -> dict[str, Any]:
    """What comes of the call: the type of the error, or dtypes, shapes, strides and contents of the outputs, what was returned, and the warnings."""
    names = Tensors(torch, False)
    if "shifted" in variant:
        _room(torch, names, program)
    else:
        for found in NAME.finditer(program):
            names[found[0]]
    if variant.startswith("input requires grad"):
        for tensor in names.made.values():
            if tensor.is_floating_point() or tensor.is_complex():
                tensor.requires_grad_()
    out = VARIANTS[variant](torch, names, made)
    if variant == "inference":
        with torch.inference_mode():
            out = VARIANTS[variant](torch, names, made)
    outs = [one for one in (out if isinstance(out, tuple | list) else [out]) if hasattr(one, "requires_grad")]
    versions = [one._version for one in outs] if variant != "inference" else []
    names["OUT"] = out
    code = call_with_another(program) if variant == "positional" else call_with(program)
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if variant.endswith("no_grad"):
                with torch.no_grad():
                    result = eval(code, {}, names)
            elif variant == "autocast":
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    result = eval(code, {}, names)
            else:
                result = eval(code, {}, names)
        except Exception as error:
            return {"error": type(error).__name__, "text": str(error), "variant": variant}
    results = list(result) if isinstance(result, tuple | list) else [result]
    return {
        "variant": variant,
        "outs": outs,
        "inputs": [names.made[name] for name in sorted(names.made)],
        "returned": [next((i for i, o in enumerate(outs) if o is one), "another") for one in results],
        "kind": type(result).__name__,
        "graph": [one.grad_fn is not None for one in outs],
        "bumped": [one._version > before for one, before in zip(outs, versions, strict=False)],
        "resizes": sum("was resized" in str(one.message) for one in caught),
    }


REFUSED = (
    "unsupported operation",
    "output with shape",
    "out tensor",
    "output tensor",
    "result type",
    "cast",
    "dtype",
    "requires grad",
)


def _reads_what_it_wrote(theirs: dict[str, Any], ours: dict[str, Any], made: Made) -> bool:
    """An operand, or a part of one, was `out`, and upstream resized or overwrote it before it had been read; here is the result of the call without `out`."""
    variant = theirs["variant"]
    if "grad" in variant or not ("input" in variant or variant in ("expanded", "one twice")) or "error" in ours:
        return False
    if "error" in theirs:
        return not any(word in theirs["text"] for word in REFUSED)
    first = ours["outs"][-1 if variant == "one twice" else 0]
    if variant in ("expanded", "one twice"):
        return tuple(first.shape) == tuple(theirs["outs"][0].shape)
    right = made.right[0]
    return tuple(first.shape) == right.shape and np.allclose(plain(first), right, 1e-3, 1e-3, equal_nan=True)


def fault(theirs: dict[str, Any], ours: dict[str, Any], made: Made) -> str:
    """How the two outcomes differ; nothing if they do not."""
    if _reads_what_it_wrote(theirs, ours, made):
        return ""
    computed = max(TOLERANCE.get(kind, 0) for _, kind in made.outs)
    if "error" in theirs or "error" in ours:
        a, b = theirs.get("error"), ours.get("error")
        if a == b:
            return ""
        return f"{b or 'done'} where upstream has {a or 'done'}"
    for what in ("returned", "kind", "graph", "bumped", "resizes"):
        if theirs[what] != ours[what]:
            return f"{what} {ours[what]} where upstream has {theirs[what]}"
    for kind in ("outs", "inputs"):
        for number, (a, b) in enumerate(zip(theirs[kind], ours[kind], strict=True)):
            for what in ("dtype", "shape", "stride", "device"):
                x, y = (str(tuple(one.shape) if what == "shape" else one.stride() if what == "stride" else getattr(one, what)) for one in (a, b))  # fmt: skip
                if x != y:
                    return f"{kind[:-1]} {number}: {what} {y} where upstream has {x}"
            if a.is_meta:
                continue
            tolerance = TOLERANCE.get(str(a.dtype).removeprefix("torch."), 0)
            tolerance = max(tolerance, computed) if tolerance else 0
            x, y = plain(a), plain(b)
            if not np.allclose(y, x, tolerance, tolerance, equal_nan=True):
                return f"{kind[:-1]} {number}: holds {y.tolist()} where upstream has {x.tolist()}"
    return ""
