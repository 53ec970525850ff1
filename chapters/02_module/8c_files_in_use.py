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
# # Files in use: views, devices, maps, and files that mean harm
#
# Writer, machine and reader stand. This part uses them as a reader of checkpoints meets them: what takes the room in a file, where the tensors arrive, what is read and when, what is refused; and the two other formats
# that a PyTorch user will find, safetensors and the archive of C++.

# %%
import io
import json
import os
import pickle
import struct
import tempfile
import zipfile
from pathlib import Path

import numpy as np

import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()
folder = Path(tempfile.mkdtemp())

# %% [markdown]
# ## What takes the room?
#
# A tensor is a window on a storage, and the file holds storages. So the size of a file is not the size of the tensors in it:

# %%
large = torch.zeros(1_000_000)
tensors = {
    "whole": large,
    "ten elements": large[:10],
    "a clone of ten": large[:10].clone(),
    "whole, and ten": [large, large[:10]],
    "a million from one": torch.zeros(1).expand(1_000_000),
}
for name, value in tensors.items():
    torch.save(value, folder / "value.pt")
    print(f"{(folder / 'value.pt').stat().st_size:9,d} bytes  {name}")

# %% [markdown]
# The second line is a surprise to many, and the fourth is its reason. Two tensors that share memory share it again after loading: a write to one is seen through the other. Tied weights, a row kept beside its matrix, the state of an optimizer
# that shares a buffer, all survive. Nobody can tell when saving one tensor whether its neighbour will be wanted; so the storage is written.


# %%
#| claim: tensors that shared a storage share one after loading, and a file holds a storage once, whole
#| source: pytorch/pytorch#1995
def _(torch):
    import io
    import zipfile

    base = torch.arange(100.0)
    file = io.BytesIO()
    torch.save({"base": base, "row": base[10:12]}, file)
    names = [name for name in zipfile.ZipFile(file).namelist() if "/data/" in name]
    assert names == ["archive/data/0"]
    file.seek(0)
    found = torch.load(file)
    found["row"].fill_(-1)
    assert found["base"][10] == -1 and found["row"].storage_offset() == 10
    file = io.BytesIO()
    torch.save(base[:1], file)
    assert zipfile.ZipFile(file).getinfo("archive/data/0").file_size == 400


# %% [markdown]
# Follow one save. The pickler is Python's; what is PyTorch's are three interventions: the persistent id that takes a storage out of the stream, the writing of globals under upstream's names, and the record at the end.

# %%
#| trace: torch.serialization torch.csrc.serialize layers=calls values=summary title="save: structure first, bytes after"
torch.save({"weight": torch.ones(2, 2), "bias": torch.ones(2)}, io.BytesIO())

# %% [markdown]
# ## Where is record 0?
#
# The bytes of a record are neither compressed nor anywhere but at a multiple of 64. Two numbers of the directory and two of the local header give the place; what follows is the whole of a reader, for a file known to be good:

# %%
torch.save({"weight": torch.arange(6.0).reshape(2, 3)}, folder / "model.pt")
raw = (folder / "model.pt").read_bytes()
with zipfile.ZipFile(folder / "model.pt") as archive:
    entry = archive.getinfo("model/data/0")
name_length, extra_length = struct.unpack_from("<2H", raw, entry.header_offset + 26)
begin = entry.header_offset + 30 + name_length + extra_length
begin, begin % 64, np.frombuffer(raw, np.float32, count=6, offset=begin)

# %% [markdown]
# The extra field, between the name and the data, has nothing but padding in it: its letters are `FB` and its content is `Z`, again and again.

# %%
raw[entry.header_offset + 30 : begin]


# %%
#| claim: every record of a saved file is stored uncompressed and begins at a multiple of 64, under a folder named like the file
def _(torch):
    import struct
    import tempfile
    import zipfile

    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/some.model.pt"
        torch.save([torch.ones(n) for n in range(1, 9)], path)
        data = open(path, "rb").read()
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    for entry in entries:
        lengths = struct.unpack_from("<2H", data, entry.header_offset + 26)
        assert (entry.header_offset + 30 + sum(lengths)) % 64 == 0
        assert entry.compress_type == zipfile.ZIP_STORED
        assert entry.filename.startswith("some.model/")


# %% [markdown]
# ## Who reads the file, and when?
#
# Alignment and no compression are there for `mmap=True`. The loader then reads the pickle only. For each storage it takes a slice of the mapped file, and the operating system brings in a page when an element on it is touched. Opening a checkpoint of 200 MB
# takes as long as opening a small one; three ranks on one machine that map one file share its pages. The map is private, unless [an option](8d_options.py) says otherwise: a write copies the page and never reaches the file.

# %%
torch.save({"weight": torch.zeros(1000)}, folder / "large.pt")
mapped = torch.load(folder / "large.pt", mmap=True)["weight"]
mapped += 1
mapped[:3], torch.load(folder / "large.pt")["weight"][:3], type(mapped.numpy().base).__name__

# %% [markdown]
# Mapping has a price. Nothing compares the checksum, because that would read everything; and the file must stay as it is while a tensor looks into it.
#
# What compares the checksum otherwise? Here the reader does. Upstream's build of its zip library has that test switched off: a bit that flipped on the disk is loaded as a weight.


# %%
#| claim: a record whose content does not have its checksum is refused
#| differs: PyTorch 2.13 writes checksums and does not compare them when it loads
def _(torch):
    import io

    file = io.BytesIO()
    torch.save(torch.arange(4.0), file)
    data = bytearray(file.getvalue())
    data[data.index(torch.arange(4.0).numpy().tobytes()) + 6] ^= 1
    try:
        torch.load(io.BytesIO(bytes(data)))
    except RuntimeError as error:
        assert "checksum" in str(error)
    else:
        raise AssertionError("loaded")


# %% [markdown]
# ## On which device does it arrive?
#
# A storage is written with a *location*, the name of its device at the time, and is put there again. A checkpoint of a GPU therefore wants that GPU. `map_location` answers for it, in four forms:
#
# | `map_location` | a storage goes |
# |---|---|
# | `None` | where it was saved |
# | `"cpu"`, `torch.device("cuda:1")` | there, all of them |
# | `{"cuda:0": "cuda:1"}` | where the table says; those not in it, where they were |
# | a function of storage and location | where what it returns lies; if it returns `None`, where it was |
#
# The function gets a storage on the CPU and the tag from the file. `"meta"` is a device too: shapes without elements, to look at a checkpoint that would not fit. Nothing but the pickle and the directory is read for it.

# %%
torch.load(folder / "model.pt", map_location="meta")["weight"]

# %%
asked = []
torch.load(folder / "model.pt", map_location=lambda storage, location: asked.append((storage.nbytes(), location)))
asked


# %%
#| claim: map_location as a function is asked once per storage, and None sends the storage where it was
def _(torch):
    import io

    base, file = torch.zeros(3), io.BytesIO()
    torch.save([base, base[1:], torch.ones(1, dtype=torch.int64)], file)
    file.seek(0)
    seen = []
    found = torch.load(file, map_location=lambda storage, location: seen.append((storage.nbytes(), location)))
    assert seen == [(12, "cpu"), (8, "cpu")] and str(found[0].device) == "cpu"


# %%
#| claim: with map_location="meta" no record of data is read
def _(torch):
    import io

    class Counted(io.BytesIO):
        count = 0

        def read(self, size=-1):
            data = super().read(size)
            Counted.count += len(data)
            return data

        def readinto(self, target):
            size = super().readinto(target)
            Counted.count += size
            return size

    file = io.BytesIO()
    torch.save({"weight": torch.ones(1_000_000)}, file)
    for where, few in (("meta", True), ("cpu", False)):
        Counted.count = 0
        found = torch.load(Counted(file.getvalue()), map_location=where)
        assert found["weight"].shape == (1_000_000,) and (Counted.count < 200_000) is few, Counted.count


# %%
#| claim: a checkpoint from a GPU does not load where there is none, says what to do, and loads with map_location
def _(torch):
    import io
    import zipfile

    file, moved = io.BytesIO(), io.BytesIO()
    torch.save(torch.ones(2), file)
    here, there = b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0"
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(moved, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(here, there))
    for where in ("cpu", torch.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage):
        assert torch.load(io.BytesIO(moved.getvalue()), map_location=where).tolist() == [1, 1]
    if torch.cuda.is_available():
        return
    try:
        torch.load(io.BytesIO(moved.getvalue()))
    except RuntimeError as error:
        assert "Attempting to deserialize object on a CUDA device" in str(error) and "map_location" in str(error)
    else:
        raise AssertionError("loaded")


# %% [markdown]
# ## What is refused?
#
# A pickle can name any importable function and call it. Here is a file that would run a program; it is built without running anything, and loading it does not run anything either.


# %%
class Greeting:
    def __reduce__(self):
        return os.system, ("echo this came out of a checkpoint",)


hostile = io.BytesIO()
torch.save({"weight": torch.ones(2), "note": Greeting()}, hostile)
hostile.seek(0)
try:
    torch.load(hostile)
except pickle.UnpicklingError as error:
    print(str(error).splitlines()[-1].strip())

# %% [markdown]
# `os` is *blocked*, whatever a caller has allowed. Anything else that is not on the list is refused with the sentence that tells how to allow it. Watch the machine come to the instruction:

# %%
#| trace: torch._weights_only_unpickler torch.serialization layers=calls values=summary title="load: the instruction that is refused"
hostile.seek(0)
try:
    torch.load(hostile)
except pickle.UnpicklingError:
    pass


# %% [markdown]
# To allow a class is a decision about its `__new__` and its `__setstate__`: those will run with what the file says. So it is made by the program that loads, never by the file, and best for the length of one block.


# %%
class Vocabulary:
    def __init__(self, words):
        self.words = words


file = io.BytesIO()
torch.save(Vocabulary(["a", "b"]), file)
with torch.serialization.safe_globals([Vocabulary]):
    file.seek(0)
    print(torch.load(file).words)


# %%
#| claim: by default neither eval, nor getattr, nor a class of the user's is reached from a file; safe_globals allows a class inside its block only
def _(torch):
    import io
    import pickle
    import sys
    import types

    class Calls:
        def __init__(self, function, *arguments):
            self.call = function, arguments

        def __reduce__(self):
            return self.call

    def refused(value):
        file = io.BytesIO()
        torch.save(value, file)
        file.seek(0)
        try:
            torch.load(file)
        except pickle.UnpicklingError:
            return True
        return False

    assert refused(Calls(eval, "1 + 1")) and refused(Calls(getattr, "a", "upper"))
    home = sys.modules["home_of_a_class"] = types.ModuleType("home_of_a_class")
    Mine = home.Mine = type("Mine", (), {"__module__": home.__name__})
    try:
        assert refused(Mine())
        with torch.serialization.safe_globals([Mine]):
            assert not refused(Mine())
        assert refused(Mine())
    finally:
        del sys.modules[home.__name__]


# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "`weights_only=True` loads only weights: a checkpoint with an optimizer, epochs and settings needs `False`." Dictionaries, lists, tuples, sets, numbers, text, bytes, dtypes, devices and sizes are all on the list;
# > the state of every optimizer loads. What is not: objects of classes, among them NumPy's arrays and numbers, which get into a checkpoint by `loss.numpy()` or `np.mean(losses)`.


# %%
#| claim: a checkpoint with optimizer state, settings and counts loads with weights_only=True
#| needs: 04_optim
def _(torch):
    import io

    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    weight.sum().backward()
    optimizer.step()
    file = io.BytesIO()
    settings = {"name": "run", "layers": (1, 2), "seen": {1, 2}, "dtype": torch.float16, "raw": b"\x00"}
    torch.save({"optimizer": optimizer.state_dict(), "epoch": 3, "settings": settings}, file)
    file.seek(0)
    found = torch.load(file, weights_only=True)
    assert found["settings"] == settings and found["epoch"] == 3
    assert found["optimizer"]["state"][0]["momentum_buffer"].tolist() == [1.0, 1.0]


# %% [markdown]
# ## The whole object, after the code has moved
#
# The chapter on `state_dict` pickled a module and edited its class. With `torch.save(model, …)` the same happens in a file, and the commonest accident is not an edit but a move. A project has its model in `models.py`:

# %%
import importlib
import sys

(folder / "models.py").write_text(
    "import readtorch as torch\n\n"
    "class Tagger(torch.nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.weight = torch.nn.Parameter(torch.ones(3))\n"
)
sys.path.insert(0, str(folder))
models = importlib.import_module("models")
torch.save(models.Tagger(), folder / "whole.pt")
torch.save(models.Tagger().state_dict(), folder / "state.pt")
with zipfile.ZipFile(folder / "whole.pt") as archive:
    print(b"models\nTagger" in archive.read("whole/data.pkl"))

# %% [markdown]
# Months later the file is called `tagging.py`. The weights are where they were; the name leads nowhere.

# %%
(folder / "models.py").rename(folder / "tagging.py")
del sys.modules["models"]
importlib.invalidate_caches()
try:
    torch.load(folder / "whole.pt", weights_only=False)
except ModuleNotFoundError as error:
    print(error)

# %% [markdown]
# The state has no names of code in it, and loads into whatever has those parameters now:

# %%
tagging = importlib.import_module("tagging")
model = tagging.Tagger()
model.load_state_dict(torch.load(folder / "state.pt"))

# %% [markdown]
# If the whole object is all there is, lend it the old name for the time of the loading:

# %%
sys.modules["models"] = tagging
rescued = torch.load(folder / "whole.pt", weights_only=False).state_dict()
del sys.modules["models"]
sys.path.remove(str(folder))
rescued

# %% [markdown]
# ## The other format: safetensors
#
# Most published models come as `.safetensors`, a format with no program in it at all: eight bytes that say how long the header is, a header in JSON, and the bytes of the tensors. Nothing could be called, so nothing need be refused.

# %%
from safetensors.numpy import save_file

save_file(
    {"weight": np.arange(6, dtype=np.float32).reshape(2, 3), "bias": np.zeros(2, np.float16)},
    folder / "model.safetensors",
)
raw = (folder / "model.safetensors").read_bytes()
(length,) = struct.unpack_from("<Q", raw)
json.loads(raw[8 : 8 + length])

# %% [markdown]
# Names, dtypes, shapes, and from where to where. What is *not* in it: strides, so every tensor is contiguous; storages, so two views become two tensors and tied weights must be tied again by the program (the library refuses
# to write them unless told which to drop); and anything that is no tensor, so an optimizer's settings or an epoch go elsewhere. `torch.load` reads the format by the file's name:

# %%
torch.load(folder / "model.safetensors")

# %% [markdown]
# ## What does C++ write?
#
# `nn.Module` in Python has neither `save` nor `load`; its twin in C++, `torch::nn::Module`, has both. The two write different files under the same ending. The one beside this chapter comes from six lines of C++ against libtorch 2.13:
#
# ```cpp
# torch::nn::Sequential net(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2));
# torch::save(net, "cpp_module.pt");
# ```
#
# `torch::save` makes an `OutputArchive` and hands it to `net->save(archive)`. A module writes its parameters and buffers by name, `archive.write("weight", tensor)`, then opens an archive of its own for each child and writes that under the child's name. So it is a tree of
# dictionaries from names to tensors; what `state_dict` flattens by dots is nested here. `InputArchive` walks the same tree the other way: a name that is missing is an error, one that is too many is not even noticed.

# %%
#| fact: torch/csrc/api/include/torch/serialize/output-archive.h#torch::serialize::OutputArchive
#| fact: torch/csrc/api/include/torch/serialize/input-archive.h#torch::serialize::InputArchive
#| fact: torch/csrc/api/include/torch/nn/module.h#torch::nn::Module::save
#| fact: torch/csrc/api/include/torch/nn/module.h#torch::nn::Module::load

# %%
source = "data/cpp_module.pt"
archive = zipfile.ZipFile(source)
for member in archive.infolist():
    print(f"{member.file_size:4d} bytes  {member.filename}")

# %% [markdown]
# The container is the same, `data/0` to `data/6` are what they were, and two kinds of member are new. `constants.pkl` and `code/` belong to TorchScript: an `OutputArchive` is a scripted module without methods, and each level of the tree is a class whose text is in the file.

# %%
print(archive.read("cpp_module/code/__torch__/___torch_mangle_1.py").decode())

# %% [markdown]
# The pickle has a class for every level and `BUILD` with a dictionary, keys in order of registration, tensors by the same `_rebuild_tensor_v2`:

# %%
import pickletools

for operation, argument, _ in pickletools.genops(archive.read("cpp_module/data.pkl")):
    if operation.name in ("GLOBAL", "BINUNICODE", "BUILD") and argument not in ("storage", "cpu"):
        print(operation.name.lower(), argument or "")

# %% [markdown]
# Our reader refuses it by name, as `torch.load` refuses it with `weights_only=True`; PyTorch opens it with `torch.jit.load` and shows its `state_dict`. The way from Python to C++ that needs no TorchScript goes through one of C++'s *other* functions, `torch::pickle_load`, which
# reads what `torch.save` wrote, if that is plain dictionaries and tensors.

# %%
try:
    torch.load(source)
except RuntimeError as error:
    print(error)

# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "`InputArchive` and `OutputArchive` are what `torch.save` uses underneath." They are not on its path. What the two have in common is the container, `PyTorchStreamWriter`.


# %%
#| claim: a file that C++ wrote is no file for torch.load: both refuse it by name, although its container opens
def _(torch):
    import zipfile

    with zipfile.ZipFile("data/cpp_module.pt") as archive:
        assert "cpp_module/constants.pkl" in archive.namelist() and "cpp_module/data/0" in archive.namelist()
    try:
        torch.load("data/cpp_module.pt")
    except RuntimeError as error:
        assert "TorchScript" in str(error)
    else:
        raise AssertionError("loaded")


# %% [markdown]
# ## Bugs you can now explain
#
# **“torch.save is saving too much”** (pytorch/pytorch#1995, and after it #33101, #40157, #53419, #104523). Ten elements, the file of a million. The answer was "expected" each time, and it is the fourth line of the first table: sharing is kept.
# `x[:10].clone()` saves ten.
#
# **“torch.load() requires model module in the same folder”** (pytorch/pytorch#3678). The folder is on `sys.path` of the script that saved, and not of the one that loads. The file names a module, and importing is what finds it; reproduced above.
#
# **“PytorchStreamReader failed reading zip archive: failed finding central directory”** (CompVis/stable-diffusion#93, and in several hundred other trackers). The list of records stands at the end of a zip archive, and the end is what a broken download or a job that was killed while it saved does not have. All records before the cut are whole; the next
# line of a training script would have been `os.replace(temporary, path)`, which makes a checkpoint appear complete or not at all. (The claim stands in the part before last.)
#
# **“invalid load key, 'v'.”** (vllm-project/vllm#1382.) A file that does not begin with `PK` is taken for a stream of pickles, whose first byte is an instruction. A repository cloned without Git LFS has a text in place of the weights, and it begins with `version https://git-lfs…`. With `'<'` the file is a web page, most likely an error.
# `head -c 100 model.pt` shows either. `weights_only` says the same in numbers: `Unsupported operand 118`, `Unsupported operand 60`.
#
# **“Cannot `torch.load` tensors of different dtypes that view the same data”** (pytorch/pytorch#58970). A persistent id names a storage *with a dtype*, a relic of the time when a storage had one. Two ids for the same bytes would say different
# things about one record, so since 1.11 it is refused when saving; until then the file was written and could not be read. (The first repair compared addresses and met all the empty tensors at address 0; address 0 is left out.)


# %%
#| claim: two views of one storage with different dtypes cannot be saved together; empty tensors of any dtypes can
#| source: pytorch/pytorch#58970
def _(torch):
    import io

    values = torch.ones(4)
    try:
        torch.save([values, values.view(torch.int32)], io.BytesIO())
    except RuntimeError as error:
        assert "view the same data as different types" in str(error)
    else:
        raise AssertionError("saved")
    torch.save([torch.empty(0), torch.empty(0, dtype=torch.int64)], io.BytesIO())


# %% [markdown]
# **“Multiple torch.load in one file”** (pytorch/pytorch#45136, again as #169763). Two calls of `save` to one open file, two of `load`: that worked until 1.5. A stream of pickles has a beginning and an end; a zip archive is found from its *end*, and its offsets
# count from the start of the file. There is no "next" archive. Save one dictionary, or one file each.


# %%
#| claim: objects saved one after the other into one file do not come back one after the other; in the format before 1.6 they do
#| source: pytorch/pytorch#45136
def _(torch):
    import io

    def read_twice(**options):
        file = io.BytesIO()
        torch.save(4, file, **options)
        torch.save(5, file, **options)
        file.seek(0)
        found = []
        for _ in range(2):
            try:
                found.append(torch.load(file))
            except Exception:
                found.append(None)
        return found

    assert read_twice() != [4, 5]
    assert read_twice(_use_new_zipfile_serialization=False) == [4, 5]


# %% [markdown]
# ## Exercises
#
# **Compact.** Write `compact(state)`: the same dictionary, same names, same values, in a file as small as the elements in it. But what was shared must stay shared: a tensor given under two names is one tensor afterwards, too.


# %%
#| exercise: compact
def compact(state: dict) -> dict:
    raise NotImplementedError


# %%
#| solution: compact
def compact(state: dict) -> dict:
    clones = {}
    for tensor in state.values():
        place = (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
        if place not in clones or not tensor.numel():
            clones[place] = tensor.clone()
    keys = {
        name: (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
        for name, tensor in state.items()
    }
    return {name: clones[key] for name, key in keys.items()}


# %%
#| check: compact
base = torch.arange(10_000.0)
state = {"head": base[:4], "again": base[:4], "tail": base[4:8], "empty": base[:0]}
small = compact(state)
assert list(small) == list(state) and all(torch.equal(small[name], state[name]) for name in state)
assert small["head"].untyped_storage().data_ptr() == small["again"].untyped_storage().data_ptr()
assert small["head"].untyped_storage().data_ptr() != base.untyped_storage().data_ptr()
file = io.BytesIO()
torch.save(small, file)
assert len(file.getvalue()) < 3000

# %% [markdown]
# **Names only.** Write `contents(path)`: name, shape and dtype of each tensor of a saved `state_dict`, without reading a single record of data, whatever the size of the file.


# %%
#| exercise: contents
def contents(path) -> dict:
    raise NotImplementedError


# %%
#| solution: contents
def contents(path) -> dict:
    state = torch.load(path, map_location="meta")
    return {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in state.items()}


# %%
#| check: contents
#| needs: a2_layers
torch.save(nn.Linear(3, 2).state_dict(), folder / "linear.pt")
assert contents(folder / "linear.pt") == {"weight": ((2, 3), torch.float32), "bias": ((2,), torch.float32)}
weight = torch.load(folder / "linear.pt")["weight"].numpy().tobytes()
damaged = (folder / "linear.pt").read_bytes().replace(weight, bytes(len(weight)))  # the checksum no longer fits
(folder / "linear.pt").write_bytes(damaged)
assert set(contents(folder / "linear.pt")) == {"weight", "bias"}
