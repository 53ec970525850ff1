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
# # Convolution of groups
#
# With `groups = g`, output channels see only the input channels of their own group. Where groups are wide, that is `g` of [the convolutions before](nn_1_convolution.py). Where they are narrow, rows of windows would be short runs, and
# when each channel is a group (*depthwise*) the products would be of vectors. The remedy is to make each product long: one channel of *all* images is one vector.
#
# A kernel with `K` rows and `L` columns is then taken apart into two steps with a small matrix between them:
#
# 1. *Stack*: `L` copies of each channel, the `l`-th shifted by `l` columns. In a flattened plane that is a move by `l` numbers, one `memcpy`; afterwards zeros are put where a row's end was moved to the next row's beginning.
# 2. *Multiply*: the `(K O, L C)` matrix of a group's weights by the stack of its `C` channels. All groups go into one `matmul`.
# 3. *Add*: the `K` products per output channel, the `k`-th shifted by `k` rows.
#
# So a 3×3 kernel costs two more copies and two additions. What one would write first, nine multiplications and eight additions of shifted images with channels last, takes three times as long on (32, 96, 16, 16), and four times with a 5×5 kernel on (32, 128, 16, 16). Both gradients are those of any matrix product
# `Z = W S`: `∂L/∂S = Wᵀ ∂L/∂Z` is the same three steps with rows and columns of the matrix exchanged and all shifts reversed; `∂L/∂W = ∂L/∂Z Sᵀ`, where `∂L/∂Z` is the output gradient stacked by rows.
#
# **Strides.** Kernel element `k` meets inputs `s i + k d - p`. With `k d - p = s q + r` these are the elements `i + q` of every `s`-th input from `r` on, the `r`-th *phase*. A convolution with stride `s` is the sum of at most `s` convolutions without stride, of a phase each with its share of the kernel,
# and in the input's gradient each phase is written once: nothing is multiplied by a zero that the stride left out.


# %%
import readtorch as torch
from readtorch.literate import live

live()


# %%
#| into: aten/native/convolution.py
class _Shift(NamedTuple):
    """The move `target[i] = source[i + distance]` over flattened images of one size."""

    target: slice
    source: slice
    starved: tuple[tuple[Any, ...], ...]
    """Regions of an image whose source lies beyond its edge; a flat move reads something else there."""
    orphaned: tuple[tuple[Any, ...], ...]
    """Regions of the source that are moved over an edge."""

    @property
    def moves(self) -> bool:
        return bool(self.starved)

    def reversed(self) -> _Shift:
        return _Shift(self.source, self.target, self.orphaned, self.starved)


def _shift(distances: Sequence[int], size: Sequence[int]) -> _Shift:
    flat = 0
    starved, orphaned = [], []
    for axis, (q, n) in enumerate(zip(distances, size, strict=True)):
        flat = flat * n + q
        head, tail = slice(0, min(abs(q), n)), slice(max(n - abs(q), 0), n)
        behind = (slice(None),) * (len(size) - 1 - axis)
        if q:
            starved.append((..., tail if q > 0 else head, *behind))
            orphaned.append((..., head if q > 0 else tail, *behind))
    ahead, back = slice(max(flat, 0), None), slice(None, -flat if flat > 0 else None)
    if flat < 0:
        ahead, back = slice(None, flat), slice(-flat, None)
    return _Shift(back, ahead, tuple(starved), tuple(orphaned))


class _Phase(NamedTuple):
    """The share of a kernel that meets one phase of the input."""

    places: tuple[Any, ...]
    """Selects the phase from an input."""
    taps: tuple[Any, ...]
    """Selects the kernel elements, from an array that ends in `kernel`."""
    rows: tuple[_Shift, ...]
    """One per element of the kernel without its last dimension."""
    columns: tuple[_Shift, ...]


@functools.lru_cache(256)
def _phases(kernel: tuple[int, ...], geometry: Geometry, size: tuple[int, ...]) -> tuple[_Phase, ...]:
    """For images laid out with `size`, which has room for every phase of the input and for the output."""
    along = []
    for k, *slide in zip(kernel, *geometry, strict=True):
        stride, padding, dilation = slide
        phases: dict[int, list[tuple[int, int]]] = {}
        for tap in range(k):
            distance, phase = divmod(tap * dilation - padding, stride)
            phases.setdefault(phase, []).append((tap, distance))
        along.append([(slice(phase, None, stride), *zip(*found, strict=True)) for phase, found in phases.items()])
    whole = []
    for chosen in itertools.product(*along):
        places, taps, distances = zip(*chosen, strict=True)
        *above, last = distances
        rows = tuple(_shift((*q, 0), size) for q in itertools.product(*above))
        columns = tuple(_shift((*(0,) * len(above), q), size) for q in last)
        whole.append(_Phase((..., *places), (..., *np.ix_(*taps)), rows, columns))
    return tuple(whole)


# %%
#| into: aten/native/convolution.py
def _stack(name: str, x: Array, shifts: Sequence[_Shift], size: Sequence[int]) -> Array:
    """`x (g, C, N, *own)` shifted in each of these ways, with zeros around it: `(g, shifts, C, N, *size)`."""
    g, c, n, *own = x.shape
    stack = _buffer(name, (g, len(shifts), c, n, *size), x.dtype)
    still = next((i for i, shift in enumerate(shifts) if not shift.moves), None)
    image = _buffer("image", (g, c, n, *size), x.dtype) if still is None else stack[:, still]
    if own != list(size):
        image[...] = 0
    image[(..., *map(slice, own))] = x
    source, target = image.reshape(g, c, -1), stack.reshape(g, len(shifts), c, -1)
    for number, shift in enumerate(shifts):
        if number != still:
            target[:, number, :, shift.target] = source[..., shift.source]
            for region in shift.starved:
                stack[:, number][region] = 0
    return stack


def _add_shifted(products: Array, shifts: Sequence[_Shift]) -> Array:
    """The sum of `products (g, shifts, O, N, *size)`, each shifted in its way; they are overwritten."""
    g, _, o, *size = products.shape
    still = next((i for i, shift in enumerate(shifts) if not shift.moves), None)
    total = np.zeros((g, o, *size), products.dtype) if still is None else products[:, still]
    target, source = total.reshape(g, o, -1), products.reshape(g, len(shifts), o, -1)
    for number, shift in enumerate(shifts):
        if number != still:
            for region in shift.orphaned:
                products[:, number][region] = 0
            part = target[..., shift.target]
            part += source[:, number, :, shift.source]
    return total


def _correlate(
    x: Array, matrix: Array, rows: Sequence[_Shift], columns: Sequence[_Shift], size: Sequence[int]
) -> Array:
    """Stack, multiply, add: `x (g, C, N, *own)` to `(g, O, N, *size)`, in memory that the next call will overwrite."""
    stack = _stack("columns", x, columns, size)
    g, n, length = len(x), x.shape[2], matrix.shape[1]
    products = _buffer("product", (g, length, n * math.prod(size)), x.dtype)
    flat = stack.reshape(g, matrix.shape[2], -1)
    # an outer product by matmul is ten times slower: it is too thin for BLAS
    (np.multiply if matrix.shape[2] == 1 else np.matmul)(matrix, flat, out=products)
    return _add_shifted(products.reshape(g, len(rows), length // len(rows), n, *size), rows)


# %%
#| into: aten/native/convolution.py
class _Groups:
    """A convolution in `groups`, for inputs and outputs of given sizes: how they are laid out and cut into blocks."""

    def __init__(
        self, size: Sequence[int], out: Sequence[int], weight_shape: Sequence[int], geometry: Geometry, groups: int
    ) -> None:
        o, self.inputs, *kernel = weight_shape
        self.groups, self.outputs, self.kernel = groups, o // groups, tuple(kernel)
        self.size = tuple(max(-(-n // s), m) for n, s, m in zip(size, geometry.stride, out, strict=True))
        self.phases = _phases(self.kernel, geometry, self.size)

    def split(self, array: Array) -> Array:
        """`(N, channels, *size)` as `(groups, channels of one, N, *size)`."""
        n, c, *size = array.shape
        return np.moveaxis(array.reshape(n, self.groups, c // self.groups, *size), 0, 2)

    def blocks(self, images: int, itemsize: int) -> tuple[list[slice], list[slice]]:
        """Groups and images that stay in the cache with their stacks and products; images are cut only if one group is too much."""
        copies = max(self.inputs * len(phase.columns) + self.outputs * len(phase.rows) for phase in self.phases)
        each = max(1, math.prod(self.size) * copies * itemsize)
        together = max(1, min(images, _GROUPS_BLOCK // each))
        step = max(1, _GROUPS_BLOCK // (each * together)) if together == images else 1
        return _cut(self.groups, step), _cut(images, together)

    def matrices(self, weight: Array, to_input: bool) -> list[Array]:
        """For each phase the `(rows · outputs, columns · inputs)` of every group, or with outputs and inputs exchanged."""
        weight = weight.reshape(self.groups, self.outputs, self.inputs, *self.kernel)
        if to_input:
            weight = weight.swapaxes(1, 2)
        found = []
        for phase in self.phases:
            part = weight[phase.taps]
            part = part.reshape(*part.shape[:3], len(phase.rows), len(phase.columns)).transpose(0, 3, 1, 4, 2)
            found.append(np.ascontiguousarray(part).reshape(self.groups, part.shape[1] * part.shape[2], -1))
        return found


_GROUPS_BLOCK = 3 << 20
"""Bytes of stack and products. Half of it is no faster in one thread, and in two it is a third slower: each block is a dozen calls."""


def _cut(count: int, step: int) -> list[slice]:
    return [slice(first, min(count, first + step)) for first in range(0, count, step)]


# %%
#| into: aten/native/convolution.py
def _are_narrow(weight_shape: Sequence[int], groups: int) -> bool:
    """Is a product for each group worth less than one copy for each column of the kernel?"""
    return max(weight_shape[1], weight_shape[0] // groups) <= _NARROW


_NARROW = 32
"""Channels per group. Measured from 1 to 64: at 32 both ways take the same time."""


def _in_planes(x: Array) -> Array:
    """`x (N, C, *size)` with a channel's numbers beside each other, which they are not in channels-last memory."""
    if not is_channels_last(x):
        return x
    planes = np.empty((*x.shape[:2], math.prod(x.shape[2:])), x.dtype)
    copy_transposed(planes, x.reshape(planes.shape))
    return planes.reshape(x.shape)


def _grouped_forward(x: Array, weight: Array, geometry: Geometry, groups: int) -> Array:
    out = geometry.output_size(x.shape[2:], weight.shape[2:])
    plan = _Groups(x.shape[2:], out, weight.shape, geometry, groups)
    y = np.empty((len(x), len(weight), *out), x.dtype)
    source, target, matrices = plan.split(x), plan.split(y), plan.matrices(weight, to_input=False)
    own = (..., *map(slice, out))
    blocks = list(itertools.product(*plan.blocks(len(x), x.itemsize)))

    def correlate(start: int, stop: int) -> None:
        for part, images in blocks[start:stop]:
            for number, (phase, matrix) in enumerate(zip(plan.phases, matrices, strict=True)):
                block = source[part, :, images][phase.places]
                value = _correlate(block, matrix[part], phase.rows, phase.columns, plan.size)[own]
                if number:
                    target[part, :, images] += value
                else:
                    target[part, :, images] = value

    parallel_for(0, len(blocks), 1, correlate)
    return y


def _grouped_input_gradient(dy: Array, weight: Array, size: Sequence[int], geometry: Geometry, groups: int) -> Array:
    plan = _Groups(size, dy.shape[2:], weight.shape, geometry, groups)
    skipped = len(plan.phases) < math.prod(geometry.stride)
    dx = (np.zeros if skipped else np.empty)((len(dy), plan.groups * plan.inputs, *size), dy.dtype)
    source, target, matrices = plan.split(dy), plan.split(dx), plan.matrices(weight, to_input=True)
    blocks = list(itertools.product(*plan.blocks(len(dy), dy.itemsize)))
    back = [
        ([shift.reversed() for shift in phase.rows], [shift.reversed() for shift in phase.columns])
        for phase in plan.phases
    ]

    def correlate(start: int, stop: int) -> None:
        for part, images in blocks[start:stop]:
            block = source[part, :, images]
            for phase, matrix, shifts in zip(plan.phases, matrices, back, strict=True):
                value = _correlate(block, matrix[part], *shifts, plan.size)
                gradient = target[part, :, images][phase.places]
                gradient[...] = value[(..., *map(slice, gradient.shape[3:]))]

    parallel_for(0, len(blocks), 1, correlate)
    return dx


def _grouped_weight_gradient(
    dy: Array, x: Array, weight_shape: Sequence[int], geometry: Geometry, groups: int
) -> Array:
    plan = _Groups(x.shape[2:], dy.shape[2:], weight_shape, geometry, groups)
    dw = np.zeros((groups, plan.outputs, plan.inputs, *plan.kernel), x.dtype)
    source, gradient = plan.split(x), plan.split(dy)
    parts, batches = plan.blocks(len(x), x.itemsize)

    def add_up(start: int, stop: int) -> None:
        for part, images, phase in itertools.product(parts[start:stop], batches, plan.phases):
            block, grad = source[part, :, images][phase.places], gradient[part, :, images]
            stack = _stack("columns", block, phase.columns, plan.size)
            above = _stack("product", grad, [shift.reversed() for shift in phase.rows], plan.size)
            left = above.reshape(len(above), len(phase.rows) * plan.outputs, -1)
            right = stack.reshape(len(stack), len(phase.columns) * plan.inputs, -1)
            product = (left @ right.swapaxes(1, 2)).reshape(
                len(left), len(phase.rows), plan.outputs, len(phase.columns), plan.inputs
            )
            total = dw[part][phase.taps]
            dw[part][phase.taps] = total + product.transpose(0, 2, 4, 1, 3).reshape(total.shape)

    parallel_for(0, len(parts), 1, add_up)
    return dw.reshape(weight_shape)


# %% [markdown]
# The kernel of a depthwise convolution is one number per channel and tap, so a channel that is all ones with a kernel that counts 0 to 8 shows which taps met the image and which its edge:

# %%
#| needs: a2_layers
counting = torch.arange(9.0).reshape(1, 1, 3, 3).repeat(2, 1, 1, 1)
torch.nn.functional.conv2d(torch.ones(1, 2, 3, 4), counting, padding=1, groups=2)[0, 0]


# %%
#| needs: a2_layers
#| claim: a convolution with groups is one convolution per group, side by side, in its gradients too
#| upstream: aten/src/ATen/native/Convolution.cpp#at::native::_convolution
def _(torch):
    torch.manual_seed(0)
    conv2d = torch.nn.functional.conv2d
    x = torch.randn(2, 6, 7, 5, dtype=torch.float64, requires_grad=True)
    w = torch.randn(9, 2, 3, 2, dtype=torch.float64, requires_grad=True)
    for options in ({"stride": (2, 1)}, {"padding": 1, "dilation": (1, 2)}):
        grouped = conv2d(x, w, groups=3, **options)
        apart = torch.cat([conv2d(a, b, **options) for a, b in zip(x.chunk(3, 1), w.chunk(3), strict=True)], 1)
        assert torch.allclose(grouped, apart)
        cotangent = torch.randn_like(grouped)
        for got, wanted in zip(*(torch.autograd.grad(y, (x, w), cotangent) for y in (grouped, apart)), strict=True):
            assert torch.allclose(got, wanted)
