"""Ops over windows of neighbors: convolutions, pooling, and windows as a dimension of their own.

Each is written tap by tap: what the place of a window that a tap stands for reads of the padded input, for all windows
at once.
"""

from functools import reduce
from itertools import product as places_of

from .ops import Unsupported, op
from .shapes import every
from .text import product

MOST_TAPS = 256  # ops are written for each


def per_place(numbers, count):
    """One number a place: PyTorch repeats a single one."""
    numbers = [numbers] if isinstance(numbers, int) else list(numbers)
    return numbers * count if len(numbers) == 1 else numbers


class Windows:
    """Windows over the last dimensions of `x`: their size, stride, padding and dilation, a number a place."""

    def __init__(self, c, x, size, stride, padding, dilation=(1,)):
        places = len(size)
        self.c, self.x, self.size, self.first = c, x, list(size), x.rank - places
        self.stride = per_place(stride, places) or self.size
        self.dilation = per_place(dilation, places)
        reach = [(n - 1) * d for n, d in zip(self.size, self.dilation)]
        if padding == "same":
            self.low = [n // 2 for n in reach]
            self.high = [n - low for n, low in zip(reach, self.low)]
        else:
            self.low = self.high = [0] * places if padding == "valid" else per_place(padding, places)
        shape = [a + n + b for a, n, b in zip(self.low, x.shape[self.first :], self.high)]
        self.count = [(n - r - 1) // s + 1 for n, r, s in zip(shape, reach, self.stride)]
        if product(self.size) > MOST_TAPS:
            raise Unsupported(f"a window of {product(self.size)} places")

    def taps(self, fill=0.0):
        """(tap, what it reads [..., windows...]), the padding being `fill`."""
        w, front = self.c.w, [0] * self.first
        padded = w.pad(self.x, front + self.low, front + self.high)
        if fill and padded is not self.x:
            inside = w.pad(w.constant(1.0, self.x.shape, self.x.dtype), front + self.low, front + self.high)
            is_inside = w.compare("gt", inside, w.constant(0.0, padded.shape, inside.dtype))
            padded = w.select(is_inside, padded, w.constant(fill, padded.shape, self.x.dtype))
        for tap in places_of(*(range(n) for n in self.size)):
            part = padded
            for d, at in enumerate(tap):
                part = every(w, part, self.first + d, at * self.dilation[d], self.stride[d], self.count[d])
            yield tap, part


@op("conv1d.default", "conv1d.padding", "conv2d.default", "conv2d.padding")
def convolution(c, x, weight, bias=None, stride=(1,), padding=(0,), dilation=(1,), groups=1):
    outputs, inputs, *size = weight.shape
    if x.rank != weight.rank:
        raise Unsupported("a convolution of one sequence without a batch")
    windows = Windows(c, x, size, stride, padding, dilation)
    w, ones, y = c.w, (1,) * len(size), None
    for tap, part in windows.taps():
        taken = weight
        for d, at in enumerate(tap):
            taken = w.slice(taken, 2 + d, at, 1)
        if inputs == 1 and outputs == groups:
            term = w.binary("mul", part, w.reshape(taken, (outputs, *ones)))
        elif groups == 1:
            rows = w.transpose(part, [0, *range(2, x.rank), 1])
            rows = w.linear(rows, w.reshape(taken, (outputs, inputs)))
            term = w.transpose(rows, [0, x.rank - 1, *range(1, x.rank - 1)])
        else:
            split = w.reshape(part, (part.shape[0], groups, inputs, *part.shape[2:]))
            taken = w.reshape(taken, (groups, outputs // groups, inputs))
            letters = "xyz"[: len(size)]
            term = w.einsum(f"bgi{letters},goi->bgo{letters}", split, taken)
            term = w.reshape(term, (part.shape[0], outputs, *part.shape[2:]))
        y = term if y is None else w.binary("add", y, term)
    return y if bias is None else w.binary("add", y, w.reshape(bias, (outputs, *ones)))


@op("convolution.default")
def any_convolution(c, x, weight, bias, stride, padding, dilation, transposed, _, groups):
    if transposed:
        raise Unsupported("a transposed convolution")
    return convolution(c, x, weight, bias, stride, padding, dilation, groups)


def without_rest(windows, ceil_mode):
    """A last window that begins inside and ends outside is one more in `ceil_mode`."""
    places = zip(windows.count, windows.size, windows.stride, windows.dilation, windows.low, windows.high)
    for d, (count, size, stride, dilation, low, high) in enumerate(places):
        length = windows.x.shape[windows.first + d]
        if ceil_mode and count * stride < length + low and (count - 1) * stride + (size - 1) * dilation + 1 < length + low + high:
            raise Unsupported("pooling with a window that ends outside (ceil_mode)")
    return windows


@op("max_pool1d.default", "max_pool2d.default")
def largest_of_windows(c, x, size, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
    size = per_place(size, 1 if x.rank == 3 else 2)
    windows = without_rest(Windows(c, x, size, stride, padding, dilation), ceil_mode)
    return reduce(lambda a, b: c.w.binary("max", a, b), [part for _, part in windows.taps(fill=-3.0e38)])


@op("avg_pool1d.default", "avg_pool2d.default")
def mean_of_windows(c, x, size, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True, divisor_override=None):
    size = per_place(size, 1 if x.rank == 3 else 2)
    windows = without_rest(Windows(c, x, size, stride, padding), ceil_mode)
    if not count_include_pad and any(windows.low):
        raise Unsupported("a mean of windows without their padding")
    total = reduce(lambda a, b: c.w.binary("add", a, b), [part for _, part in windows.taps()])
    return c.w.binary("mul", total, c.value(1 / (divisor_override or product(size)), x.dtype))


@op("unfold.default")
def unfold(c, x, dim, size, step):
    """Windows along a dimension; what they have is the last one."""
    dim %= x.rank
    last = c.w.swap(x, dim, -1)
    parts = [c.w.reshape(part, (*part.shape, 1)) for _, part in Windows(c, last, [size], [step], [0]).taps()]
    return c.w.swap(c.w.concat(parts, x.rank), dim, x.rank - 1)


@op("im2col.default")
def columns(c, x, size, dilation=(1,), padding=(0,), stride=(1,)):
    """[batch, channels x places of a window, windows]."""
    windows = Windows(c, x, size, stride, padding, dilation)
    parts = [c.w.reshape(part, (*x.shape[:-2], 1, product(windows.count))) for _, part in windows.taps()]
    return c.w.reshape(c.w.concat(parts, x.rank - 2), c.shape)
