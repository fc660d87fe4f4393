"""Complex numbers, as rotary embeddings use them: a pair of values. They are made of pairs or of angles, multiplied, viewed
and taken apart again."""

from dataclasses import dataclass

from .ops import Unsupported, op
from .text import Value

VIEWS = ("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "expand", "transpose", "permute", "slice", "clone", "alias", "detach")


@dataclass(frozen=True)
class Complex:
    """Real and imaginary parts of one shape."""

    real: Value
    imaginary: Value

    @property
    def shape(self):
        return self.real.shape


def has_complex(args):
    return any(isinstance(a, Complex) for a in args)


def applied(c, name, build, args, kwargs):
    """What an op gives of complex numbers: a view that of each part."""
    word = name.removeprefix("aten.").partition(".")[0]
    if word in ("view_as_real", "_to_copy"):
        return build(c, *args, **kwargs) if word == "view_as_real" else args[0]
    if word == "mul":
        return product(c, *args)
    if word not in VIEWS:
        raise Unsupported("complex numbers but in products and views")
    real, imaginary = (build(c, part(args[0]), *args[1:], **kwargs) for part in (real_of, imaginary_of))
    return Complex(real, imaginary)


def real_of(x):
    return x.real


def imaginary_of(x):
    return x.imaginary


def product(c, a, b):
    def times(x, y):
        return c.w.binary("mul", c.w.broadcast(x, c.shape), c.w.broadcast(y, c.shape))

    if not isinstance(a, Complex):
        a, b = b, a
    if not isinstance(b, Complex):
        factor = c.value(b, a.real.dtype)
        return Complex(times(a.real, factor), times(a.imaginary, factor))
    real = c.w.binary("sub", times(a.real, b.real), times(a.imaginary, b.imaginary))
    return Complex(real, c.w.binary("add", times(a.real, b.imaginary), times(a.imaginary, b.real)))


@op("polar.default")
def polar(c, length, angle):
    cosine, sine = (c.w.unary(name, angle) for name in ("cos", "sin"))
    return Complex(c.w.binary("mul", length, cosine), c.w.binary("mul", length, sine))


@op("view_as_complex.default")
def of_pairs(c, x):
    real, imaginary = (c.w.reshape(c.w.slice(x, x.rank - 1, i, 1), c.shape) for i in range(2))
    return Complex(real, imaginary)


@op("view_as_real.default")
def to_pairs(c, x):
    parts = [c.w.reshape(part, (*x.shape, 1)) for part in (x.real, x.imaginary)]
    return c.w.concat(parts, len(x.shape))
