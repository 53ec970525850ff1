"""Names in listings lead to their definitions, and to nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from weave_books import GROUND, html_of, woven, write_book

from readtorch.literate.weave.symbols import Definition, ModuleRef


def listing(tmp_path: Path, cells: str) -> str:
    """The page of a part with `cells`, in a book that has boxes."""
    book = write_book(tmp_path, {"00_tensor/1_box": GROUND, "02_module": cells})
    return html_of(woven(book)[1]["02_module"])


BOX = "../00_tensor/1_box/index.html"


def test_an_import_is_followed_through_re_exports(tmp_path: Path) -> None:
    site, _ = woven(write_book(tmp_path))
    found = site.index.find("readtorch.nn.Shelf.put")
    assert isinstance(found, Definition)
    assert (found.module, found.name, found.path) == ("readtorch.nn.shelf", "Shelf.put", "chapters/02_module.py")
    assert site.index.find("readtorch.c10") == ModuleRef("readtorch.c10")
    assert site.index.find("readtorch.nn.Missing") is None


def test_names_of_the_file_and_members_of_self_are_linked(tmp_path: Path) -> None:
    html = html_of(woven(write_book(tmp_path))[1]["00_tensor/1_box"])
    assert "<a href=#Box>Box</a>(<a href=#twice>twice</a>(" in html
    assert "self.<a href=#Box.value>value</a>" in html


def test_what_stands_in_the_same_listing_is_not_linked(tmp_path: Path) -> None:
    html = html_of(woven(write_book(tmp_path))[1]["00_tensor/1_box"])
    assert "<span id=Box.value></span>        self.value = value" in html
    assert "self.double()." in html


def test_an_annotated_parameter_is_an_instance_of_its_class(tmp_path: Path) -> None:
    html = html_of(woven(write_book(tmp_path))[1]["02_module"])
    assert f"double = box.<a href={BOX}#Box.double>double</a>()" in html


def test_a_local_name_hides_the_global_one(tmp_path: Path) -> None:
    html = html_of(woven(write_book(tmp_path))[1]["02_module"])
    assert "        Box = len" in html
    assert "        Box(self" in html


def test_module_members_are_followed_in_notebook_cells(tmp_path: Path) -> None:
    html = html_of(woven(write_book(tmp_path))[1]["02_module"])
    assert f"torch.c10.<a href={BOX}#Box>Box</a>" in html
    assert "shelf = nn.<a href=#Shelf>Shelf</a>()" in html
    assert "shelf.<a href=#Shelf.put>put</a>(" in html


def test_the_argument_of_a_claim_is_the_package(tmp_path: Path) -> None:
    html = html_of(woven(write_book(tmp_path))[1]["02_module"])
    assert "assert </b>torch.nn.<a href=#Shelf>Shelf</a>().<a href=#Shelf.boxes>boxes</a> == []" in html


@pytest.mark.parametrize(
    "line",
    [
        "for Box in []:\n    Box()",
        "f = lambda Box: Box()",
        "[Box() for Box in ()]",
        "def g(Box):\n    return Box()",
        "def g():\n    for Box in ():\n        Box()",
        "def g():\n    try:\n        pass\n    except Exception as Box:\n        Box()",
        "def g():\n    from elsewhere import Box\n    Box()",
        "Box = 3\nBox()",
        "def g():\n    with open('f') as Box:\n        Box()",
        "def g(*Box):\n    Box()",
        "other.Box()",
        "print('Box()')",
        "# Box()",
    ],
)
def test_no_link_where_the_name_means_something_else(tmp_path: Path, line: str) -> None:
    html = listing(tmp_path, f"# %% [markdown]\n# # T\n\n# %%\nfrom readtorch.c10 import Box\n\n# %%\n{line}\n")
    code = html.split("id=t-2")[1]
    assert "<a href" not in code


def test_a_method_is_not_found_through_its_class_body_names(tmp_path: Path) -> None:
    """A method's plain `put` is a global, not the class's member."""
    cells = "# %% [markdown]\n# # T\n\n# %%\n#| into: nn/a.py\nclass A:\n    def put(self) -> None:\n        put()\n"
    assert "<a href" not in listing(tmp_path, cells)


def test_super_finds_the_base_class(tmp_path: Path) -> None:
    cells = (
        "# %% [markdown]\n# # T\n\n# %%\n#| into: nn/a.py\n#| imports\nfrom readtorch.c10 import Box\n\n"
        "# %%\n#| into: nn/a.py\nclass Big(Box):\n    def double(self) -> Box:\n        return super().double()\n"
    )
    assert f"super().<a href={BOX}#Box.double>double</a>()" in listing(tmp_path, cells)


def test_overridden_members_are_the_classs_own(tmp_path: Path) -> None:
    cells = (
        "# %% [markdown]\n# # T\n\n# %%\n#| into: nn/a.py\n#| imports\nfrom readtorch.c10 import Box\n\n"
        "# %%\n#| into: nn/a.py\nclass Big(Box):\n    def double(self) -> Box:\n        return self.double() or self.opened()\n"
    )
    html = listing(tmp_path, cells)
    assert "self.double() <b>or </b>self." in html
    assert f"self.<a href={BOX}#Box.opened>opened</a>()" in html


def test_every_link_leads_to_an_anchor(tmp_path: Path) -> None:
    import posixpath
    import re

    pages = woven(write_book(tmp_path))[1]
    ids = {f"book/{name}/index.html": set(re.findall(r'id="?([^" >]+)', html_of(page))) for name, page in pages.items()}
    for name, page in pages.items():
        for href in re.findall(r'href="?([^" >]+)', html_of(page)):
            if href.startswith("https://"):
                continue
            path, _, anchor = href.partition("#")
            here = f"book/{name}/index.html"
            target = posixpath.normpath(posixpath.join(posixpath.dirname(here), path)) if path else here
            assert anchor in ids[target], href


LIBRARY = '''\
# %% [markdown]
# # Operators

# %%
#| into: aten/native/binary.py
#| imports
from readtorch.aten.dispatch import register, unary

# %%
#| into: aten/native/binary.py
@register("add", key="CPU")
def _add(a: object, b: object) -> object:
    return a


unary("exp", None)

# %%
#| into: _tensor.py
class Tensor:
    """A tensor."""

# %%
#| into: __init__.py
_NAMES = {"Ghost": "elsewhere", "Tensor": "_tensor"}

# %%
import readtorch as torch

x = torch.Tensor()
torch.add(x, x).exp()
x.add_(x)
x.missing()
torch.missing()
torch.Ghost()
'''


def test_operators_lead_to_their_registration(tmp_path: Path) -> None:
    from readtorch.literate.tangle import tangle
    from readtorch.literate.weave.namespace import Namespace
    from readtorch.literate.weave.symbols import SymbolIndex

    book = write_book(tmp_path, {"00_tensor/1_ops": LIBRARY})
    names = {"add": ("torch", "_VariableFunctions.add"), "exp": ("torch", "_VariableFunctions.exp")}
    index = SymbolIndex(tangle(book), Namespace(names, frozenset({"add", "add_", "exp"})))
    places = {}
    for name in ("add", "exp", "Tensor.add_", "Tensor.missing", "missing", "Tensor", "Ghost"):
        found = index.find(f"readtorch.{name}")
        places[name] = found.name if isinstance(found, Definition) else None
    assert places == {
        "add": "_add",
        "exp": "exp",
        "Tensor.add_": "_add",
        "Tensor.missing": None,
        "missing": None,
        "Tensor": "Tensor",
        "Ghost": None,
    }


def test_without_the_package_no_operator_is_guessed(tmp_path: Path) -> None:
    html = html_of(woven(write_book(tmp_path, {"00_tensor/1_ops": LIBRARY}))[1]["00_tensor/1_ops"])
    assert "x = torch.<a href=#Tensor>Tensor</a>()" in html
    assert "torch.add(x, x).exp()" in html
    assert "torch.Ghost()" in html
