"""Sparse tensors beside PyTorch 2.13.0: values, places, layouts, printing, gradients, and which error a refusal is."""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from listed import lines

pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = [pytest.mark.torch, pytest.mark.cpu("sparse tensors are on the CPU")]

EXPRESSIONS = lines("sparse_expressions.txt")


def library(name: str) -> Any:
    return importlib.import_module(name)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def names_for(torch: Any) -> dict[str, Any]:
    i = torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]])
    v = torch.tensor([3.0, 4.0, 5.0, 7.0])
    s = torch.sparse_coo_tensor(i, v, (2, 3))
    return {
        "torch": torch,
        "i": i,
        "v": v,
        "s": s,
        "c": s.coalesce(),
        "d": torch.arange(6.0).view(2, 3),
        "sd": torch.sparse_coo_tensor([[0, 1]], [[1.0, 2.0], [3.0, 4.0]], (3, 2)),
    }


def described(value: Any) -> Any:
    """What is compared of a result: of a tensor its kind, and its elements as an array."""
    if isinstance(value, tuple | list):
        return [described(item) for item in value]
    if not hasattr(value, "requires_grad"):
        return str(value)
    facts = [str(value.dtype), tuple(value.shape), value.is_sparse, value.requires_grad, node(value)]
    if not value.is_sparse:
        return [*facts, value.detach().numpy()]
    parts = [value._indices().numpy(), value._values().detach().numpy()]
    return [*facts, value.is_coalesced(), value.sparse_dim(), *parts]


def node(value: Any) -> str:
    return type(value.grad_fn).__name__ if value.grad_fn is not None else ""


def outcome(run: Callable[[], Any]) -> Any:
    """What comes of it: the description of the value, or the class of the error."""
    try:
        value = run()
    except Exception as error:
        return type(error).__name__
    return described(value)


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, np.ndarray):
        return ours.shape == theirs.shape and ours.dtype == theirs.dtype and np.allclose(ours, theirs, 1e-5, 1e-6, True)
    if isinstance(theirs, list):
        return isinstance(ours, list) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    return ours == theirs


def both(run: Callable[[Any], Any]) -> tuple[Any, Any]:
    return outcome(lambda: run(library("readtorch"))), outcome(lambda: run(library("torch")))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_gives_what_pytorch_gives(expression: str) -> None:
    ours, theirs = both(lambda torch: eval(expression, names_for(torch)))
    assert same(ours, theirs), (ours, theirs)


PRINTED = """
s | c | sd | s.double() | s.long() | s.bool() | s.half() | s.requires_grad_() | s.requires_grad_() * 2 | s.double().requires_grad_()
torch.nn.Parameter(s) | torch.sparse_coo_tensor(size=(2, 3)) | torch.sparse_coo_tensor(size=(2, 3, 0)) | torch.sparse_coo_tensor(size=(2, 3), dtype=torch.float64)
torch.sparse_coo_tensor([[0, 1]], torch.zeros(2, 0), (3, 0)) | torch.sparse_coo_tensor(torch.zeros(0, 1, dtype=int), torch.tensor([5.0]), ())
torch.sparse_coo_tensor(i.repeat(1, 600), v.repeat(600), (2, 3)) | s / 3 | s * 1e-7 | s * 1j | [s, c] | torch.sparse.FloatTensor | torch.sparse.LongTensor(2, 3)
torch.nn.functional.embedding(i, torch.ones(3, 2, requires_grad=True), sparse=True).grad_fn.__class__.__name__
""".replace("\n", " | ").strip(" |")


@pytest.mark.parametrize("expression", [line.strip() for line in PRINTED.split(" | ") if line.strip()])
def test_a_sparse_tensor_is_printed_as_pytorch_prints_it(expression: str) -> None:
    texts = [repr(eval(expression, names_for(library(name)))) for name in ("readtorch", "torch")]
    assert texts[0] == texts[1]


#: functions of the leaves x (sparse), y and z (see LEAVES); what cannot be differentiated is told apart by the error
GRADIENTS = {
    "S": """x.to_dense() | x.coalesce() | x.coalesce().values() | x * 3 | x / 4 | -x | x.abs() | x.t() | x.transpose(0, 1) | x.permute(1, 0) | x.clone() | x.double()
        x ** 2 | x ** 3 | x.square() | x.relu() | x.log1p() | x.sqrt() | x.sin() | x.tanh() | x.expm1() | x.atan() | x.erf() | x.floor() | x.sign() | x.deg2rad()
        x.sum() | x.sum(0) | torch.sparse.sum(x) | torch.sparse.sum(x, 0) | torch.sparse.sum(x, [0, 1]) | torch.sparse.sum(x, 1) | torch.sparse.softmax(x, 1)
        torch.sparse.softmax(x, 0) | torch.sparse.log_softmax(x, 1) | x.unsqueeze(0) | x.select(0, 1) | x.index_select(0, torch.tensor([1, 1])) | x.narrow_copy(1, 1, 2)
        x.norm() | torch.stack([x, x]) | torch.cat([x, x]) | x.to_dense(masked_grad=False) | torch.smm(x, torch.ones(3, 2)) | torch.hspmm(x, torch.ones(3, 2)) | x + x | x - 2 * x
        x * x | x.to_dense() * x.to_dense() | x.sparse_mask(x.detach().coalesce()) | x.requires_grad""",
    "S M": """torch.mm(x, y) | x @ y | torch.spmm(x, y) | torch.sparse.mm(x, y) | torch.mm(y, x) | torch.sparse.mm(y, x) | torch.matmul(x, y[:, 0]) | torch.mv(x, y[:, 1])
        torch.addmm(torch.ones(2, 2), x, y) | torch.addmm(torch.ones(2, 2).double(), x, y, beta=2, alpha=3) | torch.sparse.addmm(torch.ones(2, 2).double(), x, y, beta=2, alpha=3) | torch.bmm(torch.stack([x, x]), torch.stack([y, y]))
        torch.nn.functional.linear(y.t(), x) | torch.relu(torch.mm(x, y)) @ y.t()""",
    "S D": "y + x | y - x | x * y | y * x | y.sparse_mask(x.detach()) | y.to_sparse() | y.to_sparse(1) | x * y.sum() | x / y.sum()",
    "S S": "x + y | x - y | x * y | torch.mm(x, y.t()).to_dense() | torch.stack([x, y]) | x.to_dense() * y.to_dense()",
    "V": "torch.sparse_coo_tensor(i, x, (2, 3)) | torch.sparse_coo_tensor(i, x, (2, 3)).coalesce() | torch.sparse_coo_tensor(i, x) @ torch.ones(3, 2) | torch.sparse.softmax(torch.sparse_coo_tensor(i, x, (2, 3)), 1)",
    "H": "torch.sparse.sum(x, 0) | torch.sparse.sum(x, 1) | torch.sparse.softmax(x, 0) | torch.sparse.softmax(x, 1) | x.to_dense() | x * x | x + x | torch.stack([x, x], 2)",
}


def leaf(torch: Any, kind: str) -> Any:
    names = names_for(torch)
    made = {
        "S": lambda: names["s"].double(),
        "M": lambda: torch.arange(6.0, dtype=torch.float64).view(3, 2) + 1,
        "D": lambda: names["d"].double() + 1,
        "V": lambda: names["v"].double(),
        "H": lambda: torch.sparse_coo_tensor([[0, 1, 0]], torch.arange(6.0).view(3, 2).double(), (3, 2)),
    }
    return made[kind]().detach().requires_grad_()


def gradients(torch: Any, kinds: str, expression: str) -> Any:
    leaves = [leaf(torch, kind) for kind in kinds.split()]
    names = names_for(torch) | dict(zip("xy", leaves, strict=False))
    value = eval(expression, names)
    if not getattr(value, "requires_grad", False):
        return [str(value)]
    dense = value.to_dense() if value.is_sparse else value
    weights = torch.arange(1.0, dense.numel() + 1, dtype=dense.dtype).view(dense.shape)
    (dense * weights).sum().backward()
    grads = [(x.grad if x.grad is None or not x.grad.is_sparse else x.grad.coalesce()) for x in leaves]
    return [node(value), *grads]


CASES = [(kinds, line.strip()) for kinds, text in GRADIENTS.items() for line in text.replace("\n", " | ").split(" | ")]


@pytest.mark.parametrize(("kinds", "expression"), [case for case in CASES if case[1]])
def test_a_gradient_has_pytorchs_layout_places_and_values(kinds: str, expression: str) -> None:
    ours, theirs = both(lambda torch: gradients(torch, kinds, expression))
    assert same(ours, theirs), (ours, theirs)


def test_the_gradient_of_a_product_of_two_sparse_matrices() -> None:
    found = []
    for name in ("readtorch", "torch"):
        x, y = (leaf(library(name), "S") for _ in range(2))
        library(name).sparse.mm(x, y.t()).to_dense().pow(2).sum().backward()
        found.append([grad.to_dense().numpy() for grad in (x.grad, y.grad)])
    assert same(*found)


CHECKED = "torch.sparse.mm(x, y) | torch.mm(x, y) | x.to_dense() | torch.sparse.sum(x, 0).to_dense() | (x * 2).to_dense() | torch.sparse.softmax(x, 1).to_dense() | x @ y"


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("expression", CHECKED.split(" | "))
def test_gradcheck_judges_as_pytorchs(expression: str, masked: bool) -> None:
    def judge(torch: Any) -> Any:
        x, y = leaf(torch, "S").detach().coalesce().requires_grad_(), leaf(torch, "M")
        function = eval(f"lambda x, y: {expression}", {"torch": torch})
        return [torch.autograd.gradcheck(function, (x, y), masked=masked)]

    ours, theirs = both(judge)
    assert ours == theirs


EMBEDDING = {
    "once": "look().backward()",
    "twice": "look().backward(); look().backward()",
    "then dense": "look().backward(); table.sum().backward()",
    "dense first": "table.sum().backward(); look().backward()",
    "both at once": "(look() + (table * table).sum()).backward()",
    "two lookups at once": "(look() + 2 * look()).backward()",
    "a padding index": "F.embedding(x, table, padding_idx=1, sparse=True).sum().backward()",
    "scaled by frequency": "F.embedding(x, table, scale_grad_by_freq=True, sparse=True).sum().backward()",
    "bags, sums": "F.embedding_bag(x, table, mode='sum', sparse=True).sum().backward()",
    "bags, means": "F.embedding_bag(x, table, mode='mean', sparse=True).sum().backward()",
    "bags, maxima": "F.embedding_bag(x, table, mode='max', sparse=True).sum().backward()",
    "a hook": "table.register_hook(lambda g: g * 2); look().backward()",
    "a hook's answer": "table.register_hook(lambda g: g.to_dense()); look().backward()",
    "zeroed": "look().backward(); torch.optim.SGD([table], 1.0).zero_grad(set_to_none=False)",
    "through another operator": "F.embedding(x, table * 2, sparse=True).sum().backward()",
    "norms clipped": "look().backward(); torch.nn.utils.clip_grad_norm_(table, 1.0)",
    "values clipped": "look().backward(); torch.nn.utils.clip_grad_value_(table, 1.0)",
    "asked for": "table.grad = torch.autograd.grad(look(), table)[0]",
    "assigned and added to": "table.grad = torch.zeros(5, 3); look().backward()",
    "module": "m = torch.nn.Embedding(5, 3, sparse=True, _weight=table); m(x).sum().backward(); table = m.weight",
}


@pytest.mark.parametrize("source", EMBEDDING.values(), ids=EMBEDDING)
def test_the_gradient_of_an_embedding(source: str) -> None:
    def run(torch: Any) -> Any:
        F = torch.nn.functional
        x = torch.tensor([[1, 3], [1, 0]])
        table = torch.arange(15.0).view(5, 3).requires_grad_()
        weights = torch.arange(12.0).view(2, 2, 3)
        names = {"torch": torch, "F": F, "x": x, "table": table}
        names["look"] = lambda: (F.embedding(x, table, sparse=True) * weights).sum()
        exec(source, names)
        grad = names["table"].grad
        return [grad.is_sparse, grad.coalesce() if grad.is_sparse else grad]

    ours, theirs = both(run)
    assert same(ours, theirs), (ours, theirs)


OPTIMIZERS = """SGD lr=.1 | SGD lr=.1 momentum=.9 | SGD lr=.1 momentum=.9 nesterov=True | SGD lr=.1 weight_decay=.1 | SGD lr=.1 maximize=True | SGD lr=.1 momentum=.9 dampening=.5
Adagrad lr=.1 | Adagrad lr=.1 lr_decay=.1 initial_accumulator_value=.5 | Adagrad lr=.1 weight_decay=.1 | Adagrad lr=.1 maximize=True | SparseAdam lr=.1 | SparseAdam lr=.1 betas=(.5,.9) eps=.1
SparseAdam lr=.1 maximize=True | Adam | AdamW | Adamax | Adadelta | RMSprop | NAdam | RAdam | ASGD | Rprop""".replace(
    "\n", " | "
)


@pytest.mark.parametrize("line", OPTIMIZERS.split(" | "))
def test_an_optimizer_takes_or_refuses_a_sparse_gradient(line: str) -> None:
    name, *options = line.split()

    def run(torch: Any) -> Any:
        table = torch.arange(15.0).view(5, 3).mul(0.1).requires_grad_()
        steps = getattr(torch.optim, name)([table], **eval(f"dict({','.join(options)})"))
        for number in range(3):
            steps.zero_grad()
            x = torch.tensor([[1, 3], [1, number]])
            (torch.nn.functional.embedding(x, table, sparse=True) ** 2).sum().backward()
            steps.step()
        state = steps.state[table]
        return [table, *[value if hasattr(value, "shape") and not value.is_sparse else 0 for value in state.values()]]

    ours, theirs = both(run)
    assert same(ours, theirs), (ours, theirs)


@pytest.mark.parametrize("params", ["torch.eye(2).to_sparse()", "torch.ones(2, dtype=torch.complex64)"])
def test_sparse_adam_refuses_parameters_that_are_sparse_or_complex(params: str) -> None:
    ours, theirs = both(lambda torch: torch.optim.SparseAdam([eval(params, {"torch": torch}).requires_grad_()]))
    assert ours == theirs == "ValueError"


def test_copies_pickles_and_files_keep_places_values_and_the_flag() -> None:
    torch = library("readtorch")
    for name in "scd":
        x = names_for(torch)[name]
        file = io.BytesIO()
        torch.save(x, file)
        file.seek(0)
        for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), torch.load(file)):
            assert same(described(other), described(x))


@pytest.mark.parametrize(("writer", "reader"), [("readtorch", "torch"), ("torch", "readtorch")])
def test_a_file_with_a_sparse_tensor_is_read_by_the_other_library(writer: str, reader: str) -> None:
    file = io.BytesIO()
    library(writer).save({"s": names_for(library(writer))["s"], "c": names_for(library(writer))["c"]}, file)
    file.seek(0)
    found = library(reader).load(file, weights_only=True)
    expected = names_for(library(reader))
    assert all(same(described(found[name]), described(expected[name])) for name in "sc")


def test_a_file_whose_indices_lie_outside_is_refused() -> None:
    torch = library("readtorch")
    bad = torch.sparse_coo_tensor([[7], [7]], [1.0], (2, 3))
    file = io.BytesIO()
    torch.save(bad, file)
    file.seek(0)
    with pytest.raises(Exception, match="index 7"):
        torch.load(file)


MODULE = {
    "a buffer": "m.register_buffer('a', s)",
    "a buffer, moved": "m.register_buffer('a', s); m.double()",
    "a buffer, loaded": "m.register_buffer('a', torch.sparse_coo_tensor(size=(2, 3))); m.load_state_dict({'a': s})",
    "a dense buffer, loaded": "m.register_buffer('a', d); m.load_state_dict({'a': s})",
    "a buffer of another size": "m.register_buffer('a', torch.sparse_coo_tensor(size=(5, 3))); m.load_state_dict({'a': s})",
    "a parameter": "m.a = torch.nn.Parameter(s)",
    "a parameter, moved": "m.a = torch.nn.Parameter(s); m.double()",
}


@pytest.mark.parametrize("source", MODULE.values(), ids=MODULE)
def test_a_module_holds_moves_and_loads_it(source: str) -> None:
    def run(torch: Any) -> Any:
        names = names_for(torch) | {"m": torch.nn.Module()}
        exec(source, names)
        return [names["m"].state_dict()["a"], *names["m"].state_dict()]

    ours, theirs = both(run)
    assert same(ours, theirs), (ours, theirs)


def test_a_matrix_of_every_size_multiplies_as_the_dense_one() -> None:
    torch = library("readtorch")
    rng = np.random.default_rng(0)
    for n, m, entries, width in (
        (1, 1, 1, 1),
        (5, 3, 0, 2),
        (40, 30, 200, 3),
        (300, 200, 9000, 64),
        (2000, 10, 9000, 40),
    ):
        indices = np.stack([rng.integers(0, n, entries), np.minimum(rng.geometric(0.3, entries) - 1, m - 1)])
        a = torch.sparse_coo_tensor(indices, rng.standard_normal(entries), (n, m))
        b = torch.from_numpy(rng.standard_normal((m, width)))
        for matrix in (a, a.coalesce()):
            assert np.allclose((matrix @ b).numpy(), matrix.to_dense().numpy() @ b.numpy())
            back = matrix.t() @ (matrix @ b)
            again = matrix.t() @ (matrix @ b)
            assert np.array_equal(back.numpy(), again.numpy())
            assert np.allclose(
                (matrix.t() @ matrix).to_dense().numpy(), matrix.to_dense().numpy().T @ matrix.to_dense().numpy()
            )


def test_an_order_that_does_not_hold_any_more_is_not_used() -> None:
    torch = library("readtorch")
    a = torch.sparse_coo_tensor([[2, 0, 1], [0, 1, 2]], [1.0, 2.0, 3.0], (3, 3))
    b = torch.arange(9.0).view(3, 3)
    assert (a @ b).tolist() == (a.to_dense() @ b).tolist()
    a._indices()[0].copy_(torch.tensor([1, 2, 0]))
    assert (a @ b).tolist() == (a.to_dense() @ b).tolist()


def test_invariants_are_checked_when_asked_for() -> None:
    for name in ("readtorch", "torch"):
        torch = library(name)
        before = torch.sparse.check_sparse_tensor_invariants.is_enabled()
        with contextlib.suppress(RuntimeError), torch.sparse.check_sparse_tensor_invariants():
            torch.sparse_coo_tensor([[7]], [1.0], (2,))
            raise AssertionError("an index outside of the size was let through")
        assert torch.sparse.check_sparse_tensor_invariants.is_enabled() == before


def test_legacy_types_answer_isinstance() -> None:
    for name in ("readtorch", "torch"):
        torch = library(name)
        s = names_for(torch)["s"]
        assert isinstance(s, torch.sparse.FloatTensor) and not isinstance(s, torch.FloatTensor)
        assert isinstance(s.double(), torch.sparse.DoubleTensor) and s.type() == "torch.sparse.FloatTensor"
        assert not isinstance(s.to_dense(), torch.sparse.FloatTensor)


def test_a_second_derivative_goes_through_a_sparse_matrix() -> None:
    found = []
    for name in ("readtorch", "torch"):
        torch = library(name)
        a, y = names_for(torch)["c"].double(), leaf(torch, "M")
        (first,) = torch.autograd.grad(((a @ y) ** 3).sum(), y, create_graph=True)
        (second,) = torch.autograd.grad((first**2).sum(), y)
        found.append(second.numpy())
    assert np.allclose(*found)
