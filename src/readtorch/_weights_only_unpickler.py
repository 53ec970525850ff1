# Tangled from chapters/02_module/ — edit there, or here and run `readtorch sync`.
"""A pickle machine that builds tensors and plain containers, and refuses everything else."""

from __future__ import annotations

import codecs
import functools
import pickletools
import struct
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError, decode_long
from typing import Any, BinaryIO

import readtorch as torch

_BLOCKED_MODULES = {"sys", "os", "posix", "nt"}


def _bytes_of(text: str, encoding: str = "latin1") -> bytes:
    """`codecs.encode` as protocol 2 uses it for bytes objects, and for nothing else."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise UnpicklingError(f"_codecs.encode is allowed for text in latin1 only, got encoding {encoding!r}")
    return codecs.encode(text, "latin1")


def _rebuild_from_type(function: Callable[..., Any], new_type: type, args: tuple, state: Any) -> Any:
    """`_rebuild_from_type_v2`, which calls what the file names: that must not allocate by a number either."""
    from readtorch import _tensor

    if function in _allocating() or not (isinstance(new_type, type) and issubclass(new_type, torch.Tensor)):
        raise UnpicklingError(f"cannot rebuild a {new_type!r:.80} with {function!r:.80}")
    return _tensor._rebuild_from_type_v2(function, new_type, args, state)


@functools.cache
def _allocating() -> frozenset[Any]:
    """Classes that a file may name and not call: their first argument is a size."""
    from readtorch import storage

    return frozenset({torch.Tensor, storage.UntypedStorage, storage.TypedStorage})


def _bytearray_of(data: Any = b"", encoding: str | None = None) -> bytearray:
    if isinstance(data, str) and encoding is not None:
        return bytearray(_bytes_of(data, encoding))
    if not isinstance(data, bytes):
        raise UnpicklingError(f"bytearray is allowed from bytes only, got {type(data).__name__}")
    return bytearray(data)


#: These copy their argument. A file that calls them again and again on one large object would grow without limit.
_COPYING = (set, OrderedDict, Counter, torch.Size, _bytes_of, _bytearray_of)


@functools.cache
def _allowed_globals() -> dict[str, Any]:
    """What a file may name, under upstream's names."""
    from readtorch import _utils, nn, serialization, storage
    from readtorch.c10.core import scalar_type

    allowed: dict[str, Any] = {
        "collections.OrderedDict": OrderedDict,
        "collections.Counter": Counter,
        "torch.nn.parameter.Parameter": nn.Parameter,
        "torch.nn.parameter.Buffer": nn.Buffer,
        "torch.serialization._get_layout": serialization._get_layout,
        "torch.Size": torch.Size,
        "torch.device": torch.device,
        "torch.Tensor": torch.Tensor,
        "torch._tensor.Tensor": torch.Tensor,
        "_codecs.encode": _bytes_of,
        "builtins.bytearray": _bytearray_of,
        "__builtin__.bytearray": _bytearray_of,
        "builtins.set": set,
        "__builtin__.set": set,
        "builtins.complex": complex,
        "__builtin__.complex": complex,
        "torch.storage.UntypedStorage": storage.UntypedStorage,
        "torch.storage.TypedStorage": storage.TypedStorage,
    }
    allowed.update({f"torch.{name}": serialization.StorageType(name) for name in storage._storage_type_to_dtype()})
    allowed.update({str(kind): kind for kind in vars(scalar_type).values() if isinstance(kind, torch.dtype)})
    for function in (
        _utils._rebuild_tensor,
        _utils._rebuild_tensor_v2,
        _utils._rebuild_tensor_v3,
        _utils._rebuild_parameter,
        _utils._rebuild_parameter_with_state,
        _utils._rebuild_meta_tensor_no_storage,
        _utils._rebuild_sparse_tensor,
    ):
        allowed[f"torch._utils.{function.__name__}"] = function
    allowed["torch._tensor._rebuild_from_type_v2"] = _rebuild_from_type
    allowed["torch._utils._rebuild_from_type_v2"] = _rebuild_from_type
    return allowed


_safe_globals: set[Any] = set()
"""What the user has allowed besides: objects, or pairs of an object and the name that files call it by."""


def _user_allowed_globals() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in _safe_globals:
        if isinstance(entry, tuple):
            if len(entry) != 2:
                raise ValueError(
                    f"Expected tuple of length 2 (the object, its full name), but got {len(entry)} entries"
                )
            value, name = entry
            if not isinstance(name, str):
                raise TypeError(f"Expected second item in tuple to be the full name, a str; it is a {type(name)}")
            found[name] = value
        else:
            name = f"{entry.__module__}.{entry.__qualname__}"
            found[name.removeprefix("read") if name.startswith("readtorch.") else name] = entry  # files say torch.…
    return found


_OPCODES: dict[int, Callable[[Unpickler], None]] = {}
#: What Python raises when an instruction meets arguments that no pickler would have written.
_MALFORMED = (TypeError, ValueError, AttributeError, KeyError, OverflowError, RecursionError, MemoryError)
_PIECE = 1 << 20


def _opcode(code: bytes) -> Callable[[Callable], Callable]:
    def enter(method: Callable) -> Callable:
        _OPCODES[code[0]] = method
        return method

    return enter


class Unpickler:
    """Runs one pickle from `file`, which has `read` and `readline`. `persistent_load` turns storage references into storages."""

    def __init__(self, file: BinaryIO, *, encoding: str = "bytes") -> None:
        self._read = file.read
        self._readline = file.readline
        self.encoding = encoding
        self.memo: dict[int, Any] = {}
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []

    def persistent_load(self, pid: Any) -> Any:
        """What a storage's reference stands for: the reader's business, who puts a function in the place of this one."""
        raise UnpicklingError("unsupported persistent id encountered")

    def load(self) -> Any:
        """The object the pickle builds."""
        self.stack, self.marks = [], []
        allowed = {**_allowed_globals(), **_user_allowed_globals()}
        self._allowed = allowed
        self._callable = {id(value) for value in allowed.values()}
        self._spelled, self._copied = 0, 0
        while True:
            code = self._read(1)
            if not code:
                raise EOFError("the pickle ends before its STOP instruction")
            if code == b".":
                return self.stack.pop()
            instruction = _OPCODES.get(code[0])
            if instruction is None:
                raise UnpicklingError(f"Unsupported operand {code[0]}")
            self._spelled += 1
            try:
                instruction(self)
            except _MALFORMED as error:
                if code in b"Q":
                    raise
                raise UnpicklingError(
                    f"instruction {code!r} cannot be carried out: {error or type(error).__name__}"
                ) from error

    def _bytes(self, count: int) -> bytes:
        data = self._read(min(count, _PIECE))
        while len(data) < count:
            piece = self._read(min(count - len(data), max(_PIECE, len(data))))
            if not piece:
                raise UnpicklingError("pickle data was truncated")
            data += piece
        self._spelled += count
        return data

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._bytes(struct.calcsize(form)))[0]

    @staticmethod
    def _text(data: bytes, encoding: str = "utf-8", errors: str = "strict") -> str:
        try:
            return data.decode(encoding, errors)
        except UnicodeDecodeError as error:
            raise UnpicklingError(f"text in the pickle is not {encoding}: {error.reason}") from None

    def pop_mark(self) -> list[Any]:
        """What was pushed since the last mark; the stack below it comes back."""
        items = self.stack
        self.stack = self.marks.pop()
        return items

    @_opcode(b"c")
    def _global(self) -> None:
        module, name = (self._text(self._readline()[:-1]) for _ in range(2))
        path = f"{module}.{name}"
        if module.split(".")[0] in _BLOCKED_MODULES:
            raise UnpicklingError(f"Trying to load unsupported GLOBAL {path} whose module {module} is blocked.")
        if path not in self._allowed:
            short = path.removeprefix("builtins.").removeprefix("__builtin__.")
            raise UnpicklingError(
                f"Unsupported global: GLOBAL {short} was not an allowed global by default. If you trust this class/function, allow it by "
                f"`torch.serialization.add_safe_globals([{short}])`, or by the context manager "
                f"`torch.serialization.safe_globals([{short}])`."
            )
        self.stack.append(self._allowed[path])

    def _check_callable(self, target: Any) -> None:
        if id(target) not in self._callable:
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {target!r}")

    @_opcode(b"R")
    def _reduce(self) -> None:
        arguments = self.stack.pop()
        function = self.stack[-1]
        self._check_callable(function)
        if type(arguments) is not tuple:
            raise UnpicklingError(f"Expected a tuple of arguments, but got {type(arguments)}")
        if isinstance(function, type) and function in _allocating():
            raise UnpicklingError(f"Trying to call {function}, which would allocate by a number in the file")
        if function in _COPYING:
            self._pay_for(arguments)
        self.stack[-1] = function(*arguments)

    def _pay_for(self, arguments: tuple[Any, ...]) -> None:
        for argument in arguments:
            if isinstance(argument, str | bytes | list | tuple | dict | set):
                self._copied += len(argument)
            if isinstance(argument, list | tuple | dict | set):
                for item in argument:
                    _check_key(item)
                    if isinstance(item, list | tuple) and item:
                        _check_key(item[0])
        if self._copied > self._spelled:
            raise UnpicklingError(f"the pickle copies {self._copied} bytes and elements and spells out {self._spelled}")

    @_opcode(b"\x81")
    def _newobj(self) -> None:
        arguments = self.stack.pop()
        cls = self.stack.pop()
        if cls is torch.nn.Parameter:
            self.stack.append(torch.nn.Parameter(*arguments))
            return
        is_class = isinstance(cls, type) and id(cls) in self._callable
        if not is_class or issubclass(cls, torch.Tensor) or cls in _allocating():
            raise UnpicklingError(
                "Can only create new object for nn.Parameter, or for a class named to "
                f"`add_safe_globals`, not for {cls!r}"
            )
        self.stack.append(cls.__new__(cls, *arguments))

    @_opcode(b"b")
    def _build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        kind = type(target)
        if kind is OrderedDict:
            target.__dict__.update(state)
        elif kind is torch.nn.Parameter or (id(kind) in self._callable and hasattr(target, "__setstate__")):
            target.__setstate__(state)
        elif id(kind) in self._callable and not isinstance(target, type):
            state, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
            if state:
                target.__dict__.update(state)
            for name, value in (slots or {}).items():
                setattr(target, name, value)
        else:
            raise UnpicklingError(
                f"Can only build Tensor, Parameter, OrderedDict, or a type named to `add_safe_globals`, not {kind}"
            )

    @_opcode(b"Q")
    def _binpersid(self) -> None:
        reference = self.stack.pop()
        if type(reference) is not tuple or not reference:
            raise UnpicklingError(f"persistent_load id must be tuple or int, but got {type(reference)}")
        self.stack.append(self.persistent_load(reference))

    @_opcode(b"\x80")
    def _proto(self) -> None:
        protocol = self._bytes(1)[0]
        if protocol != 2:
            warnings.warn(
                f"Detected pickle protocol {protocol} in the checkpoint, which was not the default pickle protocol used by "
                "`torch.load` (2). Instructions that came with it are refused.",
                stacklevel=4,
            )

    @_opcode(b"(")
    def _mark(self) -> None:
        self.marks.append(self.stack)
        self.stack = []

    @_opcode(b"t")
    def _tuple(self) -> None:
        items = self.pop_mark()
        self.stack.append(tuple(items))

    @_opcode(b"\x85")
    def _tuple1(self) -> None:
        self.stack[-1] = (self.stack[-1],)

    @_opcode(b"\x86")
    def _tuple2(self) -> None:
        second, first = self.stack.pop(), self.stack.pop()
        self.stack.append((first, second))

    @_opcode(b"\x87")
    def _tuple3(self) -> None:
        third, second, first = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self.stack.append((first, second, third))

    @_opcode(b"a")
    def _append(self) -> None:
        item = self.stack.pop()
        self._target(list).append(item)

    @_opcode(b"e")
    def _appends(self) -> None:
        items = self.pop_mark()
        self._target(list).extend(items)

    @_opcode(b"s")
    def _setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _check_key(key)
        self._target(dict, OrderedDict, Counter)[key] = value

    @_opcode(b"u")
    def _setitems(self) -> None:
        items = self.pop_mark()
        if len(items) % 2:
            raise UnpicklingError("odd number of items for SETITEMS")
        target = self._target(dict, OrderedDict, Counter)
        for position in range(0, len(items), 2):
            _check_key(items[position])
            target[items[position]] = items[position + 1]

    def _target(self, *kinds: type) -> Any:
        target = self.stack[-1]
        if type(target) not in kinds:
            raise UnpicklingError(f"Can only fill {kinds[0].__name__} here, but got {type(target)}")
        return target

    @_opcode(b"h")
    def _binget(self) -> None:
        self._get(self._bytes(1)[0])

    @_opcode(b"j")
    def _long_binget(self) -> None:
        self._get(self._number("<I"))

    def _get(self, number: int) -> None:
        if number not in self.memo:
            raise UnpicklingError(f"Memo value not found at index {number}")
        self.stack.append(self.memo[number])

    @_opcode(b"q")
    def _binput(self) -> None:
        self.memo[self._bytes(1)[0]] = self.stack[-1]

    @_opcode(b"r")
    def _long_binput(self) -> None:
        self.memo[self._number("<I")] = self.stack[-1]


def _check_key(key: Any) -> None:
    """UnpicklingError for a tuple that is too deep, or too large when written out, to be hashed."""
    if type(key) is not tuple:
        return
    level, depth, seen = [key], 0, 0
    while level:
        level = [item for each in level for item in each if isinstance(item, tuple)]
        depth, seen = depth + 1, seen + len(level)
        if depth > 100 or seen > 10_000:
            raise UnpicklingError("a key of nested tuples is too large")


def _constant(code: bytes, make: Callable[[], Any]) -> None:
    _OPCODES[code[0]] = lambda machine: machine.stack.append(make())


def _value(code: bytes, read: Callable[[Unpickler], Any]) -> None:
    _OPCODES[code[0]] = lambda machine: machine.stack.append(read(machine))


_constant(b"N", lambda: None)
_constant(b"\x88", lambda: True)
_constant(b"\x89", lambda: False)
_constant(b")", tuple)
_constant(b"]", list)
_constant(b"}", dict)
_constant(b"\x8f", set)
_value(b"J", lambda machine: machine._number("<i"))
_value(b"K", lambda machine: machine._bytes(1)[0])
_value(b"M", lambda machine: machine._number("<H"))
_value(b"G", lambda machine: machine._number(">d"))
_value(b"\x8a", lambda machine: decode_long(machine._bytes(machine._bytes(1)[0])))
_value(b"X", lambda machine: machine._text(machine._bytes(machine._number("<I")), errors="surrogatepass"))
_value(b"U", lambda machine: _old_text(machine._bytes(machine._bytes(1)[0]), machine.encoding))


def _old_text(data: bytes, encoding: str) -> Any:
    """A Python 2 string: bytes, or text in the encoding that the caller named."""
    return data if encoding == "bytes" else Unpickler._text(data, encoding)


def get_globals_in_pkl(file: BinaryIO) -> set[str]:
    """The names that a pickle would import. Nothing is imported or run; UnpicklingError for instructions that `load` would not take."""
    found = set()
    allowed = {chr(code) for code in _OPCODES} | {"."}
    try:
        for operation, argument, _ in pickletools.genops(file):
            if operation.code not in allowed:
                raise UnpicklingError(f"Unsupported operand {ord(operation.code)}")
            if operation.name == "GLOBAL":
                found.add(str(argument).replace(" ", "."))
    except ValueError as error:
        if "exhausted" in str(error):
            raise EOFError(str(error)) from None
        raise UnpicklingError(f"Unsupported operand: {error}") from None
    return found


def load(file: BinaryIO, *, encoding: str = "ASCII") -> Any:
    """The object in a pickle that names allowed things only, and no storages."""
    return Unpickler(file, encoding=encoding).load()
