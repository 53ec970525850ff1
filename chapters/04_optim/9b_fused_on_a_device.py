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
# # All parameters by one launch
#
# On a GPU the loop over parameters is the mistake. Whatever is done per parameter is done by the host, in microseconds, while the device needs a few microseconds for *all* of them. There the optimizers hand their whole lists to one kernel, described in the [appendix on kernels](../a3_kernels/5_optimizers.py). What has to be sorted out before is which parameters go together.

# %%
import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Who goes together?
#
# Parameters of one dtype on one device, contiguous, with gradient and state alike; for Adam also those that have made equally many steps, since the bias corrections are numbers of the launch (unless the counters are on the device, see below). As a rule that is one group. What fits into none takes the loop.
#
# For parameters of the host, or of a simulated device, which runs no CUDA C++, the question is over after one look at the first.

# %%
#| into: aten/native/fused_sgd.py
#| imports
from collections.abc import Iterator, Sequence


# %%
#| into: aten/native/fused_sgd.py
#| upstream: torch/optim/optimizer.py#Optimizer._group_tensors_by_device_and_dtype
def on_device(first: Any) -> bool:
    """Do fused kernels of a device reach this tensor?"""
    array = getattr(first, "_array", None)
    if array is None or array.__class__ is np.ndarray:
        return False
    from readtorch.aten.native.cuda import jit_utils

    return jit_utils.target.takes(array)


def device_groups(lists: Sequence[Sequence[Any]], steps: Sequence[float] | None = None) -> Iterator[list[int]]:
    """Numbers of the parameters that one launch can take, group by group. A list's None stands for memory yet to be made."""
    from readtorch.aten.native.cuda import jit_utils

    takes = jit_utils.target.takes
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, row in enumerate(zip(*lists, strict=True)):
        arrays = [tensor._array for tensor in row if tensor is not None]
        first = arrays[0]
        alike = all(
            takes(a) and a.dtype == first.dtype and a.shape == first.shape and a.flags.c_contiguous for a in arrays
        )
        if alike and jit_utils.cpp_type(first) is not None:
            made = tuple(tensor is not None for tensor in row)
            step = None if steps is None else steps[number]
            key = (first.dtype, getattr(getattr(first, "data", None), "device_id", 0), step, made)
            groups.setdefault(key, []).append(number)
    yield from groups.values()


def arrays_of(tensors: Sequence[Any], numbers: Sequence[int]) -> list[Any]:
    """The arrays behind some tensors of a list."""
    return [tensors[number]._array for number in numbers]


# %% [markdown]
# ## SGD
#
# A group whose buffers do not exist yet gets them: uninitialised, since the kernel's first step writes the gradient there.


# %%
#| into: aten/native/fused_sgd.py
def sgd_on_device(
    params: Sequence[Any], grads: Sequence[Any], buffers: list[Any], *, momentum: float, **options: Any
) -> frozenset[int]:
    """Step the parameters that a device's kernel can take, and put fresh buffers into `buffers`: which those were."""
    if not params or not on_device(params[0]):
        return frozenset()
    from readtorch.aten.native.cuda import jit_utils
    from readtorch.aten.native.cuda.fused_sgd_kernel import sgd as kernel

    done: set[int] = set()
    lists = [params, grads, *([buffers] if momentum != 0 else [])]
    for numbers in device_groups(lists):
        arrays = [arrays_of(one, numbers) for one in (params, grads)]
        xp = jit_utils.array_module(arrays[0][0])
        first = momentum != 0 and buffers[numbers[0]] is None
        with jit_utils.target.beside(arrays[0][0]):
            if first:
                for number, array in zip(numbers, arrays[0], strict=True):
                    buffers[number] = wrap(xp.empty_like(array))
            moved = arrays_of(buffers, numbers) if momentum != 0 else None
            kernel(arrays[0], arrays[1], moved, momentum=momentum, first=first, **options)
        bump(*(one[number] for one in (params, buffers)[: 1 + (moved is not None)] for number in numbers))
        done.update(numbers)
    return frozenset(done)


# %%
#| into: aten/native/fused_sgd.py
#| imports
from readtorch.c10.core.tensor_impl import wrap

# %% [markdown]
# ## Adam
#
# The step counters are numbers of the host, unless `fused=True` or `capturable=True` asked for tensors on the device. Then the kernel reads them where they are, as upstream's does: to read them here the host would have to wait for all that the device has been given to do. Each parameter brings its own, so that it does not matter how many steps the others have made.

# %%
#| into: aten/native/fused_adam.py
#| imports
from collections.abc import Sequence

from readtorch.aten.native.fused_sgd import arrays_of, bump, device_groups, on_device


# %%
#| into: aten/native/fused_adam.py
#| upstream: aten/src/ATen/native/cuda/FusedAdamKernel.cu#at::native::_fused_adam_kernel_cuda_
def adam_on_device(
    params: Sequence[Any],
    grads: Sequence[Any],
    exp_avgs: Sequence[Any],
    exp_avg_sqs: Sequence[Any],
    max_exp_avg_sqs: Sequence[Any] | None,
    state_steps: Sequence[Any],
    **options: Any,
) -> frozenset[int]:
    """Step the parameters that a device's kernel can take: which those were. The counters have been moved on before."""
    if not params or not on_device(params[0]):
        return frozenset()
    from readtorch.aten.native.cuda import jit_utils
    from readtorch.aten.native.cuda.fused_adam_kernel import adam as kernel

    done: set[int] = set()
    written = [params, exp_avgs, exp_avg_sqs, *([] if max_exp_avg_sqs is None else [max_exp_avg_sqs])]
    counted = all(on_device(step) and step._array.dtype == np.float32 for step in state_steps)
    steps = None if counted else _host_numbers(state_steps)
    for numbers in device_groups([*written, grads], steps):
        step = arrays_of(state_steps, numbers) if steps is None else steps[numbers[0]]
        most = None if max_exp_avg_sqs is None else arrays_of(max_exp_avg_sqs, numbers)
        arrays = [arrays_of(one, numbers) for one in (params, grads, exp_avgs, exp_avg_sqs)]
        with jit_utils.target.beside(arrays[0][0]):
            kernel(arrays[0], arrays[1], arrays[2], arrays[3], most, step, **options)
        bump(*(one[number] for one in written for number in numbers))
        done.update(numbers)
    return frozenset(done)


def _host_numbers(tensors: Sequence[Any]) -> list[float]:
    """The values of single numbers, with one wait where they lie on a device."""
    arrays = [tensor._array for tensor in tensors]
    if all(isinstance(array, np.ndarray) for array in arrays):
        return [float(array) for array in arrays]
    from readtorch.aten.native.cuda.jit_utils import array_module

    return array_module(arrays[0]).stack(arrays).get().tolist()


# %% [markdown]
# ## Averages of models
#
# `AveragedModel` with a `multi_avg_fn` is a `lerp_` per parameter on the host, one launch per group on a device.

# %%
#| into: aten/native/foreach_ops_kernels.py
#| imports
from readtorch.aten.native.fused_sgd import arrays_of, bump, device_groups, on_device


# %%
#| into: aten/native/foreach_ops_kernels.py
#| upstream: aten/src/ATen/native/cuda/ForeachTernaryOp.cu#at::native::foreach_tensor_lerp_scalar_cuda_
def lerp_on_device(starts: Sequence[Any], ends: Sequence[Any], weight: float) -> frozenset[int]:
    """`start += weight (end - start)` in place for the pairs that a device's kernel can take: which those were."""
    if not starts or not on_device(starts[0]):
        return frozenset()
    from readtorch.aten.native.cuda import jit_utils
    from readtorch.aten.native.cuda.foreach_ternary_op import lerp as kernel

    done: set[int] = set()
    for numbers in device_groups([starts, ends]):
        arrays = [arrays_of(one, numbers) for one in (starts, ends)]
        with jit_utils.target.beside(arrays[0][0]):
            kernel(arrays[0], arrays[1], weight)
        bump(*(starts[number] for number in numbers))
        done.update(numbers)
    return frozenset(done)


# %% [markdown]
# ## One launch, counted
#
# The kernels run on the CPU too, where there is a g++ (see the appendix). Here a network's parameters are put behind a class of arrays that is not NumPy's own, which is how the optimizer tells a device's; the launches are counted.

# %%
from readtorch.aten.native.cuda.jit_utils import running_on
from readtorch.literate import fibres


class OnDevice(np.ndarray):
    """Arrays that count as a device's."""


if fibres.available():
    model = torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.ReLU(), torch.nn.Linear(50, 3))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
        for tensor in (parameter, parameter.grad):
            tensor._array = tensor._array.view(OnDevice)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    device = fibres.OnCpu()
    with running_on(device):
        optimizer.step()
        optimizer.step()
    print(device.launches)
else:
    print("there is no g++ here")
