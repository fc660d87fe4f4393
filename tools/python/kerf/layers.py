"""Ops that sum, multiply, look up and normalize; attention."""

import math

import torch

from .elements import absolute, raised, scaled, square
from .ops import Unsupported, op
from .text import number, product, type_of

LEAST = -3.0e38  # of numbers that are compared

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


def root(c, x):
    """Of a sum of squares, with slope 0 at 0."""
    is_zero = c.w.compare("eq", x, c.value(0.0, x.dtype))
    y = c.w.unary("sqrt", c.w.select(is_zero, c.value(1.0, x.dtype), x))
    return c.w.select(is_zero, c.value(0.0, x.dtype), y)


@op("std.correction", "std.dim")
def deviation(c, x, dims=None, correction=1, keepdim=False, **named):
    return root(c, variance(c, x, dims, correction, keepdim, **named))


@op("linalg_vector_norm.default")
def vector_norm(c, x, order=2, dims=None, keepdim=False, **_):
    dims = dims_of(x, dims)
    size = absolute(c, x)
    if abs(order) == math.inf:
        return largest(c, size, dims, keepdim) if order > 0 else smallest(c, size, dims, keepdim)
    if order == 0:
        size = c.w.cast(c.w.compare("ne", x, c.value(0.0, x.dtype)), x.dtype)
    elif order == 2:
        return root(c, c.w.reduce("sum", square(c, x), dims, keepdim))
    elif order != 1:
        total = c.w.reduce("sum", raised(c, size, order), dims, keepdim)
        return raised(c, total, 1 / order)
    return c.w.reduce("sum", size, dims, keepdim)


@op("amax.default", "max.default")
def largest(c, x, dims=None, keepdim=False):
    return c.w.reduce("max", x, dims_of(x, dims), keepdim)


@op("prod.dim_int", "prod.default")
def multiplied(c, x, dim=None, keepdim=False, **_):
    """Halves times halves, so that each factor has its gradient."""
    x = c.value(x, c.dtype)
    if dim is None:
        x, dim = c.w.reshape(x, (product(x.shape),)), 0
    dim %= x.rank
    if x.shape[dim] > 1024:
        raise Unsupported(f"a product of {x.shape[dim]} factors")
    while (size := x.shape[dim]) > 1:
        half = size // 2
        y = c.w.binary("mul", c.w.slice(x, dim, 0, half), c.w.slice(x, dim, half, half))
        x = c.w.concat([y, c.w.slice(x, dim, size - 1, 1)], dim) if size % 2 else y
    return c.w.reshape(x, c.shape)


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
    y = softmax_of(c, x)
    return y if last else c.w.swap(y, dim, -1)


def softmax_of(c, rows):
    return c.w.emit(f"softmax {rows.name} : {rows.type}", rows.shape, rows.dtype)


def safe_softmax(c, rows):
    """A row of which nothing is finite is zero, and not 0 / 0."""
    zero = c.value(0.0, rows.dtype)
    has_any = c.w.compare("gt", c.w.reduce("max", rows, [rows.rank - 1], True), c.value(LEAST, rows.dtype))
    return c.w.select(has_any, softmax_of(c, c.w.select(has_any, rows, zero)), zero)


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
    """With its result, as numpy would have it, and with letters for the dots."""
    if "->" not in equation:
        once = sorted(letter for letter in set(equation) if letter.isalpha() and equation.count(letter) == 1)
        equation = f"{equation}->{'...' * ('...' in equation)}{''.join(once)}"
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


def summed(c, term, value, kept):
    """Without the dimensions that nobody else has: sums over them."""
    lone = [d for d, letter in enumerate(term) if letter not in kept]
    return "".join(letter for letter in term if letter in kept), c.w.reduce("sum", value, lone)


def contracted(c, first, second, kept):
    """The einsum of two operands (letters, value) whose result has the letters that are kept, in their order."""
    (a, x), (b, y) = summed(c, *first, second[0] + kept), summed(c, *second, first[0] + kept)
    out = "".join(letter for letter in kept if letter in a + b)
    letters = {letter: chr(ord("a") + i) for i, letter in enumerate(dict.fromkeys(a + b))}
    named = ["".join(letters[letter] for letter in term) for term in (a, b, out)]
    return out, c.w.einsum(f"{named[0]},{named[1]}->{named[2]}", x, y)


def without_stretched(c, terms, values):
    """Operands (letters, value) without dimensions of size 1 that are longer in others."""
    long = {letter for term, v in zip(terms, values) for letter, size in zip(term, v.shape) if size > 1}
    operands = []
    for term, v in zip(terms, values):
        kept = [(letter, size) for letter, size in zip(term, v.shape) if size > 1 or letter not in long]
        operands.append(("".join(letter for letter, _ in kept), c.w.reshape(v, [size for _, size in kept])))
    return operands


@op("einsum.default")
def einsum(c, equation, values, **_):
    """From left to right."""
    equation = spelled_out(equation.replace(" ", ""), [v.rank for v in values])
    terms, out = equation.split("->")
    terms = terms.split(",")
    if any(len(set(term)) < len(term) for term in terms):
        raise Unsupported(f"a diagonal, in the einsum {equation!r}")
    operands = without_stretched(c, terms, values)
    while len(operands) > 1:
        first, second, *rest = operands
        later = "".join(dict.fromkeys("".join(term for term, _ in rest)))
        kept = out + "".join(letter for letter in later if letter not in out)
        operands = [contracted(c, first, second, kept), *rest]
    term, y = summed(c, *operands[0], out)
    return c.w.transpose(y, [term.index(letter) for letter in out])


# Rows by index


@op("embedding.default")
def embedding(c, table, ids, padding_idx=-1, scale_grad_by_freq=False, *_, **named):
    if scale_grad_by_freq or named.get("scale_grad_by_freq"):
        raise Unsupported("an embedding whose gradient is scaled by how often a token is there")
    padding = f" padding {padding_idx}" if padding_idx >= 0 else ""
    ids = c.w.cast(ids, "i32")
    return c.w.emit(f"embedding {ids.name}, {table.name}{padding} : {ids.type}, {table.type}", c.shape, table.dtype)


@op("index.Tensor", "index_select.default", "_unsafe_index.Tensor")
def rows(c, x, indices, *rest):
    if isinstance(indices, int):  # index_select(x, dim, index)
        indices = [None] * indices + [rest[0]]
    given = {d: index for d, index in enumerate(indices) if index is not None}
    if any(index.dtype == "i1" for index in given.values()):
        raise Unsupported("an index by truth values, whose result has no known size: use torch.where")
    dims = list(given)
    front = [*dims, *(d for d in range(x.rank) if d not in given)]
    table, index = c.w.transpose(x, front), joined(c.w, [c.w.cast(i, "i32") for i in given.values()], [x.shape[d] for d in dims])
    table = c.w.reshape(table, (product(x.shape[d] for d in dims), *table.shape[len(dims) :]))
    shape = (*index.shape, *table.shape[1:])
    y = c.w.emit(f"gather {table.name}, {index.name} : {table.type}, {index.type}", shape, x.dtype)
    lead = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0  # dimensions that are apart come first
    back = [index.rank + d for d in range(lead)] + list(range(index.rank)) + list(range(index.rank + lead, y.rank))
    return c.w.transpose(y, back)


def joined(w, indices, sizes):
    """Of indices into several dimensions, those into all of them as one."""
    index = indices[0]
    for inner, size in zip(indices[1:], sizes[1:]):
        index = w.binary("add", w.binary("mul", index, w.constant(size, (), "i32")), inner)
    return index


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


def named_by(c, x, dim, index):
    """Truth values: which elements of the last dimension each index names, and which of x any of them does."""
    if dim % x.rank != x.rank - 1 or index.rank != x.rank or index.shape[:-1] != x.shape[:-1]:
        raise Unsupported("a scatter along another dimension than the last")
    named = chosen(c, c.w.cast(index, "i32"), x.shape[-1])
    some = c.w.reduce("max", c.w.cast(named, x.dtype), [index.rank - 1])
    return named, c.w.compare("gt", some, c.w.constant(0.0, x.shape, x.dtype))


@op("scatter.value")
def scatter_number(c, x, dim, index, value):
    """The number at the elements that are named, along the last dimension."""
    _, some = named_by(c, x, dim, index)
    return c.w.select(some, c.w.constant(value, x.shape, x.dtype), x)


@op("scatter.src")
def scatter(c, x, dim, index, source):
    """The source's elements at those that are named, each once: PyTorch does not say which of several stays."""
    named, some = named_by(c, x, dim, index)
    if source.shape != index.shape:
        raise Unsupported("a scatter of a part of its source")
    wide = c.w.broadcast(c.w.reshape(source, (*source.shape, 1)), named.shape)
    kept = c.w.select(named, wide, c.w.constant(0.0, named.shape, x.dtype))
    return c.w.select(some, c.w.reduce("sum", kept, [index.rank - 1]), x)


@op("index_add.default")
def rows_added(c, x, dim, index, source, alpha=1):
    """Rows added to those that the index names, as often as it does."""
    front = [dim % x.rank, *(d for d in range(x.rank) if d != dim % x.rank)]
    rows = c.w.transpose(source, front)
    index = c.w.reshape(c.w.cast(index, "i32"), (rows.shape[0],))
    shape = tuple(x.shape[d] for d in front)
    text = f"scatter_add {rows.name}, {index.name} : {rows.type}, {index.type} -> {type_of(shape, x.dtype)}"
    y = c.w.transpose(c.w.emit(text, shape, x.dtype), [front.index(d) for d in range(x.rank)])
    return c.w.binary("add", x, y if alpha == 1 else c.w.binary("mul", y, c.value(alpha, x.dtype)))


@op("scatter_add.default")
def scatter_added(c, x, dim, index, source):
    """The source's elements added to those that are named, along the last dimension."""
    if source.shape != index.shape:
        raise Unsupported("a scatter of a part of its source")
    if x.rank == 1:
        return rows_added(c, x, 0, index, source)
    named, _ = named_by(c, x, dim, index)
    wide = c.w.broadcast(c.w.reshape(source, (*source.shape, 1)), named.shape)
    kept = c.w.select(named, wide, c.w.constant(0.0, named.shape, x.dtype))
    return c.w.binary("add", x, c.w.reduce("sum", kept, [index.rank - 1]))


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


@op("flip.default")
def flip(c, x, dims):
    for dim in {d % x.rank for d in dims}:
        last = c.w.constant(x.shape[dim] - 1, (), "i32")
        x = rows(c, x, dim, c.w.binary("sub", last, c.w.iota((x.shape[dim],), 0)))
    return x


# Layers


def layer_like(c, name, x, gain, bias, eps, count=1):
    """A norm over the last `count` dimensions."""
    if count != 1:
        flat = lambda v: v and c.w.reshape(v, (*v.shape[: v.rank - count], product(v.shape[v.rank - count :])))
        return c.w.reshape(layer_like(c, name, flat(x), flat(gain), flat(bias), eps), x.shape)
    gain = c.w.constant(1.0, x.shape[-1:], x.dtype) if gain is None else gain
    with_bias = f" bias {bias.name}" if bias is not None else ""
    types = ", ".join(v.type for v in (x, gain, bias) if v is not None)
    text = f"{name} {x.name}, {gain.name}{with_bias} eps {number(eps, 'f64')} : {types}"
    return c.w.emit(text, x.shape, x.dtype)


@op("layer_norm.default")
def layer_norm(c, x, shape, gain=None, bias=None, eps=1e-5, *_):
    return layer_like(c, "layer_norm", x, gain, bias, eps, len(shape))


@op("rms_norm.default")
def rms_norm(c, x, shape, gain=None, eps=None):
    return layer_like(c, "rms_norm", x, gain, None, torch.finfo(torch.float32).eps if eps is None else eps, len(shape))


@op("group_norm.default")
def group_norm(c, x, groups, gain=None, bias=None, eps=1e-5, *_):
    """Channels come second."""
    flat = c.w.reshape(x, (x.shape[0], groups, product(x.shape[1:]) // groups))
    return by_channel(c, c.w.reshape(layer_like(c, "layer_norm", flat, None, None, eps), x.shape), gain, bias)


def by_channel(c, x, gain, bias):
    shape = (x.shape[1], *(1 for _ in x.shape[2:]))
    if gain is not None:
        x = c.w.binary("mul", x, c.w.reshape(gain, shape))
    return x if bias is None else c.w.binary("add", x, c.w.reshape(bias, shape))


@op("_native_batch_norm_legit.no_stats")
def batch_norm(c, x, gain, bias, training, momentum, eps):
    """Over all but the channels; what is kept for gradients nobody reads."""
    dims = [d for d in range(x.rank) if d != 1]
    average = lambda v: scaled(c, c.w.reduce("sum", v, dims, True), x.shape[1] / product(x.shape))
    centre = c.w.binary("sub", x, average(x))
    scale = c.w.unary("rsqrt", c.w.binary("add", average(square(c, centre)), c.value(eps, "f32")))
    return by_channel(c, c.w.binary("mul", centre, scale), gain, bias), None, None


@op("_native_batch_norm_legit_no_training.default")
def batch_norm_of_known(c, x, gain, bias, centre, variance, momentum, eps):
    """With the mean and variance that the module has."""
    shape = (x.shape[1], *(1 for _ in x.shape[2:]))
    scale = c.w.unary("rsqrt", c.w.binary("add", variance, c.value(eps, "f32")))
    y = c.w.binary("mul", c.w.binary("sub", x, c.w.reshape(centre, shape)), c.w.reshape(scale, shape))
    return by_channel(c, y, gain, bias), None, None


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


@op("bernoulli.p", "bernoulli_.float")
def bernoulli(c, x, kept=0.5, **_):
    """Ones and zeros: what is left of ones."""
    ones = c.w.constant(1.0, x.shape, x.dtype)
    return dropout(c, ones, 1 - kept) if kept in (0, 1) else scaled(c, dropout(c, ones, 1 - kept), kept)


@op("bernoulli.default")
def bernoulli_of(c, kept):
    if kept.splat is None:
        raise Unsupported("bernoulli of probabilities that differ")
    return bernoulli(c, kept, kept.splat)


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
    given = c.node.args[3] if len(c.node.args) > 3 else c.node.kwargs["attn_mask"]
    is_data = given.meta.get("depends_on_inputs")
    weights = safe_softmax(c, scores) if is_data else softmax_of(c, scores)
    return c.w.matmul(dropout(c, weights, dropout_p), v)


def repeat_heads(c, x, count):
    batch, heads, *rest = x.shape
    wide = c.w.broadcast(c.w.reshape(x, (batch, heads, 1, *rest)), (batch, heads, count, *rest))
    return c.w.reshape(wide, (batch, heads * count, *rest))
