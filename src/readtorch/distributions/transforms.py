# Tangled from chapters/a4_distributions/4_transforms.py — edit there, or here and run `readtorch sync`.
"""Invertible functions with the logarithm of their stretch (twin of `torch/distributions/transforms.py`)."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate, pairwise
from typing import Any

import readtorch as torch
import readtorch.nn.functional as F
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.utils import _sum_rightmost, broadcast_all


class Transform:
    """An invertible function. Subclasses give `_call`, `_inverse` and `log_abs_det_jacobian`, `domain` and `codomain`.

    `bijective`: every value of the codomain has exactly one origin. `sign`: 1 where it grows, -1 where it falls.
    """

    bijective = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        self._cached_x_y: tuple[Any, Any] = (None, None)

    @property
    def event_dim(self) -> int:
        """Of domain and codomain, where they agree."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse function, as a transform."""
        inverse = self._inv and self._inv()
        if inverse is None:
            inverse = self._inverted()
            self._inv = weakref.ref(inverse)
        return inverse

    def _inverted(self) -> Transform:
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        """1 if the function grows, -1 if it falls."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same function with another cache."""
        return self if cache_size == self._cache_size else self._made_again(cache_size)

    def _made_again(self, cache_size: int) -> Transform:
        """A transform with this one's parameters. NotImplementedError for a class with parameters that does not say how."""
        if type(self).__init__ is not Transform.__init__:
            raise NotImplementedError(f"{type(self)}.with_cache is not implemented")
        return type(self)(cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        """What x becomes."""
        return self._partner(x, 0, self._call)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._partner(y, 1, self._inverse)

    def _partner(self, value: Tensor, side: int, function: Callable[[Tensor], Tensor]) -> Tensor:
        """What `function` makes of `value`, which is an x (`side` 0) or a y (1); looked up, if it is the one of the last time."""
        pair = self._cached_x_y
        if self._cache_size and value is pair[side]:
            return pair[1 - side]
        partner = function(value)
        if self._cache_size:
            self._cached_x_y = (partner, value) if side else (value, partner)
        return partner

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of |dy/dx|, one number for each event."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__ + "()"

    def forward_shape(self, shape: Any) -> Any:
        """The shape of y for a shape of x."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of x for a shape of y."""
        return shape


class _InverseTransform(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv: Transform = transform

    @constraints.dependent_property
    def domain(self) -> Any:
        return self._inv.codomain

    @constraints.dependent_property
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]  # asked of another object, where the base has a plain attribute
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)


def _stretch_along(parts: Sequence[Transform], points: Sequence[Tensor], event_dim: int) -> Any:
    """The logarithms of the parts' stretches, added up; part i takes point i to point i+1, events of point 0 have `event_dim` dimensions."""
    total: Any = 0
    for part, (x, y) in zip(parts, pairwise(points), strict=True):
        spare = event_dim - part.domain.event_dim
        total = total + _sum_rightmost(part.log_abs_det_jacobian(x, y), spare)
        event_dim = part.codomain.event_dim + spare
    return total


class ComposeTransform(Transform):
    """One after the other, the first of `parts` first."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        super().__init__(cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    def _over_all(self, ends: tuple[str, str], parts: Sequence[Transform]) -> int:
        """How many dimensions of the first part's input one event of the whole takes."""
        dims = getattr(parts[0], ends[0]).event_dim
        shift = 0
        for part in parts:
            dims = max(dims, getattr(part, ends[0]).event_dim + shift)
            shift += getattr(part, ends[0]).event_dim - getattr(part, ends[1]).event_dim
        return dims

    @constraints.dependent_property
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        first = self.parts[0].domain
        more = self._over_all(("domain", "codomain"), self.parts) - first.event_dim
        return constraints.independent(first, more) if more else first

    @constraints.dependent_property
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        last = self.parts[-1].codomain
        more = self._over_all(("codomain", "domain"), self.parts[::-1]) - last.event_dim
        return constraints.independent(last, more) if more else last

    @property
    def bijective(self) -> bool:  # type: ignore[override]  # asked of another object, where the base has a plain attribute
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        return math.prod(part.sign for part in self.parts)

    def _inverted(self) -> Transform:
        inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
        inverse._inv = weakref.ref(self)
        return inverse

    def _made_again(self, cache_size: int) -> Transform:
        return ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        return reduce(lambda point, part: part(point), self.parts, x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return torch.zeros_like(x)
        between = accumulate(self.parts[:-1], lambda point, part: part(point), initial=x)
        return _stretch_along(self.parts, [*between, y], self.domain.event_dim)

    def forward_shape(self, shape: Any) -> Any:
        return reduce(lambda reached, part: part.forward_shape(reached), self.parts, shape)

    def inverse_shape(self, shape: Any) -> Any:
        return reduce(lambda reached, part: part.inverse_shape(reached), reversed(self.parts), shape)

    def __repr__(self) -> str:
        inner = ",\n    ".join(repr(part) for part in self.parts)
        return f"{type(self).__name__}(\n    {inner}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last batch dimensions count as part of an event: their stretches are summed."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def _made_again(self, cache_size: int) -> Transform:
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]  # asked of another object, where the base has a plain attribute
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)


class _Monotone(Transform):
    """Of one number, with nothing to remember: equal if of one class."""

    bijective = True
    domain: Any = constraints.real
    sign: Any = +1

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = object.__hash__


class ExpTransform(_Monotone):
    """exp(x)."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(_Monotone):
    """1 / (1 + exp(-x)); y is kept off 0 and 1 by the precision of its dtype."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        limits = torch.finfo(x.dtype)
        return torch.clamp(torch.sigmoid(x), min=limits.tiny, max=1.0 - limits.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        limits = torch.finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_Monotone):
    """log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class TanhTransform(_Monotone):
    """tanh(x). The stretch is written with softplus: 1 - tanh² is zero in single precision from 10 on."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return torch.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class PowerTransform(Transform):
    """x to the power of `exponent`."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def _made_again(self, cache_size: int) -> Transform:
        return PowerTransform(self.exponent, cache_size=cache_size)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return torch.broadcast_shapes(shape, self.exponent.shape)

    def inverse_shape(self, shape: Any) -> Any:
        return torch.broadcast_shapes(shape, self.exponent.shape)


class AbsTransform(Transform):
    """|x|: two origins for each value, of which the inverse gives the positive one."""

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """loc + scale · x, of numbers (`event_dim=0`) or of vectors (1) and larger events."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self.domain

    def _made_again(self, cache_size: int) -> Transform:
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    @property
    def sign(self) -> Any:
        return self.scale.sign() if isinstance(self.scale, Tensor) else (self.scale > 0) - (self.scale < 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        pairs = ((self.loc, other.loc), (self.scale, other.scale))
        return all(bool((torch.as_tensor(a) == torch.as_tensor(b)).all()) for a, b in pairs)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            stretch = torch.abs(self.scale).log()
        else:
            stretch = torch.full_like(x, math.log(abs(self.scale)))
        return _sum_rightmost(stretch.expand(x.shape), self.event_dim)

    def _with_parameters(self, shape: Any) -> Any:
        return torch.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    forward_shape = inverse_shape = _with_parameters


class SoftmaxTransform(Transform):
    """Logarithms of weights into probabilities. Not one to one, so without a stretch; the inverse is the logarithm."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return torch.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """n numbers into n+1 probabilities, one to one."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    __hash__ = object.__hash__

    @staticmethod
    def _offset(x: Tensor) -> Tensor:
        """By which equal probabilities come from zeros."""
        return (x.shape[-1] - torch.arange(x.shape[-1], dtype=x.dtype, device=x.device)).log()

    def _call(self, x: Tensor) -> Tensor:
        limits = torch.finfo(x.dtype)
        broken = torch.clamp(torch.sigmoid(x - self._offset(x)), min=limits.tiny, max=1.0 - limits.eps)
        return F.pad(broken, [0, 1], value=1) * F.pad((1 - broken).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        kept = y[..., :-1]
        rest = torch.clamp(1 - kept.cumsum(-1), min=torch.finfo(y.dtype).tiny)
        return kept.log() - rest.log() + self._offset(kept)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offset(x)
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> Any:
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(Transform):
    """A square matrix into a lower triangle with a positive diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class ReshapeTransform(Transform):
    """The same numbers in another shape of events."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = torch.Size(in_shape), torch.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _made_again(self, cache_size: int) -> Transform:
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return self._reshaped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._reshaped(shape, self.out_shape, self.in_shape)

    @staticmethod
    def _reshaped(shape: Any, old: Any, new: Any) -> Any:
        cut = len(shape) - len(old)
        if cut < 0 or tuple(shape[cut:]) != old:
            raise ValueError(f"Shape mismatch: expected {old} at the end, got {shape}")
        return torch.Size(shape[:cut]) + new
