# Tangled from chapters/07_distributed.py — edit there, or here and run `readtorch sync`.
"""Processes with unequal numbers of batches, in a process that is alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from readtorch.distributed.distributed_c10d import _refuse


class JoinHook:
    """What a process that has no batches left does in place of one, and once at the end. Both are nothing unless overridden."""

    def main_hook(self) -> None:
        """In place of a batch."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """When all have joined."""


class Joinable(ABC):
    """What can be joined: it gives a hook, a device and a process group."""

    @abstractmethod
    def __init__(self) -> None: ...

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What to do without batches."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """Where its collectives run."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """Its group."""


class Join:
    """Run the hooks of `joinables` until every process is out of batches. ValueError for none, and without a process group."""

    def __init__(
        self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        _refuse()
