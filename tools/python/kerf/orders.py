"""Ops that compare elements of a row: the largest, sorting, running products, intervals."""

from .elements import SHARED, log1p, negative
from .layers import LEAST, chosen
from .ops import Unsupported, op
from .text import INTEGERS, product

MOST_SORTED = 8192  # time grows with their square


def turned(c, x, dim, descending):
    """Rows [..., n] of f32 that descend where x does, or ascends; and the way back for values."""
    sign = (lambda v: v) if descending else (lambda v: c.w.unary("neg", v))
    back = lambda v: c.w.cast(c.w.swap(sign(v), dim, -1), x.dtype)
    return sign(c.w.cast(c.w.swap(x, dim, -1), "f32")), back


@op("topk.default")
def topk(c, x, k, dim=-1, largest=True, sorted=True):
    """Values and where they are; of equal ones the first."""
    rows, back = turned(c, x, dim, largest)
    shape = (*rows.shape[:-1], k)
    values, where = c.w.many(f"top_k {rows.name} k {k} : {rows.type}", [(shape, "f32"), (shape, "i32")])
    return back(values), c.w.swap(where, dim, -1)


@op("sort.default", "sort.stable")
def sort(c, x, dim=-1, descending=False, stable=False, **named):
    """By the largest, of which equal ones keep their order."""
    dim, descending = named.get("dim", dim), named.get("descending", descending)
    if x.shape[dim % x.rank] > MOST_SORTED:
        raise Unsupported(f"sorting {x.shape[dim % x.rank]} elements")
    return topk(c, x, x.shape[dim % x.rank], dim, descending)


@op("argsort.default", "argsort.stable")
def argsort(c, x, dim=-1, descending=False, **named):
    return sort(c, x, named.get("dim", dim), named.get("descending", descending))[1]


def extreme(largest):
    """max and min along a dimension: of equal ones the first has the gradient, or where it is is not read, all do."""

    def build(c, x, dim, keepdim=False):
        reads = {user.args[1] for user in c.node.users}
        if 1 in reads:
            return tuple(y if keepdim else c.w.reshape(y, squeezed(x, dim)) for y in topk(c, x, 1, dim, largest))
        sign = (lambda v: v) if largest else (lambda v: negative(c, v))
        return sign(c.w.reduce("max", sign(x), [dim], keepdim)), None

    return build


op("max.dim")(extreme(True))
op("min.dim")(extreme(False))


def squeezed(x, dim):
    return x.shape[: dim % x.rank] + x.shape[dim % x.rank + 1 :]


def place(largest):
    def build(c, x, dim=None, keepdim=False):
        if dim is None:
            x, dim = c.w.reshape(x, (product(x.shape),)), 0
        return c.w.reshape(topk(c, x, 1, dim, largest)[1], c.shape)

    return build


op("argmax.default")(place(True))
op("argmin.default")(place(False))


@op("kthvalue.default")
def kth_least(c, x, k, dim=-1, keepdim=False):
    found = (c.w.slice(y, dim % x.rank, k - 1, 1) for y in topk(c, x, k, dim, False))
    return tuple(y if keepdim else c.w.reshape(y, squeezed(x, dim)) for y in found)


@op("median.dim")
def median(c, x, dim=-1, keepdim=False):
    """The lower of the two in the middle."""
    return kth_least(c, x, (x.shape[dim] + 1) // 2, dim, keepdim)


# Running values


def running(c, x, dim, join, neutral):
    """What `join` gives of all elements up to each, in as many steps as their count has binary digits."""
    dim, step = dim % x.rank, 1
    while step < x.shape[dim]:
        shape = tuple(step if d == dim else n for d, n in enumerate(x.shape))
        before = c.w.concat([c.w.constant(neutral, shape, x.dtype), c.w.slice(x, dim, 0, x.shape[dim] - step)], dim)
        x, step = join(before, x), 2 * step
    return x


@op("cumprod.default")
def running_product(c, x, dim, **_):
    return running(c, c.value(x, c.dtype), dim, lambda a, b: c.w.binary("mul", a, b), 1)


def running_extreme(kind, neutral):
    def build(c, x, dim):
        if x.dtype in INTEGERS or any(user.args[1] == 1 for user in c.node.users):
            raise Unsupported("where a running maximum or minimum is, or one of whole numbers")
        return running(c, x, dim, lambda a, b: c.w.binary(kind, b, a), neutral), None

    return build


op("cummax.default")(running_extreme("max", LEAST))
op("cummin.default")(running_extreme("min", -LEAST))


@op("logaddexp.default")
def log_of_sum(c, a, b):
    a, b = c.w.together(a, b)
    gap = c.w.unary("neg", c.w.binary("sub", c.w.binary("max", a, b, SHARED), c.w.binary("min", a, b, SHARED)))
    return c.w.binary("add", c.w.binary("max", a, b, SHARED), log1p(c, c.w.unary("exp", gap)))


@op("logcumsumexp.default")
def running_log_of_sum(c, x, dim):
    return running(c, x, dim, lambda a, b: log_of_sum(c, a, b), LEAST / 4)  # half of the range, so that gaps are finite


# Intervals


@op("bucketize.Tensor", "searchsorted.Tensor")
def interval(c, first, second, right=False, **named):
    """How many bounds, sorted along one dimension, are below each value; those that it equals, too, with `right`."""
    is_search = "searchsorted" in c.node.target._overloadpacket._qualified_op_name
    x, bounds = (second, first) if is_search else (first, second)
    if named.get("side") not in (None, "left", "right") or named.get("sorter") is not None or bounds.rank != 1:
        raise Unsupported("bounds of more than one dimension, or with an order of their own")
    right = right or named.get("side") == "right"
    wide = (*x.shape, bounds.shape[0])
    x = c.w.broadcast(c.w.reshape(x, (*x.shape, 1)), wide)
    is_below = c.w.compare("le" if right else "lt", c.w.broadcast(bounds, wide), x)
    return c.w.cast(c.w.reduce("sum", c.w.cast(is_below, "f32"), [len(wide) - 1]), "i32")


@op("diagonal.default")
def diagonal(c, x, offset=0, dim1=0, dim2=1):
    """Put last, as PyTorch does."""
    dims = [d for d in range(x.rank) if d not in (dim1 % x.rank, dim2 % x.rank)]
    x = c.w.transpose(x, [*dims, dim1, dim2])
    count = c.shape[-1]
    x = c.w.slice(c.w.slice(x, x.rank - 2, max(-offset, 0), count), x.rank - 1, max(offset, 0), count)
    on = c.w.broadcast(chosen(c, c.w.iota((count,), 0), count), x.shape)
    return c.w.reduce("sum", c.w.select(on, x, c.w.constant(0, x.shape, x.dtype)), [x.rank - 1])
