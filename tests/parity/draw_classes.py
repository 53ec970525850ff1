"""Constructors and methods of classes with odd and wrong arguments, drawn at random, run in both libraries and compared.

    python tests/parity/draw_classes.py --seed 1 --count 20000 [--only nn.Conv] [--show 30] [--kind accepts]

`class_scenes.txt` holds what is drawn from: the first call of a line makes `m`, the others use it. A draw changes nought to two of a scene's arguments.
After each step the two sides are described: what was made (its printed form, its settings, the names and kinds of its state), or the error.
The first step that differs gives the draw's kind:

* `leak`: refused here in words of NumPy or of plain Python, where upstream says what is wrong
* `crash`: the process died or did not end here alone
* `accepts`, `refuses`: one side refuses what the other takes
* `errtype`: both refuse it, with different types of error
* `value`: both take it, to different ends
* `warning`: the same, with other warnings

The same seed and count give the same draws. Upstream's own crashes are not counted.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import copy
import importlib
import inspect
import os
import pickle
import random
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from played_scenes import played, setting

LINES = (Path(__file__).parent / "class_scenes.txt").read_text(encoding="utf-8").splitlines()
SCENES = [line.split(" -> ") for line in LINES if line and line[0] not in "#@"]
POOLS = {line.split()[0][1:]: line.split()[1:] for line in LINES if line.startswith("@")}
"""What may stand in an argument's place, by kind and by name."""
LEAK = re.compile(
    r"ufunc|numpy(?!\()|ndarray|_array'|could not be broadcast|cannot reshape array|inhomogeneous|has no attribute|unsupported operand|not supported between"
    r"|object is not (iterable|callable|subscriptable|an iterator)|to unpack|cannot be interpreted as an integer|has no len\(\)|must be real number"
    r"|index out of range|could not convert|bad operand|argument of type|math domain|division by zero|float modulo|indices must be|positional arguments? but"
    r"|unexpected keyword|required positional|cannot convert float|Maximum allowed|negative dimensions|sequence item|unhashable|array is too big"
)
"""Words of NumPy's, or of an operation that met what it was never meant to meet."""

KINDS = ("float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64")
ALIKE = {"dtype": "TYPES", "device": "PLACES", "params": "PARAMS", "parameters": "PARAMS"}


def options(node: ast.expr, name: str | None) -> list[str]:
    """What may stand in an argument's place."""
    if name and (own := POOLS.get(ALIKE.get(name, name))):
        return own
    pool, shown = POOLS["POOL"], ast.unparse(node)
    if isinstance(node, ast.Constant):
        kinds = {bool: "FLAGS", int: "SIZES", float: "RATES", str: "WORDS"}
        return [*POOLS[kinds.get(type(node.value), "POOL")], *pool[:4]]
    if isinstance(node, ast.Tuple | ast.UnaryOp):
        return POOLS["SIZES"]
    if isinstance(node, ast.Lambda):
        return POOLS["CALLABLES"]
    if "P" in shown and isinstance(node, ast.List | ast.Call):
        return POOLS["PARAMS"]
    return POOLS["TENSORS"] + pool if isinstance(node, ast.Name | ast.Call | ast.BinOp) else pool


def other_input(node: ast.Call, rng: random.Random) -> ast.expr:
    """Another rank, size or dtype of `x(2, 3)`, or something else in its place."""
    other = copy.deepcopy(node)
    move = rng.choice(["drop", "add", "size", "empty", "dtype", "dtype", "grad", "else", "else"])
    if move == "else" or (not other.args and move in ("drop", "size", "empty")):
        return ast.parse(rng.choice(POOLS["TENSORS"]), mode="eval").body
    if move == "drop":
        del other.args[rng.randrange(len(other.args))]
    elif move == "add":
        other.args.insert(rng.randint(0, len(other.args)), ast.Constant(rng.choice([0, 1, 2])))
    elif move in ("size", "empty"):
        other.args[rng.randrange(len(other.args))] = ast.Constant(0 if move == "empty" else rng.choice([1, 2, 3, 5]))
    elif move == "grad":
        other.keywords.append(ast.keyword("requires_grad", ast.Constant(True)))
    else:
        other.keywords.append(ast.keyword("dtype", ast.parse(f"torch.{rng.choice(KINDS)}", mode="eval").body))
    return other


def is_input(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("x", "ints", "bools")


def signature(func: ast.expr, names: dict[str, Any]) -> list[str]:
    """The names of a callable's parameters, where it is known without running anything."""
    try:
        made = eval(ast.unparse(func), dict(names))
        return [name for name, p in inspect.signature(made).parameters.items() if p.kind.name[:3] not in ("VAR",)]
    except (AttributeError, NameError, TypeError, ValueError):
        return []


def changed(statement: str, names: dict[str, Any], rng: random.Random) -> str:
    """The statement with one argument changed, added, dropped or moved."""
    tree = ast.parse(statement, mode="eval")
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and not is_input(n)]
    if not calls:
        return statement
    call = calls[0] if rng.random() < 0.7 else rng.choice(calls)
    known = signature(call.func, names)
    places = [(call.args, i) for i in range(len(call.args))] + [(call.keywords, i) for i in range(len(call.keywords))]
    move = rng.choices(["replace", "add", "drop", "extra", "unknown"], [12, 4, 1, 1, 0.5])[0]
    free = [name for name in known[len(call.args) :] if name not in {k.arg for k in call.keywords}]
    if move == "add" and free:
        name = rng.choice(free)
        call.keywords.append(
            ast.keyword(name, ast.parse(rng.choice(POOLS.get(ALIKE.get(name, name), POOLS["POOL"])), mode="eval").body)
        )
    elif move == "drop" and places:
        held, i = rng.choice(places)
        del held[i]
    elif move == "extra":
        call.args.append(ast.parse(rng.choice(POOLS["POOL"]), mode="eval").body)
    elif move == "unknown":
        call.keywords.append(ast.keyword("foo", ast.Constant(1)))
    elif places:
        held, i = rng.choice(places)
        old = held[i].value if isinstance(held[i], ast.keyword) else held[i]
        name = held[i].arg if isinstance(held[i], ast.keyword) else known[i] if i < len(known) else None
        new = other_input(old, rng) if is_input(old) else ast.parse(rng.choice(options(old, name)), mode="eval").body
        if isinstance(held[i], ast.keyword):
            held[i].value = new
        else:
            held[i] = new
    return ast.unparse(tree)


def draws(seed: int, count: int, only: str) -> Iterator[list[str]]:
    """Scenes with nought to two arguments changed."""
    rng = random.Random(seed)
    names = setting(importlib.import_module("torch"))
    scenes = [scene for scene in SCENES if only in scene[0]]
    for _ in range(count):
        scene = list(rng.choice(scenes))
        for _ in range(rng.choices([0, 1, 2], [1, 14, 5])[0]):
            place = 0 if rng.random() < 0.65 else rng.randrange(len(scene))
            scene[place] = changed(scene[place], names, rng)
        yield scene


def outcomes(library: str, scenes: list[list[str]]) -> list[Any]:
    """What came of each scene, played in processes of their own: None where one died or did not end."""
    found: list[Any] = []
    while len(found) < len(scenes):
        with tempfile.TemporaryFile() as file:
            child = os.fork()
            if not child:
                os.setpgid(0, 0)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                torch = importlib.import_module(library)
                torch.set_num_threads(1)
                for scene in scenes[len(found) :]:
                    signal.alarm(10)
                    pickle.dump(played(torch, scene), file)
                    file.flush()
                os._exit(0)
            os.waitpid(child, 0)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # workers that it left behind
            file.seek(0)
            with contextlib.suppress(EOFError, pickle.UnpicklingError):
                while True:
                    found.append(pickle.load(file))
        if len(found) < len(scenes):
            found.append(None)
    return found


def apart(a: Any, b: Any) -> tuple[Any, Any] | None:
    """The first place where two descriptions differ, as both have it."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        return next((found for pair in zip(a, b, strict=True) if (found := apart(*pair))), None)
    if isinstance(a, float | complex) and isinstance(b, float | complex):
        near = a == b or (a != a and b != b) or abs(a - b) <= 1e-5 + 1e-3 * abs(a)
        return None if near else (a, b)
    return None if type(a) is type(b) and a == b else (a, b)


def difference(theirs: Any, ours: Any) -> tuple[str, int, Any, Any] | None:
    """The kind of the first difference, the step where it is, and what each side has there."""
    if theirs is None:
        return None
    if ours is None:
        return "crash", len(theirs) - 1, theirs[-1], None
    for step, (a, b) in enumerate(zip(theirs, ours, strict=False)):
        if b[0] != "made" and LEAK.search(b[2]) and not (LEAK.search(a[2]) and a[0] == b[0]):
            return "leak", step, a[:3], b[:3]
        if a[0] != b[0]:
            return ("accepts" if b[0] == "made" else "refuses" if a[0] == "made" else "errtype"), step, a[:3], b[:3]
        if (found := apart(a[1], b[1])) is not None:
            return "value", step, *found
        if a[3] != b[3]:
            return "warning", step, a[2:], b[2:]
    return None


def main() -> None:
    asked = argparse.ArgumentParser(description="Draw calls of classes and compare both libraries.")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--count", type=int, default=2000)
    asked.add_argument("--only", default="", help="scenes whose first call holds this")
    asked.add_argument("--kind", default="", help="show this kind alone")
    asked.add_argument("--show", type=int, default=0, help="show so many differences of each kind")
    given = asked.parse_args()
    scenes = list(draws(given.seed, given.count, given.only))
    kinds: dict[str, list[str]] = collections.defaultdict(list)
    for scene, theirs, ours in zip(scenes, outcomes("torch", scenes), outcomes("readtorch", scenes), strict=True):
        found = difference(theirs, ours)
        if found is not None:
            kind, step, a, b = found
            kinds[kind].append(
                f"{' -> '.join(scene[: step + 1])}\n    upstream {a}"[:600] + f"\n    here     {b}"[:300]
            )
    for kind, found in sorted(kinds.items()):
        print(f"{kind}: {len(found)} of {given.count}")
        if given.kind in ("", kind):
            print(*found[: given.show], sep="\n")


if __name__ == "__main__":
    main()
