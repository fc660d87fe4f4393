"""Ops that give the same elements another shape, or take some of them."""

from .elements import where
from .ops import Unsupported, op
from .text import Value

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
    is_trained = c.node.meta.get("depends_on_weights") and x.dtype == "f32" and x.splat is None
    return c.w.unary("stop_gradient", x) if is_trained else x


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


def every(w, x, dim, start, step, count):
    """`count` elements along a dimension, every `step`-th from `start` on."""
    part = w.slice(x, dim, start, (count - 1) * step + 1)
    if step == 1:
        return part
    rest = [step - 1 if d == dim else 0 for d in range(x.rank)]
    rows = w.reshape(w.pad(part, [0] * x.rank, rest), (*x.shape[:dim], count, step, *x.shape[dim + 1 :]))
    return w.reshape(w.slice(rows, dim + 1, 0, 1), (*x.shape[:dim], count, *x.shape[dim + 1 :]))


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
        return every(c.w, x, dim, start, step, c.shape[dim])
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
    for d in range(x.rank):  # negative ones slice
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
