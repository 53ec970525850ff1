# Tangled from chapters/07_distributed.py — edit there, or here and run `readtorch sync`.
"""The functions of `torch.distributed.nn`, each refused without a process group."""

from __future__ import annotations

from typing import Any

from readtorch.distributed.distributed_c10d import ReduceOp, _refuse


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """A copy of `tensor` of process `src`; its gradient is summed there. ValueError without a process group."""
    _refuse()


def gather(tensor: Any, dst: int = 0, group: Any = None) -> Any:
    """The tensors of all on process `dst`. ValueError without a process group."""
    _refuse()


def scatter(tensors: Any, src: int = 0, group: Any = None) -> Any:
    """This process' part of the tensors of process `src`. ValueError without a process group."""
    _refuse()


def reduce(tensor: Any, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Any:
    """The tensors of all reduced, on process `dst`. ValueError without a process group."""
    _refuse()


def reduce_scatter(output: Any, input_list: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Any:
    """This process' part of the reduced tensors. ValueError without a process group."""
    _refuse()


def all_gather(tensor: Any, group: Any = None) -> Any:
    """The tensors of all, on each. ValueError without a process group."""
    _refuse()


def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: Any = None) -> Any:
    """A tensor from each to each. ValueError without a process group."""
    _refuse()


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None
) -> Any:
    """As `all_to_all`, of pieces of one tensor. ValueError without a process group."""
    _refuse()


def all_reduce(tensor: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Any:
    """The tensors of all reduced, on each. ValueError without a process group."""
    _refuse()
