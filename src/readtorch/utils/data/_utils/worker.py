# Tangled from chapters/05_data/4_worker.py — edit there, or here and run `readtorch sync`.
"""The loop of a worker process, and what code running in one can find out about itself."""

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


@dataclass(frozen=True, slots=True)
class _IterableDatasetStopIteration:
    """Sent in place of a batch: this worker's stream has ended."""

    worker_id: int


class _ResumeIteration:
    """Sent to persistent workers before an epoch, and sent back by each when it is ready. They are not seeded again."""


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
