"""CUDA on simulated devices: streams, memory, copies, random numbers, graphs; each planted fault is refused."""

from __future__ import annotations

import ast
import gc
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if os.environ.get("READTORCH_SIM_CUDA") != "4":

    @pytest.mark.cpu("starts a process with simulated devices")
    def test_in_a_process_with_four_simulated_devices() -> None:
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:randomly", __file__]
        done = subprocess.run(command, env={**os.environ, "READTORCH_SIM_CUDA": "4"}, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-4000:]

else:
    import readtorch as torch
    from readtorch import nn

    pytestmark = pytest.mark.cpu("names its devices itself")

    @pytest.fixture(autouse=True)
    def sim() -> Any:
        """The counters of the simulated devices, after everything that came before is over."""
        gc.collect()
        library = torch.cuda.simulate(4)
        for number in range(4):
            torch.cuda.synchronize(number)
        return library

    def on_side_stream(x: Any) -> Any:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            return x + 1, side

    # -- planted faults ------------------------------------------------------------------------------------------------

    def test_reading_from_a_side_stream_without_a_wait_is_refused() -> None:
        x = torch.rand(1000, device="cuda")
        with pytest.raises(RuntimeError, match="without waiting"):
            on_side_stream(x)

    def test_the_same_with_a_wait_is_not() -> None:
        x = torch.rand(1000, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x + 1
        with pytest.raises(RuntimeError, match="without waiting"):
            y.sum()
        torch.cuda.current_stream().wait_stream(side)
        assert torch.equal(y, x + 1)

    def test_writing_what_another_stream_still_reads_is_refused() -> None:
        x = torch.rand(1000, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x + 1
        with pytest.raises(RuntimeError, match="may still read"):
            x.zero_()
        del y

    def test_memory_freed_while_another_stream_reads_it_is_refused() -> None:
        x = torch.rand(1000, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x + 1
        del x
        with pytest.raises(RuntimeError, match="record_stream"):
            torch.zeros(7, device="cuda")
        del y

    def test_record_stream_keeps_the_memory_until_the_stream_is_done() -> None:
        x = torch.rand(1000, device="cuda")
        before = torch.cuda.memory_allocated()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x + 1
        x.record_stream(side)
        del x
        z = torch.zeros(7, device="cuda")
        held = torch.cuda.memory_allocated()
        side.synchronize()
        assert torch.cuda.memory_allocated() < held <= before + y.nbytes + z.nbytes + 2 * 512

    @pytest.mark.parametrize(
        "mix",
        [
            lambda array, host: array + host,
            lambda array, host: host + array,
            lambda array, host: np.asarray(array),
            lambda array, host: array.__setitem__(slice(None), host),
            lambda array, host: np.concatenate([array, host]),
            lambda array, host: np.add(array, array, out=host),
        ],
    )
    def test_an_array_of_the_host_beside_one_of_the_device_is_refused(mix: Any) -> None:
        array = torch.ones(3, device="cuda")._array
        with pytest.raises(TypeError):
            mix(array, np.ones(3, np.float32))

    def test_a_tensor_of_the_device_is_not_turned_into_an_array_by_itself() -> None:
        with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\) to copy"):
            np.asarray(torch.ones(3, device="cuda"))

    @pytest.mark.parametrize(
        "mix",
        [
            lambda a, b: a + b,
            lambda a, b: a @ b,
            lambda a, b: torch.cat([a, b]),
            lambda a, b: a.add_(b),
            lambda a, b: torch.where(a > 0, a, b),
            lambda a, b: nn.functional.linear(a, b),
        ],
    )
    @pytest.mark.parametrize("other", ["cuda:1", "cpu"])
    def test_tensors_of_two_devices_are_refused_with_upstreams_words(mix: Any, other: str) -> None:
        a, b = torch.ones(2, 2, device="cuda:0"), torch.ones(2, 2, device=other)
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            mix(a, b)

    def test_a_number_on_the_host_may_join() -> None:
        x = torch.ones(2, device="cuda:1")
        assert (x * torch.tensor(3.0)).tolist() == [3, 3]

    def test_an_operation_on_arrays_of_two_devices_is_refused_below_the_dispatcher_too() -> None:
        a, b = torch.ones(2, device="cuda:0")._array, torch.ones(2, device="cuda:1")._array
        with pytest.raises(ValueError, match="copy it there first"):
            a + b

    # -- devices ---------------------------------------------------------------------------------------------------------

    def test_the_current_device_is_where_tensors_without_a_number_go() -> None:
        with torch.cuda.device(2):
            x = torch.ones(1, device="cuda")
            assert torch.cuda.current_device() == 2
            assert torch.ones(1, device="cuda:1").to("cuda").device == torch.device("cuda", 2)
        assert x.device == torch.device("cuda", 2)
        assert torch.cuda.current_device() == 0

    def test_a_number_means_a_cuda_device() -> None:
        assert torch.device(2) == torch.device("cuda:2")
        assert torch.ones(1).cuda(3).device == torch.ones(1).to(3).device == torch.device("cuda", 3)
        assert nn.Linear(1, 1).cuda(1).weight.get_device() == 1

    def test_every_operator_runs_on_the_device_of_its_tensors() -> None:
        x = torch.randn(4, 3, device="cuda:3", requires_grad=True)
        layer = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.BatchNorm1d(5), nn.Linear(5, 1)).to("cuda:3")
        loss = layer(x).square().mean()
        loss.backward()
        assert {p.grad.device for p in layer.parameters()} == {torch.device("cuda:3")}
        assert x.grad.device == torch.device("cuda:3")

    def test_gradients_flow_between_devices() -> None:
        x = torch.ones(2, device="cuda:0", requires_grad=True)
        y = (x * 2).to("cuda:1") * 3
        (y.cpu() * 5).sum().backward()
        assert x.grad.device == torch.device("cuda:0")
        assert x.grad.tolist() == [30, 30]

    def test_a_gradient_that_is_a_view_is_copied_on_its_own_device() -> None:
        x = torch.ones(3, device="cuda:1", requires_grad=True)
        (grad,) = torch.autograd.grad(x.expand(2, 3).sum(), x)
        assert grad.device.index == 1 and grad.tolist() == [2, 2, 2]
        (grad,) = torch.autograd.grad(x.sum(), x)
        assert grad.device.index == 1 and grad.stride() == (1,)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("ignored", [-100, 3])
    def test_the_loss_of_logits_is_one_operator_and_the_hosts(
        dtype: Any, reduction: str, weighted: bool, ignored: int
    ) -> None:
        torch.manual_seed(0)
        logits, weight = torch.randn(5, 7).to(dtype), torch.rand(7).to(dtype) if weighted else None
        target, seed, direction = torch.tensor([1, 3, 3, 0, 6]), torch.linspace(1, 2, 5), torch.linspace(0, 1, 35)
        found = []
        for place in ("cpu", "cuda:1"):
            x = logits.clone().to(place).requires_grad_()
            w = None if weight is None else weight.to(place)
            y = nn.functional.cross_entropy(x, target.to(place), w, reduction=reduction, ignore_index=ignored)
            given = seed.to(place, dtype) if reduction == "none" else None
            (first,) = torch.autograd.grad(y, x, given, create_graph=True)
            (second,) = torch.autograd.grad((first * direction.reshape(5, 7).to(place, dtype)).sum(), x)
            found.append([value.detach().cpu().double() for value in (y, first, second)])
        assert y.grad_fn.name() == "NllLossBackward0"
        assert y.grad_fn.next_functions[0][0].name().endswith("AccumulateGrad")
        tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.03}[dtype]
        for ours, hosts in zip(*found, strict=True):
            torch.testing.assert_close(ours, hosts, rtol=tolerance, atol=tolerance)

    def test_what_is_wrong_with_a_target_is_said_as_on_the_host() -> None:
        x = torch.zeros(2, 3, device="cuda")
        for target, words in (
            ([0], "batch_size"),
            ([[0, 0], [0, 0]], "multi-target not supported"),
            ([0.5, 0.5], "expected target dtype"),
        ):
            with pytest.raises((ValueError, RuntimeError), match=words):
                nn.functional.cross_entropy(x, torch.tensor(target, device="cuda"))

    def test_a_device_that_is_not_there_is_refused() -> None:
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            torch.ones(1, device="cuda:4")

    def test_names_and_properties_say_simulated() -> None:
        assert "imulated" in torch.cuda.get_device_name()
        assert torch.cuda.get_device_properties(1).name == torch.cuda.get_device_name(1)
        assert torch.cuda.get_device_capability() == (0, 0)
        assert torch.cuda.device_count() == 4
        assert torch.cuda.can_device_access_peer(0, 1)

    def test_a_new_thread_begins_on_device_0() -> None:
        from concurrent.futures import ThreadPoolExecutor

        with torch.cuda.device(3), ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.cuda.current_device).result() == 0

    def test_no_cuda_after_a_fork() -> None:
        torch.ones(1, device="cuda")
        child = os.fork()
        if child == 0:
            try:
                torch.ones(1, device="cuda")
            except RuntimeError as error:
                os._exit(17 if "'spawn' start method" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17

    def test_autocast_on_cuda_multiplies_in_half_and_normalises_in_single_precision() -> None:
        layer, x = nn.Linear(3, 4).cuda(), torch.rand(2, 3, device="cuda")
        with torch.autocast("cuda"):
            product = layer(x)
            assert product.dtype is torch.float16
            assert torch.softmax(product, 1).dtype is torch.float32
            assert nn.functional.layer_norm(product, (4,)).dtype is torch.float32
            assert (
                nn.functional.cross_entropy(product, torch.zeros(2, dtype=torch.int64, device="cuda")).dtype
                is torch.float32
            )

    # -- copies ------------------------------------------------------------------------------------------------------------

    def test_copies_keep_values_and_memory_order(sim: Any) -> None:
        image = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
        there = image.cuda()
        assert there.stride() == image.stride()
        assert there.to("cuda:2").stride() == image.stride()
        assert torch.equal(there.to("cuda:2").cpu(), image)
        assert torch.equal(image[:, 1].cuda().cpu(), image[:, 1])

    def test_from_pinned_memory_the_host_does_not_wait(sim: Any) -> None:
        pageable = torch.rand(1000)
        pinned = pageable.pin_memory()
        assert pinned.is_pinned() and not pageable.is_pinned()
        with sim.no_host_sync():
            x = pinned.to("cuda", non_blocking=True)
        with pytest.raises(AssertionError, match="copy to device"), sim.no_host_sync():
            pageable.to("cuda", non_blocking=True)
        assert torch.equal(x.cpu(), pageable)

    def test_a_copy_to_the_host_may_be_waited_for_later(sim: Any) -> None:
        x = torch.rand(1000, device="cuda")
        with sim.no_host_sync():
            host = x.to("cpu", non_blocking=True)
        torch.cuda.synchronize()
        assert host.is_pinned() and torch.equal(host, x.cpu())

    def test_copy_takes_a_tensor_of_another_device() -> None:
        x = torch.zeros(3, device="cuda:1")
        x.copy_(torch.arange(3.0))
        x[0] = 7
        x[1:2] = torch.tensor([8.0])
        assert x.tolist() == [7, 8, 2]

    def test_a_checkpoint_remembers_the_device_and_can_be_sent_elsewhere(tmp_path: Path) -> None:
        torch.save({"x": torch.arange(3.0, device="cuda:2")}, tmp_path / "x.pt")
        assert torch.load(tmp_path / "x.pt")["x"].device == torch.device("cuda:2")
        assert torch.load(tmp_path / "x.pt", map_location="cpu")["x"].tolist() == [0, 1, 2]
        assert torch.load(tmp_path / "x.pt", map_location={"cuda:2": "cuda:1"})["x"].device == torch.device("cuda:1")

    # -- what makes the host wait ------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("name", ["Adam", "AdamW"])
    @pytest.mark.parametrize("options", [{"fused": True}, {"capturable": True}, {"fused": True, "amsgrad": True}])
    def test_counters_on_the_device_are_no_reason_to_wait(sim: Any, name: str, options: Any) -> None:
        found = []
        for place, more in (("cpu", {}), ("cuda", options)):
            param = torch.nn.Parameter(torch.linspace(-1, 1, 5).to(place))
            kept = {key: value for key, value in options.items() if key == "amsgrad"}
            optimizer = getattr(torch.optim, name)([param], lr=0.1, **(kept | more))
            param.grad = torch.ones_like(param)
            optimizer.step()
            with sim.no_host_sync():
                optimizer.step()
            assert optimizer.state[param]["step"].device.type == place
            found.append(param.detach().cpu())
        torch.testing.assert_close(*found)

    @pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
    def test_a_training_step_makes_the_host_wait_for_nothing(sim: Any, optimizer: str) -> None:
        layers = nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(),
            nn.Linear(36, 10),
        )
        model = layers.cuda()
        train = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1)
        x, y = torch.rand(5, 1, 8, 8, device="cuda"), torch.arange(5, device="cuda")
        for _ in range(2):
            with sim.no_host_sync():
                train.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                train.step()

    @pytest.mark.parametrize(
        "wait", ["x.item()", "bool(x > 0)", "x.cpu()", "x.tolist()", "repr(x)", "torch.nonzero(x)", "x[x > 0]"]
    )
    def test_what_waits_is_counted_and_found_by_sync_debug_mode(sim: Any, wait: str) -> None:
        x = torch.ones((), device="cuda") if wait.startswith(("x.item", "bool")) else torch.ones(3, device="cuda")
        before = sim.host_syncs
        eval(wait, {"x": x, "torch": torch})
        assert sim.host_syncs > before
        torch.cuda.set_sync_debug_mode("error")
        try:
            with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
                eval(wait, {"x": x, "torch": torch})
        finally:
            torch.cuda.set_sync_debug_mode(0)

    def test_a_forward_pass_copies_nothing(sim: Any) -> None:
        model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0).cuda().eval()
        x = torch.rand(5, 2, 8, device="cuda")
        before = dict(sim.copies.count)
        model(x)
        assert sim.copies.count == before

    # -- streams, events, memory ---------------------------------------------------------------------------------------------

    def test_streams_come_from_a_pool_of_32() -> None:
        streams = [torch.cuda.Stream() for _ in range(33)]
        assert streams[0] == streams[32] and len(set(streams)) == 32
        assert torch.cuda.current_stream() == torch.cuda.default_stream() != streams[0]

    def test_backward_goes_into_the_stream_of_the_forward() -> None:
        x = torch.rand(10, device="cuda", requires_grad=True)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        seen = []
        with torch.cuda.stream(side):
            y = x * 2
            y.register_hook(lambda grad: seen.append(torch.cuda.current_stream()))
            z = y.square().sum()
        torch.cuda.current_stream().wait_stream(side)
        (z + x.sum()).backward()
        assert seen == [side]
        assert torch.cuda.current_stream() == torch.cuda.default_stream()
        assert torch.allclose(x.grad, 8 * x + 1)

    def test_events_tell_the_time_between_them() -> None:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        torch.rand(300, 300, device="cuda") @ torch.rand(300, 300, device="cuda")
        end.record()
        end.synchronize()
        assert start.elapsed_time(end) > 0 and end.query()
        with pytest.raises(ValueError, match="enable_timing"):
            torch.cuda.Event().elapsed_time(end)

    def test_memory_is_counted() -> None:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        base = torch.cuda.memory_allocated()
        x = torch.zeros(1 << 18, device="cuda")
        assert torch.cuda.memory_allocated() - base == 1 << 20
        y = x + 1
        del x, y
        assert torch.cuda.memory_allocated() == base
        assert torch.cuda.max_memory_allocated() - base == 2 << 20
        assert torch.cuda.memory_reserved() >= 2 << 20
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info()
        assert 0 < free <= total

    # -- random numbers ------------------------------------------------------------------------------------------------------

    def test_one_seed_gives_every_device_the_same_numbers_and_the_cpu_others() -> None:
        drawn = []
        for device in ("cuda:0", "cuda:1", "cpu"):
            torch.manual_seed(3)
            drawn.append(
                (torch.rand(9, device=device), torch.randn(9, device=device), torch.randint(100, (9,), device=device))
            )
        for a, b, c in zip(*drawn, strict=True):
            assert a.tolist() == b.tolist() != c.tolist()

    def test_distributions_have_their_moments() -> None:
        torch.manual_seed(0)
        x, u = torch.randn(100_000, device="cuda"), torch.rand(100_000, device="cuda", dtype=torch.float64)
        assert abs(x.mean().item()) < 0.01 and abs(x.std().item() - 1) < 0.01
        assert abs(u.mean().item() - 0.5) < 0.005 and u.min().item() >= 0 and u.max().item() < 1
        assert torch.randperm(1000, device="cuda").sort()[0].tolist() == list(range(1000))
        kept = nn.functional.dropout(torch.ones(100_000, device="cuda"), 0.25)
        assert abs(kept.mean().item() - 1) < 0.01

    def test_the_generators_state_comes_back() -> None:
        state = torch.cuda.get_rng_state()
        a = torch.rand(5, device="cuda")
        torch.cuda.set_rng_state(state)
        assert torch.equal(torch.rand(5, device="cuda"), a)
        assert state.numel() == 16 and state.device.type == "cpu"
        own = torch.Generator("cuda").manual_seed(1)
        b = torch.rand(5, device="cuda", generator=own)
        assert torch.equal(torch.rand(5, device="cuda", generator=own.manual_seed(1)), b)
        with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator"):
            torch.rand(5, device="cuda", generator=torch.Generator())

    # -- graphs --------------------------------------------------------------------------------------------------------------

    def test_a_captured_graph_does_it_again_in_the_same_memory() -> None:
        x = torch.ones(4, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = (x * 2).relu() + 1
        x.copy_(torch.tensor([-1.0, 0.0, 1.0, 2.0]))
        graph.replay()
        torch.cuda.synchronize()
        assert y.tolist() == [1, 1, 3, 5]

    @pytest.mark.parametrize("refused", ["x @ x", "x.sum().item()", "x.cpu()", "torch.rand(2, device='cuda')"])
    def test_what_cannot_be_captured_is_refused(refused: str) -> None:
        x = torch.ones(2, 2, device="cuda")
        with pytest.raises((RuntimeError, NotImplementedError)), torch.cuda.graph(torch.cuda.CUDAGraph()):
            eval(refused, {"x": x, "torch": torch})
        assert not torch.cuda.is_current_stream_capturing()

    # -- CuPy has every name -------------------------------------------------------------------------------------------------

    def test_cupy_has_every_name_of_numpys_that_a_kernel_uses() -> None:
        cupy = pytest.importorskip("cupy")
        from readtorch.aten.cuda.array_library import ArrayLibrary
        from readtorch.aten.cuda.instantiate import SPECIALISED

        ours = set(dir(ArrayLibrary)) | {"generic", "ufunc", "random"}
        package = Path(torch.__file__).parent / "aten"
        torch.cuda.init()
        replaced = set()  # lines of functions that are others on the device
        for function in filter(inspect.isfunction, SPECIALISED):
            lines, first = inspect.getsourcelines(function)
            replaced |= {(Path(inspect.getfile(function)).name, first + k) for k in range(len(lines))}
        missing = {}
        for file in sorted(package.rglob("*.py")):
            if "cuda" in file.parts or file.name == "map_allocator.py":  # files are mapped on the host alone
                continue
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np"
                if (
                    named
                    and node.attr not in ours
                    and not hasattr(cupy, node.attr)
                    and (file.name, node.lineno) not in replaced
                ):
                    missing.setdefault(node.attr, []).append(f"{file.relative_to(package)}:{node.lineno}")
        assert missing == {}
