"""Files made to do harm: refused with an error of our own, nothing executed, memory in proportion to the file."""

from __future__ import annotations

import io
import pickle
import random
import struct
import sys
import tracemalloc
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import readtorch as torch
from readtorch.csrc.serialize.crc_alt import crc32_combine
from readtorch.utils.serialization import config

OURS = (pickle.UnpicklingError, RuntimeError, EOFError)
NOT_OURS = (RecursionError, NotImplementedError)
MUTATIONS = 200

_seen: list[str] | None = None


def _watch(event: str, args: tuple) -> None:
    if _seen is not None and event in ("os.system", "os.exec", "subprocess.Popen", "exec", "compile", "import", "open"):
        _seen.append(f"{event} {args[:1]}")


sys.addaudithook(_watch)
torch.nn.Module()  # imported now and not while being watched, as is
"".encode("cp437")  # zipfile's encoding for names


@contextmanager
def nothing_happens(megabytes: float = 8) -> Iterator[None]:
    """Nothing is run, imported or opened inside the block, and not much is allocated."""
    global _seen
    tracemalloc.start()
    events: list[str] = []
    _seen = events
    try:
        yield
    finally:
        _seen = None
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert not events
    assert peak < megabytes * 1e6


def example() -> dict[str, Any]:
    weight = torch.arange(12.0).reshape(3, 4)
    return {
        "model": OrderedDict([("weight", weight), ("row", weight[1]), ("bias", torch.nn.Parameter(torch.ones(3)))]),
        "half": torch.tensor([1.5, 2.5], dtype=torch.bfloat16),
        "flags": torch.tensor([True, False]),
        "epoch": 7,
        "groups": [{"lr": 0.1, "betas": (0.9, 0.99), "name": "all", "params": [0, 1]}],
        "empty": torch.empty(0),
        "size": torch.Size([2, 3]),
    }


def saved(value: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return type(a) is type(b) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def load(data: bytes) -> Any:
    """The value, or the error if it is one of ours."""
    try:
        with nothing_happens():
            return torch.load(io.BytesIO(data))
    except (*OURS, IndexError) as error:
        refusal = error
    assert not isinstance(refusal, NOT_OURS), repr(refusal)
    assert str(refusal), type(refusal)
    if isinstance(refusal, IndexError):  # upstream's type, for what looks like a stream of pickles
        assert "neither an archive nor a stream of pickles" in str(refusal)
    return refusal


def archive(pickled: bytes, records: dict[str, bytes] | None = None) -> bytes:
    """A sound container around any pickle."""
    from readtorch.csrc.serialize.inline_container import PyTorchStreamWriter

    file = io.BytesIO()
    writer = PyTorchStreamWriter(file, "archive")
    writer.write_record("data.pkl", pickled)
    writer.write_record("byteorder", sys.byteorder.encode())
    for name, data in (records or {}).items():
        writer.write_record(name, data)
    writer.write_end_of_file()
    return file.getvalue()


# mutations: each takes the bytes and a source of random numbers


def truncated(data: bytes, at: random.Random) -> bytes:
    return data[: at.randrange(1, len(data))]


def beheaded(data: bytes, at: random.Random) -> bytes:
    return data[at.randrange(1, len(data)) :]


def flipped(data: bytes, at: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(at.choice((1, 1, 1, 4, 32))):
        changed[at.randrange(len(data))] ^= 1 << at.randrange(8)
    return bytes(changed)


def absurd(data: bytes, at: random.Random) -> bytes:
    number = at.choice(
        (b"\xff" * 4, b"\xff" * 8, b"\0" * 4, b"\0" * 8, struct.pack("<Q", 1 << 40), b"\xff\xff\xff\x7f")
    )
    begin = at.randrange(len(data) - len(number))
    return data[:begin] + number + data[begin + len(number) :]


def cut(data: bytes, at: random.Random) -> bytes:
    begin = at.randrange(len(data))
    return data[:begin] + data[begin + at.randrange(1, 100) :]


def stuffed(data: bytes, at: random.Random) -> bytes:
    begin = at.randrange(len(data))
    return data[:begin] + at.randbytes(at.randrange(1, 100)) + data[begin:]


def doubled(data: bytes, at: random.Random) -> bytes:
    begin = at.randrange(len(data))
    part = data[begin : begin + at.randrange(1, 300)]
    elsewhere = at.randrange(len(data))
    return data[:elsewhere] + part + data[elsewhere:]


def entry_changed(data: bytes, at: random.Random) -> bytes:
    """One field of one directory entry, where the numbers are that readers believe."""
    entries = [i for i in range(len(data)) if data[i : i + 4] == b"PK\x01\x02"]
    begin = at.choice(entries) + at.choice((8, 10, 16, 20, 24, 28, 30, 32, 42))
    return data[:begin] + at.randbytes(2) + data[begin + 2 :]


MUTATORS = (truncated, beheaded, flipped, absurd, cut, stuffed, doubled, entry_changed)


@pytest.mark.parametrize("mutator", MUTATORS, ids=lambda f: f.__name__)
def test_a_damaged_archive_is_refused_or_loads_as_if_it_were_whole(mutator: Callable) -> None:
    value = example()
    data, at, refused = saved(value), random.Random(mutator.__name__), 0
    load(data)  # what is imported on the first use is imported now
    for _ in range(MUTATIONS // len(MUTATORS)):
        result = load(mutator(data, at))
        refused += isinstance(result, Exception)
        assert isinstance(result, Exception) or same(result, value)
    assert refused


@pytest.mark.parametrize("mutator", [flipped, absurd, cut, stuffed, doubled], ids=lambda f: f.__name__)
def test_a_mutated_pickle_in_a_sound_archive_builds_plain_data_or_is_refused(mutator: Callable) -> None:
    data, at, refused = saved(example()), random.Random(mutator.__name__), 0
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        records = {name.partition("/")[2]: file.read(name) for name in file.namelist()}
    pickled = records["data.pkl"]
    records = {name: content for name, content in records.items() if name.startswith("data/")}
    load(data)
    for _ in range(MUTATIONS // 5):
        refused += isinstance(load(archive(mutator(pickled, at), records)), Exception)
    assert refused


@pytest.mark.parametrize("mutator", [truncated, flipped, absurd, cut, stuffed], ids=lambda f: f.__name__)
def test_a_damaged_legacy_file_executes_nothing(mutator: Callable) -> None:
    data, at = saved(example(), _use_new_zipfile_serialization=False), random.Random(mutator.__name__)
    load(data)
    for _ in range(MUTATIONS // 10):
        result = load(mutator(data, at))
        assert mutator is not truncated or isinstance(result, Exception)


# programs that a pickle can be


def called(path: str, *arguments: Any) -> bytes:
    """GLOBAL, the arguments, REDUCE."""
    module, _, name = path.rpartition(".")
    body = b"".join(pickle.dumps(argument, 2)[2:-1] for argument in arguments)
    return b"\x80\x02c" + f"{module}\n{name}\n".encode() + b"(" + body + b"tR."


class Chain:
    """`getattr(getattr(builtins, "__import__")("os"), "system")("…")`, as a class that pickles itself so."""

    def __reduce__(self) -> Any:
        return getattr, (sys.modules["builtins"].__dict__["getattr"], "__call__")


def storage_of(numel: int, key: str = "0", kind: str = "FloatStorage") -> bytes:
    """The instructions that push a storage."""
    parts = [pickle.dumps(part, 2)[2:-1] for part in (key, "cpu", numel)]
    return b"(U\x07storagectorch\n" + kind.encode() + b"\n" + b"".join(parts) + b"tQ"


def tensor_of(storage: bytes, offset: int, size: tuple, stride: tuple) -> bytes:
    body = b"".join(pickle.dumps(part, 2)[2:-1] for part in (offset, size, stride, False))
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage + body + b"ccollections\nOrderedDict\n)RtR."


HUGE = 1 << 60
PROGRAMS: dict[str, bytes] = {
    "os.system": called("os.system", "echo hostile"),
    "posix.system": called("posix.system", "echo hostile"),
    "nt.system": called("nt.system", "echo hostile"),
    "subprocess": called("subprocess.Popen", "echo"),
    "builtins.eval": called("builtins.eval", "1+1"),
    "builtins.exec": called("builtins.exec", "pass"),
    "__builtin__.eval": called("__builtin__.eval", "1+1"),
    "builtins.getattr": called("builtins.getattr", "a", "upper"),
    "builtins.__import__": called("builtins.__import__", "os"),
    "builtins.open": called("builtins.open", "hostile", "w"),
    "getattr chain": pickle.dumps(Chain(), 2),
    "attribute of a module that is allowed": called("torch.serialization.os.system", "echo hostile"),
    "a dotted name": b"\x80\x02ctorch\nserialization.os.system\n(X\x04\0\0\0echotR.",
    "torch.load itself": called("torch.load", "other.pt"),
    "torch.hub": called("torch.hub.load", "a", "b"),
    "torch.classes": called("torch._C._jit_pass", "a"),
    "functools.partial": called("functools.partial", "a"),
    "runpy": called("runpy.run_path", "hostile.py"),
    "pickle.loads": called("pickle.loads", b"x"),
    "sys.modules": b"\x80\x02csys\nmodules\n.",
    "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93(X\x04\0\0\0echotR.",
    "instance": b"(S'echo'\nios\nsystem\n.",
    "object": b"(cos\nsystem\nX\x04\0\0\0echoo.",
    "extension code": b"\x80\x02\x82\x01.",
    "reduce of what is no function": b"\x80\x02X\x01\0\0\0a)R.",
    "build of a class": b"\x80\x02ctorch\nSize\n}X\x01\0\0\0aK\x01sb.",
    "a tensor by size": called("torch.Tensor", HUGE),
    "a storage by size": called("torch.storage.UntypedStorage", HUGE),
    "a typed storage by size": called("torch.storage.TypedStorage", HUGE),
    "a storage by NEWOBJ": b"\x80\x02ctorch.storage\nUntypedStorage\n\x8a\x08" + struct.pack("<q", HUGE) + b"\x85\x81.",
    "a storage by way of a rebuild": b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(ctorch.storage\nUntypedStorage\n"
    b"ctorch\nTensor\n\x8a\x08" + struct.pack("<q", HUGE) + b"\x85}tR.",
    "bytearray by size": called("builtins.bytearray", HUGE),
    "text of four gigabytes": b"\x80\x02X\xff\xff\xff\xffabc.",
    "a copy of a copy": b"\x80\x02]"
    + b"cbuiltins\nbytearray\nq\x00X\x00\x00\x01\x00"
    + b"a" * 65536
    + b"q\x01X\x06\0\0\0latin1q\x02\x86Ra"
    b"" + b"h\x00h\x01h\x02\x86Ra" * 3000 + b".",
    "sets of one list": b"\x80\x02]q\x00("
    + b"K\x01M\x02\x01" * 5000
    + b"ecbuiltins\nset\nq\x01"
    + b"h\x01h\x00\x85R" * 3000
    + b".",
    "a deep key": b"\x80\x02})" + b"\x85" * 50_000 + b"K\x01s.",
    "a key of doubling tuples": b"\x80\x02})" + b"q\x00h\x00\x86" * 64 + b"K\x01s.",
    "a deep key in a set": b"\x80\x02cbuiltins\nset\n])" + b"\x85" * 50_000 + b"a\x85R.",
    "a deep element in an OrderedDict": b"\x80\x02ccollections\nOrderedDict\n]])"
    + b"\x85" * 50_000
    + b"aK\x01aa\x85R.",
    "more than the record holds": tensor_of(storage_of(HUGE), 0, (HUGE,), (1,)),
    "fewer than the record holds": tensor_of(storage_of(1), 0, (1,), (1,)),
    "a size outside": tensor_of(storage_of(4), 0, (HUGE,), (1,)),
    "a negative stride": tensor_of(storage_of(4), 3, (4,), (-1,)),
    "a negative offset": tensor_of(storage_of(4), -1, (4,), (1,)),
    "a stride outside": tensor_of(storage_of(4), 0, (2, 2), (2, 9)),
    "an overflow": tensor_of(storage_of(4), 0, (1 << 32, 1 << 32), (1 << 31, 1 << 31)),
    "an empty giant": tensor_of(storage_of(4), 0, (0, 1 << 62, 1 << 62), (1, 1, 1)),
    "a negative storage": tensor_of(storage_of(-4), 0, (1,), (1,)),
    "a path as key": tensor_of(storage_of(4, "../../../etc/passwd"), 0, (4,), (1,)),
    "an absolute path as key": tensor_of(storage_of(4, "/etc/passwd"), 0, (4,), (1,)),
    "another record as key": tensor_of(storage_of(4, "../data.pkl"), 0, (4,), (1,)),
    "a storage of no known type": tensor_of(storage_of(4, kind="Size"), 0, (4,), (1,)),
    "memo of nothing": b"\x80\x02h\x07.",
    "nothing on the stack": b"\x80\x02.",
    "no STOP": b"\x80\x02K\x01",
    "nothing": b"",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_hostile_pickle_is_refused(name: str) -> None:
    load(saved(example()))
    assert isinstance(load(archive(PROGRAMS[name], {"data/0": bytes(16)})), Exception)
    assert isinstance(load(PROGRAMS[name]), Exception)  # as if it were a stream of pickles


def test_what_a_demonstration_would_do_is_seen_when_it_is_trusted() -> None:
    """The watch works: the same file, trusted, does run its function."""
    file = io.BytesIO(archive(called("builtins.eval", "40 + 2")))
    with pytest.raises(AssertionError), nothing_happens():
        assert torch.load(file, weights_only=False) == 42


# containers that contradict themselves


def zipped(members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as target:
        for name, content in members:
            target.writestr(name, content)
    return file.getvalue()


NUMBER = pickle.dumps(1, 2)


@pytest.mark.parametrize(
    "members",
    [
        [("archive/data.pkl", NUMBER), ("../outside", b"")],
        [("archive/data.pkl", NUMBER), ("archive/../../outside", b"")],
        [("archive/data.pkl", NUMBER), ("/etc/passwd", b"")],
        [("archive/data.pkl", NUMBER), ("other/data/0", b"")],
        [("archive/other", NUMBER)],
        [("data.pkl", NUMBER)],
        [],
    ],
    ids=["parent", "parent below", "absolute", "second folder", "no pickle", "no folder", "empty"],
)
def test_members_outside_of_the_folder_are_refused(members: list[tuple[str, bytes]]) -> None:
    assert isinstance(load(zipped(members)), Exception)


def test_two_members_of_one_name_are_refused() -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        data = zipped([("archive/data.pkl", NUMBER), ("archive/data.pkl", NUMBER)])
    assert "two members" in str(load(data))


def test_a_compressed_member_is_refused_whatever_it_would_expand_to() -> None:
    data = zipped([("archive/data.pkl", b"\0" * 10_000_000), ("archive/version", b"3\n")], zipfile.ZIP_DEFLATED)
    assert len(data) < 20_000 and "compressed" in str(load(data))


def test_members_that_share_their_bytes_are_refused() -> None:
    content = bytes(100_000)
    local = struct.pack(
        "<4s5H3I2H", b"PK\x03\x04", 20, 0, 0, 0, 33, zlib.crc32(content), len(content), len(content), 16, 0
    )
    data = local + b"archive/data.pkl" + content
    entries = [
        struct.pack(
            "<4s6H3I5H2I",
            *(b"PK\x01\x02", 20, 20, 0, 0, 0, 33, zlib.crc32(content), len(content), len(content)),
            *(len(name), 0, 0, 0, 0, 0, 0),
        )
        + name
        for name in (b"archive/data.pkl", *(b"archive/data/%d" % number for number in range(50)))
    ]
    directory = b"".join(entries)
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, len(entries), len(entries), len(directory), len(data), 0)
    assert "overlap" in str(load(data + directory + end))


def test_a_wrong_checksum_is_refused() -> None:
    data = bytearray(saved({"weight": torch.arange(4.0)}))
    begin = data.index(struct.pack("4f", 0, 1, 2, 3))
    data[begin + 5] ^= 1
    assert "checksum" in str(load(bytes(data)))


@pytest.mark.cpu("the host's memory is measured")
@pytest.mark.parametrize("place", [0, (1 << 22) - 1, 1 << 22, 4_400_003], ids=str)
def test_a_wrong_checksum_is_refused_wherever_in_a_large_record_it_is(place: int) -> None:
    """Large records are read and checked in pieces, the last one shorter than the others."""
    data = saved({"weight": torch.ones(1_100_001)})
    assert same(load(data), {"weight": torch.ones(1_100_001)})
    changed = bytearray(data)
    changed[data.index(struct.pack("8f", *[1.0] * 8)) + place] ^= 1
    assert "checksum" in str(load(bytes(changed)))


@pytest.mark.parametrize("lengths", [(0, 0), (5, 0), (0, 7), (100, 1 << 20), (1 << 20, 12_345)], ids=str)
def test_checksums_of_two_pieces_are_joined(lengths: tuple[int, int]) -> None:
    at = random.Random(0)
    first, second = (at.randbytes(length) for length in lengths)
    joined = crc32_combine(zlib.crc32(first), zlib.crc32(second), len(second))
    assert joined == zlib.crc32(first + second)


@pytest.mark.parametrize("said", [b"0", b"-64", b"x", b"", b"9" * 400], ids=str)
def test_an_alignment_that_is_none_is_refused_where_places_are_computed(said: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(saved(torch.ones(2)))) as source:
        members = [(name, said if "alignment" in name else source.read(name)) for name in source.namelist()]
    with config.patch("load.calculate_storage_offsets", True):
        assert "is no alignment" in str(load(zipped(members)))


def test_mapping_a_damaged_file_never_reaches_beyond_it(tmp_path: Any) -> None:
    data, at, path = saved(example()), random.Random(0), tmp_path / "model.pt"
    for _ in range(60):
        path.write_bytes(entry_changed(data, at))
        with suppress(*OURS):
            torch.load(path, mmap=True)


def test_a_tar_archive_says_what_to_do() -> None:
    import tarfile

    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as target:
        info = tarfile.TarInfo("pickle")
        info.size = 4
        target.addfile(info, io.BytesIO(b"abcd"))
    with pytest.raises(RuntimeError, match=r"0\.1\.10.*save it again"):
        torch.load(io.BytesIO(file.getvalue()))


def test_a_torchscript_archive_says_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="TorchScript"):
        torch.load(
            io.BytesIO(
                zipped([("archive/data.pkl", NUMBER), ("archive/constants.pkl", NUMBER), ("archive/version", b"3\n")])
            )
        )
