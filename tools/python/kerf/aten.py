"""What ops of PyTorch's ATen are in the kerf dialect.

`OPS` maps the name of an op, such as "aten.add.Tensor", to a function of a `Context` and the op's arguments, in which
nodes of the graph are replaced by what they gave: a `Value`, or a tuple of them. What is not in the table is
decomposed by PyTorch before, or refused.
"""

import math

import torch

from .text import INTEGERS, Value, number, product

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


# Element by element


def arithmetic(name):
    def build(c, a, b, **scaled):
        if scaled.get("alpha", 1) != 1:
            b = c.w.binary("mul", c.value(b, c.dtype), c.value(scaled["alpha"], c.dtype))
        if c.dtype == "i1":
            raise Unsupported("arithmetic of truth values")
        return c.w.broadcast(c.w.binary(name, c.value(a, c.dtype), c.value(b, c.dtype)), c.shape)

    return build


for _aten, _kerf in {
    "add": "add", "sub": "sub", "mul": "mul", "maximum": "max", "minimum": "min",
}.items():  # fmt: skip
    op(f"{_aten}.Tensor", f"{_aten}.Scalar", f"{_aten}.default", f"{_aten}_.Tensor")(arithmetic(_kerf))


@op("mul.Tensor", "mul.Scalar", "mul_.Tensor")
def multiply(c, a, b):
    return both(c, a, b) if c.dtype == "i1" else arithmetic("mul")(c, a, b)


@op("rsub.Scalar", "rsub.Tensor")
def reverse_subtract(c, a, b, alpha=1):
    return arithmetic("sub")(c, b, a if alpha == 1 else c.w.binary("mul", a, c.value(alpha, a.dtype)))


@op("div.Tensor", "div.Scalar", "div_.Tensor", "true_divide.Tensor")
def divide(c, a, b):
    if not isinstance(b, Value):  # a product is cheaper, and the gradient is one, too
        if math.frexp(b)[0] == 0.5:
            return arithmetic("mul")(c, a, 1 / b)
    return arithmetic("div")(c, a, b)


@op("div.Tensor_mode", "div.Scalar_mode", "floor_divide.default")
def divide_whole(c, a, b, rounding_mode="floor"):
    if rounding_mode is None:
        return divide(c, a, b)
    whole = isinstance(b, int) and b > 0 and isinstance(a, Value) and a.dtype in INTEGERS
    if not whole or c.dtype not in INTEGERS:
        raise Unsupported(f"division with rounding_mode={rounding_mode!r} of what is not positions by a whole number")
    return c.full(c.w.binary("div", a, c.value(b, c.dtype)))


@op("remainder.Scalar", "remainder.Tensor")
def remainder(c, a, b):
    whole = isinstance(b, int) and b > 0 and isinstance(a, Value) and a.dtype in INTEGERS
    if not whole:
        raise Unsupported("a remainder of what is not positions by a whole number")
    quotient = c.w.binary("div", a, c.value(b, c.dtype))
    return c.w.binary("sub", a, c.w.binary("mul", quotient, c.value(b, c.dtype)))


def function(name):
    return lambda c, x: c.w.unary(name, c.value(x, c.dtype))


for _name in ("neg", "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sin", "cos"):
    op(f"{_name}.default", f"{_name}_.default")(function(_name))
op("sigmoid.default", "sigmoid_.default", "special_expit.default")(function("logistic"))


@op("silu.default", "silu_.default")
def silu(c, x):
    return c.w.emit(f"silu {x.name} : {x.type}", x.shape, x.dtype)


@op("gelu.default")
def gelu(c, x, approximate="none"):
    kind = {"none": "exact", "tanh": "tanh"}[approximate]
    return c.w.emit(f"gelu {kind} {x.name} : {x.type}", x.shape, x.dtype)


@op("relu.default", "relu_.default")
def relu(c, x):
    return c.w.binary("max", x, c.w.constant(0.0, x.shape, x.dtype))


@op("leaky_relu.default")
def leaky_relu(c, x, negative_slope=0.01):
    scaled = c.w.binary("mul", x, c.w.constant(negative_slope, x.shape, x.dtype))
    return c.w.binary("max" if negative_slope <= 1 else "min", x, scaled)


@op("softplus.default")
def softplus(c, x, beta=1, threshold=20):
    scaled = x if beta == 1 else c.w.binary("mul", x, c.value(beta, x.dtype))
    positive = relu(c, scaled)
    small = c.w.unary("exp", c.w.unary("neg", absolute(c, scaled)))
    y = c.w.binary("add", positive, c.w.unary("log", c.w.binary("add", small, c.value(1.0, x.dtype))))
    return y if beta == 1 else c.w.binary("mul", y, c.value(1 / beta, x.dtype))


@op("abs.default")
def absolute(c, x):
    return c.w.binary("max", x, c.w.unary("neg", x))


@op("reciprocal.default")
def reciprocal(c, x):
    return c.w.binary("div", c.value(1.0, c.dtype), c.value(x, c.dtype))


@op("square.default")
def square(c, x):
    return c.w.binary("mul", x, x)


@op("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(c, x, exponent):
    if not isinstance(exponent, Value) and isinstance(x, Value):
        x = c.value(x, c.dtype)
        if exponent in (2, 3, 4):
            y = square(c, x)
            return y if exponent == 2 else c.w.binary("mul", y, x if exponent == 3 else y)
        if exponent in (0.5, -0.5, 1, -1):
            return {0.5: function("sqrt"), -0.5: function("rsqrt"), 1: lambda c, x: x, -1: reciprocal}[exponent](c, x)
    return c.full(c.w.binary("pow", c.value(x, c.dtype), c.value(exponent, c.dtype)))


@op("clamp.default", "clamp_min.default", "clamp_max.default", "hardtanh.default", "clamp.Tensor")
def clamp(c, x, low=None, high=None, **named):
    low, high = named.get("min", low), named.get("max", high)
    if c.node.target._overloadpacket._qualified_op_name == "aten::clamp_max":
        low, high = None, low
    x = c.value(x, c.dtype)
    if low is not None:
        x = c.w.binary("max", x, c.value(low, c.dtype))
    return x if high is None else c.w.binary("min", x, c.value(high, c.dtype))


# Truth


def comparison(kind):
    def build(c, a, b):
        dtype = common(a, b)
        return c.w.broadcast(c.w.compare(kind, c.value(a, dtype), c.value(b, dtype)), c.shape)

    return build


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    op(f"{_name}.Tensor", f"{_name}.Scalar")(comparison(_name))


@op("logical_and.default", "bitwise_and.Tensor", "__and__.Tensor", "bitwise_and.Scalar")
def both(c, a, b):
    need_truth(c, a, b)
    if isinstance(a, Value) and a.splat is True:
        return c.full(b)
    if isinstance(b, Value) and b.splat is True:
        return c.full(a)
    return c.full(c.w.select(a, c.value(b, "i1"), c.w.constant(False, (), "i1")))


@op("logical_or.default", "bitwise_or.Tensor", "__or__.Tensor")
def either(c, a, b):
    need_truth(c, a, b)
    return c.full(c.w.select(a, c.w.constant(True, (), "i1"), b))


@op("logical_not.default", "bitwise_not.default")
def negation(c, a):
    need_truth(c, a)
    return c.w.select(a, c.w.constant(False, (), "i1"), c.w.constant(True, (), "i1"))


def need_truth(c, *values):
    if c.dtype != "i1" or any(isinstance(v, Value) and v.dtype != "i1" for v in values):
        raise Unsupported("bits of numbers")


@op("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(c, condition, a, b):
    condition = c.w.broadcast(c.value(condition, "i1"), c.shape)
    return c.w.select(condition, c.full(a), c.full(b))


@op("masked_fill.Scalar", "masked_fill.Tensor", "masked_fill_.Scalar")
def masked_fill(c, x, mask, value):
    return where(c, mask, value, x)


# Sources


@op("arange.start_step", "arange.start", "arange.default")
def arange(c, start=0, end=None, step=1, **_):
    if end is None or c.node.target._overloadname == "default":
        start, step = 0, 1
    positions = c.w.cast(c.w.iota(c.shape, 0), c.dtype)
    if step != 1:
        positions = c.w.binary("mul", positions, c.value(step, c.dtype))
    return positions if start == 0 else c.w.binary("add", positions, c.value(start, c.dtype))


@op("full.default", "full_like.default", "new_full.default")
def full(c, _, value, *__, **___):
    return c.full(value)


@op("ones.default", "ones_like.default", "new_ones.default")
def ones(c, *_, **__):
    return c.full(True if c.dtype == "i1" else 1)


@op("zeros.default", "zeros_like.default", "new_zeros.default", "empty.memory_format", "empty_like.default")
def zeros(c, *_, **__):
    return c.full(False if c.dtype == "i1" else 0)


@op("scalar_tensor.default")
def scalar(c, value, **_):
    return c.full(value)


def triangle(kind):
    def build(c, x, diagonal=0):
        rows, columns = (c.w.iota(c.shape[-2:], d) for d in (0, 1))
        edge = rows if diagonal == 0 else c.w.binary("add", rows, c.value(diagonal, "i32"))
        kept = c.w.broadcast(c.w.compare(kind, columns, edge), c.shape)
        if c.dtype == "i1" and x.splat is True:
            return kept
        return c.w.select(kept, x, c.w.constant(0 if c.dtype != "i1" else False, c.shape, c.dtype))

    return build


op("tril.default")(triangle("le"))
op("triu.default")(triangle("ge"))


# Shapes


@op("view.default", "reshape.default", "_unsafe_view.default", "unsqueeze.default", "squeeze.default", "squeeze.dim",
    "squeeze.dims", "flatten.using_ints", "unflatten.int", "view_as.default", "reshape_as.default")  # fmt: skip
def reshape(c, x, *_, **__):
    return c.w.reshape(x, c.shape)


@op("copy.default")
def copy(c, _, source, *__):
    return c.full(source)


@op("clone.default", "contiguous.default", "alias.default", "lift_fresh_copy.default", "dropout_.default",
    "positive.default")  # fmt: skip
def same(c, x, *_, **__):
    return x


@op("detach.default", "detach_.default")
def detach(c, x):
    if c.node.meta.get("depends_on_weights"):
        raise Unsupported("detach() of what depends on weights: gradients flow everywhere in Kerf")
    return x


@op("_to_copy.default", "to.dtype", "to.dtype_layout", "to.device", "to.other", "type_as.default", "float.default")
def cast(c, x, *_, **__):
    return c.w.cast(x, c.dtype)


@op("expand.default", "expand_as.default", "broadcast_to.default")
def expand(c, x, *_, **__):
    return c.w.broadcast(x, c.shape)


@op("permute.default")
def permute(c, x, dims):
    return c.w.transpose(x, dims)


@op("transpose.int", "swapaxes.default", "swapdims.default")
def transpose(c, x, a, b):
    return c.w.swap(x, a, b)


@op("t.default", "numpy_T.default", "mT.default")
def turn(c, x):
    return x if x.rank < 2 else c.w.swap(x, -1, -2)


@op("movedim.int")
def move(c, x, source, destination):
    dims = [d for d in range(x.rank) if d != source % x.rank]
    dims.insert(destination % x.rank, source % x.rank)
    return c.w.transpose(x, dims)


@op("slice.Tensor")
def take_slice(c, x, dim=0, start=None, end=None, step=1):
    dim %= x.rank
    length = x.shape[dim]
    start, end, step = slice(start, end, step).indices(length)
    if end <= start:
        return Value("", c.shape, x.dtype)  # nothing; concatenations leave it out
    if step == 1:
        return c.w.slice(x, dim, start, end - start)
    if length % step or start >= step or c.shape[dim] != length // step:
        raise Unsupported(f"every {step}-th element from {start} of {length}")
    rows = c.w.reshape(x, (*x.shape[:dim], length // step, step, *x.shape[dim + 1 :]))
    return c.w.reshape(c.w.slice(rows, dim + 1, start, 1), c.shape)


@op("slice_scatter.default")
def put_slice(c, x, part, dim=0, start=None, end=None, step=1):
    dim %= x.rank
    start, end, step = slice(start, end, step).indices(x.shape[dim])
    if step != 1:
        raise Unsupported(f"writing to every {step}-th element")
    pieces = [c.w.slice(x, dim, 0, start)] if start else []
    pieces.append(c.w.broadcast(c.value(part, x.dtype), (*x.shape[:dim], end - start, *x.shape[dim + 1 :])))
    if end < x.shape[dim]:
        pieces.append(c.w.slice(x, dim, end, x.shape[dim] - end))
    return c.w.concat(pieces, dim)


@op("narrow.default")
def narrow(c, x, dim, start, length):
    return c.w.slice(x, dim % x.rank, start, length)


@op("select.int")
def take_one(c, x, dim, index):
    dim %= x.rank
    return c.w.reshape(c.w.slice(x, dim, index % x.shape[dim], 1), c.shape)


def parts(c, x, sizes, dim):
    dim %= x.rank
    starts = [sum(sizes[:i]) for i in range(len(sizes))]

    def part(start, size):
        shape = tuple(size if d == dim else n for d, n in enumerate(x.shape))
        return c.w.slice(x, dim, start, size) if size else Value("", shape, x.dtype)

    return tuple(part(start, size) for start, size in zip(starts, sizes))


@op("split_with_sizes.default", "split.sizes")
def split_with_sizes(c, x, sizes, dim=0):
    return parts(c, x, sizes, dim)


@op("split.Tensor", "split.default", "chunk.default", "unsafe_chunk.default")
def split(c, x, _, dim=0):
    return parts(c, x, [part.shape[dim] for part in c.node.meta["val"]], dim)


@op("unbind.int")
def unbind(c, x, dim=0):
    dim %= x.rank
    shape = x.shape[:dim] + x.shape[dim + 1 :]
    return tuple(c.w.reshape(c.w.slice(x, dim, i, 1), shape) for i in range(x.shape[dim]))


@op("cat.default", "concat.default")
def concatenate(c, values, dim=0):
    # An empty tensor is what a cache without an entry is.
    values = [c.value(v, c.dtype) for v in values if isinstance(v, Value) and v.name]
    return c.w.concat(values, dim % values[0].rank)


@op("stack.default")
def stack(c, values, dim=0):
    dim %= len(c.shape)
    return c.w.concat([c.w.reshape(v, (*v.shape[:dim], 1, *v.shape[dim:])) for v in values], dim)


@op("constant_pad_nd.default", "pad.default")
def pad(c, x, widths, *rest, value=0, mode="constant"):
    mode, value = (rest + (mode, value))[:2] if rest and isinstance(rest[0], str) else (mode, rest[0] if rest else value)
    if mode != "constant":
        raise Unsupported(f"padding of mode {mode!r}")
    low, high = [0] * x.rank, [0] * x.rank
    for i in range(len(widths) // 2):
        low[-1 - i], high[-1 - i] = widths[2 * i], widths[2 * i + 1]
    for d in range(x.rank):  # negative ones cut
        start, end = max(-low[d], 0), x.shape[d] - max(-high[d], 0)
        x = c.w.slice(x, d, start, end - start)
    low, high = ([max(n, 0) for n in widths] for widths in (low, high))
    padded = c.w.pad(x, low, high)
    if not value:
        return padded
    inside = c.w.pad(c.w.constant(1, x.shape, "i32"), low, high)
    return where(c, c.w.cast(inside, "i1"), padded, value)


@op("repeat_interleave.self_int")
def repeat_interleave(c, x, count, dim=None, **_):
    if dim is None:
        raise Unsupported("repeat_interleave without a dimension")
    dim %= x.rank
    wide = c.w.reshape(x, (*x.shape[: dim + 1], 1, *x.shape[dim + 1 :]))
    wide = c.w.broadcast(wide, (*x.shape[: dim + 1], count, *x.shape[dim + 1 :]))
    return c.w.reshape(wide, c.shape)


@op("repeat.default")
def repeat(c, x, counts):
    lead = len(counts) - x.rank
    split = [1] * (2 * len(counts))
    for d, size in enumerate(x.shape):
        split[2 * (lead + d) + 1] = size
    wide = [split[i] if i % 2 else counts[i // 2] for i in range(len(split))]
    return c.w.reshape(c.w.broadcast(c.w.reshape(x, split), wide), c.shape)


# Sums


def dims_of(x, dims):
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return list(range(x.rank))
    return [dims] if isinstance(dims, int) else list(dims)


@op("sum.dim_IntList", "sum.default")
def total(c, x, dims=None, keepdim=False, **_):
    return c.w.reduce("sum", c.value(x, c.dtype), dims_of(x, dims), keepdim)


@op("mean.dim", "mean.default")
def mean(c, x, dims=None, keepdim=False, **_):
    dims = dims_of(x, dims)
    y = c.w.reduce("sum", c.value(x, c.dtype), dims, keepdim)
    return c.w.binary("mul", y, c.value(1 / product(x.shape[d] for d in dims), c.dtype))


@op("var.correction", "var.dim")
def variance(c, x, dims=None, correction=1, keepdim=False, **named):
    dims = dims_of(x, dims)
    if isinstance(correction, bool):
        correction = int(correction)
    count = product(x.shape[d] for d in dims)
    centre = c.w.binary("sub", x, mean(c, x, dims, True))
    y = c.w.reduce("sum", square(c, centre), dims, named.get("keepdim", keepdim))
    return c.w.binary("mul", y, c.value(1 / (count - correction), c.dtype))


@op("amax.default", "max.default")
def largest(c, x, dims=None, keepdim=False):
    return c.w.reduce("max", x, dims_of(x, dims), keepdim)


@op("amin.default", "min.default")
def smallest(c, x, dims=None, keepdim=False):
    return c.w.unary("neg", c.w.reduce("max", c.w.unary("neg", x), dims_of(x, dims), keepdim))


@op("logsumexp.default")
def logsumexp(c, x, dims, keepdim=False):
    dims = dims_of(x, dims)
    top = c.w.reduce("max", x, dims, True)
    total = c.w.reduce("sum", c.w.unary("exp", c.w.binary("sub", x, top)), dims, True)
    y = c.w.binary("add", top, c.w.unary("log", total))
    return y if keepdim else c.w.reshape(y, c.shape)


@op("cumsum.default")
def cumulative(c, x, dim, **_):
    x = c.value(x, c.dtype)
    before = c.w.emit(f"cumsum {x.name} dim {dim % x.rank} : {x.type}", x.shape, x.dtype)
    return c.w.binary("add", before, x)


@op("softmax.int", "_softmax.default", "_safe_softmax.default")
def softmax(c, x, dim, *_, **__):
    x, last = c.value(x, c.dtype), dim % x.rank == x.rank - 1
    x = x if last else c.w.swap(x, dim, -1)
    y = c.w.emit(f"softmax {x.name} : {x.type}", x.shape, x.dtype)
    return y if last else c.w.swap(y, dim, -1)


@op("log_softmax.int", "_log_softmax.default")
def log_softmax(c, x, dim, *_, **__):
    x = c.value(x, c.dtype)
    return c.w.binary("sub", x, logsumexp(c, x, [dim], True))


# Products


@op("linear.default")
def linear(c, x, weight, bias=None):
    return c.w.linear(x, weight, bias)


@op("mm.default", "matmul.default", "bmm.default")
def matmul(c, a, b):
    if b.rank == 2 and a.rank >= 1:
        return c.w.linear(a, b, transposed=True)
    if b.rank == 1:
        column = c.w.reshape(b, (b.shape[0], 1))
        return c.w.reshape(c.w.linear(a, column, transposed=True), c.shape)
    rank = max(a.rank, b.rank, 2)
    wide = [c.w.reshape(v, (1,) * (rank - v.rank) + v.shape) for v in (a, b)]
    return c.w.reshape(c.w.matmul(*wide), c.shape)


@op("addmm.default")
def addmm(c, bias, a, b, beta=1, alpha=1):
    if (beta, alpha) != (1, 1):
        raise Unsupported("addmm with factors")
    if bias.rank == 1:
        return c.w.linear(a, b, bias, transposed=True)
    return c.w.binary("add", c.w.linear(a, b, transposed=True), bias)


@op("baddbmm.default")
def baddbmm(c, bias, a, b, beta=1, alpha=1):
    product_ = c.w.matmul(a, b)
    if alpha != 1:
        product_ = c.w.binary("mul", product_, c.value(alpha, c.dtype))
    if beta != 1:
        bias = c.w.binary("mul", bias, c.value(beta, c.dtype))
    return c.w.binary("add", product_, bias)


@op("outer.default")
def outer(c, a, b):
    return c.w.binary("mul", c.w.reshape(a, (*a.shape, 1)), b)


def spelled_out(equation, ranks):
    """With letters for the dots of an einsum."""
    if "..." not in equation:
        return equation
    terms, out = equation.split("->")
    count = max(rank - sum(c.isalpha() for c in term) for term, rank in zip(terms.split(","), ranks) if "..." in term)
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation][:count]
    parts = []
    for term, rank in zip(terms.split(","), ranks):
        missing = rank - sum(c.isalpha() for c in term)
        parts.append(term.replace("...", "".join(free[count - missing :]) if missing else ""))
    return f"{','.join(parts)}->{out.replace('...', ''.join(free))}"


@op("einsum.default")
def einsum(c, equation, values, **_):
    equation = spelled_out(equation.replace(" ", ""), [v.rank for v in values])
    if len(values) != 2 or "->" not in equation:
        raise Unsupported(f"the einsum {equation!r}: two operands and an arrow are understood")
    terms, out = equation.split("->")
    terms = terms.split(",")
    if any(len(set(term)) < len(term) for term in terms):
        raise Unsupported(f"a diagonal, in the einsum {equation!r}")
    letters = {letter: chr(ord("a") + i) for i, letter in enumerate(dict.fromkeys("".join(terms)))}
    reduced = []
    for i in (0, 1):  # what one operand alone has and the result has not is summed before
        lone = [d for d, letter in enumerate(terms[i]) if letter not in terms[1 - i] + out]
        reduced.append(c.w.reduce("sum", values[i], lone))
        terms[i] = "".join(letter for d, letter in enumerate(terms[i]) if d not in lone)
    named = ",".join("".join(letters[letter] for letter in term) for term in terms)
    return c.w.einsum(f"{named}->{''.join(letters[letter] for letter in out)}", *reduced)


# Rows by index


@op("embedding.default")
def embedding(c, table, ids, padding_idx=-1, *_, **__):
    padding = f" padding {padding_idx}" if padding_idx >= 0 else ""
    ids = c.w.cast(ids, "i32")
    return c.w.emit(f"embedding {ids.name}, {table.name}{padding} : {ids.type}, {table.type}", c.shape, table.dtype)


@op("index.Tensor", "index_select.default", "_unsafe_index.Tensor")
def rows(c, x, indices, *rest):
    if isinstance(indices, int):  # index_select(x, dim, index)
        indices = [None] * indices + [rest[0]]
    given = [(d, index) for d, index in enumerate(indices) if index is not None]
    if len(given) != 1 or given[0][1].dtype == "i1":
        raise Unsupported("an index of several tensors, or by truth values")
    dim, index = given[0]
    front = [dim, *(d for d in range(x.rank) if d != dim)]
    table, index = c.w.transpose(x, front), c.w.cast(index, "i32")
    shape = (*index.shape, *table.shape[1:])
    y = c.w.emit(f"gather {table.name}, {index.name} : {table.type}, {index.type}", shape, x.dtype)
    back = [index.rank + d for d in range(dim)] + list(range(index.rank)) + list(range(index.rank + dim, y.rank))
    return c.w.transpose(y, back)


def chosen(c, index, size):
    """Truth values [..., size]: which element of the last dimension is the index."""
    shape = (*index.shape, size)
    numbers = c.w.iota((size,), 0)
    return c.w.compare("eq", c.w.broadcast(c.w.reshape(index, (*index.shape, 1)), shape), c.w.broadcast(numbers, shape))


@op("gather.default")
def gather(c, x, dim, index, **_):
    dim %= x.rank
    if [n for d, n in enumerate(index.shape) if d != dim] != [n for d, n in enumerate(x.shape) if d != dim]:
        raise Unsupported("a gather that takes a part of other dimensions")
    if dim != x.rank - 1:
        return c.w.swap(gather(c, c.w.swap(x, dim, -1), -1, c.w.swap(index, dim, -1)), dim, -1)
    index = c.w.cast(index, "i32")
    shape = (*index.shape, x.shape[-1])
    wide = c.w.broadcast(c.w.reshape(x, (*x.shape[:-1], 1, x.shape[-1])), shape)
    kept = c.w.select(chosen(c, index, x.shape[-1]), wide, c.w.constant(0, shape, x.dtype))
    return c.w.reduce("sum", kept, [len(shape) - 1])


@op("scatter.value")
def scatter_number(c, x, dim, index, value):
    """The number at the elements that are named, along the last dimension."""
    if dim % x.rank != x.rank - 1 or index.rank != x.rank or index.shape[:-1] != x.shape[:-1]:
        raise Unsupported("a scatter along another dimension than the last")
    named = chosen(c, c.w.cast(index, "i32"), x.shape[-1])
    is_named = c.w.reduce("max", c.w.cast(named, x.dtype), [index.rank - 1])
    is_named = c.w.compare("gt", is_named, c.w.constant(0.0, x.shape, x.dtype))
    return c.w.select(is_named, c.w.constant(value, x.shape, x.dtype), x)


@op("one_hot.default")
def one_hot(c, index, classes=-1):
    return c.w.cast(chosen(c, c.w.cast(index, "i32"), c.shape[-1]), c.dtype)


@op("histc.default")
def histogram(c, x, bins=100, min=0, max=0):
    """Of whole numbers, one bin each: how often each class is chosen."""
    if min != 0 or max not in (bins - 1, bins):
        raise Unsupported("a histogram but of whole numbers from 0 on, one bin each")
    flat = c.w.reshape(c.w.cast(x, "i32"), (product(x.shape),))
    return c.w.reduce("sum", c.w.cast(chosen(c, flat, bins), c.dtype), [0])


@op("topk.default")
def topk(c, x, k, dim=-1, largest=True, sorted=True):
    if dim % x.rank != x.rank - 1 or not largest:
        raise Unsupported("topk along another dimension than the last, or of the smallest")
    shape = (*x.shape[:-1], k)
    return c.w.many(f"top_k {x.name} k {k} : {x.type}", [(shape, x.dtype), (shape, "i32")])


@op("convolution.default", "conv1d.default", "conv1d.padding")
def convolution(c, x, weight, bias=None, stride=(1,), padding=(0,), dilation=(1,), *rest):
    """Of one dimension, each channel alone: what state-space models and hybrids have before their mixers."""
    groups = rest[-1] if rest else 1
    if x.rank != 3 or groups != x.shape[1] or weight.shape[:2] != (groups, 1) or tuple(stride) != (1,):
        raise Unsupported("a convolution but one of one dimension, each channel alone, without stride")
    pads = [padding[0]] * 2 if not isinstance(padding, str) else [0, 0]
    x = c.w.pad(x, [0, 0, pads[0]], [0, 0, pads[1]])
    y = None
    for tap in range(weight.shape[2]):
        part = c.w.slice(x, 2, tap * dilation[0], c.shape[2])
        factor = c.w.reshape(c.w.slice(weight, 2, tap, 1), (groups, 1))
        term = c.w.binary("mul", part, factor)
        y = term if y is None else c.w.binary("add", y, term)
    return y if bias is None else c.w.binary("add", y, c.w.reshape(bias, (groups, 1)))


# Layers


def last_dimension(shape):
    if len(shape) != 1:
        raise Unsupported(f"a norm over {len(shape)} dimensions")


def layer_like(c, name, x, gain, bias, eps):
    gain = c.w.constant(1.0, x.shape[-1:], x.dtype) if gain is None else gain
    with_bias = f" bias {bias.name}" if bias is not None else ""
    types = ", ".join(v.type for v in (x, gain, bias) if v is not None)
    text = f"{name} {x.name}, {gain.name}{with_bias} eps {number(eps, 'f64')} : {types}"
    return c.w.emit(text, x.shape, x.dtype)


@op("layer_norm.default")
def layer_norm(c, x, shape, gain=None, bias=None, eps=1e-5, *_):
    last_dimension(shape)
    if gain is None and bias is not None:
        raise Unsupported("a layer norm with a bias and no gain")
    return layer_like(c, "layer_norm", x, gain, bias, eps)


@op("rms_norm.default")
def rms_norm(c, x, shape, gain=None, eps=None):
    last_dimension(shape)
    return layer_like(c, "rms_norm", x, gain, None, torch.finfo(torch.float32).eps if eps is None else eps)


def module_name(c):
    """Name of the innermost module that the node belongs to: `h.3.attn.dropout`."""
    stack = list((c.node.meta.get("nn_module_stack") or {}).values())
    return stack[-1][0].removeprefix("L['self'].").removeprefix("module.") if stack else c.node.name


@op("native_dropout.default")
def native_dropout(c, x, rate, train=True):
    return dropout(c, x, rate, train is not False), None


@op("dropout.default")
def dropout(c, x, rate, train=True):
    if not train or rate == 0:
        return x
    seed, step = c.inputs("seed"), c.inputs("step")
    name = c.drop_name()
    text = f'dropout {x.name} rate {number(rate, "f64")} "{name}" seed {seed} step {step} : {x.type}'
    return c.w.emit(text, x.shape, x.dtype)


@op("scaled_dot_product_attention.default")
def attention(c, q, k, v, mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    lead = q.shape[:-3]
    if q.rank != 4 or k.rank != 4:
        if lead:
            raise Unsupported(f"attention of {q.rank} dimensions")
        q, k, v = (c.w.reshape(x, (1,) * (4 - x.rank) + x.shape) for x in (q, k, v))
    if k.shape[0] != q.shape[0]:
        k, v = (c.w.broadcast(x, (q.shape[0], *x.shape[1:])) for x in (k, v))
    scale = scale if scale is not None else 1 / math.sqrt(q.shape[-1])
    if mask is not None:
        return c.w.reshape(masked_attention(c, q, k, v, mask, dropout_p, scale), c.shape)
    q, k, v = (c.w.swap(x, 1, 2) for x in (q, k, v))
    words = " causal" * is_causal + f" scale {number(scale, 'f64')}"
    if dropout_p > 0:
        words += f' dropout {number(dropout_p, "f64")} "{c.drop_name()}"'
        words += f" seed {c.inputs('seed')} step {c.inputs('step')}"
    shape = (*q.shape[:3], v.shape[3])
    y = c.w.emit(f"attention {q.name}, {k.name}, {v.name}{words} : {q.type}, {k.type}, {v.type}", shape, q.dtype)
    return c.w.reshape(c.w.swap(y, 1, 2), c.shape)


def masked_attention(c, q, k, v, mask, dropout_p, scale):
    """The formula; `kerf-import` raises it to the op where the mask is a known function of positions."""
    group = q.shape[1] // k.shape[1]
    if group > 1:
        k, v = (repeat_heads(c, x, group) for x in (k, v))
    scores = c.w.matmul(q, c.w.swap(k, -1, -2))
    scores = c.w.binary("mul", scores, c.value(scale, q.dtype))
    mask = c.w.broadcast(mask, scores.shape)
    if mask.dtype == "i1":
        scores = c.w.select(mask, scores, c.w.constant(-math.inf, scores.shape, scores.dtype))
    else:
        scores = c.w.binary("add", scores, mask)
    weights = c.w.emit(f"softmax {scores.name} : {scores.type}", scores.shape, scores.dtype)
    return c.w.matmul(dropout(c, weights, dropout_p), v)


def repeat_heads(c, x, count):
    batch, heads, *rest = x.shape
    wide = c.w.broadcast(c.w.reshape(x, (batch, heads, 1, *rest)), (batch, heads, count, *rest))
    return c.w.reshape(wide, (batch, heads * count, *rest))


# Loss


@op("cross_entropy_loss.default")
def cross_entropy(c, logits, targets, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    if weight is not None or label_smoothing or reduction not in (1, 2):
        raise Unsupported("a cross entropy with weights of classes, label smoothing or without reduction")
    if targets.dtype != "i32" or logits.rank != targets.rank + 1:
        raise Unsupported("a cross entropy whose targets are not numbers of classes in the last dimension")
    if logits.rank > 2:  # classes come second in PyTorch
        logits = c.w.transpose(logits, [0, *range(2, logits.rank), 1])
    ignore = f" ignore {ignore_index}" if ignore_index != -100 else ""
    if reduction == 1:
        count = c.w.emit(f"count_valid {targets.name}{ignore} : {targets.type}", (), "f32", "count")
    else:
        count = c.w.constant(1.0)
    text = f"cross_entropy {logits.name}, {targets.name} normalizer {count.name}{ignore} : {logits.type}, {targets.type}"
    return c.w.emit(text, (), "f32", "loss")
