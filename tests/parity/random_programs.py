"""Small random programs that write, view, detach and switch recording on and off; and what there is to see after one has run."""

from __future__ import annotations

import contextlib
import math
import random
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

NEW = (
    "{a}+{b}|{a}*{b}|{a}/({b}.abs()+1)|{a}-{a}.mean()|{a}.sin()|{a}.exp()|{a}.relu()|{a}.clone()|{a}.sum()|{a}.sum(0)|{a}.prod()|"
    "{a}.cumsum(0)|{a}.softmax(-1)|{a}.max(0)[0]|{a}.repeat(2,1)|{a}.index_select(0,torch.tensor([0]))|torch.where({a}>0,{a},{b})|"
    "torch.stack([{a},{a}])[1]|torch.cat([{a}.reshape(-1),{b}.reshape(-1)])"
)
"""What makes a tensor of its own, of tensors `{a}` and `{b}`."""

VIEWS = (
    "{a}.view(-1)|{a}.reshape(-1)|{a}.flatten()|{a}[0]|{a}[...,:2]|{a}.t()|{a}.transpose(0,-1)|{a}.permute(*range({a}.ndim-1,-1,-1))|"
    "{a}.expand(2,2,3)|{a}.unsqueeze(0)|{a}.squeeze()|{a}.diagonal()|{a}.as_strided((2,),(1,))|{a}.as_strided((2,),(1,),1)|{a}[1:]|"
    "{a}.chunk(2)[0]|{a}.split(1)[-1]|{a}.unbind(0)[0]|{a}.unfold(0,1,1)|{a}.view_as({a})|{a}.narrow(0,0,1)|{a}.detach()|{a}.data|"
    "{a}.alias() if 0 else {a}[:]"
)

WRITES = (
    "{a}.mul_(2)|{a}.add_({b})|{a}.mul_({b})|{a}.sub_({b},alpha=2)|{a}.div_(3)|{a}.zero_()|{a}.fill_(0.5)|{a}.sin_()|{a}.exp_()|{a}.relu_()|"
    "{a}.clamp_(-1,1)|{a}.copy_({b})|{a}[0]={b}[0]|{a}[0]=1.5|{a}[{a}>0]=0.25|{a}[torch.tensor([0])]={b}[:1]|{a}.masked_fill_({a}>0,0.1)|"
    "{a}.addcmul_({b},{b})|{a}.index_add_(0,torch.tensor([0]),{b}[:1])|{a}.index_fill_(0,torch.tensor([0]),3.)|"
    "{a}.data.mul_(2)|{a}.detach().add_(1)|{a}.expand(2,2,3).mul_(2)|{a}.chunk(2)[0].mul_(2)|{a}.view(-1)[:1].add_({b}.sum())|"
    "{a}.index_put_(({a}>0,),torch.tensor(0.5,dtype=torch.float64))|{a}.lerp_({b},0.5)|{a}.cumsum_(0)|torch.mul({a},2,out={b})"
)

MANNERS = (
    "{a}.t_()|{a}.transpose_(0,-1)|{a}.squeeze_()|{a}.unsqueeze_(0)|{a}.detach_()|{a}.requires_grad_()|{a}.requires_grad_(False)|"
    "{a}.requires_grad=True|{a}.retain_grad()|{a}.register_hook(lambda g:g*2)|{a}.register_hook(lambda g:seen.append(round(float(g.sum()),6)))|"
    "{a}.data={b}.data|{a}.set_({b})|{a}.resize_({a}.numel()//2)|{a}.grad=None|{a}.sum().backward(retain_graph=True)|{a}.sum().backward()|"
    "seen.append([g is None or g.tolist() for g in torch.autograd.grad({a}.sum(),[{b}],allow_unused=True,retain_graph=True)])|"
    "seen.append([g is None or g.tolist() for g in torch.autograd.grad(({a}*{a}).sum(),[{a},{b}],allow_unused=True,retain_graph=True)])|"
    "seen.append(second(torch,{a},{b}))|seen.append(None if {a}.grad_fn is None else {a}.grad_fn.name())|seen.append({a}.retains_grad)|"
    "seen.append({a}.output_nr)"
)

FUNCTIONS = "Double.apply({a})|InPlace.apply({a})|Same.apply({a})|Part.apply({a})|Two.apply({a})[0]"

MODES = "no_grad()|no_grad()|inference_mode()|set_grad_enabled(True)|set_grad_enabled(False)|enable_grad()"

DEFINITIONS = """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(ctx, g):
        ctx.saved_tensors
        return g * 2
class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x
    @staticmethod
    def backward(ctx, g):
        return g * 3
class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x
    @staticmethod
    def backward(ctx, g):
        return g * 5
class Part(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x[:1]
    @staticmethod
    def backward(ctx, g):
        whole = torch.zeros(ctx.shape, dtype=torch.float64)
        whole[:1] = g
        return whole
class Two(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x.view_as(x)
    @staticmethod
    def backward(ctx, g, h):
        return g * 2 + h
def second(torch, a, b):
    first = torch.autograd.grad((a * a * b).sum(), a, create_graph=True)[0]
    return [g is None or g.tolist() for g in torch.autograd.grad(first.sum(), [a, b], allow_unused=True)]
"""


def program(seed: int) -> list[str]:
    """Statements about v0, v1, …"""
    rng = random.Random(seed)
    lines = []
    count = rng.randint(2, 3)
    for i in range(count):
        shape = rng.choice([(2, 3), (3,), (2, 1), (2, 3), (1, 3)])
        values = [round(rng.uniform(-2, 2), 2) for _ in range(math.prod(shape))]
        text = (
            str(values) if len(shape) == 1 else str([values[k : k + shape[1]] for k in range(0, len(values), shape[1])])
        )
        lines.append(f"v{i}=torch.tensor({text},dtype=torch.float64,requires_grad={rng.random() < 0.7})")
    for _ in range(rng.randint(4, 12)):
        kind = rng.choices((NEW, VIEWS, WRITES, MANNERS, FUNCTIONS), (25, 32, 25, 15, 3))[0]
        line = rng.choice(kind.split("|")).format(a=f"v{rng.randrange(count)}", b=f"v{rng.randrange(count)}")
        if kind in (NEW, VIEWS, FUNCTIONS):
            line = f"v{count}={line}"
            count += 1
        if rng.random() < 0.12:
            line = f"with torch.{rng.choice(MODES.split('|'))}: {line}"
        lines.append(line)
    return lines


def look(torch: ModuleType, lines: list[str]) -> dict[str, Any]:
    """Run a program, go backward from everything, and say what each of its tensors is like."""
    seen: list[Any] = []
    names: dict[str, Any] = {"torch": torch, "seen": seen}
    exec(DEFINITIONS, names)
    errors = []
    made = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in lines:
            target = line.removeprefix(line[: line.find(": v") + 2] if line.startswith("with") else "").split("=")[0]
            try:
                exec(line, names)
            except Exception as error:
                errors.append((line, type(error).__name__))
                if target.isidentifier() and target not in names:
                    names[target] = torch.ones(3, dtype=torch.float64)
            if target.isidentifier() and target not in made:
                made.append(target)
        tensors = [names[name] for name in made]
        facts = [ask(facts_of, tensor) for tensor in tensors]
        values = [tensor.detach().tolist() for tensor in tensors]
        backward = ask(walk, tensors)
        grads = [ask(grad_of, tensor) for tensor in tensors]
    return {"errors": errors, "facts": facts, "values": values, "seen": seen, "backward": backward, "grads": grads}


def walk(tensors: list[Any]) -> None:
    loss: Any = 0
    for tensor in tensors:
        if tensor.requires_grad:
            with contextlib.suppress(RuntimeError):
                loss = loss + (tensor * tensor).sum()
    if not isinstance(loss, int):
        loss.backward()


def facts_of(tensor: Any) -> tuple[Any, ...]:
    """What a program can ask a tensor, each answer by itself: some may be refused."""
    names = ("requires_grad", "is_leaf", "_version", "retains_grad")
    asked = (ask(getattr, tensor, name) for name in names)
    return (*asked, tuple(tensor.shape), tensor._base is not None, ask(lambda: tensor.grad_fn is not None))


def grad_of(tensor: Any) -> Any:
    """The numbers of its gradient."""
    return None if tensor.grad is None else tensor.grad.tolist()


def ask(question: Callable[..., Any], *about: Any) -> Any:
    """The answer, or the name of the error."""
    try:
        return question(*about)
    except Exception as error:
        return type(error).__name__


def close(a: Any, b: Any) -> bool:
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= 1e-9 * max(1, abs(a), abs(b))
    return a == b


def difference(ours: ModuleType, theirs: ModuleType, lines: list[str]) -> tuple[str, Any, Any] | None:
    """What the two libraries make of a program, where they differ first."""
    a, b = look(ours, lines), look(theirs, lines)
    for key in a:
        if not close(a[key], b[key]):
            return key, a[key], b[key]
    return None


def shrunk(ours: ModuleType, theirs: ModuleType, lines: list[str]) -> list[str]:
    """A program without the lines that it does not need to differ in the same way."""
    found = difference(ours, theirs, lines)
    if found is None:  # what it depends on was in this process once
        return lines
    smaller = True
    while smaller:
        smaller = False
        for i in range(len(lines) - 1, -1, -1):
            fewer = lines[:i] + lines[i + 1 :]
            again = difference(ours, theirs, fewer)
            if again is not None and again[0] == found[0]:
                lines, smaller = fewer, True
    return lines
