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
# # Counts and categories
#
# What a policy network gives is a categorical distribution, and the gradient of an expected reward goes through `log_prob` of the action drawn, not through the draw. All distributions here have `sample` and no `rsample`, but for the two *relaxed* ones of the next part.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: distributions/bernoulli.py
"""The Bernoulli distribution (twin of `torch/distributions/bernoulli.py`)."""

# %%
#| into: distributions/bernoulli.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.exp_family import ExponentialFamily
from readtorch.distributions.utils import _SuccessProbability, broadcast_all
from readtorch.nn.functional import binary_cross_entropy_with_logits


# %%
#| into: distributions/bernoulli.py
#| upstream: torch/distributions/bernoulli.py#Bernoulli
class Bernoulli(_SuccessProbability, ExponentialFamily):
    """1 with probability `probs`, which may be given as log-odds `logits`. ValueError unless one of the two is."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        likelier = (self.probs > 0.5).to(self.probs)
        return torch.where(self.probs == 0.5, torch.nan, likelier)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Bernoulli, ("probs", "logits", "_param"), batch_shape, _instance)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with torch.no_grad():
            return torch.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._numbered(self._param.new_tensor([0, 1]), expand)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (torch.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return torch.log1p(torch.exp(x))


# %% [markdown]
# A categorical normalizes what it is given: probabilities by their sum, logits by their logsumexp. Probabilities are checked before that, so rows that do not sum to one are accepted, and rows with a negative number are not. Distributions whose events are rows, one number for each category, hold a `Categorical` and show its parameters as theirs: `_Rows`.

# %%
#| into: distributions/categorical.py
"""The categorical distribution (twin of `torch/distributions/categorical.py`)."""

# %%
#| into: distributions/categorical.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch import Size
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.utils import lazy_property, logits_to_probs, probs_to_logits


# %%
#| into: distributions/categorical.py
#| upstream: torch/distributions/categorical.py#Categorical
class Categorical(Distribution):
    """Numbers 0 … n-1, with probabilities in proportion to `probs`, or to the exponentials of `logits`, along the last dimension.

    Raises ValueError unless exactly one of the two is given, with at least one dimension.
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name, given = ("probs", probs) if logits is None else ("logits", logits)
        assert given is not None
        if not given.shape:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        self._param = (
            given / given.sum(-1, keepdim=True) if logits is None else given - given.logsumexp(-1, keepdim=True)
        )
        setattr(self, name, self._param)
        *batch_shape, self._num_events = self._param.shape
        super().__init__(batch_shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities; they sum to one."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.size()

    @property
    def mean(self) -> Tensor:
        return torch.full(self._extended_shape(), torch.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        return self.mean

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(Categorical, ("probs", "logits", "_param"), batch_shape, _instance, event=1)
        new._num_events = self._num_events
        return new

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        drawn = torch.multinomial(rows.detach(), shape.numel(), True).T
        return drawn.reshape(self._extended_shape(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        value, logits = torch.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        finite = torch.clamp(self.logits, min=torch.finfo(self.logits.dtype).min)
        return -(finite * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._numbered(torch.arange(self._num_events, device=self._param.device), expand)


class _Rows(Distribution):
    """Events with one number for each category of a `Categorical`, whose parameters are theirs."""

    _categorical: Categorical

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self.param_shape[-1:], validate_args)

    @property
    def probs(self) -> Tensor:
        """Probabilities; they sum to one."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.size()


# %%
#| into: distributions/one_hot_categorical.py
"""Categories as rows with a single one (twin of `torch/distributions/one_hot_categorical.py`)."""

# %%
#| into: distributions/one_hot_categorical.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch import Size
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.categorical import _Rows


# %%
#| into: distributions/one_hot_categorical.py
#| upstream: torch/distributions/one_hot_categorical.py#OneHotCategorical
class OneHotCategorical(_Rows):
    """A categorical whose draws are one-hot rows."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return torch.nn.functional.one_hot(self.probs.argmax(dim=-1), self._event_shape[-1]).to(self.probs)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(OneHotCategorical, (), batch_shape, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = self._categorical.sample(Size(sample_shape))
        return torch.nn.functional.one_hot(drawn, self._event_shape[-1]).to(self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(self._checked(value).argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._numbered(torch.eye(self._event_shape[0]).to(self._param), expand)


# %% [markdown]
# `OneHotCategoricalStraightThrough` pretends: forward a one-hot row, backward the gradient of the probabilities.


# %%
#| into: distributions/one_hot_categorical.py
#| upstream: torch/distributions/one_hot_categorical.py#OneHotCategoricalStraightThrough
class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot draws with the gradient of the probabilities (Bengio et al. 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        probs = self._categorical.probs
        return self.sample(sample_shape) + (probs - probs.detach())


# %% [markdown]
# ## Counts

# %%
#| into: distributions/poisson.py
"""The Poisson distribution (twin of `torch/distributions/poisson.py`)."""

# %%
#| into: distributions/poisson.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.exp_family import ExponentialFamily
from readtorch.distributions.utils import broadcast_all


# %%
#| into: distributions/poisson.py
#| upstream: torch/distributions/poisson.py#Poisson
class Poisson(ExponentialFamily):
    """How many events come, where `rate` are expected."""

    arg_constraints: ClassVar[Any] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Poisson, ("rate",), batch_shape, _instance)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with torch.no_grad():
            return torch.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        rate, value = broadcast_all(self.rate, self._checked(value))
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (torch.log(self.rate),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return torch.exp(x)

    def entropy(self) -> Tensor:
        """No closed form: NotImplementedError."""
        raise NotImplementedError


# %%
#| into: distributions/geometric.py
"""The geometric distribution (twin of `torch/distributions/geometric.py`)."""

# %%
#| into: distributions/geometric.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.utils import _SuccessProbability, broadcast_all
from readtorch.nn.functional import binary_cross_entropy_with_logits


# %%
#| into: distributions/geometric.py
#| upstream: torch/distributions/geometric.py#Geometric
class Geometric(_SuccessProbability, Distribution):
    """How many trials fail before one succeeds. Unlike `Tensor.geometric_`, which counts the success too."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            raise ValueError(
                f"Expected parameter probs of distribution {self!r} to be positive but found invalid values:\n{self.probs}"
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return torch.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Geometric, ("probs", "logits", "_param"), batch_shape, _instance)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with torch.no_grad():
            u = self.probs.new_empty(self._extended_shape(sample_shape))
            u.uniform_(torch.finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        value, probs = broadcast_all(value, self.probs)
        probs = torch.where((probs == 1) & (value == 0), torch.zeros_like(probs), probs)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


# %%
#| into: distributions/binomial.py
"""The binomial distribution (twin of `torch/distributions/binomial.py`)."""

# %%
#| into: distributions/binomial.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.utils import _SuccessProbability


# %%
#| into: distributions/binomial.py
#| upstream: torch/distributions/binomial.py#Binomial
class Binomial(_SuccessProbability, Distribution):
    """Successes in `total_count` trials."""

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (self.total_count,) = self._take(probs, logits, total_count)
        super().__init__(self._param.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Binomial, ("total_count", "probs", "logits", "_param"), batch_shape, _instance)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        n, logits = self.total_count, self.logits
        ways = torch.lgamma(n + 1) - torch.lgamma(value + 1) - torch.lgamma(n - value + 1)
        #: n log(1 + exp(logits)), with the large part taken out of the exponential
        normalizer = n * logits.clamp(min=0) + n * torch.log1p(torch.exp(-torch.abs(logits)))
        return value * logits + ways - normalizer

    def entropy(self) -> Tensor:
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(torch.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        fewest, most = (int(count) for count in torch.aminmax(self.total_count))
        if fewest != most:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        return self._numbered(torch.arange(most + 1).to(self._param), expand)


# %%
#| into: distributions/negative_binomial.py
"""The negative binomial distribution (twin of `torch/distributions/negative_binomial.py`)."""

# %%
#| into: distributions/negative_binomial.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.gamma import Gamma
from readtorch.distributions.utils import _SuccessProbability


# %%
#| into: distributions/negative_binomial.py
#| upstream: torch/distributions/negative_binomial.py#NegativeBinomial
class NegativeBinomial(_SuccessProbability, Distribution):
    """Successes of probability `probs` before `total_count` failures: a Poisson number with a gamma rate."""

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (self.total_count,) = self._take(probs, logits, total_count)
        super().__init__(self.total_count.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * torch.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / torch.sigmoid(-self.logits)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(NegativeBinomial, ("total_count", "probs", "logits", "_param"), batch_shape, _instance)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with torch.no_grad():
            rate = Gamma(self.total_count, torch.exp(-self.logits), validate_args=False).sample(sample_shape)
            return torch.poisson(rate)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        n = self.total_count
        unnormalized = n * torch.nn.functional.logsigmoid(-self.logits) + value * torch.nn.functional.logsigmoid(
            self.logits
        )
        normalizer = -torch.lgamma(n + value) + torch.lgamma(1.0 + value) + torch.lgamma(n)
        return unnormalized - normalizer.masked_fill(n + value == 0.0, 0.0)


# %%
#| into: distributions/multinomial.py
"""The multinomial distribution (twin of `torch/distributions/multinomial.py`)."""

# %%
#| into: distributions/multinomial.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.binomial import Binomial
from readtorch.distributions.categorical import _Rows
from readtorch.distributions.utils import broadcast_all


# %%
#| into: distributions/multinomial.py
#| upstream: torch/distributions/multinomial.py#Multinomial
class Multinomial(_Rows):
    """How often each category comes in `total_count` draws. NotImplementedError for a count that is not one int."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)
        self._binomial = Binomial(total_count, self.probs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(Multinomial, (), batch_shape, _instance)
        new.total_count = self.total_count
        new._categorical = self._categorical.expand(batch_shape)
        new._binomial = Binomial(self.total_count, probs=new._categorical.probs, validate_args=False)
        return new

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        drawn = drawn.movedim(0, -1)
        counts = torch.zeros(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        return counts.scatter_add_(-1, drawn, torch.ones_like(drawn, dtype=counts.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        logits = logits.masked_fill((value == 0) & (logits == -torch.inf), 0)
        ways = torch.lgamma(value.sum(-1) + 1) - torch.lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = torch.tensor(self.total_count)
        support = self._binomial.enumerate_support(expand=False)[1:]
        weights = torch.exp(self._binomial.log_prob(support))
        return (
            n * self._categorical.entropy() - torch.lgamma(n + 1) + (weights * torch.lgamma(support + 1)).sum((0, -1))
        )


# %%
#| claim: the gradient of a categorical's log_prob by its logits is the one-hot row less the probabilities
def _(torch):
    logits = torch.tensor([[0.1, 0.7, -1.0, 2.0]] * 2, requires_grad=True)
    policy = torch.distributions.Categorical(logits=logits)
    actions = torch.tensor([3, 0])
    policy.log_prob(actions).sum().backward()
    assert torch.allclose(logits.grad, torch.nn.functional.one_hot(actions, 4) - policy.probs.detach(), atol=1e-6)
