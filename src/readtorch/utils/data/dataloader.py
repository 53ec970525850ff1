# Tangled from chapters/05_data/5_dataloader.py — edit there, or here and run `readtorch sync`.
"""DataLoader and its iterators."""

from __future__ import annotations

import atexit
import itertools
import math
import multiprocessing
import multiprocessing.context
import os
import queue
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import readtorch as torch
from readtorch._utils import ExceptionWrapper
from readtorch.multiprocessing.reductions import Message, Receiver, SharedFile
from readtorch.utils.data._utils.collate import default_collate, default_convert
from readtorch.utils.data._utils.pin_memory import pin_memory
from readtorch.utils.data._utils.worker import (
    STATUS_CHECK_INTERVAL,
    _IterableDatasetStopIteration,
    _make_fetcher,
    _ResumeIteration,
    _worker_loop,
)
from readtorch.utils.data.dataset import Dataset, IterableDataset
from readtorch.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

_T_co = TypeVar("_T_co", covariant=True)


class _DatasetKind:
    Map = 0
    Iterable = 1


class _InfiniteConstantSampler(Sampler[None]):
    """Indices for a stream: None for ever. Only how many are asked for matters."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader(Generic[_T_co]):
    """Batches of a dataset, in the order of a sampler, read in this process or in `num_workers` others.

    Batching is automatic with `batch_size` or `batch_sampler`; with `batch_size=None` each sample comes by itself, converted.
    With workers, `prefetch_factor` batches per worker are requested ahead, `timeout` (seconds, 0: none) limits the wait for
    one, `persistent_workers` keeps the processes between epochs, and `in_order=False` gives batches as they are ready.

    Raises ValueError for arguments that exclude each other.
    """

    _iterator: _BaseDataLoaderIter | None = None
    __initialized = False
    __multiprocessing_context: Any = None

    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self._check_worker_options(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self._dataset_kind = self._check_sampling_options(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None:
            if self._dataset_kind == _DatasetKind.Iterable:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)  # type: ignore[arg-type]  # a map-style dataset has a length
            else:
                sampler = SequentialSampler(dataset)  # type: ignore[arg-type]  # a map-style dataset has a length
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)  # type: ignore[arg-type]  # not None in this branch
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._IterableDataset_len_called: int | None = None
        self.__initialized = True
        self.check_worker_number_rationality()

    @staticmethod
    def _check_worker_options(
        num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
    ) -> None:
        if num_workers < 0:
            raise ValueError(
                "num_workers option should be non-negative; with num_workers=0 this process loads the data itself."
            )
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing: it is the number of batches each worker "
                "prepares ahead, so ask for num_workers > 0 or leave it None."
            )
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")

    def _check_sampling_options(
        self, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> int:
        """Returns the kind of the dataset."""
        kind = _DatasetKind.Iterable if isinstance(self.dataset, IterableDataset) else _DatasetKind.Map
        if kind == _DatasetKind.Iterable:
            given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
            for name, value in given.items():
                if value is not None:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                    )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
        if batch_sampler is None and batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching, which leaves nothing for drop_last to drop"
            )
        return kind

    @property
    def multiprocessing_context(self) -> Any:
        """The context that starts workers; None is the platform's default."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if self.num_workers == 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading, so with num_workers > 0, "
                    f"not num_workers={self.num_workers}"
                )
            if isinstance(context, str):
                methods = multiprocessing.get_all_start_methods()
                if context not in methods:
                    raise ValueError(
                        f"multiprocessing_context option should specify a valid start method, one of {methods!r}, "
                        f"not {context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or the name of a "
                    f"start method, not {context}"
                )
        self.__multiprocessing_context = context

    def __setattr__(self, attr: str, val: Any) -> None:
        if self.__initialized and attr in _FIXED:
            raise ValueError(f"{attr} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(attr, val)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> _BaseDataLoaderIter:
        lasting = self.persistent_workers and self.num_workers > 0
        if lasting and self._iterator is not None:
            self._iterator._reset(self)
            return self._iterator
        made = self._get_iterator()
        if lasting:
            self._iterator = made
        return made

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]  # TypeError, as documented, where it has none
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else math.ceil(length / self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """UserWarning where more workers are asked for than this process may use CPUs."""
        if not self.num_workers:
            return
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if usable is None or self.num_workers > usable:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes, more than the {usable} CPUs that this "
                "process may run on: a suggested max number, above which loading tends "
                "to slow down, or to "
                "freeze. Consider fewer.",
                stacklevel=2,
            )


class _BaseDataLoaderIter:
    def __init__(self, loader: DataLoader) -> None:
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._pin_memory = self._can_pin(loader)
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = int(torch.empty((), dtype=torch.int64).random_(generator=loader.generator).item())
        self._persistent_workers = loader.persistent_workers
        self._num_yielded = 0

    @staticmethod
    def _can_pin(loader: DataLoader) -> bool:
        if not loader.pin_memory:
            return False
        if loader.pin_memory_device:
            warnings.warn(
                "pin_memory_device is deprecated: memory is pinned for the current accelerator, "
                f"whatever pin_memory_device='{loader.pin_memory_device}' says.",
                stacklevel=4,
            )
        if not torch.accelerator.is_available():
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found: memory stays pageable.",
                stacklevel=4,
            )
            return False
        return True

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def _reset(self, loader: DataLoader, first_iter: bool = False) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        batch = self._next_data()
        self._num_yielded += 1
        announced = self._IterableDataset_len_called
        if self._dataset_kind == _DatasetKind.Iterable and announced is not None and self._num_yielded > announced:
            message = (
                f"Length of IterableDataset {self._dataset} was reported to be {announced} by len(dataloader), "
                f"and {self._num_yielded} samples have been fetched. "
            )
            if self._num_workers > 0:
                message += (
                    "For multiprocessing this could be caused by workers that each read their replica of the "
                    "IterableDataset from end to end: split the stream by get_worker_info()."
                )
            warnings.warn(message, stacklevel=2)
        return batch

    def __len__(self) -> int:
        return len(self._index_sampler)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Reads each batch when it is asked for, in the process that asks."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0: nobody is waited for")
        iterable = self._dataset_kind == _DatasetKind.Iterable
        self._dataset_fetcher = _make_fetcher(
            iterable, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        )

    def _next_data(self) -> Any:
        batch = self._dataset_fetcher.fetch(self._next_index())
        return pin_memory(batch) if self._pin_memory else batch


_live_iterators: weakref.WeakSet[_MultiProcessingDataLoaderIter] = weakref.WeakSet()


@atexit.register
def _shut_down_live_iterators() -> None:
    """Before the interpreter takes modules apart: workers of iterators that are still referenced are ended."""
    for iterator in list(_live_iterators):
        iterator._shutdown_workers()


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Hands index lists to worker processes and yields their batches."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        self._prefetch_factor = loader.prefetch_factor or 2
        self._in_order = loader.in_order
        self._shutdown = False
        context = loader.multiprocessing_context or multiprocessing.get_context()
        self._result_queue = context.Queue()
        self._done_event = context.Event()
        self._index_queues = []
        self._receivers = []
        self._workers = []
        self._workers_status: list[bool] = []
        for number in range(self._num_workers):
            indices = context.Queue()
            indices.cancel_join_thread()
            receiver = Receiver(SharedFile.if_possible())
            worker = context.Process(
                target=_worker_loop,
                args=(
                    self._dataset_kind == _DatasetKind.Iterable,
                    self._dataset,
                    indices,
                    self._result_queue,
                    self._done_event,
                    self._auto_collation,
                    self._collate_fn,
                    self._drop_last,
                    self._base_seed,
                    loader.worker_init_fn,
                    number,
                    self._num_workers,
                    receiver.file,
                ),
                daemon=True,
            )
            worker.start()
            self._index_queues.append(indices)
            self._receivers.append(receiver)
            self._workers.append(worker)
            self._workers_status.append(True)
        _live_iterators.add(self)
        self._reset(loader, first_iter=True)

    def _reset(self, loader: DataLoader, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        self._send_idx = 0
        self._rcvd_idx = 0
        #: number of a task -> (worker,) while it is out, (worker, batch) when it came back early
        self._task_info: dict[int, tuple[Any, ...]] = {}
        self._tasks_outstanding = 0
        self._workers_status = [True] * self._num_workers
        self._worker_cycle = itertools.cycle(range(self._num_workers))
        if not first_iter:
            self._resume()
        for _ in range(self._prefetch_factor * self._num_workers):
            self._try_put_index()

    def _resume(self) -> None:
        """Wake persistent workers for another epoch; what is left of the last one is read and dropped."""
        for indices in self._index_queues:
            indices.put(_ResumeIteration())
        waiting = self._num_workers
        while waiting:
            number, _ = self._get_data()
            waiting -= isinstance(number, _ResumeIteration)

    def _try_put_index(self) -> None:
        """Give the next worker in turn that still has data the next index list, if there is one."""
        try:
            index = self._next_index()
        except StopIteration:
            return
        for _ in range(self._num_workers):
            number = next(self._worker_cycle)
            if self._workers_status[number]:
                break
        else:
            return
        self._index_queues[number].put((self._send_idx, index, self._receivers[number].released()))
        self._task_info[self._send_idx] = (number,)
        self._tasks_outstanding += 1
        self._send_idx += 1

    def _get_data(self) -> Any:
        """Number and content of the next answer. RuntimeError after `timeout`, or when a worker died."""
        while True:
            try:
                number, batch = self._result_queue.get(timeout=self._timeout or STATUS_CHECK_INTERVAL)
                return number, self._receivers[batch.sender].unpack(batch) if isinstance(batch, Message) else batch
            except queue.Empty:
                self._check_workers()
                if self._timeout:
                    raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from None

    def _check_workers(self) -> None:
        dead = [worker for worker in self._workers if not worker.is_alive()]
        if dead:
            pids = ", ".join(str(worker.pid) for worker in dead)
            raise RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly")

    def _next_data(self) -> Any:
        while True:
            #: Tasks of workers whose stream ended will not be answered: pass over their numbers.
            while self._rcvd_idx < self._send_idx:
                info = self._task_info.get(self._rcvd_idx)
                if info is not None and (len(info) == 2 or self._workers_status[info[0]]):
                    break
                self._task_info.pop(self._rcvd_idx, None)
                self._rcvd_idx += 1
            else:
                if not self._persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            if len(self._task_info[self._rcvd_idx]) == 2:
                _, batch = self._task_info.pop(self._rcvd_idx)
                self._rcvd_idx += 1
                return self._finish(batch)
            number, batch = self._get_data()
            self._tasks_outstanding -= 1
            if isinstance(batch, _IterableDatasetStopIteration):
                self._workers_status[batch.worker_id] = False
                if not self._persistent_workers:
                    self._index_queues[batch.worker_id].put(None)
                self._task_info.pop(number, None)
                self._try_put_index()
            elif self._in_order and number != self._rcvd_idx:
                self._task_info[number] += (batch,)
            else:
                self._task_info.pop(number)
                if number == self._rcvd_idx:
                    self._rcvd_idx += 1
                return self._finish(batch)

    def _finish(self, batch: Any) -> Any:
        self._try_put_index()
        if isinstance(batch, ExceptionWrapper):
            batch.reraise()
        return pin_memory(batch) if self._pin_memory else batch

    def _shutdown_workers(self) -> None:
        """End the workers: politely, then by signal. Runs once."""
        if self._shutdown:
            return
        self._shutdown = True
        self._done_event.set()
        for indices in self._index_queues:
            indices.put(None)
        for worker in self._workers:
            worker.join(timeout=STATUS_CHECK_INTERVAL)
            if worker.is_alive():
                worker.terminate()
                worker.join()
        for channel in (*self._index_queues, self._result_queue):
            channel.cancel_join_thread()
            channel.close()
        for receiver in self._receivers:
            if receiver.file is not None:
                receiver.file.close()
        _live_iterators.discard(self)

    def __del__(self) -> None:
        if hasattr(self, "_shutdown") and hasattr(self, "_workers"):
            self._shutdown_workers()
