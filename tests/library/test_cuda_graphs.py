"""Captured graphs on simulated devices: what they hold, what they refuse, and callables made of them."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

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
    def _over() -> None:
        gc.collect()
        torch.cuda.simulate(4)
        torch.cuda.synchronize()

    def captured(work: Any) -> tuple[Any, Any]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = work()
        return graph, result

    # -- what a graph holds ----------------------------------------------------------------------------------------------

    def test_a_result_is_no_value_before_the_first_replay() -> None:
        x = torch.ones(3, device="cuda")
        graph, y = captured(lambda: x + 1)
        assert y.isnan().all()
        graph.replay()
        assert y.tolist() == [2, 2, 2]

    def test_what_a_graph_changes_is_unchanged_until_it_is_replayed() -> None:
        norm = nn.BatchNorm1d(3).cuda()
        x = torch.rand(8, 3, device="cuda") + 5
        before = norm.running_mean.clone()
        graph, _ = captured(lambda: norm(x))
        assert torch.equal(norm.running_mean, before)
        graph.replay()
        graph.replay()
        twice = nn.BatchNorm1d(3).cuda()
        twice(x), twice(x)
        assert torch.equal(norm.running_mean, twice.running_mean)
        assert norm.num_batches_tracked.item() == 2

    def test_memory_of_a_graph_is_given_to_nobody_else() -> None:
        x = torch.ones(1000, device="cuda")
        graph, y = captured(lambda: x * 2)
        there = y.data_ptr()
        del y
        stream = torch.cuda.graph.default_capture_stream
        with torch.cuda.stream(stream):
            others = [torch.zeros(1000, device="cuda") for _ in range(4)]
        assert there not in [other.data_ptr() for other in others]
        torch.cuda.synchronize()
        graph.replay()
        assert all(not other.any() for other in others)

    def test_a_graph_can_read_the_result_of_another() -> None:
        x = torch.ones(3, device="cuda")
        pool = torch.cuda.graph_pool_handle()
        first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(first, pool=pool):
            y = x + 1
        with torch.cuda.graph(second, pool=first.pool()):
            z = y * 10
        x.fill_(4)
        first.replay()
        second.replay()
        assert z.tolist() == [50, 50, 50]

    def test_a_capture_follows_a_stream_that_waits_and_comes_back() -> None:
        x = torch.ones(3, device="cuda")
        side = torch.cuda.Stream()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            doubled = x * 2
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                assert torch.cuda.is_current_stream_capturing()
                y = doubled + 1
            torch.cuda.current_stream().wait_stream(side)
            z = y * 10
        assert not side._queue.is_capturing()
        x.fill_(3)
        graph.replay()
        assert z.tolist() == [70, 70, 70]

    def test_a_dump_names_the_nodes_in_order(tmp_path: Path) -> None:
        x = torch.ones(3, device="cuda")
        graph = torch.cuda.CUDAGraph()
        graph.enable_debug_mode()
        with torch.cuda.graph(graph):
            (x + 1).tanh()
        graph.debug_dump(str(tmp_path / "graph.dot"))
        text = (tmp_path / "graph.dot").read_text()
        assert text.index('label="add"') < text.index('label="tanh"') and "0 -> 1" in text
        with pytest.warns(UserWarning, match="debug not enabled"):
            torch.cuda.CUDAGraph().debug_dump(str(tmp_path / "none.dot"))

    # -- planted faults --------------------------------------------------------------------------------------------------

    def test_memory_freed_after_the_capture_is_found_at_replay() -> None:
        x, kept = torch.ones(3, device="cuda"), torch.ones(3, device="cuda")
        graph, _y = captured(lambda: x + kept)
        graph.replay()
        del x
        with pytest.raises(RuntimeError, match="freed after the capture"):
            graph.replay()

    def test_a_wait_missing_inside_a_graph_is_found_when_it_is_captured() -> None:
        x = torch.ones(3, device="cuda")
        side = torch.cuda.Stream()

        def without_coming_back() -> Any:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                y = x * 2
            return y + 1

        with pytest.raises(RuntimeError, match="without waiting for it"):
            captured(without_coming_back)

    def test_a_missing_wait_after_a_replay_is_found() -> None:
        x = torch.ones(3, device="cuda")
        graph, y = captured(lambda: x + 1)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            graph.replay()
        with pytest.raises(RuntimeError, match="without waiting for it"):
            y + 1

    def test_a_replay_over_what_another_stream_still_reads_is_found() -> None:
        x = torch.ones(3, device="cuda")
        graph, y = captured(lambda: x + 1)
        graph.replay()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y * 2
        with pytest.raises(RuntimeError, match="may still read"):
            graph.replay()

    def fork_without_join() -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.ones(2, device="cuda")

    def event_from_before(event: Any) -> Any:
        return lambda: torch.cuda.current_stream().wait_event(event)

    @pytest.mark.parametrize(
        ("work", "error"),
        [
            (lambda: torch.cuda.current_stream().synchronize(), "cudaErrorStreamCaptureUnsupported"),
            (lambda: torch.cuda.synchronize(), "cudaErrorStreamCaptureUnsupported"),
            (lambda: torch.cuda.current_stream().query(), "cudaErrorStreamCaptureInvalidated"),
            (lambda: torch.cuda.current_stream().record_event().synchronize(), "cudaErrorCapturedEvent"),
            (lambda: torch.cuda.current_stream().record_event().query(), "cudaErrorCapturedEvent"),
            (fork_without_join, "cudaErrorStreamCaptureUnjoined"),
            (lambda: torch.cuda.default_stream().wait_stream(torch.cuda.current_stream()), "cudaErrorStreamCaptureImplicit"),
            (lambda: torch.cuda.current_stream()._queue.begin_capture(), "cudaErrorIllegalState"),
            (lambda: torch.ones(2).pin_memory().to("cuda", non_blocking=True), "stream is capturing"),
            (lambda: torch.ones(2, device="cuda").to("cpu", non_blocking=True), "stream is capturing"),
            (lambda: torch.ones(2, device="cuda").to("cuda:1"), "cudaErrorStreamCaptureIsolation"),
            (lambda: torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda"), "during stream capture"),
            (lambda: torch.linalg.inv(torch.eye(2, device="cuda")), "during stream capture"),
            (lambda: torch.rand(2, device="cuda"), "captured"),
        ],
    )  # fmt: skip
    def test_what_cuda_or_cupy_refuses_is_refused_and_the_stream_is_free_again(work: Any, error: str) -> None:
        graph = torch.cuda.CUDAGraph()
        with pytest.raises((RuntimeError, NotImplementedError), match=error), torch.cuda.graph(graph):
            work()
        graph, y = captured(lambda: torch.zeros(2, device="cuda") + 1)
        graph.replay()
        assert y.tolist() == [1, 1]

    def test_an_event_from_before_the_capture_cannot_be_waited_for() -> None:
        event = torch.cuda.current_stream().record_event()
        with pytest.raises(RuntimeError, match="Isolation"), torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.cuda.current_stream().wait_event(event)

    def test_an_event_of_a_capture_says_nothing_after_it() -> None:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.zeros(2, device="cuda")
            event = torch.cuda.current_stream().record_event()
        with pytest.raises(RuntimeError, match="Isolation"):
            torch.cuda.current_stream().wait_event(event)

    def test_the_default_stream_cannot_be_captured() -> None:
        with pytest.raises(RuntimeError, match="non-default stream"):
            torch.cuda.CUDAGraph().capture_begin()

    def test_a_graph_that_has_work_is_not_captured_into_again() -> None:
        graph, _ = captured(lambda: torch.zeros(2, device="cuda"))
        with pytest.raises(RuntimeError, match="already owns a captured graph"), torch.cuda.graph(graph):
            pass
        assert not torch.cuda.is_current_stream_capturing()
        graph.reset()
        with pytest.raises(RuntimeError, match="without a preceding successful capture"):
            graph.replay()
        with torch.cuda.graph(graph):
            y = torch.zeros(2, device="cuda")
        graph.replay()
        assert y.tolist() == [0, 0]

    def test_memory_held_for_the_capturing_stream_is_let_go_after_it() -> None:
        x = torch.ones(100, device="cuda")
        outside = x * 2
        torch.cuda.synchronize()
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            outside.record_stream(torch.cuda.current_stream())
            del outside
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.synchronize()
        assert torch.cuda.memory_allocated() <= before - 512

    # -- graphed callables -----------------------------------------------------------------------------------------------

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)
            self.scale = nn.Parameter(torch.ones(4))

        def forward(self, x: Any) -> Any:
            return (self.norm(x) * self.scale).tanh()

    def test_a_graphed_module_trains_as_the_module_does() -> None:
        torch.manual_seed(0)
        plain, graphed = Block().cuda(), Block().cuda()
        sample = torch.rand(8, 4, device="cuda", requires_grad=True)
        assert torch.cuda.make_graphed_callables(graphed, (sample,)) is graphed
        graphed.norm.reset_running_stats()
        optimizers = [torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9) for module in (plain, graphed)]
        for _ in range(4):
            x = torch.rand(8, 4, device="cuda")
            losses = []
            for module, optimizer in zip((plain, graphed), optimizers, strict=True):
                optimizer.zero_grad()
                leaf = x.clone().requires_grad_()
                loss = (module(leaf) * leaf).sum()
                loss.backward()
                optimizer.step()
                losses.append((loss.item(), leaf.grad.tolist()))
            assert losses[0] == losses[1]
        for ours, theirs in zip(graphed.state_dict().values(), plain.state_dict().values(), strict=True):
            assert torch.equal(ours, theirs)

    def test_in_another_mode_the_module_runs_as_before() -> None:
        module = Block().cuda()
        torch.cuda.make_graphed_callables(module, (torch.rand(8, 4, device="cuda"),))
        x = torch.rand(3, 4, device="cuda")  # a shape that the graph has not
        module.eval()
        assert module(x).shape == (3, 4) and "Graphed" not in module(x).grad_fn.name()
        module.train()
        assert "Graphed" in module(torch.rand(8, 4, device="cuda")).grad_fn.name()

    def test_several_callables_share_a_pool_and_run_one_after_the_other() -> None:
        def first(x: Any, w: Any) -> tuple:
            return x * w, {"gate": torch.sigmoid(x)}

        def second(a: Any, b: Any) -> list:
            return [(a * b).cumsum(0)]

        x, w, a, b = (torch.rand(5, device="cuda", requires_grad=True) for _ in range(4))
        one, two = torch.cuda.make_graphed_callables((first, second), ((x, w), (a, b)))
        u, v = torch.rand(5, device="cuda", requires_grad=True), torch.rand(5, device="cuda", requires_grad=True)

        def together(f: Any, g: Any) -> Any:
            product, more = f(u, v)
            return torch.autograd.grad(g(product, more["gate"])[0].sum(), (u, v))

        for ours, theirs in zip(together(one, two), together(first, second), strict=True):
            assert torch.equal(ours, theirs)

    def test_results_come_back_in_the_shape_they_had() -> None:
        Pair = namedtuple("Pair", "left right")
        graphed = torch.cuda.make_graphed_callables(lambda x: Pair(x + 1, [x * 2]), (torch.ones(2, device="cuda"),))
        result = graphed(torch.full((2,), 3.0, device="cuda"))
        assert type(result) is Pair and result.left.tolist() == [4, 4] and result.right[0].tolist() == [6, 6]

    def test_an_input_that_is_not_used_has_to_be_allowed() -> None:
        x, y = torch.ones(2, device="cuda", requires_grad=True), torch.ones(2, device="cuda", requires_grad=True)
        with pytest.raises(RuntimeError, match="used in the graph"):
            torch.cuda.make_graphed_callables(lambda x, y: x * 2, (x, y))
        graphed = torch.cuda.make_graphed_callables(lambda x, y: x * 2, (x, y), allow_unused_input=True)
        a, b = torch.ones(2, device="cuda", requires_grad=True), torch.ones(2, device="cuda", requires_grad=True)
        graphed(a, b).sum().backward()
        assert a.grad.tolist() == [2, 2] and b.grad is None

    def test_a_graphed_callable_has_one_derivative() -> None:
        x = torch.ones(2, device="cuda", requires_grad=True)
        graphed = torch.cuda.make_graphed_callables(lambda x: x * x, (x,))
        (grad,) = torch.autograd.grad((graphed(x) ** 2).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            grad.sum().backward()

    @pytest.mark.parametrize(
        ("module", "args", "words"),
        [
            (lambda: nn.ReLU(), (1,), "only Tensors"),
            (lambda: hooked(), (torch.ones(1),), "hooks"),
            (lambda: with_trainable_buffer(), (torch.ones(1),), "buffers"),
        ],
    )
    def test_what_cannot_be_graphed_is_said_before_anything_runs(module: Any, args: Any, words: str) -> None:
        with pytest.raises(AssertionError, match=words):
            torch.cuda.make_graphed_callables(module(), args)

    def hooked() -> Any:
        module = nn.ReLU()
        module.register_forward_hook(lambda *args: None)
        return module

    def with_trainable_buffer() -> Any:
        module = nn.ReLU()
        module.register_buffer("b", torch.ones(1, requires_grad=True))
        return module

    def test_autocast_with_its_cache_is_refused() -> None:
        x = torch.ones(2, device="cuda")
        with torch.autocast("cuda"), pytest.raises(RuntimeError, match="autocast caching"):
            torch.cuda.make_graphed_callables(lambda x: x * 2, (x,))
        with torch.autocast("cuda", cache_enabled=False):
            torch.cuda.make_graphed_callables(lambda x: x * 2, (x,))
