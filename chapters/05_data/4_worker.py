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
# # What runs in a worker
#
# A worker is a process with a copy of the dataset, a queue of indices to read and a queue to answer on. It fetches and collates exactly as the main process would, by the same fetcher.
# What is new is everything that processes do not share: exceptions, random state, and the knowledge that the other side is still alive.

# %%
import readtorch as torch
from readtorch.literate import live
from readtorch.utils import data

live()

# %% [markdown]
# ## An exception on its way home
#
# A traceback cannot be pickled, and the class alone tells nobody where. So the worker renders the traceback as text, and the parent raises the *same class* with that text as
# its message. Two classes resist: `KeyError` shows the `repr` of its argument, which would put the whole traceback on one line full of `\n`; and a class whose constructor takes more
# than a message cannot be rebuilt, so it becomes a `RuntimeError`.

# %%
#| into: _utils.py
#| imports
from __future__ import annotations


import contextlib
import sys
import traceback
from typing import Any, NoReturn


# %%
#| into: _utils.py
#| upstream: torch/_utils.py#ExceptionWrapper
class KeyErrorMessage(str):
    """A message that KeyError shows as it is: its repr is itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return self


class ExceptionWrapper:
    """The exception being handled, in a form that can be sent to another process or thread. `where` says where it was."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, value, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = kind
        #: The text only: a traceback holds every frame, and through them this very object.
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raise the same class with the original traceback in its message, or RuntimeError where it cannot be made."""
        kind, text = self.exc_type, f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        exception: Exception = RuntimeError(text)
        if getattr(kind, "message", None):
            exception = kind(message=text)
        else:
            with contextlib.suppress(Exception):
                exception = kind(KeyErrorMessage(text) if kind is KeyError else text)
        raise exception


# %%
#| into: utils/data/_utils/worker.py
"""The loop of a worker process, and what code running in one can find out about itself."""

# %%
#| into: utils/data/_utils/worker.py
#| imports
from __future__ import annotations

import os
import queue
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import readtorch as torch
from readtorch._utils import ExceptionWrapper
from readtorch.multiprocessing import reductions
from readtorch.utils.data._utils.fetch import _BaseDatasetFetcher, _IterableDatasetFetcher, _MapDatasetFetcher

# %% [markdown]
# ## Which worker am I?

# %%
#| into: utils/data/_utils/worker.py
#| upstream: torch/utils/data/_utils/worker.py#WorkerInfo
STATUS_CHECK_INTERVAL = 5.0
"""Seconds between looks at whether the other side is alive, while waiting for it."""


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What `get_worker_info` tells: the worker's number, how many there are, its seed and its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The worker this code runs in, or None in the main process."""
    return _worker_info


# %% [markdown]
# Other loaders run their workers as threads of one process, which would all draw from one generator. Such a loader gives each worker an `rng` and says so in `worker_method`; a transform that asks `torch.thread_safe_generator()` gets its thread's generator there, and None, the default one, everywhere else.


# %%
#| into: random.py
#| upstream: torch/random.py#thread_safe_generator
def thread_safe_generator() -> Generator | None:
    """The generator of the worker thread this runs in; None in the main process and in worker processes."""
    from readtorch.utils.data import get_worker_info

    worker = get_worker_info()
    if worker is not None and worker.worker_method == "thread" and worker.rng is not None:
        return worker.rng.torch_generator
    return None


# %%
#| into: __init__.py
_NAMES.update({"thread_safe_generator": "random"})


# %%
#| claim: thread_safe_generator is None in the main process, and in a worker thread the generator that its loader gave it
def _(torch):
    import types

    from_loader = torch.Generator()
    worker_module = torch.utils.data._utils.worker
    assert torch.thread_safe_generator() is torch.random.thread_safe_generator() is None
    rng = types.SimpleNamespace(torch_generator=from_loader)
    try:
        for method, expected in (("thread", from_loader), ("multiprocessing", None)):
            worker_module._worker_info = torch.utils.data._utils.worker.WorkerInfo(
                id=0, num_workers=1, seed=0, dataset=None, rng=rng, worker_method=method
            )
            assert torch.thread_safe_generator() is expected
    finally:
        worker_module._worker_info = None


# %%
#| into: utils/data/_utils/worker.py
@dataclass(frozen=True, slots=True)
class _IterableDatasetStopIteration:
    """Sent in place of a batch: this worker's stream has ended."""

    worker_id: int


class _ResumeIteration:
    """Sent to persistent workers before an epoch, and sent back by each when it is ready. They are not seeded again."""


# %% [markdown]
# ## Random numbers in workers
#
# Three generators need seeds: Python's, torch's and NumPy's. A forked worker inherits the parent's state, so two workers would draw the same augmentations. The first two get `base_seed + id`. NumPy
# is seeded with four words mixed from both numbers, because seeds that differ by one give related streams there. Until 1.9 it was not seeded at all, and many published models trained on repeated
# augmentations.


# %%
#| into: utils/data/_utils/worker.py
#| upstream: torch/utils/data/_utils/worker.py#_generate_state
def _seed_everything(base_seed: int, worker_id: int) -> int:
    seed = base_seed + worker_id
    random.seed(seed)
    torch.manual_seed(seed)
    np.random.seed(_generate_state(base_seed, worker_id))
    return seed


def _generate_state(base_seed: int, worker_id: int) -> np.ndarray:
    """Four 32-bit words, as NumPy's SeedSequence makes them from the worker's number and the halves of the seed."""
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(entropy).generate_state(4)


# %% [markdown]
# ## The loop
#
# A batch is [packed](3b_crossing.py) here and not by the queue, whose thread would print an error about an object that cannot be pickled and leave the parent waiting. The answer that goes through the queue is small.
#
# `None` on the index queue means that no more is coming. A worker never leaves by itself before that, because what it has put on the result queue is still being read; but it looks every few seconds whether its parent
# exists, or a killed training run would leave its workers behind.


# %%
#| into: utils/data/_utils/worker.py
#| upstream: torch/utils/data/_utils/worker.py#_worker_loop
def _make_fetcher(
    iterable: bool, dataset: Any, auto_collation: bool, collate_fn: Callable, drop_last: bool
) -> _BaseDatasetFetcher:
    kind = _IterableDatasetFetcher if iterable else _MapDatasetFetcher
    return kind(dataset, auto_collation, collate_fn, drop_last)


def _worker_loop(
    iterable: bool,
    dataset: Any,
    index_queue: Any,
    data_queue: Any,
    done_event: Any,
    auto_collation: bool,
    collate_fn: Callable,
    drop_last: bool,
    base_seed: int,
    init_fn: Callable[[int], None] | None,
    worker_id: int,
    num_workers: int,
    shared_file: reductions.SharedFile | None = None,
) -> None:
    """Answer index lists with batches until told to stop or the parent is gone."""
    global _worker_info
    torch.set_num_threads(1)
    sender = reductions.outgoing = reductions.Sender(shared_file, worker_id)
    seed = _seed_everything(base_seed, worker_id)
    _worker_info = WorkerInfo(id=worker_id, num_workers=num_workers, seed=seed, dataset=dataset)
    where = f"in DataLoader worker process {worker_id}"
    failed_to_start: ExceptionWrapper | None = None
    fetcher: Any = None
    try:
        if init_fn is not None:
            init_fn(worker_id)
        fetcher = _make_fetcher(iterable, dataset, auto_collation, collate_fn, drop_last)
    except Exception:
        failed_to_start = ExceptionWrapper(where=where)
    ended = False
    parent = os.getppid()
    while os.getppid() == parent:
        try:
            message = index_queue.get(timeout=STATUS_CHECK_INTERVAL)
        except queue.Empty:
            continue
        if message is None:
            break
        if isinstance(message, _ResumeIteration):
            data_queue.put((message, None))
            ended = False
            fetcher = _make_fetcher(iterable, dataset, auto_collation, collate_fn, drop_last)
            continue
        if done_event.is_set() or ended:
            continue
        number, index, released = message
        sender.released(released)
        answer: Any
        if failed_to_start is not None:
            answer, failed_to_start = failed_to_start, None
        else:
            try:
                batch = fetcher.fetch(index)
                answer = reductions.pack(batch, sender)
                del batch
            except StopIteration as stop:
                if not iterable:
                    answer = ExceptionWrapper((type(stop), stop, stop.__traceback__), where)
                else:
                    answer, ended = _IterableDatasetStopIteration(worker_id), True
            except Exception:
                answer = ExceptionWrapper(where=where)
        data_queue.put((number, answer))
        del answer
    if done_event.is_set():
        data_queue.cancel_join_thread()
        data_queue.close()


# %% [markdown]
# ## Pinned memory

# %%
#| into: utils/data/_utils/pin_memory.py
"""Copying a batch into page-locked memory, whatever containers it is made of."""

# %%
#| into: utils/data/_utils/pin_memory.py
#| imports
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from readtorch import Tensor
from readtorch.utils.data._utils.collate import _mapping_like, _sequence_like


# %%
#| into: utils/data/_utils/pin_memory.py
#| upstream: torch/utils/data/_utils/pin_memory.py#pin_memory
def pin_memory(data: Any, device: Any = None) -> Any:
    """`data` with every tensor, and every object that has a `pin_memory` method, pinned. Tuples stay tuples."""
    if isinstance(data, Tensor) or hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, str | bytes):
        return data
    if isinstance(data, Mapping):
        return _mapping_like(data, {key: pin_memory(value, device) for key, value in data.items()})
    if isinstance(data, tuple) and not hasattr(data, "_fields"):
        return type(data)(pin_memory(value, device) for value in data)
    if isinstance(data, Sequence):
        return _sequence_like(data, [pin_memory(value, device) for value in data])
    return data
