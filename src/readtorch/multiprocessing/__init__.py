# Tangled from chapters/01_import/, chapters/05_data/ — edit there, or here and run `readtorch sync`.
"""Python's `multiprocessing`, and processes started by rank."""

from multiprocessing import *  # noqa: F403 - this module stands for that one

from readtorch.multiprocessing.spawn import ProcessContext as ProcessContext
from readtorch.multiprocessing.spawn import ProcessExitedException as ProcessExitedException
from readtorch.multiprocessing.spawn import ProcessRaisedException as ProcessRaisedException
from readtorch.multiprocessing.spawn import SpawnContext as SpawnContext
from readtorch.multiprocessing.spawn import spawn as spawn
from readtorch.multiprocessing.spawn import start_processes as start_processes

_sharing_strategy = "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """How shared tensors are passed on; AssertionError for a name that is not offered."""
    global _sharing_strategy
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, expected one of {get_all_sharing_strategies()}"
        )
    _sharing_strategy = new_strategy


def get_sharing_strategy() -> str:
    """The strategy in use."""
    return _sharing_strategy


def get_all_sharing_strategies() -> set[str]:
    """The strategies that may be set."""
    return {"file_descriptor", "file_system"}


from readtorch.multiprocessing import reductions as reductions

reductions.init_reductions()
