# Tangled from chapters/a1_operators/8_random.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten import cpu_generator_impl
from readtorch.aten.cpu_generator_impl import CPUGeneratorImpl
from readtorch.c10.core.device import device as Device
from readtorch.c10.core.tensor_impl import wrap


class Generator:
    """A source of random numbers with a state of its own. Pass it as `generator=`."""

    __slots__ = ("_engine", "device")

    def __init__(self, device: Any = "cpu") -> None:
        self.device = Device(device)
        if self.device.type not in ENGINES:
            kind = self.device.type.upper()
            raise RuntimeError(f"Cannot get {kind} generator without a backend for {kind}, and there is none here.")
        self._engine = ENGINES[self.device.type](self.device)

    def manual_seed(self, seed: int) -> Generator:
        """Start over from `seed`; returns the generator."""
        self._engine.manual_seed(checked_seed(seed))
        return self

    def seed(self) -> int:
        """Start over from a seed of the operating system's, and return it."""
        return self._engine.seed()

    def initial_seed(self) -> int:
        """The seed it last started from."""
        return self._engine.initial_seed

    def get_state(self) -> Any:
        """The state as a tensor of bytes."""
        return wrap(self._engine.get_state())

    def set_state(self, new_state: Any) -> Generator:
        """Go back to a state from `get_state`."""
        if not hasattr(new_state, "_array"):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state._array.dtype.name != "uint8":
            raise TypeError("RNG state must be a torch.ByteTensor")
        self._engine.set_state(new_state._array)
        return self

    def clone_state(self) -> Generator:
        """A generator in the same state."""
        other = Generator(self.device)
        other.set_state(self.get_state())
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        #: a CUDA generator has an offset in the second place
        return (Generator, (self.device,), (self.initial_seed(), None, self.get_state()))

    def __setstate__(self, state: tuple[int, int | None, Any]) -> None:
        self.set_state(state[2])


#: the engine of a device type; the CUDA backend adds its own
ENGINES: dict[str, Any] = {"cpu": lambda device: CPUGeneratorImpl()}


def checked_seed(seed: Any) -> int:
    """A seed as an unsigned number. RuntimeError for what is no whole number, ValueError out of the range of 64 bits."""
    if not hasattr(seed, "__index__"):
        raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
    seed = int(seed)
    if not -(1 << 63) <= seed < 1 << 64:
        raise ValueError(f"Overflow when unpacking long long: seed {seed} does not fit 64 bits")
    return seed + (1 << 64) if seed < 0 else seed


#: told of every seed that is for the generators of all devices; the CUDA backend adds its own
SEEDED: list[Any] = []
last_seed: list[int] = []

default_generator = Generator.__new__(Generator)
default_generator.device = Device("cpu")
default_generator._engine = cpu_generator_impl.default
