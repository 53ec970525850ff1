"""A small training step in Python: dispatch table, tape, layers, SGD. What `benchmarks/trace.py` records.

The tensors are tiny, so that nearly all of the time is Python's: the worst case for a recorder.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

import numpy as np

observer: Any = None


class Value:
    """An array and how it came about."""

    __slots__ = ("__weakref__", "array", "grad", "inputs", "name", "version")

    def __init__(self, array: np.ndarray, name: str = "", inputs: tuple = ()) -> None:
        self.array = array
        self.grad: np.ndarray | None = None
        self.name = name
        self.inputs = inputs
        self.version = 0

    def __add__(self, other: Value) -> Value:
        return dispatch("add", self, other)

    def __sub__(self, other: Value) -> Value:
        return dispatch("sub", self, other)

    def __mul__(self, other: Value) -> Value:
        return dispatch("mul", self, other)

    def __matmul__(self, other: Value) -> Value:
        return dispatch("matmul", self, other)

    def relu(self) -> Value:
        return dispatch("relu", self)

    def mean(self) -> Value:
        return dispatch("mean", self)

    def backward(self) -> None:
        order: list[Value] = []
        seen: set[int] = set()
        visit(self, seen, order)
        self.grad = np.ones_like(self.array)
        for value in reversed(order):
            if value.name and value.grad is not None:
                spread(value)


def visit(value: Value, seen: set[int], order: list[Value]) -> None:
    if id(value) in seen:
        return
    seen.add(id(value))
    for inner in value.inputs:
        visit(inner, seen, order)
    order.append(value)


def spread(value: Value) -> None:
    rule = BACKWARD[value.name]
    grads = rule(value.grad, value.array, *[v.array for v in value.inputs])
    for inner, grad in zip(value.inputs, grads, strict=True):
        grad = reduced(grad, inner.array.shape)
        inner.grad = grad if inner.grad is None else inner.grad + grad


def reduced(grad: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    while grad.ndim > len(shape):
        grad = grad.sum(0)
    return grad


FORWARD = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "matmul": lambda a, b: a @ b,
    "relu": lambda a: np.maximum(a, 0),
    "mean": lambda a: np.asarray(a.mean()),
}
BACKWARD = {
    "add": lambda g, out, a, b: (g, g),
    "sub": lambda g, out, a, b: (g, -g),
    "mul": lambda g, out, a, b: (g * b, g * a),
    "matmul": lambda g, out, a, b: (g @ b.T, a.T @ g),
    "relu": lambda g, out, a: (g * (a > 0),),
    "mean": lambda g, out, a: (np.broadcast_to(g / a.size, a.shape),),
}


def dispatch_bare(name: str, *inputs: Value) -> Value:
    """Without a slot for an observer: what the hook is measured against."""
    kernel = FORWARD[name]
    return Value(kernel(*[v.array for v in inputs]), name, inputs)


def dispatch_observed(name: str, *inputs: Value) -> Value:
    watching = observer
    if watching is None:
        kernel = FORWARD[name]
        return Value(kernel(*[v.array for v in inputs]), name, inputs)
    begin = perf_counter_ns()
    kernel = FORWARD[name]
    out = Value(kernel(*[v.array for v in inputs]), name, inputs)
    watching.operator(name, inputs, out, begin, perf_counter_ns())
    return out


dispatch = dispatch_observed


class Layer:
    def __call__(self, x: Value) -> Value:
        return self.forward(x)


class Linear(Layer):
    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int) -> None:
        self.weight = Value(rng.normal(size=(inputs, outputs)) / inputs**0.5)
        self.bias = Value(np.zeros(outputs))

    def forward(self, x: Value) -> Value:
        return x @ self.weight + self.bias


class Network(Layer):
    def __init__(self, rng: np.random.Generator) -> None:
        self.layers = [Linear(rng, 16, 16), Linear(rng, 16, 16), Linear(rng, 16, 4)]

    def forward(self, x: Value) -> Value:
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)

    def parameters(self) -> list[Value]:
        return [p for layer in self.layers for p in (layer.weight, layer.bias)]


def step(network: Network, x: Value, target: Value, rate: float = 0.05) -> Value:
    difference = network(x) - target
    loss = (difference * difference).mean()
    loss.backward()
    for parameter in network.parameters():
        parameter.array -= rate * parameter.grad
        parameter.version += 1
        parameter.grad = None
    return loss


def problem() -> tuple[Network, Value, Value]:
    rng = np.random.default_rng(0)
    return Network(rng), Value(rng.normal(size=(16, 16))), Value(rng.normal(size=(16, 4)))
