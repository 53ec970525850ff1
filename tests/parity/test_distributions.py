"""torch.distributions beside PyTorch: draws with one seed, densities, moments, gradients, divergences, refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import readtorch

upstream = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = [pytest.mark.torch, pytest.mark.cpu("draws are compared with those of PyTorch's CPU generator")]

#: A distribution, made with a library's `distributions` and a function that makes tensors of nested lists; values of its support.
CASES: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "Normal": (lambda d, t: d.Normal(t([0.5, -1.0]), t([1.0, 3.0])), [0.3, 2.0]),
    "Normal of numbers": (lambda d, t: d.Normal(0.0, 2.0), [0.3, 2.0]),
    "LogNormal": (lambda d, t: d.LogNormal(t([0.5, -1.0]), t([1.0, 0.5])), [0.3, 2.0]),
    "HalfNormal": (lambda d, t: d.HalfNormal(t([1.0, 3.0])), [0.3, 2.0]),
    "Laplace": (lambda d, t: d.Laplace(t([0.5, -1.0]), t([1.0, 3.0])), [0.3, 2.0]),
    "Cauchy": (lambda d, t: d.Cauchy(t([0.5, -1.0]), t([1.0, 3.0])), [0.3, 2.0]),
    "Uniform": (lambda d, t: d.Uniform(t([0.0, -1.0]), t([1.0, 3.0])), [0.3, 2.0]),
    "Exponential": (lambda d, t: d.Exponential(t([0.5, 4.0])), [0.3, 2.0]),
    "Gamma": (lambda d, t: d.Gamma(t([0.5, 4.0]), t([1.0, 3.0])), [0.3, 2.0]),
    "Chi2": (lambda d, t: d.Chi2(t([1.5, 7.0])), [0.3, 2.0]),
    "Beta": (lambda d, t: d.Beta(t([0.5, 4.0]), t([1.5, 3.0])), [0.3, 0.7]),
    "Dirichlet": (lambda d, t: d.Dirichlet(t([[0.5, 4.0, 1.0], [2.0, 3.0, 4.0]])), [[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]]),
    "Gumbel": (lambda d, t: d.Gumbel(t([0.5, -1.0]), t([1.0, 3.0])), [0.3, 2.0]),
    "Pareto": (lambda d, t: d.Pareto(t([0.2, 0.5]), t([3.0, 4.0])), [0.3, 2.0]),
    "Weibull": (lambda d, t: d.Weibull(t([0.5, 2.0]), t([1.5, 3.0])), [0.3, 2.0]),
    "StudentT": (lambda d, t: d.StudentT(t([3.0, 5.0]), t([0.5, 2.0]), t([1.5, 3.0])), [0.3, 2.0]),
    "Bernoulli": (lambda d, t: d.Bernoulli(t([0.3, 0.8])), [1.0, 0.0]),
    "Bernoulli of logits": (lambda d, t: d.Bernoulli(logits=t([0.3, -2.0])), [1.0, 0.0]),
    "Categorical": (lambda d, t: d.Categorical(t([[0.1, 0.2, 0.7], [3.0, 1.0, 1.0]])), [2, 1]),
    "Categorical of logits": (lambda d, t: d.Categorical(logits=t([[0.1, 0.2, 0.7], [3.0, 1.0, 1.0]])), [2, 1]),
    "OneHotCategorical": (lambda d, t: d.OneHotCategorical(t([[0.1, 0.2, 0.7]])), [[0.0, 1.0, 0.0]]),
    "OneHotCategoricalStraightThrough": (
        lambda d, t: d.OneHotCategoricalStraightThrough(logits=t([[0.1, 0.2, 0.7]])),
        [[0.0, 1.0, 0.0]],
    ),
    "Poisson": (lambda d, t: d.Poisson(t([0.5, 30.0])), [1.0, 27.0]),
    "Geometric": (lambda d, t: d.Geometric(t([0.5, 0.1])), [1.0, 7.0]),
    "Binomial": (lambda d, t: d.Binomial(40, t([0.1, 0.6])), [3.0, 20.0]),
    "NegativeBinomial": (lambda d, t: d.NegativeBinomial(t([4.0, 2.0]), t([0.1, 0.6])), [3.0, 5.0]),
    "Multinomial": (lambda d, t: d.Multinomial(5, t([[0.1, 0.2, 0.7]])), [[1.0, 1.0, 3.0]]),
    "RelaxedBernoulli": (lambda d, t: d.RelaxedBernoulli(t(0.7), t([0.3, 0.8])), [0.2, 0.9]),
    "RelaxedOneHotCategorical": (
        lambda d, t: d.RelaxedOneHotCategorical(t(0.7), logits=t([[0.1, 0.2, 0.7]])),
        [[0.2, 0.3, 0.5]],
    ),
    "MultivariateNormal": (
        lambda d, t: d.MultivariateNormal(t([[0.5, -1.0], [0.0, 2.0]]), t([[2.0, 0.3], [0.3, 1.0]])),
        [[0.3, 2.0], [1.0, 1.0]],
    ),
    "MultivariateNormal by precision": (
        lambda d, t: d.MultivariateNormal(t([0.5, -1.0]), precision_matrix=t([[2.0, 0.3], [0.3, 1.0]])),
        [0.3, 2.0],
    ),
    "MultivariateNormal by factor": (
        lambda d, t: d.MultivariateNormal(t([0.5, -1.0]), scale_tril=t([[2.0, 0.0], [0.3, 1.0]])),
        [0.3, 2.0],
    ),
    "Independent": (lambda d, t: d.Independent(d.Normal(t([[0.5, -1.0]]), t([[1.0, 3.0]])), 1), [[0.3, 2.0]]),
    "Mixture": (
        lambda d, t: d.MixtureSameFamily(d.Categorical(t([0.3, 0.7])), d.Normal(t([0.0, 3.0]), t([1.0, 0.5]))),
        0.3,
    ),
    "Mixture of vectors": (
        lambda d, t: d.MixtureSameFamily(
            d.Categorical(t([0.3, 0.7])), d.Independent(d.Normal(t([[0.0, 1.0], [3.0, 2.0]]), t([[1.0, 0.5]] * 2)), 1)
        ),
        [0.3, 0.8],
    ),
    "squashed": (
        lambda d, t: d.TransformedDistribution(
            d.Normal(t([0.5, -1.0]), t([1.0, 3.0])), [d.TanhTransform(cache_size=1), d.AffineTransform(t(1.0), t(2.0))]
        ),
        [0.3, 2.0],
    ),
    "logistic": (
        lambda d, t: d.TransformedDistribution(
            d.Uniform(t([0.0, 0.0]), t([1.0, 1.0])), [d.SigmoidTransform().inv, d.AffineTransform(t(1.0), t(2.0))]
        ),
        [0.3, 2.0],
    ),
    "stick": (
        lambda d, t: d.TransformedDistribution(d.Normal(t([0.5, -1.0]), t([1.0, 3.0])), d.StickBreakingTransform()),
        [0.3, 0.2, 0.5],
    ),
}


#: whose distribution function readtorch lacks
NO_CDF = ("Gamma", "Chi2")


def both(case: str) -> Iterator[tuple[Any, Any, Any]]:
    """PyTorch's distribution and ours, and the value."""
    make, value = CASES[case]
    for torch in (upstream, readtorch):
        torch.manual_seed(5)
        yield torch, make(torch.distributions, lambda data, of=torch: of.tensor(data, dtype=of.float64)), value


def asked(ask: Callable[[Any], Any], distribution: Any) -> np.ndarray | str:
    try:
        return np.asarray(ask(distribution).detach().numpy(), np.float64)
    except (NotImplementedError, AttributeError) as error:
        return type(error).__name__


def same(first: Any, second: Any, what: str, tolerance: float = 1e-9) -> None:
    if isinstance(first, str) or isinstance(second, str):
        assert first == second, what
    else:
        assert first.shape == second.shape, what
        np.testing.assert_allclose(second, first, rtol=tolerance, atol=1e-12, err_msg=what)


@pytest.mark.parametrize("case", CASES)
def test_facts_of_a_distribution(case: str) -> None:
    (_, theirs, value), (_, ours, _) = both(case)
    assert ours.batch_shape == theirs.batch_shape and ours.event_shape == theirs.event_shape
    assert ours.has_rsample == theirs.has_rsample and repr(ours) == repr(theirs)
    for name in ("mean", "variance", "stddev", "mode"):
        same(asked(lambda d, n=name: getattr(d, n), theirs), asked(lambda d, n=name: getattr(d, n), ours), name)
    for name in ("entropy", "enumerate_support", "perplexity"):
        same(asked(lambda d, n=name: getattr(d, n)(), theirs), asked(lambda d, n=name: getattr(d, n)(), ours), name)
    for name, at in (("log_prob", value), ("cdf", value), ("icdf", [0.2, 0.7])):
        if (name == "icdf" and len(theirs.event_shape)) or (name == "cdf" and case in NO_CDF):
            continue
        dtype = "float64" if isinstance(np.asarray(at).ravel()[0], np.floating) else "int64"
        first, second = (
            asked(
                lambda d, n=name, of=of, data=at, kind=dtype: getattr(d, n)(of.tensor(data, dtype=getattr(of, kind))),
                of_,
            )
            for of, of_ in ((upstream, theirs), (readtorch, ours))
        )
        same(first, second, name)
    wide = [d.expand((3, *d.batch_shape)) for d in (theirs, ours)]
    assert wide[0].batch_shape == wide[1].batch_shape
    same(asked(lambda d: d.mean, wide[0]), asked(lambda d: d.mean, wide[1]), "mean of the expanded one")


@pytest.mark.parametrize("case", CASES)
def test_draws_are_those_of_pytorch_with_the_same_seed(case: str) -> None:
    drawn = []
    for torch, distribution, _ in both(case):
        torch.manual_seed(11)
        few = distribution.sample()
        many = distribution.sample((40, 3))
        drawn.append((few.numpy(), many.numpy(), str(many.dtype)))
    (few, many, dtype), (few_too, many_too, dtype_too) = drawn
    assert dtype == dtype_too and many.shape == many_too.shape
    np.testing.assert_allclose(few_too, few, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(many_too, many, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["Gamma", "Beta", "Dirichlet", "Normal", "Laplace", "StudentT", "Weibull", "Gumbel"])
def test_draws_have_pytorchs_gradients_by_the_parameters(name: str) -> None:
    """Those of gamma and Dirichlet are approximations there, good to three digits, and a series here."""
    found = []
    for torch in (upstream, readtorch):
        torch.manual_seed(2)
        values = torch.tensor(
            [0.05, 0.6, 1.0, 4.0, 30.0, 900.0][: 6 if name != "Dirichlet" else 5], dtype=torch.float64
        )
        first = values.clone().requires_grad_()
        second = (values.flip(0) * 0.5 + 0.2).requires_grad_()
        made = getattr(torch.distributions, name)
        distribution = made(first) if name == "Dirichlet" else made(first, second)
        draws = distribution.rsample((50,))
        weights = torch.linspace(0.5, 1.5, draws.numel(), dtype=torch.float64).view(draws.shape)
        parameters = [first] if name == "Dirichlet" else [first, second]
        grads = torch.autograd.grad((draws * weights).sum(), parameters)
        found.append([grad.numpy() for grad in grads])
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=5e-3)


@pytest.mark.parametrize("x", [1e-3, 0.3, 1.0, 5.0, 40.0, 200.0])
@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 3.0, 50.0, 700.0, 5000.0])
def test_slope_of_gamma_draws_is_that_of_the_distribution_function(shape: float, x: float) -> None:
    """The quantile stays where it is: d(draw)/d(shape) is -dF/d(shape) over the density, differences taken of upstream's F."""
    x = x if shape < 100 else shape + (x - 1) * shape**0.5 / 60
    wide = upstream.float64

    def at(a: float) -> float:
        return upstream.special.gammainc(upstream.tensor(a, dtype=wide), upstream.tensor(x, dtype=wide)).item()

    step = shape * 1e-4
    slope = (at(shape - 2 * step) - 8 * at(shape - step) + 8 * at(shape + step) - at(shape + 2 * step)) / (12 * step)
    density = (
        upstream.distributions.Gamma(upstream.tensor(shape, dtype=upstream.float64), 1.0)
        .log_prob(upstream.tensor(x, dtype=upstream.float64))
        .exp()
        .item()
    )
    if not 1e-6 < at(shape) < 1 - 1e-6:
        pytest.skip("so far out, differences have no digits left")
    ours = readtorch._standard_gamma_grad(
        readtorch.tensor([shape], dtype=readtorch.float64), readtorch.tensor([x], dtype=readtorch.float64)
    )
    assert ours.item() == pytest.approx(-slope / density, rel=2e-4)


PAIRS = [
    ("Normal", "Normal"), ("Bernoulli", "Bernoulli"), ("Categorical", "Categorical of logits"), ("Gamma", "Chi2"), ("Gamma", "Gamma"),
    ("Beta", "Beta"), ("Dirichlet", "Dirichlet"), ("Laplace", "Laplace"), ("Cauchy", "Cauchy"), ("Pareto", "Pareto"), ("Uniform", "Uniform"),
    ("Poisson", "Poisson"), ("Geometric", "Geometric"), ("Exponential", "Exponential"), ("HalfNormal", "HalfNormal"), ("LogNormal", "LogNormal"),
    ("Independent", "Independent"), ("MultivariateNormal", "MultivariateNormal by factor"), ("Binomial", "Binomial"), ("Uniform", "Normal"),
    ("Laplace", "Normal"), ("Exponential", "Normal"), ("Exponential", "Gamma"), ("Gamma", "Exponential"), ("Normal", "Gamma"), ("Normal", "Poisson"),
    ("OneHotCategorical", "OneHotCategorical"), ("squashed", "squashed"),
]  # fmt: skip


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_divergences(p: str, q: str) -> None:
    found = []
    for torch in (upstream, readtorch):
        first, second = (
            CASES[name][0](torch.distributions, lambda data, of=torch, by=scale: of.tensor(data, dtype=of.float64) * by)
            for name, scale in ((p, 0.9), (q, 1.0))
        )
        found.append(asked(lambda d, k=torch.distributions.kl_divergence, s=second: k(d, s), first))
    same(*found, "kl")


@pytest.mark.parametrize(
    "ask",
    [
        lambda torch: torch.distributions.Normal(torch.zeros(2), torch.tensor([1.0, -1.0])),
        lambda torch: torch.distributions.Categorical(torch.tensor([0.5, -0.5])),
        lambda torch: torch.distributions.Categorical(),
        lambda torch: torch.distributions.Bernoulli(torch.tensor(1.5)),
        lambda torch: torch.distributions.Categorical(torch.ones(3)).log_prob(torch.tensor(3)),
        lambda torch: torch.distributions.Uniform(1.0, 0.0),
        lambda torch: torch.distributions.Beta(1.0, 1.0).log_prob(torch.tensor(2.0)),
        lambda torch: torch.distributions.Normal(torch.zeros(3), 1.0).log_prob(torch.zeros(2)),
        lambda torch: torch.distributions.MultivariateNormal(torch.zeros(2), torch.tensor([[1.0, 2.0], [2.0, 1.0]])),
        lambda torch: torch.distributions.MultivariateNormal(torch.zeros(2)),
        lambda torch: torch.distributions.Independent(torch.distributions.Normal(0.0, 1.0), 1),
        lambda torch: torch.distributions.Normal("a", 1.0),
        lambda torch: torch.distributions.Normal(0.0, 1.0).log_prob(1.0),
        lambda torch: torch.distributions.kl_divergence(torch.distributions.Normal(0.0, 1.0), torch.distributions.Categorical(torch.ones(2))),
        lambda torch: torch.distributions.Categorical(torch.ones(2)).rsample(),
        lambda torch: torch.distributions.TransformedDistribution(torch.distributions.Normal(0.0, 1.0), [3]),
        lambda torch: torch.distributions.Dirichlet(torch.tensor(1.0)),
    ],
)  # fmt: skip
def test_refusals(ask: Callable[[Any], Any]) -> None:
    raised = []
    for torch in (upstream, readtorch):
        with pytest.raises(Exception) as caught:
            ask(torch)
        raised.append(caught.type)
    assert raised[0] is raised[1]


@pytest.mark.parametrize(
    "constraint",
    [
        "real",
        "positive",
        "nonnegative",
        "unit_interval",
        "simplex",
        "lower_cholesky",
        "interval",
        "less_than",
        "real_vector",
    ],
)
def test_a_transform_reaches_its_constraint(constraint: str) -> None:
    found = []
    for torch in (upstream, readtorch):
        made = getattr(torch.distributions.constraints, constraint)
        made = made(-1.0, 2.0) if constraint == "interval" else made(1.5) if constraint == "less_than" else made
        transform = torch.distributions.transform_to(made)
        x = torch.linspace(-2, 2, 9, dtype=torch.float64).view(3, 3)
        y = transform(x)
        assert made.check(y).all()
        found.append((y.numpy(), transform.inv(y).numpy()))
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_a_cached_transform_gives_back_the_very_value() -> None:
    normal = readtorch.distributions.Normal(readtorch.zeros(3), readtorch.ones(3) * 30)
    squashed = readtorch.distributions.TransformedDistribution(
        normal, [readtorch.distributions.TanhTransform(cache_size=1)]
    )
    draw = squashed.rsample()
    assert squashed.log_prob(draw).isfinite().all()
