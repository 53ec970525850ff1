# Tangled from chapters/00_tensor/04_engine.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.c10.core.autograd_state import is_grad_enabled, set_grad_enabled
from readtorch.c10.core.scalar_type import from_numpy_dtype
from readtorch.c10.core.tensor_impl import TensorImpl, current_version, is_inference
from readtorch.csrc.autograd.node import Node, split_edge
from readtorch.csrc.autograd.variable import gradient_edge


def check_version(tensor: Any, expected: int, keeper: Node) -> None:
    """RuntimeError if the memory behind a tensor that `keeper` keeps was written to since, or if it was cut from its history."""
    counter = tensor._vc
    if counter is None:
        return
    if tensor._meta is not None and tensor._meta.get("detached", -1) > keeper._sequence:
        raise RuntimeError(
            "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This is not supported: the gradient that "
            "should flow on through it has nowhere to go. Use detach() instead."
        )
    if counter.value != expected:
        edge = getattr(tensor, "_edge", None)
        origin = None if edge is None else split_edge(edge)
        raise modified(tensor._array, origin, counter.value, expected)


def modified(array: Any, origin: tuple[Node, int] | None, version: int, expected: int) -> RuntimeError:
    """The error that names the tensor, where it came from, and both versions."""
    legacy = from_numpy_dtype(array.dtype)._legacy
    shape = list(array.shape)
    source = ""
    if origin is not None and len(origin[0]._edges):
        source = f", which is output {origin[1]} of {origin[0].name().removesuffix('Backward0')},"
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[torch.{legacy} {shape}]{source} is at version {version}; expected version {expected} instead. "
        "To see which forward call saved it, run under "
        "torch.autograd.set_detect_anomaly(True)."
    )


def refuse_saving(*values: Any) -> None:
    """RuntimeError if one of these was made in inference mode: nobody would notice a write to it."""
    if any(isinstance(value, TensorImpl) and is_inference(value) for value in values):
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. A clone() of one is an ordinary tensor and can; or use no_grad() in place of "
            "inference_mode() where the tensor is made."
        )


def released(name: str) -> RuntimeError:
    """The error of a second walk through a graph whose saved tensors are gone."""
    return RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
        f"been freed): {name} has let go of them when backward() or autograd.grad() ran. Specify retain_graph=True the first time "
        "if you need to backward through the graph a second time or to access saved tensors afterwards."
    )


class Packed:
    """What a pack hook returned in place of a tensor, and the hook that undoes it. `edge` is where its gradient goes."""

    __slots__ = ("edge", "payload", "unpack")

    def __init__(self, tensor: Any, hooks: tuple[Any, Any]) -> None:
        pack, self.unpack = hooks
        self.edge = gradient_edge(tensor)
        given = tensor if tensor.is_leaf else tensor.detach()
        version, recording = current_version(given), is_grad_enabled()
        set_grad_enabled(False)
        try:
            self.payload = pack(given)
        finally:
            set_grad_enabled(recording)
        if current_version(given) != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place: that would change what others have saved, and the result itself"
            )

    def restore(self) -> Any:
        """The tensor again, with its place in the graph."""
        tensor = self.unpack(self.payload)
        if not hasattr(tensor, "_array"):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                + type(tensor).__name__
            )
        if self.edge is not None and not tensor.requires_grad:
            tensor = tensor.detach()
            tensor._edge = self.edge
        return tensor


class SavedTensor:
    """A tensor in its place in a node, read as `node._raw_saved_NAME`: hooks can be set on this one alone."""

    __slots__ = ("_node", "_place")

    def __init__(self, node: Any, place: Any) -> None:
        self._node, self._place = node, place

    def register_hooks(self, pack_hook: Any, unpack_hook: Any) -> None:
        """Keep `pack_hook(tensor)` from now on. RuntimeError for a tensor that has hooks, is None or was freed."""
        if not (callable(pack_hook) and callable(unpack_hook)):
            raise TypeError("register_hooks(): incompatible function arguments: it takes two functions")
        if self._node._released:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed, by backward() or autograd.grad()."
            )
        kept = self._node.saved_at(self._place)
        if kept is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if kept.__class__ is Packed:
            raise RuntimeError("Calling register_hooks on a saved tensor whose hooks have already been set.")
        self._node.keep_at(self._place, Packed(kept, (pack_hook, unpack_hook)))
