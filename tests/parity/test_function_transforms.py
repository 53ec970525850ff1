"""`torch.func` and `torch.vmap` beside upstream's: values, shapes, and the errors of what is refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import readtorch

upstream = pytest.importorskip("torch", reason="compares with the real PyTorch (extra `parity`)")
pytestmark = pytest.mark.torch

CASES: list[tuple[str, Callable[[Any], Any]]] = []


def case(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    CASES.append((function.__name__, function))
    return function


def outcome(torch: Any, run: Callable[[Any], Any]) -> Any:
    """What it gives, in lists of numbers; or the kind of its error."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(torch, run(torch))
        except Exception as error:
            return type(error).__name__


def plain(torch: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), str(value.dtype).split(".")[-1], value.requires_grad, value.detach().tolist()
    if isinstance(value, dict):
        return {key: plain(torch, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(torch, item) for item in value]
    return value


def near(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return len(ours) == len(theirs) and all(map(near, ours, theirs))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(near(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, float) and isinstance(theirs, float):
        return ours == pytest.approx(theirs, rel=1e-5, abs=1e-6, nan_ok=True)
    return ours == theirs


def rows(torch: Any) -> Any:
    return torch.arange(6.0).reshape(2, 3)


def network(torch: Any) -> Any:
    nn = torch.nn
    layers = [
        nn.Conv2d(1, 4, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 5),
        nn.GELU(),
        nn.Linear(5, 3),
    ]
    return nn.Sequential(*layers).double()


def weights_of(torch: Any, model: Any) -> dict[str, Any]:
    return {
        name: torch.linspace(-0.5, 0.6, value.numel(), dtype=torch.float64).sin().reshape(value.shape)
        for name, value in model.named_parameters()
    }


@case
def gradients_per_example(torch: Any) -> Any:
    model, func = network(torch), torch.func
    weights = weights_of(torch, model)
    images = torch.linspace(-1, 1, 3 * 64, dtype=torch.float64).cos().reshape(3, 1, 8, 8)
    labels = torch.tensor([0, 2, 1])

    def loss(weights: Any, image: Any, label: Any) -> Any:
        scores = func.functional_call(model, weights, (image[None],))
        return torch.nn.functional.cross_entropy(scores, label[None])

    one = func.vmap(func.grad_and_value(loss), in_dims=(None, 0, 0))(weights, images, labels)
    chunks = func.vmap(func.grad(loss), in_dims=(None, 0, 0), chunk_size=2)(weights, images, labels)
    return one, chunks


@case
def ensemble(torch: Any) -> Any:
    models = [network(torch) for _ in range(3)]
    for number, model in enumerate(models):
        model.load_state_dict({name: value * (number + 1) for name, value in weights_of(torch, model).items()})
    weights, buffers = torch.func.stack_module_state(models)
    x = torch.linspace(-1, 1, 3 * 2 * 64, dtype=torch.float64).sin().reshape(3, 2, 1, 8, 8)

    def call(weights: Any, buffers: Any, x: Any) -> Any:
        return torch.func.functional_call(models[0], (weights, buffers), (x,))

    own = torch.vmap(call)(weights, buffers, x)
    shared = torch.vmap(call, in_dims=(0, 0, None))(weights, buffers, x[0])
    total = (own.sin().sum() + shared.cos().sum()) / 7
    return own, shared, torch.autograd.grad(total, list(weights.values()))


@case
def jacobians_and_hessians(torch: Any) -> Any:
    func = torch.func
    w = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4)
    b, x = torch.linspace(0, 1, 3, dtype=torch.float64), torch.linspace(1, 2, 4, dtype=torch.float64)

    def predict(w: Any, b: Any, x: Any) -> Any:
        return torch.nn.functional.linear(x, w, b).tanh()

    many = torch.linspace(-1, 2, 20, dtype=torch.float64).reshape(5, 4)
    return (
        func.jacrev(predict, argnums=(0, 1))(w, b, x),
        func.jacfwd(predict, argnums=2)(w, b, x),
        func.jacrev(predict, argnums=2, chunk_size=2)(w, b, x),
        func.hessian(predict, argnums=2)(w, b, x),
        func.jacrev(func.jacfwd(predict, argnums=1), argnums=2)(w, b, x),
        torch.vmap(func.jacrev(predict, argnums=2), in_dims=(None, None, 0))(w, b, many),
        torch.vmap(func.hessian(predict, argnums=2), in_dims=(None, None, 0))(w, b, many),
    )


@case
def tangent_kernel(torch: Any) -> Any:
    model, func = network(torch), torch.func
    weights = weights_of(torch, model)
    x1 = torch.linspace(-1, 1, 2 * 64, dtype=torch.float64).cos().reshape(2, 1, 8, 8)
    x2 = torch.linspace(0, 2, 3 * 64, dtype=torch.float64).sin().reshape(3, 1, 8, 8)

    def f(weights: Any, x: Any) -> Any:
        return func.functional_call(model, weights, (x[None],)).squeeze(0)

    def by_jacobians() -> Any:
        first, second = (
            [j.flatten(2) for j in torch.vmap(func.jacrev(f), (None, 0))(weights, x).values()] for x in (x1, x2)
        )
        return torch.stack([torch.einsum("Naf,Mbf->NMab", a, b) for a, b in zip(first, second, strict=True)]).sum(0)

    def one(a: Any, b: Any) -> Any:
        output, pull = func.vjp(lambda w: f(w, a), weights)

        def column(v: Any) -> Any:
            return func.jvp(lambda w: f(w, b), (weights,), pull(v))[1]

        return torch.vmap(column)(torch.eye(output.numel(), dtype=torch.float64))

    products = torch.vmap(torch.vmap(one, (None, 0)), (0, None))(x1, x2)
    return by_jacobians(), products


@case
def one_step_of_maml(torch: Any) -> Any:
    func = torch.func
    w = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64)
    xs = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(2, 4, 3)
    ys = torch.linspace(0, 1, 8, dtype=torch.float64).reshape(2, 4)

    def loss(w: Any, x: Any, y: Any) -> Any:
        return ((x @ w).sin() - y).pow(2).mean()

    def adapted(w: Any, x: Any, y: Any) -> Any:
        return loss(w - 0.1 * func.grad(loss)(w, x, y), x.flip(0), y)

    def over_tasks(w: Any) -> Any:
        return torch.vmap(adapted, in_dims=(None, 0, 0))(w, xs, ys).mean()

    return func.grad(over_tasks)(w), func.hessian(over_tasks)(w)


@case
def a_physical_loss(torch: Any) -> Any:
    func = torch.func
    w = torch.linspace(0.1, 1, 5, dtype=torch.float64)

    def u(w: Any, t: Any) -> Any:
        return (w * t).sin().sum()

    def residual(w: Any, t: Any) -> Any:
        return func.grad(func.grad(u, 1), 1)(w, t) + func.grad(u, 1)(w, t) * u(w, t)

    def loss(w: Any) -> Any:
        times = torch.linspace(0, 1, 7, dtype=torch.float64)
        return torch.vmap(residual, in_dims=(None, 0))(w, times).pow(2).mean()

    return func.grad_and_value(loss)(w)


@case
def perturbations_are_kept_apart(torch: Any) -> Any:
    grad, jvp = torch.func.grad, torch.func.jvp
    one, five = torch.tensor(1.0), torch.tensor(5.0)
    return (
        grad(lambda x: x * grad(lambda y: x + y)(one))(one),
        grad(lambda x: x * grad(lambda y: x * y * y)(five))(five),
        jvp(lambda x: jvp(lambda y: x * y * y, (x,), (one,))[1], (five,), (one,)),
        grad(lambda s: torch.vmap(grad(lambda a: (a**2 * s).sum()))(rows(torch)).sum())(one),
    )


@case
def outer_tensors_that_require_grad(torch: Any) -> Any:
    p = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    slope = torch.func.grad(lambda x: (x * x * p).sum())(rows(torch)[1])
    spread = torch.vmap(lambda x: (x * p).sum() * x)(rows(torch))
    with torch.no_grad():
        quiet = torch.func.grad(lambda x: (x * x * p).sum())(rows(torch)[1])
    return slope, spread, quiet, torch.autograd.grad(slope.sum() + spread.sum(), p)


@case
def aux_and_nests(torch: Any) -> Any:
    x, func = rows(torch), torch.func

    def f(nest: Any, scale: float = 1.0) -> Any:
        product = nest["a"] * nest["b"][0]
        return product.sum() * scale, {"product": product, "more": [nest["a"]]}

    nest = {"a": x[0], "b": (x[1],)}
    return (
        func.grad(f, has_aux=True)(nest),
        func.grad_and_value(f, has_aux=True)(nest, scale=2.0),
        func.vjp(lambda n: f(n), nest, has_aux=True)[2],
        func.jacrev(lambda n: f(n)[1])(nest),
        func.jacfwd(lambda n: f(n)[1]["product"])(nest),
        func.jvp(lambda a, b: {"r": a * b}, (x[0], x[1]), (x[1], x[0])),
        func.linearize(lambda a: a.sin(), x[0])[1](x[1]),
    )


@case
def dims_in_and_out(torch: Any) -> Any:
    x = torch.arange(24.0).reshape(2, 3, 4)
    return (
        torch.vmap(lambda a: a.sum(0), in_dims=1)(x),
        torch.vmap(lambda a: a * 2, in_dims=-1, out_dims=-1)(x),
        torch.vmap(lambda d: d["k"] * d["n"], in_dims=({"k": 2, "n": None},))({"k": x, "n": 3}),
        torch.vmap(lambda a: (a, {"s": a.sum()}), out_dims=(1, {"s": 0}))(x),
        torch.vmap(torch.vmap(lambda a, b: a @ b, in_dims=(0, None)), in_dims=(None, 0))(x[0], x[1]),
        torch.vmap(lambda a: (a.max(1), a.sort(0)))(x),
        torch.vmap(lambda a: a.shape[0] * a.mT)(x),
        torch.vmap(lambda a: a, out_dims=(1,))(x),
    )


@case
def randomness(torch: Any) -> Any:
    x, drop = rows(torch), torch.nn.functional.dropout
    return (
        torch.vmap(lambda a: a + torch.rand(3), randomness="same")(x),
        torch.vmap(lambda a: torch.randn(2), randomness="different")(x),
        torch.vmap(lambda a: torch.randint(0, 9, (2,)), randomness="different")(x),
        torch.vmap(lambda a: drop(a + 1), randomness="different")(x),
        torch.vmap(lambda a: drop(a + 1), randomness="same")(x),
        torch.vmap(lambda a: torch.bernoulli(a / 6), randomness="different")(x),
        torch.vmap(lambda a: torch.rand_like(a), randomness="different")(x),
        torch.vmap(torch.func.grad(lambda a: (a * torch.rand(3)).sum()), randomness="different")(x),
    )


@case
def writes_inside(torch: Any) -> Any:
    def filled(a: Any) -> Any:
        kept = torch.zeros(3)
        kept[0] = a[1] * 2
        kept[1:].add_(a[:2])
        return (kept * kept).sum()

    def through_views(a: Any) -> Any:
        a = a * 1
        a[0].mul_(5)
        a[1:].add_(a[:2].clone())
        return (a * a).sum()

    x = rows(torch)
    written = x.clone()
    torch.vmap(lambda a: a.view(3).mul_(2))(written)
    return torch.func.grad(filled)(x[1]), torch.vmap(torch.func.grad(through_views))(x), written


@case
def custom_functions(torch: Any) -> Any:
    class Scaled(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(a: Any, w: Any) -> Any:
            return a * w

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            a, w = ctx.saved_tensors
            return grad * w * 10, (grad * a).sum(0) if w.dim() == 0 else grad * a * 100

    class Own(Scaled):
        generate_vmap_rule = False

        @staticmethod
        def vmap(info: Any, in_dims: Any, a: Any, w: Any) -> Any:
            return Own.apply(a, w) * info.batch_size, 0

    x, func = rows(torch), torch.func
    w = torch.tensor([1.0, 2.0, 3.0])
    return (
        func.grad(lambda a: Scaled.apply(a, w).sum())(x[1]),
        func.grad(lambda b: func.grad(lambda a: Scaled.apply(a, b).sum())(w).sum())(x[1]),
        torch.vmap(func.grad(lambda a: Scaled.apply(a, w).sum()))(x),
        func.grad(lambda w: torch.vmap(Scaled.apply, in_dims=(0, None))(x, w).sum())(w),
        torch.vmap(Own.apply, in_dims=(0, None))(x, w),
    )


@case
def the_engine_inside_of_a_level(torch: Any) -> Any:
    def f(a: Any) -> Any:
        (slope,) = torch.autograd.grad((a**3).sum(), a, create_graph=True)
        return slope.sum()

    return torch.func.grad(f)(rows(torch)[1])


@case
def a_model_without_running_statistics(torch: Any) -> Any:
    norm = torch.func.replace_all_batch_norm_modules_(torch.nn.Sequential(torch.nn.BatchNorm1d(3)))
    return torch.vmap(norm)(torch.arange(24.0).reshape(2, 4, 3).sin())


REFUSED: dict[str, Callable[[Any], Any]] = {
    "a number": lambda t: t.vmap(lambda a: a.sum().item())(rows(t)),
    "a condition": lambda t: t.vmap(lambda a: a if a.sum() > 1 else -a)(rows(t)),
    "a mask": lambda t: t.vmap(lambda a: a[a > 1])(rows(t)),
    "an array": lambda t: t.vmap(lambda a: a.numpy())(rows(t)),
    "random numbers": lambda t: t.vmap(lambda a: a + t.rand(3))(rows(t)),
    "positions": lambda t: t.vmap(t.nonzero)(rows(t)),
    "a write to a shared tensor": lambda t: t.vmap(lambda a: t.zeros(3).mul_(a))(rows(t)),
    "a write to a captured tensor": lambda t: (lambda w: t.func.grad(lambda a: w.add_(a).sum())(rows(t)[0]))(t.ones(3)),
    "a write to a leaf": lambda t: t.func.grad(lambda a: a.add_(1).sum())(rows(t)[0]),
    "requires_grad_": lambda t: t.vmap(lambda a: a.requires_grad_())(rows(t)),
    "backward": lambda t: t.func.grad(lambda a: [(a * a).sum().backward(), a.sum()][1])(rows(t)[0]),
    "no scalar": lambda t: t.func.grad(lambda a: a)(rows(t)[0]),
    "no tensor": lambda t: t.func.grad(lambda a: 1.0)(rows(t)[0]),
    "integers": lambda t: t.func.grad(lambda a: a.sum())(t.tensor([1, 2])),
    "a float": lambda t: t.func.grad(lambda a: a)(1.0),
    "argnums": lambda t: t.func.grad(lambda a: a.sum(), argnums=2)(rows(t)[0]),
    "argnums twice": lambda t: t.func.grad(lambda a, b: (a * b).sum(), argnums=(0, -2))(rows(t), rows(t)),
    "no aux": lambda t: t.func.grad(lambda a: a.sum(), has_aux=True)(rows(t)),
    "aux of no tensors": lambda t: t.func.grad(lambda a: (a.sum(), 3), has_aux=True)(rows(t)),
    "in_dims of another form": lambda t: t.vmap(lambda a: a, in_dims=(0, 0))(rows(t)),
    "in_dims beyond": lambda t: t.vmap(lambda a: a, in_dims=5)(rows(t)),
    "in_dims None": lambda t: t.vmap(lambda a: a, in_dims=None)(rows(t)),
    "in_dims all None": lambda t: t.vmap(lambda a: a, in_dims=(None,))(rows(t)),
    "over a number": lambda t: t.vmap(lambda a, b: a)(rows(t), 1.0),
    "different sizes": lambda t: t.vmap(lambda a, b: a)(rows(t), t.zeros(3)),
    "a number out": lambda t: t.vmap(lambda a: 1.0)(rows(t)),
    "no inputs": lambda t: t.vmap(lambda: 1.0)(),
    "out_dims beyond": lambda t: t.vmap(lambda a: a, out_dims=3)(rows(t)),
    "out_dims of another form": lambda t: t.vmap(lambda a: (a, a), out_dims=(0,))(rows(t)),
    "out_dims None of many": lambda t: t.vmap(lambda a: a, out_dims=None)(rows(t)),
    "chunk_size": lambda t: t.vmap(lambda a: a, chunk_size=0)(rows(t)),
    "randomness": lambda t: t.vmap(lambda a: a, randomness="often")(rows(t)),
    "cotangent of another shape": lambda t: t.func.vjp(lambda a: a * 2, rows(t))[1](t.ones(2)),
    "cotangent of another form": lambda t: t.func.vjp(lambda a: {"o": a}, rows(t))[1](rows(t)),
    "primals": lambda t: t.func.jvp(lambda a: a, rows(t), rows(t)),
    "tangents of another shape": lambda t: t.func.jvp(lambda a: a, (rows(t),), (t.ones(2),)),
    "strict": lambda t: t.func.jvp(lambda a: t.ones(2), (rows(t),), (rows(t),), strict=True),
    "batch norm in training": lambda t: t.vmap(t.nn.BatchNorm1d(3))(t.ones(4, 5, 3)),
    "models of two kinds": lambda t: t.func.stack_module_state([t.nn.Linear(1, 1), t.nn.Sequential()]),
}


@pytest.mark.parametrize(("name", "run"), CASES, ids=[name for name, _ in CASES])
def test_a_transform_gives_what_upstream_gives(name: str, run: Callable[[Any], Any]) -> None:
    ours, theirs = outcome(readtorch, run), outcome(upstream, run)
    assert not isinstance(theirs, str), theirs
    assert near(ours, theirs), f"{name}:\n{ours}\n{theirs}"


@pytest.mark.parametrize("name", REFUSED)
def test_what_upstream_refuses_is_refused_with_the_same_type_of_error(name: str) -> None:
    ours, theirs = outcome(readtorch, REFUSED[name]), outcome(upstream, REFUSED[name])
    assert isinstance(theirs, str), theirs
    assert ours == theirs


@pytest.mark.parametrize("torch", [readtorch, upstream], ids=["readtorch", "torch"])
def test_a_tensor_inside_prints_its_levels(torch: Any) -> None:
    seen: list[str] = []
    torch.vmap(torch.func.grad(lambda a: (seen.append(str(a)), a.sum())[1]))(rows(torch))
    assert seen == [
        "GradTrackingTensor(lvl=2, value=\n    BatchedTensor(lvl=1, bdim=0, value=\n        tensor([[0., 1., 2.],\n"
        "                [3., 4., 5.]])\n    )\n)"
    ]


def test_an_operator_without_a_rule_says_that_it_is_slow() -> None:
    with pytest.warns(UserWarning, match="performance drop"):
        result = readtorch.vmap(lambda a: readtorch.histc(a, 4))(rows(readtorch))
    assert result.tolist() == [[1.0, 0.0, 1.0, 1.0]] * 2


def test_levels_are_of_one_thread_and_leave_nothing_behind() -> None:
    from readtorch.c10.core.autograd_state import counts, state

    before = counts.special
    with pytest.raises(ValueError, match="on purpose"):
        readtorch.vmap(readtorch.func.grad(_fails))(rows(readtorch))
    assert state.layers == () and counts.special == before and readtorch.is_grad_enabled()


def _fails(a: Any) -> Any:
    raise ValueError("on purpose")
