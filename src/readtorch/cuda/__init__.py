# Tangled from chapters/01_import/8_namespaces.py — edit there, or here and run `readtorch sync`.
"""CUDA, as a build without it shows it (twin of `torch/cuda/__init__.py`)."""

from readtorch.cuda import amp as amp

_MISSING = "Torch not compiled with CUDA enabled"


def is_available():
    """Can tensors be put on a CUDA device?"""
    return False


def device_count():
    """How many devices there are."""
    return 0


def is_initialized():
    """Has CUDA been used by this process?"""
    return False


def is_bf16_supported(including_emulation=True):
    """Can the device compute in bfloat16?"""
    return False


def _lazy_init():
    raise AssertionError(_MISSING)


def init():
    """Initialise CUDA now. AssertionError without it."""
    _lazy_init()


def current_device():
    """The number of the current device. AssertionError without CUDA."""
    _lazy_init()


def set_device(device):
    """Make `device` the current one. AssertionError without CUDA."""
    _lazy_init()


def get_device_name(device=None):
    """The device's name. AssertionError without CUDA."""
    _lazy_init()


def get_device_capability(device=None):
    """The device's compute capability. AssertionError without CUDA."""
    _lazy_init()


def get_device_properties(device=None):
    """The device's properties. AssertionError without CUDA."""
    _lazy_init()


def synchronize(device=None):
    """Wait for the device. AssertionError without CUDA."""
    _lazy_init()


def current_stream(device=None):
    """The current stream. AssertionError without CUDA."""
    _lazy_init()


def mem_get_info(device=None):
    """Free and total memory. AssertionError without CUDA."""
    _lazy_init()


def get_rng_state(device="cuda"):
    """The generator's state. AssertionError without CUDA."""
    _lazy_init()


def get_rng_state_all():
    """The state of every device's generator: none."""
    return []


def manual_seed(seed):
    """Seed the current device's generator, when there will be one; nothing to do without CUDA."""


def manual_seed_all(seed):
    """Seed every device's generator; nothing to do without CUDA."""


def seed():
    """Seed the current device's generator at random; nothing to do without CUDA."""


def seed_all():
    """Seed every device's generator at random; nothing to do without CUDA."""


def empty_cache():
    """Give unused memory back; nothing to do without CUDA."""


def memory_allocated(device=None):
    """Bytes in use: none."""
    return 0


def max_memory_allocated(device=None):
    """The most bytes that were in use: none."""
    return 0


def memory_reserved(device=None):
    """Bytes held by the allocator: none."""
    return 0


def max_memory_reserved(device=None):
    """The most bytes that the allocator held: none."""
    return 0


def get_arch_list():
    """The architectures that kernels were built for: none."""
    return []
