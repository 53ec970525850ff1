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
# # Before `torch._C`: libraries that nobody asked for
#
# `torch/__init__.py` has 3,087 lines, and the one that matters most is number 445, `from torch._C import *`. Articles that follow the import tend to jump there and call what stands above it *environment checks*. On a machine where `import torch` works, that is what
# it looks like. Where it does not, the fault is nearly always above that line or in what it arranges: `libcudart.so.12: cannot open shared object file`, `undefined symbol: ncclCommRegister`. This part is about how a program finds the libraries that it is made of.

# %%
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "Skip the environment checks: the core is `from torch._C import *`." What is skipped decides whether that line works. It loads the libraries that the extension will need, by path and in a certain order; and the
# > core has a second half, `_C._initExtension`, 1,700 lines further down.

# %%
#| fact: torch/__init__.py#_get_cuda_dep_paths<_preload_cuda_lib<_preload_cuda_deps<_load_global_deps<SymInt<_manager_path<__getattr__

# %% [markdown]
# ## How does a library find another?
#
# A shared library lists the names of those it needs, without folders. When it is loaded, the dynamic linker looks for each name: among the libraries that the process has already; in `LD_LIBRARY_PATH`; in the folders that the library itself names (its *runpath*, which may be relative to the
# library: `$ORIGIN`); in the system's own. Let us build the case in small. `libcounts.so` plays NVIDIA's part: it lies in the folder of another package. `libuser.so` plays PyTorch's, and needs it.

# %%
CC = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
place = Path(tempfile.mkdtemp())


def build(name: str, source: str, *needs: str, folder: str = "", version: str = "", path: str = "RUNPATH") -> str:
    """Compile `source` into a shared library below `place`; "" where there is no C compiler."""
    if CC is None or not sys.platform.startswith("linux"):
        print("not built: this needs Linux and a C compiler, and looked for cc, gcc and clang")
        return ""
    where = place / folder
    where.mkdir(exist_ok=True)
    (where / f"{name}.c").write_text(source)
    links = [option for need in needs for option in (f"-L{(place / need).parent}", f"-l:{Path(need).name}")]
    target = where / f"{name}.so{version}"
    options = ["-shared", "-fPIC", f"-Wl,-soname,{target.name}", "-Wl,-rpath,$ORIGIN"]
    options.append(f"-Wl,--{'enable' if path == 'RUNPATH' else 'disable'}-new-dtags")
    if version:
        (where / f"{name}.map").write_text(f"{target.name} {{ global: *; }};")
        options.append(f"-Wl,--version-script={where / name}.map")
    subprocess.run([CC, *options, "-o", target, where / f"{name}.c", *links], check=True)
    return str(target)


counts = build("libcounts", "int count(void) { return 42; }", folder="another_package")
user = build("libuser", "int count(void); int twice(void) { return 2 * count(); }", "another_package/libcounts.so")


# %%
def attempt(*loads: tuple[str, int], ask: str = "twice", library_path: str = "") -> str:
    """In a process of its own: load these libraries in this order, and call a function of the last."""
    program = "import ctypes\n" + "".join(f"last = ctypes.CDLL({path!r}, mode={mode})\n" for path, mode in loads)
    done = subprocess.run(
        [sys.executable, "-c", f"{program}print(last.{ask}())"],
        env={**os.environ, **({"LD_LIBRARY_PATH": library_path} if library_path else {})},
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout + done.stderr).strip().splitlines()[-1].replace(f"{place}/", "")


if user:
    print("alone:          ", attempt((user, ctypes.RTLD_LOCAL)))
    print("counts preloaded:", attempt((counts, ctypes.RTLD_LOCAL), (user, ctypes.RTLD_LOCAL)))

# %% [markdown]
# The second attempt changes nothing about `libuser.so`, nor about any path. It loads `libcounts.so` by its full path *first*. When the linker then needs "libcounts.so", a library of that name is there, and it does not search at all.
#
# This is the whole trick of upstream's preload. PyTorch's CUDA wheel does not contain NVIDIA's libraries: they come as wheels of their own (`nvidia-cublas-cu12`, `nvidia-nccl-cu12`, …) and land in `site-packages/nvidia/*/lib`, a folder that no linker knows. The
# runpath of PyTorch's libraries leads there (`$ORIGIN/../../nvidia/cublas/lib`) if both were installed into the same place. Where they were not (a system package beside a virtual environment, a build tool with one folder per
# package), `_preload_cuda_deps` goes through `sys.path`, finds each library by a pattern, and loads it.
#
# Where an entry of the path has the library does not matter much: the wheels of CUDA 12 have a folder for each component, those of CUDA 13 one for all. If *no* entry has it, the import ends with the pattern as its message. `ValueError: libnvrtc.so.*[0-9].*[0-9] not found in the system path` is what everybody saw who installed
# 2.0.1 with a tool that reads a package's dependencies from the index instead of the wheel: there the list was empty (“**Pytorch 2.0.1 pypi wheel does not install dependent cuda libraries**”, pytorch/pytorch#100974). The functions are still attributes of `torch`, also of a build without CUDA, so they can be asked:


# %%
#| claim: the preload finds a library below any entry of sys.path, in a folder of its component or in that of the CUDA version, and raises a ValueError with the pattern where there is none
#| source: pytorch/pytorch#100974
#| upstream: torch/__init__.py#_get_cuda_dep_paths
#| upstream: torch/__init__.py#_preload_cuda_lib
#| differs: readtorch loads no library of CUDA's itself; CuPy does
def _(torch):
    import sys
    import tempfile
    from pathlib import Path

    pattern = "libcublas.so.*[0-9]"
    with tempfile.TemporaryDirectory() as folder:
        for place in ("nvidia/cublas/lib", "cublas/lib"):
            Path(folder, place).mkdir(parents=True)
            Path(folder, place, "libcublas.so.12").touch()
        Path(folder, "cublas/lib", "libcublas.so").touch()
        found = torch._get_cuda_dep_paths(folder, "cublas", pattern)
        assert [str(Path(path).relative_to(folder)) for path in found] == [
            "nvidia/cublas/lib/libcublas.so.12",
            "cublas/lib/libcublas.so.12",
        ]
    if sys.platform.startswith("linux"):
        try:
            torch._preload_cuda_lib("a_component_that_nobody_has", "libnobody.so.*[0-9]")
        except ValueError as error:
            assert str(error).startswith("libnobody.so.*[0-9] not found in the system path [")
        else:
            raise AssertionError("found")
        torch._preload_cuda_lib("a_component_that_nobody_has", "libnobody.so.*[0-9]", required=False)


# %% [markdown]
# The preload runs on one of two occasions. If `libtorch_global_deps.so` cannot be loaded and the error names one of NVIDIA's libraries, it runs, its own errors are raised, and the load is tried once more. If it *can* be loaded, the preload may run nevertheless (below), and whatever goes wrong then is dropped. An error about `libcublas` that appears
# only later, from `torch._C`, may therefore have begun here, in silence.


# %%
#| claim: after the import no library of the packages is mapped from two places
#| source: pytorch/pytorch#131284
def _(torch):
    from collections import Counter
    from pathlib import Path

    torch.zeros(1)
    maps = Path("/proc/self/maps")
    if maps.exists():
        files = {
            line.split()[-1] for line in maps.read_text().splitlines() if ".so" in line and "site-packages" in line
        }
        twice = [
            name
            for name, count in Counter(Path(file).name for file in files if ".cpython" not in file).items()
            if count > 1
        ]
        assert files and twice == []


# %% [markdown]
# ## Why does the order matter?
#
# By name only: so the *first* library of a name wins, and stays for the life of the process. Here is a second package that brings an older `libcounts.so`, without the function that `libuser.so` needs.

# %%
old = build("libcounts", "int total(void) { return 1; }", folder="an_older_package")
if old:
    print(attempt((old, ctypes.RTLD_LOCAL), (user, ctypes.RTLD_LOCAL)).removeprefix("OSError: "))
    print(attempt((counts, ctypes.RTLD_LOCAL), (old, ctypes.RTLD_LOCAL), (user, ctypes.RTLD_LOCAL)))

# %% [markdown]
# *Undefined symbol*, in the library that is blamed and innocent. Whoever loaded the older one, an hour of debugging ago, is not mentioned. It need not have been a Python package: `LD_LIBRARY_PATH` comes before the linker's own folders, and an entry for an older CUDA toolkit there is enough.
#
# The list in `_preload_cuda_deps` is therefore ordered. `libcublasLt` stands before `libcublas`, which needs it and would, left alone, find the system's; `libnvJitLink` before `libcusparse`, since a release whose wheels got this wrong could not be imported wherever
# `LD_LIBRARY_PATH` named a CUDA 12.1 (pytorch/pytorch#111469, and again #134929, #140797). And since the end of 2024 (pytorch/pytorch#141063) the preload does not wait for an error. Once `libtorch_global_deps.so` has been loaded, upstream reads `/proc/self/maps`, and if `libcudart` is in it, all of them are loaded by path.

# %%
maps = Path("/proc/self/maps")
mapped = sorted({line.split()[-1] for line in maps.read_text().splitlines() if ".so" in line}) if maps.exists() else []
print(*[Path(path).name.split("-")[0] for path in mapped if "numpy" in path and "openblas" in path], sep="\n")

# %% [markdown]
# That file is also the best witness when something is wrong. It lists what the process *has*, not what it should have: two lines with the same library in two folders are the answer to most questions of this kind. (Above, the one library that readtorch
# stands on: NumPy's BLAS.)
#
# ## Whose folder comes first?
#
# There are two ways for a library to name folders, and they differ in this one respect. The older, `RPATH`, is asked *before* `LD_LIBRARY_PATH`, its successor `RUNPATH` behind it. Here is a library that has what it needs right beside it, and a user whose `LD_LIBRARY_PATH` names a folder with another one of that name:

# %%
system = build("libtoolkit", "int count(void) { return -1; }", folder="system")
beside = build("libtoolkit", "int count(void) { return 42; }", folder="wheel")
for path in ("RPATH", "RUNPATH"):
    asker = build(
        "libasker",
        "int count(void); int twice(void) { return 2 * count(); }",
        "wheel/libtoolkit.so",
        folder="wheel",
        path=path,
    )
    if asker:
        print(f"{path:8}", attempt((asker, ctypes.RTLD_LOCAL), library_path=str(Path(system).parent)))

# %% [markdown]
# A packager who wants to be safe from the user's environment writes `RPATH` (`patchelf --force-rpath`; NumPy's wheel has it). Linkers of most distributions write `RUNPATH` unless told otherwise, as in PyTorch's CPU wheel; and where a library of the chain has one, the setting of a shell's start file decides. [The next part](../01_import/3_extension_module.py) reads both from the files.
#
# ## May it be another version?
#
# NVIDIA's libraries carry a version in their *name*: what is needed is `libcudart.so.9.0`, and `libcudart.so.9.2` is another library. In August 2018 a distribution replaced one by the other, and every PyTorch that had been installed from it stopped at its first line (“**ImportError: libcudart.so.9.0: cannot open shared object file**”,
# pytorch/pytorch#10910). The first advice that one finds is to make a link of the missing name. Here are the installation as it was, after the update, and with the link:

# %%
older = build("libruntime", "int count(void) { return 42; }", folder="toolkit", version=".9.0")
build("libruntime", "int count(void) { return 42; }", folder="toolkit", version=".9.2")
program = "int count(void); int twice(void) { return 2 * count(); }"
needs_9_0 = build("libprogram", program, "toolkit/libruntime.so.9.0", folder="toolkit")
if needs_9_0:
    print("as it was: ", attempt((needs_9_0, ctypes.RTLD_LOCAL)))
    Path(older).unlink()
    print("the update:", attempt((needs_9_0, ctypes.RTLD_LOCAL)))
    Path(older).symlink_to("libruntime.so.9.2")
    print("the link:  ", attempt((needs_9_0, ctypes.RTLD_LOCAL)).replace("toolkit/", ""))

# %% [markdown]
# The link is found, and refused. Beside the name of the file, each *symbol* carries the version that it was linked with (`count@@libruntime.so.9.0`; `readelf -V` lists them), and a library may offer several. It is a second check, of those who build libraries with a version script, as NVIDIA does for its runtime; where there is none, the link works, until a function
# has changed its arguments. The remedy is the one PyTorch's wheels have had since 2022: to name, in their metadata, the exact versions of NVIDIA's wheels that they were linked against.
#
# ## What is `RTLD_GLOBAL` for?
#
# The other half of loading a library is what it shows to others. By default its symbols are its own: a later library finds them only if it *says* that it needs this one. With `RTLD_GLOBAL` they are offered to everything that is loaded afterwards.

# %%
plain = build("libplain", "int count(void); int twice(void) { return 2 * count(); }")
if plain:
    print("local: ", attempt((counts, ctypes.RTLD_LOCAL), (plain, ctypes.RTLD_LOCAL)).removeprefix("OSError: "))
    print("global:", attempt((counts, ctypes.RTLD_GLOBAL), (plain, ctypes.RTLD_LOCAL)))

# %% [markdown]
# `libplain.so` names no library at all, and works if somebody has put `count` on the table. There are libraries built like this. Intel's MKL loads the parts for the processor at run time and expects its core to be visible; so upstream has one library whose only content is the list
# of such things, `libtorch_global_deps.so`, eight kilobytes, loaded by `_load_global_deps` with `RTLD_GLOBAL`. Everything else, `libtorch_python.so` and its companions, 434 MB of `libtorch_cpu.so` among them, is loaded locally.
#
# Why not everything globally, which would never lack a symbol? Because it never lacks one: the first library that offers a name gets all calls. Two packages that carry different versions of the same C++ library would share one of them, and crash.

# %%
noisy = build("libnoisy", "int count(void) { return -1; }")
caller = build("libcaller", "int count(void); int twice(void) { return 2 * count(); }", "another_package/libcounts.so")
if caller:
    print(
        "another count, local: ",
        attempt((noisy, ctypes.RTLD_LOCAL), (counts, ctypes.RTLD_LOCAL), (caller, ctypes.RTLD_LOCAL)),
    )
    print(
        "another count, global:",
        attempt((noisy, ctypes.RTLD_GLOBAL), (counts, ctypes.RTLD_LOCAL), (caller, ctypes.RTLD_LOCAL)),
    )

# %% [markdown]
# The library that was linked against `libcounts.so`, and has it loaded, calls the function of a stranger.
#
# ## Ask the linker
#
# No debugger steps through this, and none is needed: glibc's linker reports what it does if the environment says `LD_DEBUG`. With `libs` it tells, for each name, where it looked; with `bindings`, which library answered for which symbol. The two cases above once more, seen from there (reports about other libraries and other folders left out):


# %%
def linker_says(kind: str, *loads: tuple[str, int]) -> None:
    """Load these in a fresh process and print what the linker reports about them."""
    program = "import ctypes\n" + "".join(f"last = ctypes.CDLL({path!r}, mode={mode})\n" for path, mode in loads)
    done = subprocess.run(
        [sys.executable, "-c", f"{program}last.twice()"],
        env={**os.environ, "LD_DEBUG": kind},
        capture_output=True,
        text=True,
        check=False,
    )
    asked = False
    for line in done.stderr.splitlines():
        said = line.partition(":")[2].strip().replace(f"{place}/", "")
        asked = asked or said.startswith("find library=libcounts.so")
        if "=libcounts.so" in said or "`count'" in said or asked and said.startswith("search cache="):
            print(said.replace("normal symbol ", ""))


if user and caller:
    linker_says("libs", (user, ctypes.RTLD_LOCAL))
    linker_says("bindings", (noisy, ctypes.RTLD_GLOBAL), (counts, ctypes.RTLD_LOCAL), (caller, ctypes.RTLD_LOCAL))

# %% [markdown]
# The same on the real thing: `LD_DEBUG=libs python -c "import torch" 2>&1 | grep -A3 libnccl` says which `libnccl.so.2` was taken, and from whose path. For the name alone `LD_DEBUG=files` is shorter; `LD_DEBUG=help` lists the rest.
#
# PyTorch was once imported this way on Linux; the setting is still there (`TORCH_USE_RTLD_GLOBAL=1`), with a comment that promises *mysterious segfaults*.

# %%
#| fact: torch/_utils_internal.py#USE_GLOBAL_DEPS
#| fact: torch/_utils_internal.py#USE_RTLD_GLOBAL_WITH_LIBTORCH
#| fact: torch/__init__.py#_load_global_deps


# %%
#| claim: importing does not leave the flags for loading extensions changed: libraries of others are loaded with what the interpreter set
def _(torch):
    import os
    import subprocess
    import sys

    if hasattr(sys, "getdlopenflags"):
        assert not sys.getdlopenflags() & os.RTLD_GLOBAL
        code = (
            f"import sys; before = sys.getdlopenflags(); import {torch.__name__}; print(sys.getdlopenflags() == before)"
        )
        environment = {**os.environ, "TORCH_USE_RTLD_GLOBAL": "0"}
        environment.pop("TORCH_USE_RTLD_GLOBAL")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        assert done.stdout.strip() == "True"


# %% [markdown]
# ## The order of these lines
#
# | lines | what | where |
# |---|---|---|
# | 13–39 | the standard library; names from `typing` under an underscore, so that `torch.Any` does not exist | everywhere |
# | 45–61 | `torch._utils`, `torch._utils_internal` with the two switches above, `torch.torch_version` | everywhere |
# | 69–146 | the first names of `__all__`; an `AssertionError` if the list is not sorted | everywhere |
# | 158–164 | `torch._rocm_init`, if the wheel has it: the same problem for AMD's libraries | ROCm wheels |
# | 167–289 | `_load_dll_libraries`: folders for DLLs, is the C++ runtime there, then every DLL by path | Windows |
# | 292–403 | the functions of this part | Linux, macOS |
# | 406–445 | the fork: `dlopen` flags, or global dependencies; then `from torch._C import *` | everywhere |

# %%
#| fact: torch/__init__.py#_load_dll_libraries
#| fact: torch/torch_version.py#TorchVersion

# %% [markdown]
# Environment variables that this stretch and the later ones look at. They are read *once*, by the import or by what it calls; setting one in the script is too late after the line `import torch`.
#
# | variable | read | effect |
# |---|---|---|
# | `LD_LIBRARY_PATH` | by the linker, at the start of the process | folders that come before the system's |
# | `TORCH_USE_RTLD_GLOBAL` | before `_C` | everything that is loaded becomes visible to everything |
# | `TORCH_CUSTOM_TERMINATE` | in `initModule` | a handler that prints a C++ stack when the process is about to abort |
# | `TORCH_CUDA_SANITIZER` | after the sub-packages | reports unsynchronised accesses of CUDA streams |
# | `TORCH_DEVICE_BACKEND_AUTOLOAD` | at the end | `0`: plug-ins for other devices are not loaded |
# | `TORCH_LOGS` | at the end | what is logged; *set and empty*, it stops the import of 2.13.0 |
# | `PYTORCH_NVML_BASED_CUDA_CHECK` | by `cuda.is_available` | ask the driver's manager instead of the driver, so that a later fork can use CUDA |
# | `CUDA_VISIBLE_DEVICES` | by the CUDA driver, at its first call | which devices there are; not read by the import at all |
#
# The last row explains a common disappointment: `os.environ["CUDA_VISIBLE_DEVICES"] = "1"` below `import torch` *does* work, as long as nothing has touched CUDA. The import does not.


# %%
#| claim: importing does not initialise CUDA: the switch for visible devices may still be set behind it
def _(torch):
    import os

    assert not torch.cuda.is_initialized()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    assert torch.cuda.device_count() == 0 and not torch.cuda.is_initialized()


# %% [markdown]
# And the row of `TORCH_LOGS` is worth a check of one's own start scripts: `TORCH_LOGS= python train.py`, meant to switch the logs off, ends in an `AttributeError` about a dictionary, at a line that nobody has written. To switch it off, unset it.


# %%
#| claim: with TORCH_LOGS set to the empty string the import of 2.13.0 fails in an AttributeError, with a name in it or unset it does not
#| differs: readtorch does not read the variable
def _(torch):
    import os
    import subprocess
    import sys

    unset = {name: value for name, value in os.environ.items() if name != "TORCH_LOGS"}
    done = [
        subprocess.run(
            [sys.executable, "-c", f"import {torch.__name__}"],
            env={**unset, **logs},
            capture_output=True,
            text=True,
            check=False,
        )
        for logs in ({}, {"TORCH_LOGS": "recompiles"}, {"TORCH_LOGS": ""})
    ]
    assert [each.returncode for each in done] == [0, 0, 1]
    assert "AttributeError: 'dict' object has no attribute 'get_log_level_pairs'" in done[2].stderr


# %% [markdown]
# ### What upstream does more
# On Windows the linker cannot be helped by order: each DLL of `torch/lib` is loaded by full path, with flags that make it look for its own dependencies beside it, and an error that says which DLL failed and that the C++ runtime may be missing. On macOS
# there is one library format more and no CUDA. In a wheel for ROCm a small generated module prepares everything. None of it has a counterpart in readtorch: NumPy's wheel brings its BLAS with it, and finds it by a runpath of its own.
