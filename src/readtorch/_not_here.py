# Tangled from chapters/00_tensor/11b_namespace.py — edit there, or here and run `readtorch sync`.
"""What PyTorch has and readtorch does not, as far as people look for it, and what to use instead."""

_BATCH = "the operator on the whole batch, or a loop and `torch.stack`"
_GRAD = "`torch.autograd.grad` on tensors that require a gradient; `torch.func.functional_call` runs a module on other parameters"
_ROWS = "`torch.autograd.functional.jacobian` and `hessian`"
_FORWARD = (
    "`torch.autograd.grad` twice: the gradient of a vector-Jacobian product by the vector is a Jacobian-vector product"
)
_TRACED = (
    "`readtorch.literate.trace` and `readtorch trace run`: every call, operator and gradient, to be stepped through"
)
_OWN = "`torch.autograd.Function` for an operator of one's own; the built-in ones are functions of `torch`"
_COO = "`torch.sparse_coo_tensor`: a coalesced COO tensor holds the same entries in the same order"
_ROUND = "`torch.round` and `torch.clamp` by hand; there are no quantized dtypes"
_EAGER = "the code as it is: `torch.compile` and `torch.jit.script` are there and give back what they are given"
_HOOKS = "`__torch_function__` and `torch.overrides.TorchFunctionMode`, which see calls where Python makes them"
_DEVICES = 'the devices "cpu", "cuda" and "meta"'

NOT_HERE = {
    "vmap": _BATCH,
    "func.vmap": _BATCH,
    "func.grad": _GRAD,
    "func.grad_and_value": _GRAD,
    "func.vjp": _GRAD,
    "func.jvp": _FORWARD,
    "func.linearize": _FORWARD,
    "func.jacrev": _ROWS,
    "func.jacfwd": _ROWS,
    "func.hessian": _ROWS,
    "autograd.forward_ad": _FORWARD,
    "autograd.profiler": _TRACED,
    "profiler": _TRACED,
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
    "utils.benchmark": "`timeit`",
    "utils.cpp_extension": "`torch.autograd.Function` around NumPy or a CuPy kernel",
    "utils.flop_counter": _TRACED,
}


def missing(module: str, name: str) -> AttributeError:
    """The error of a module that has no such name, with the way out where PyTorch's has it."""
    instead = NOT_HERE.get(f"{module}.{name}".removeprefix("torch."))
    why = f" (PyTorch has it, readtorch does not have it; use {instead})" if instead else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{why}")
