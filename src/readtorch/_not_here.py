# Tangled from chapters/00_tensor/11b_namespace.py — edit there, or here and run `readtorch sync`.
"""What PyTorch has and readtorch does not, as far as people look for it, and what to use instead."""

_FORWARD = "`torch.func.jvp`, `jacfwd` and `linearize`, which are two reverse passes"
_TRACED = (
    "`readtorch.literate.trace` and `readtorch trace run`: every call, operator and gradient, to be stepped through"
)
_OWN = "`torch.autograd.Function` for an operator of one's own; the built-in ones are functions of `torch`"
_COO = "`torch.sparse_coo_tensor`: a coalesced COO tensor holds the same entries in the same order"
_ROUND = "`torch.round` and `torch.clamp` by hand; there are no quantized dtypes"
_EAGER = "the code as it is: `torch.compile` and `torch.jit.script` are there and give back what they are given"
_BY_HAND = "a loop over the sizes that matter, with `torch.utils.benchmark.Timer` in it"
_TIMES = "`Timer.blocked_autorange`: there are no instructions of compiled code to count"
_HOOKS = "`__torch_function__` and `torch.overrides.TorchFunctionMode`, which see calls where Python makes them"
_DEVICES = 'the devices "cpu", "cuda" and "meta"'

NOT_HERE = {
    "func.functionalize": "the function as it is: nothing here traces it",
    "func.rearrange": "`reshape`, `permute` and `flatten`",
    "autograd.forward_ad": _FORWARD,
    "ops": _OWN,
    "library": _OWN,
    "utils._python_dispatch": _HOOKS,
    "sparse_csr_tensor": _COO,
    "sparse_csc_tensor": _COO,
    "sparse_bsr_tensor": _COO,
    "sparse_bsc_tensor": _COO,
    "sparse_compressed_tensor": _COO,
    "nested": "padding and a mask, or `torch.nn.utils.rnn.pack_padded_sequence`",
    "masked": "`torch.where` and `masked_fill`",
    "quantize_per_tensor": _ROUND,
    "quantize_per_channel": _ROUND,
    "quantization": _ROUND,
    "ao": _ROUND,
    "fx": _EAGER,
    "export": _EAGER,
    "cond": "Python's `if`",
    "cpu.amp": '`torch.autocast("cpu")` and `torch.amp`',
    "mps": _DEVICES,
    "xpu": _DEVICES,
    "mtia": _DEVICES,
    "complex32": "`torch.complex64`: NumPy has no complex numbers of two float16",
    "chalf": "`torch.complex64`: NumPy has no complex numbers of two float16",
    "utils.benchmark.Fuzzer": _BY_HAND,
    "utils.benchmark.FuzzedParameter": _BY_HAND,
    "utils.benchmark.FuzzedTensor": _BY_HAND,
    "utils.benchmark.FuzzedSparseTensor": _BY_HAND,
    "utils.benchmark.ParameterAlias": _BY_HAND,
    "utils.benchmark.CallgrindStats": _TIMES,
    "utils.benchmark.FunctionCounts": _TIMES,
    "utils.cpp_extension": "`torch.autograd.Function` around NumPy or a CuPy kernel",
    "utils.flop_counter": _TRACED,
}


def missing(module: str, name: str) -> AttributeError:
    """The error of a module that has no such name, with the way out where PyTorch's has it."""
    instead = NOT_HERE.get(f"{module}.{name}".removeprefix("torch."))
    why = f" (PyTorch has it, readtorch does not have it; use {instead})" if instead else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{why}")
