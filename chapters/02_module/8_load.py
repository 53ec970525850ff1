# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Reading it back: `torch.load`
#
# Three kinds of file arrive at `load`: today's archive, the stream of pickles that PyTorch wrote before 1.6, and `.safetensors`. It tells them apart by their first bytes, and trusts none of them.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Loading


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#load
def load(
    f: Any,
    map_location: MAP_LOCATION = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what `save` (or PyTorch) wrote to `f`, a path or a seekable binary file.

    By default (`weights_only=True`) only tensors, plain containers and allow-listed types are built and no code of the
    file's choosing runs; `weights_only=False` unpickles anything and is for trusted files. `map_location` says where
    storages go; `mmap=True` maps them from the file instead of reading them (copy on write, paths only).

    Raises pickle.UnpicklingError for what is not allowed, RuntimeError for damaged files, EOFError for empty ones.
    """
    weights_only = _wants_weights_only(weights_only, pickle_module)
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if pickle_load_args and weights_only:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
    is_path = isinstance(f, str | os.PathLike)
    if is_path and os.fspath(f).endswith(".safetensors"):
        return _load_safetensors(os.fspath(f), map_location)
    with _opened(f, "rb") as stream:
        _check_seekable(stream)
        try:
            if _is_zipfile(stream):
                if mmap and not is_path:
                    raise ValueError("f must be a file path where mmap=True: an open file object cannot be mapped")
                whole = np.memmap(f, np.uint8, "c") if mmap else None
                return _load(PyTorchStreamReader(stream), map_location, weights_only, whole, pickle_load_args)
            if mmap:
                raise RuntimeError(
                    "mmap can only be used with files in the zip format of torch.save "
                    "(_use_new_zipfile_serialization=True, its default): save this one again."
                )
            return _legacy_load(stream, map_location, weights_only, pickle_load_args)
        except pickle.UnpicklingError as error:
            if not weights_only:
                raise
            raise pickle.UnpicklingError(_advice(str(error))) from None


def _wants_weights_only(given: bool | None, pickle_module: Any) -> bool:
    truths = ("1", "y", "yes", "true")
    force, forbid = (
        os.environ.get(name, "0").lower() in truths
        for name in ("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    )
    if force and forbid:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` can be obeyed, "
            "and both are set."
        )
    if force:
        return True
    if forbid and given is None:
        warnings.warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected: "
            "this torch.load, called without `weights_only`, runs with weights_only=False.",
            stacklevel=3,
        )
        return False
    return pickle_module is None if given is None else given


def _advice(message: str) -> str:
    if re.search(r"GLOBAL (\S+) was not an allowed global by default", message):
        return (
            "Weights only load failed. You have two options, \033[1mboth for a file "
            f"whose source you trust\033[0m.\n\t(1) {_UNSAFE}\n\t(2) Load "
            f"it with `weights_only=True` after the steps that the following message names.\n\tWeightsUnpickler "
            f"error: {message}"
        )
    return f"Weights only load failed. {_UNSAFE}\n\nWeightsUnpickler error: {message}"


def _check_seekable(stream: Any) -> None:
    try:
        stream.seek(stream.tell())
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)(
            f"{error}. You can only torch.load from a file that is seekable: read this one into an "
            "io.BytesIO, and load that."
        ) from None


def _is_zipfile(stream: BinaryIO) -> bool:
    start = stream.tell()
    magic = stream.read(4)
    stream.seek(start)
    return magic == b"PK\x03\x04"


def _load_safetensors(path: str, map_location: MAP_LOCATION) -> dict[str, Any]:
    if isinstance(map_location, dict) or callable(map_location):
        raise RuntimeError(
            "A dict or callable map_location is not supported for a safetensors file: pass a torch.device or its name."
        )
    try:
        from safetensors.numpy import load_file
    except ImportError:
        raise RuntimeError(
            "A safetensors file, but safetensors is not installed. It comes with `pip install safetensors`"
        ) from None
    device = "cpu" if map_location is None else map_location
    return {name: torch.from_numpy(array).to(device) for name, array in load_file(path).items()}


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#_load
class _TrustingUnpickler(pickle.Unpickler):
    """Python's own, for trusted files: anything importable, with upstream's names mapped to ours."""

    persistent_load: Callable[[Any], Any]

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" or module.startswith("torch."):
            if module == "torch" and name in _storage_type_to_dtype():
                return StorageType(name)
            module = "readtorch" + module.removeprefix("torch")
        return super().find_class(module, name)


def _unpickler(stream: Any, weights_only: bool, persistent_load: Callable[[Any], Any], arguments: dict) -> Any:
    arguments = {"encoding": "utf-8", **arguments}
    kind = _weights_only_unpickler.Unpickler if weights_only else _TrustingUnpickler
    machine = kind(stream, **arguments)
    machine.persistent_load = persistent_load
    return machine


def _checked_reference(reference: Any, length: int) -> tuple[Any, str, str, int]:
    """Storage type, key, location and number of elements of a persistent id; UnpicklingError if it is none of ours."""
    if type(reference) is not tuple or len(reference) < length or reference[0] not in ("storage", b"storage"):
        raise pickle.UnpicklingError(
            f"unknown typename for persistent_load, expected 'storage' but got {reference!r:.80}"
        )
    kind, key, location, numel = reference[1:5]
    if kind is not UntypedStorage and not isinstance(kind, StorageType):
        raise pickle.UnpicklingError(f"a storage of type {kind!r:.80} is not known")
    if not isinstance(key, str) or not isinstance(location, str) or type(numel) is not int or numel < 0:
        raise pickle.UnpicklingError(f"malformed storage reference {reference[2:5]!r:.80}")
    return (kind.dtype if isinstance(kind, StorageType) else torch.uint8), key, location, numel


def _load(
    reader: PyTorchStreamReader, map_location: MAP_LOCATION, weights_only: bool, whole: Any, arguments: dict
) -> Any:
    if reader.has_record("constants.pkl"):
        raise RuntimeError("this is a TorchScript archive; readtorch has no TorchScript, load it with torch.jit.load")
    restore = _restorer(map_location)
    order = reader.get_record("byteorder") if reader.has_record("byteorder") else _fallback_byte_order()
    if order not in (b"little", b"big"):
        raise ValueError(f"Unknown endianness type: {order!r:.20}")
    swapped = order.decode() != sys.byteorder
    loaded: dict[str, Any] = {}

    def persistent_load(reference: Any) -> Any:
        dtype, key, location, numel = _checked_reference(reference, 5)
        if key not in loaded:
            name, size = f"data/{key}", numel * dtype.itemsize
            if reader.get_record_size(name) != size:
                raise pickle.UnpicklingError(
                    f"record {name} has {reader.get_record_size(name)} bytes where {size} were announced"
                )
            if whole is not None:
                begin = reader.get_record_offset(name)
                data = whole[begin : begin + size]
            else:
                data = reader.get_array(name)
            if swapped and dtype.itemsize > 1:
                data = data.reshape(-1, dtype.itemsize)[:, ::-1].reshape(-1)
            storage = restore(UntypedStorage._from_array(data), location)
            loaded[key] = TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)
        return loaded[key]

    pickled = io.BytesIO(reader.get_record("data.pkl"))
    try:
        result = _unpickler(pickled, weights_only, persistent_load, arguments).load()
    except IndexError as error:
        raise pickle.UnpicklingError(f"data.pkl is malformed: {error}") from error
    reader.check()
    return result


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#_legacy_load
def _legacy_load(stream: BinaryIO, map_location: MAP_LOCATION, weights_only: bool, arguments: dict) -> Any:
    if not stream.read(1):
        raise EOFError("Ran out of input")
    stream.seek(-1, os.SEEK_CUR)
    if _is_tar(stream):
        raise RuntimeError(
            "this file is a tar archive, as PyTorch wrote them before 0.1.10, which readtorch does not read: load it with "
            "PyTorch (torch.load(f, weights_only=False)) and save it again"
        )
    restore = _restorer(map_location)
    pending: dict[str, tuple[Any, str, int, Any]] = {}
    announced = 0

    def refuse(reference: Any) -> Any:
        raise pickle.UnpicklingError("unsupported persistent id encountered")

    def persistent_load(reference: Any) -> Any:
        nonlocal announced
        if isinstance(reference, tuple) and reference and reference[0] in ("module", b"module"):
            return reference[1]
        dtype, key, location, numel = _checked_reference(reference, 6)
        if reference[5] is not None:
            raise pickle.UnpicklingError("views of storages in legacy files (before PyTorch 0.4) are not supported")
        if key not in pending:
            announced += numel * dtype.itemsize
            _check_room(stream, announced)
            storage = restore(UntypedStorage(numel * dtype.itemsize), location)
            pending[key] = (dtype, location, numel, TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True))
        return pending[key][3]

    def read_pickle(load: Callable[[Any], Any]) -> Any:
        try:
            return _unpickler(stream, weights_only, load, arguments).load()
        except IndexError as error:
            raise IndexError(f"{error}: neither an archive nor a stream of pickles, or damaged") from error

    if read_pickle(refuse) != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = read_pickle(refuse)
    if version != PROTOCOL_VERSION:
        raise RuntimeError(f"Invalid protocol version: {version}")
    read_pickle(refuse)
    result = read_pickle(persistent_load)
    keys = read_pickle(refuse)
    if type(keys) is not list or not all(isinstance(key, str) for key in keys) or sorted(keys) != sorted(pending):
        raise RuntimeError(f"legacy file is damaged: it lists the storages {keys!r:.80}, others are referred to")
    for key in keys:
        dtype, _, numel, typed = pending[key]
        header = stream.read(8)
        if len(header) != 8 or struct.unpack("<q", header)[0] != numel:
            raise RuntimeError(f"legacy file is damaged: storage {key!r:.40} does not have {numel} elements")
        data = stream.read(numel * dtype.itemsize)
        if len(data) != numel * dtype.itemsize:
            raise RuntimeError(f"legacy file is damaged: storage {key!r:.40} ends early")
        typed._untyped_storage.copy_(UntypedStorage._from_array(np.frombuffer(bytearray(data), np.uint8)))
    return result


def _is_tar(stream: BinaryIO) -> bool:
    start = stream.tell()
    head = stream.read(262)
    stream.seek(start)
    return head[257:] == b"ustar"


def _check_room(stream: BinaryIO, wanted: int) -> None:
    """Refuse storages larger than what is left of the file, before memory is allocated for them."""
    here = stream.tell()
    left = stream.seek(0, os.SEEK_END) - here
    stream.seek(here)
    if wanted > left:
        raise pickle.UnpicklingError(f"storages of {wanted} bytes are announced, and the file has {left} more")


# %% [markdown]
# ## Allowing a type of one's own


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#add_safe_globals
def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let `load(weights_only=True)` use these classes and functions; a pair (object, name) allows it under that name."""
    known = _weights_only_unpickler._safe_globals
    known.extend(entry for entry in safe_globals if entry not in known)


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` has allowed."""
    return list(_weights_only_unpickler._safe_globals)


def clear_safe_globals() -> None:
    """Allow nothing beyond the defaults again."""
    _weights_only_unpickler._safe_globals.clear()


class safe_globals:
    """Context manager: `add_safe_globals` inside the block only."""

    def __init__(self, safe_globals: list[Any]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        self._added = [entry for entry in self.safe_globals if entry not in _weights_only_unpickler._safe_globals]
        add_safe_globals(self._added)

    def __exit__(self, *exc: object) -> None:
        for entry in self._added:
            _weights_only_unpickler._safe_globals.remove(entry)


# %%
#| into: __init__.py
_MODULES += ["_weights_only_unpickler", "serialization"]
_NAMES.update({"load": "serialization", "save": "serialization"})
