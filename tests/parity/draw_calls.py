"""Draws calls from PyTorch's own signatures, runs each beside PyTorch 2.13.0, and prints where readtorch does otherwise.

    python tests/parity/draw_calls.py REGEX [-n 50] [--seed 3] [--part I/N] [--out] [--all] [--kinds leak,value]

REGEX is matched at the start of a spelling: `t.add`, `x.add_` (a method), `F.relu`, `t.linalg.svd`. A spelling whose function is compiled upstream has a
signature for each schema that TorchScript knows, one in Python has its own. Each signature gets the same N calls whatever REGEX and part are: tensors named as
in `options.py`, and in most calls an argument or two that are odd. `--out` draws from the overloads with `out=` alone.

One line per signature and kind of difference (`--all`: per difference): kind, signature, call, what PyTorch does, what readtorch does. The kinds:
leak (an error that no `raise` of ours made, or in NumPy's words), crash, accepts (upstream refuses), refuses, errtype, dtype/shape, value, grad, left (what
the call left in the tensors it was given). No test collects this file; what it finds becomes a line of `option_calls.txt` or `refused_calls.txt`.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import re
import resource
import signal
import sys
import traceback
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import options
from draw_values import ANYTHING, FITTING, FLAGS, FOREIGN, INDEX, KINDS, OUTS, SHAPES_ALONE, SIZES, VALUES, WORDS
from signatures import Parameter, Signature, signatures

SECONDS = 8


class Draw:
    """One call: most arguments go together, `odd` of them do not."""

    def __init__(self, signature: Signature, rng: random.Random) -> None:
        self.signature, self.rng = signature, rng
        self.kind, self.size = rng.choice(KINDS), rng.choice(SIZES)
        self.fitting = next((v.split() for k, v in FITTING.items() if re.fullmatch(k, signature.spelling)), [])
        self.given = ""
        self.odd = set(rng.choices(range(len(signature.parameters) + 3), k=rng.choice((0, 0, 1, 1, 1, 2))))

    def tensor(self, name: str, odd: bool) -> str:
        rng = self.rng
        if odd and rng.random() < 0.5:
            return rng.choice(
                [
                    "None",
                    "1",
                    "2.5",
                    "True",
                    "[1., 2.]",
                    "'x'",
                    "(f4_2, f4_2)",
                    "1j",
                    "t.float32",
                    "2**63",
                    "t.empty(2, device='meta')",
                ]
            )
        kind = rng.choice(KINDS) if odd or rng.random() < 0.15 else self.kind
        size = (
            self.fitting.pop(0)
            if self.fitting and not odd
            else rng.choice(SIZES)
            if odd or rng.random() < 0.1
            else self.size
        )
        flags = rng.choice(FLAGS)
        if INDEX.fullmatch(name) and not odd:
            kind, flags = "i8", "_k"
        if re.fullmatch("mask|condition|key_padding_mask", name) and not odd:
            kind = "b1"
        self.given = f"{kind}_{size}{flags if size != '0d' or flags != '_t' else ''}"
        return self.given

    def value(self, parameter: Parameter, odd: bool) -> str:
        rng, kind = self.rng, parameter.kind
        if kind == "tensor":
            return self.tensor(parameter.name, odd)
        if kind == "tensors":
            items = [self.tensor(parameter.name, False) for _ in range(rng.choice((1, 2, 2, 3)))]
            if odd and rng.random() < 0.6:
                return rng.choice(
                    [
                        "[]",
                        "()",
                        items[0],
                        f"[{items[0]}, 1]",
                        f"[{items[0]}, None]",
                        "None",
                        "1",
                        f"[{self.tensor(parameter.name, True)}, {items[0]}]",
                    ]
                )
            joined = ", ".join(items)
            return f"({joined},)" if rng.random() < 0.4 else f"[{joined}]"
        if kind == "word":
            return rng.choice(
                WORDS.get(parameter.name, ["'none'"])
                if not odd
                else ["''", "'nope'", "None", "1", "'MEAN'", "b'sum'", "[]"]
            )
        good, bad = VALUES[kind]
        return rng.choice(bad if odd else good)

    def call(self) -> str:
        rng, signature = self.rng, self.signature
        method = signature.spelling.startswith("x.")
        parts, keywords = [], rng.random() < 0.12
        for i, parameter in enumerate(signature.parameters):
            odd = i in self.odd
            if parameter.optional and not odd and rng.random() < 0.6:
                keywords = True
                continue
            if i == 0 and method:
                parts.append(self.tensor("self", False))
                continue
            value = self.value(parameter, odd)
            if signature.star and parameter.kind == "tensors" and value[0] in "([":
                value = f"*{value}"
            elif (keywords or parameter.keyword_only) and parameter.name != "from":
                value = f"{'input' if parameter.name == 'self' else parameter.name}={value}"
            parts.append(value)
        last = len(signature.parameters)
        if last in self.odd and len(parts) > method and rng.random() < 0.5:
            parts.pop(rng.randrange(int(method), len(parts)))
        if last + 1 in self.odd:
            parts.append(
                rng.choice(
                    ["nope=1", "dtype=t.float64", "dim=0", "out=None", "requires_grad=True", "axis=0", "keepdims=True"]
                )
            )
        if last + 2 in self.odd and not any("=" in part for part in parts):
            parts.append(rng.choice(ANYTHING))
        if signature.outs:
            fill = {"kind": self.kind, "size": self.size, "given": self.given or "f4_3"}
            outs = [
                rng.choice(OUTS).format(**fill)
                for _ in range(signature.outs if rng.random() < 0.95 else rng.choice((1, 2, 3)))
            ]
            parts.append(f"out={outs[0]}" if len(outs) == 1 else f"out=({', '.join(outs)})")
        if method:
            return f"{parts[0]}.{signature.spelling[2:]}({', '.join(parts[1:])})"
        return f"{signature.spelling}({', '.join(parts)})"


def foreign(error: Exception) -> bool:
    """Was this raised by no `raise` of ours, or in NumPy's words?"""
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = last.filename == "<string>" or re.search(r"\braise\b|\.throw\(", last.line or "")
    return not ours or FOREIGN.search(str(error).partition("\n")[0]) is not None


def shown(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:110]}"


def run(library: Any, call: str, grad: bool) -> Any:
    try:
        return options.parts(library, call, grad)
    except Exception as error:
        return error


def compare(signature: Signature, call: str, theirs: Any, ours: Any) -> tuple[str, str, str] | None:
    """The kind of the difference and both outcomes, if there is one."""
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        brief = [shown(one) if isinstance(one, Exception) else described(one[0]) for one in (theirs, ours)]
        if isinstance(ours, Exception) and foreign(ours) and brief[0] != brief[1]:
            return "leak", *brief
        if "gradient" in "".join(n for one in (theirs, ours) for n in getattr(one, "__notes__", ())):
            return None if type(theirs) is type(ours) else ("grad", *brief)
        if not isinstance(ours, Exception):
            return "accepts", *brief
        if not isinstance(theirs, Exception):
            return "refuses", *brief
        return None if type(theirs) is type(ours) else ("errtype", *brief)
    name = signature.spelling.split(".")[-1]
    for part, kind in enumerate(("value", "left", "grad")):
        if len(theirs[part]) != len(ours[part]):
            return kind, f"{len(theirs[part])} results", f"{len(ours[part])} results"
        for a, b in zip(theirs[part], ours[part], strict=True):
            if all(map(is_meta, (a, b))) or (SHAPES_ALONE.match(name) and "tensor" in str(type(b)).lower()):
                a, b = described([a]), described([b])
            found = options.difference(a, b)
            if found is not None:
                return (
                    ("dtype/shape" if kind == "value" and re.match("dtype|shape|requires", found) else kind),
                    "",
                    " ".join(found.split())[:200],
                )
    return None


def is_meta(value: Any) -> bool:
    return getattr(getattr(value, "device", None), "type", "") == "meta"


def described(results: list[Any]) -> str:
    return ", ".join(
        f"{str(x.dtype)[6:]}{list(x.shape)}" if hasattr(x, "dtype") and hasattr(x, "shape") else repr(x)[:60]
        for x in results
    )


def examine(
    torch: Any, readtorch: Any, signature: Signature, calls: list[tuple[str, bool]]
) -> Iterator[tuple[str, ...]]:
    """Differences of these calls, each run in a child that may die of it."""
    start = 0
    while start < len(calls):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
            with os.fdopen(writer, "wb") as pipe:
                for call, grad in calls[start:]:
                    signal.alarm(SECONDS)
                    theirs = run(torch, call, grad)
                    pickle.dump("ours", pipe)
                    pipe.flush()
                    signal.alarm(SECONDS)
                    ours = run(readtorch, call, grad)
                    try:
                        found = compare(signature, call, theirs, ours)
                    except Exception as error:
                        found = "value", "", f"cannot be compared: {shown(error)}"
                    pickle.dump(("done", found), pipe)
                    pipe.flush()
            os._exit(0)
        os.close(writer)
        reached = "theirs"
        with os.fdopen(reader, "rb") as pipe:
            while start < len(calls):
                try:
                    message = pickle.load(pipe)
                except (EOFError, pickle.UnpicklingError):
                    if reached == "ours":
                        yield "crash", call_of(calls[start]), "", "the process ended, or ran too long"
                    start += 1
                    break
                reached = message[0] if isinstance(message, tuple) else message
                if reached == "done":
                    if message[1] is not None:
                        yield message[1][0], call_of(calls[start]), *message[1][1:]
                    start, reached = start + 1, "theirs"
        os.waitpid(child, 0)


def call_of(call: tuple[str, bool]) -> str:
    return call[0] + "\tgrad" * call[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("regex")
    parser.add_argument("-n", type=int, default=50, help="calls of each signature")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default="1/1", help="I/N: every Nth signature, from the Ith")
    parser.add_argument("--out", action="store_true")
    parser.add_argument("--all", action="store_true", help="every difference, not the first of its kind")
    parser.add_argument("--kinds", default="", help="only these, with commas")
    given = parser.parse_args()
    import torch

    import readtorch

    torch.set_num_threads(1)
    part, parts = map(int, given.part.split("/"))
    chosen = [one for one in signatures(torch, given.out) if re.match(given.regex, one.spelling)][part - 1 :: parts]
    wanted, totals, missing, drawn = given.kinds.split(",") if given.kinds else None, Counter[str](), [], 0
    for signature in chosen:
        try:
            eval(signature.spelling, {"t": readtorch, "F": readtorch.nn.functional, "x": readtorch.Tensor})
        except AttributeError:
            missing.append(signature.spelling)
            continue
        rng = random.Random(zlib.crc32(f"{signature} {signature.overload} {given.seed}".encode()))
        calls = [(Draw(signature, rng).call(), not given.out and rng.random() < 0.3) for _ in range(given.n)]
        drawn += len(calls)
        seen = Counter[str]()
        for kind, call, theirs, ours in examine(torch, readtorch, signature, calls):
            totals[kind] += 1
            seen[kind] += 1
            if (given.all or seen[kind] == 1) and (wanted is None or kind in wanted):
                print(f"{kind:11} {signature}\n    {call}\n    theirs: {theirs}\n    ours:   {ours}", flush=True)
    print(
        f"{len(chosen)} signatures, {drawn} calls; "
        + ", ".join(f"{kind} {count}" for kind, count in totals.most_common())
    )
    if missing:
        print("not there:", *sorted(set(missing)))


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(__file__))
    np.seterr(all="ignore")
    main()
