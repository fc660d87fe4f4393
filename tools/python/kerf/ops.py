"""The table of ATen's ops, and what a translation of one works with.

`OPS` maps the name of an op, such as "aten.add.Tensor", to a function of a `Context` and the op's arguments, in which
nodes of the graph are replaced by what they gave: a `Value`, or a tuple of them. What is not in the table is
decomposed by PyTorch before, or refused. Modules `elements`, `shapes`, `layers`, `orders`,
`losses`, `windows` and `complexes` fill it.
"""

import torch

from .text import Value

OPS = {}

# Floats of any type are f32: the compiler chooses the precision of training.
DTYPES = {
    torch.float64: "f32",
    torch.float32: "f32",
    torch.bfloat16: "f32",
    torch.float16: "f32",
    torch.int64: "i32",
    torch.int32: "i32",
    torch.int16: "i32",
    torch.int8: "i32",
    torch.uint8: "i32",
    torch.bool: "i1",
}


class Unsupported(Exception):
    """What the dialect cannot say; the exporter adds where it stands in the user's source."""


def op(*names, prefix="aten."):
    """Registers the function below for these ops."""

    def register(function):
        for name in names:
            OPS[prefix + name] = function
        return function

    return register


class Context:
    """The node that is translated, and the writer that takes its ops."""

    def __init__(self, writer, inputs):
        self.w = writer
        self.inputs = inputs  # by role: seed and step are added when dropout asks
        self.node = None
        self.tokens = None  # shape of the tokens: [batch, sequence]
        self.parts = {}  # by name of a value: the parameters that it stands for, where a checkpoint has several

    @property
    def shape(self):
        return tuple(self.node.meta["val"].shape)

    @property
    def dtype(self):
        return DTYPES[self.node.meta["val"].dtype]

    def value(self, x, dtype):
        """A number or value as one of `dtype`."""
        if not isinstance(x, Value):
            # The extremes of 64 bits are ends of ranges that nothing reaches.
            if dtype == "i32" and not -(2**31) <= x < 2**31 and abs(x) < 2**62:
                raise Unsupported("a whole number that 32 bits do not hold")
            return self.w.constant(x, (), dtype)
        return self.w.cast(x, dtype)

    def full(self, x, dtype=None):
        """With the shape of the node's result."""
        return self.w.broadcast(self.value(x, dtype or self.dtype), self.shape)


def common(*values):
    """The type in which values of several types are compared."""
    order = ["i1", "i32", "f16", "bf16", "f32", "f64"]
    kinds = [v.dtype for v in values if isinstance(v, Value)]
    for given in (v for v in values if not isinstance(v, Value)):
        least = "f32" if isinstance(given, float) else "i1" if isinstance(given, bool) else "i32"
        if not any(order.index(kind) >= order.index("f16") for kind in kinds) or least != "f32":
            kinds.append(least)
    best = max(kinds, key=order.index)
    return "i32" if best == "i1" else best
