"""Ops of elements, and where tensors begin: arithmetic, functions, truth, ranges."""

import math

from .ops import Unsupported, common, op
from .text import INTEGERS, Value

# Element by element


def arithmetic(name):
    def build(c, a, b, **scaled):
        if scaled.get("alpha", 1) != 1:
            b = c.w.binary("mul", c.value(b, c.dtype), c.value(scaled["alpha"], c.dtype))
        if c.dtype == "i1":
            raise Unsupported("arithmetic of truth values")
        return c.w.broadcast(c.w.binary(name, c.value(a, c.dtype), c.value(b, c.dtype)), c.shape)

    return build


for _name in ("add", "sub", "mul"):
    op(f"{_name}.Tensor", f"{_name}.Scalar", f"{_name}_.Tensor")(arithmetic(_name))


# Where two are equal, `kerf.max` and `kerf.min` hand the gradient to the left one, or share it.
SHARED = "share_ties"


def choice(name):
    def build(c, a, b):
        if c.dtype == "i1":
            raise Unsupported("an order of truth values")
        a, b = c.value(a, c.dtype), c.value(b, c.dtype)
        return c.w.broadcast(c.w.binary(name, a, b, "" if c.dtype in INTEGERS else SHARED), c.shape)

    return build


op("maximum.default")(choice("max"))
op("minimum.default")(choice("min"))


@op("mul.Tensor", "mul.Scalar", "mul_.Tensor")
def multiply(c, a, b):
    return both(c, a, b) if c.dtype == "i1" else arithmetic("mul")(c, a, b)


@op("rsub.Scalar", "rsub.Tensor")
def reverse_subtract(c, a, b, alpha=1):
    return arithmetic("sub")(c, b, a if alpha == 1 else c.w.binary("mul", a, c.value(alpha, a.dtype)))


@op("div.Tensor", "div.Scalar", "div_.Tensor", "true_divide.Tensor")
def divide(c, a, b):
    if not isinstance(b, Value) and math.frexp(b)[0] == 0.5:  # a product is cheaper, and so is its gradient
        return arithmetic("mul")(c, a, 1 / b)
    return arithmetic("div")(c, a, b)


@op("div.Tensor_mode", "div.Scalar_mode", "floor_divide.default")
def divide_whole(c, a, b, rounding_mode="floor"):
    if rounding_mode is None:
        return divide(c, a, b)
    if c.dtype not in INTEGERS:
        rounded = {"floor": floor, "trunc": truncate}[rounding_mode]
        return c.full(rounded(c, c.w.binary("div", c.value(a, c.dtype), c.value(b, c.dtype))))
    whole = isinstance(b, int) and b > 0 and isinstance(a, Value) and a.dtype in INTEGERS
    if not whole or c.dtype not in INTEGERS:
        raise Unsupported(f"division with rounding_mode={rounding_mode!r} by what is no known whole number above 0")
    b = c.value(b, c.dtype)
    if rounding_mode == "floor":
        return c.full(c.w.binary("div", a, b))
    nearer = c.w.binary("div", absolute(c, a), b)
    is_below = c.w.compare("lt", a, c.w.constant(0, a.shape, a.dtype))
    return c.full(c.w.select(is_below, negative(c, nearer), nearer))


@op("remainder.Scalar", "remainder.Tensor")
def remainder(c, a, b):
    if c.dtype not in INTEGERS:
        return rest(c, a, b, floor)
    whole = isinstance(b, int) and b > 0 and isinstance(a, Value) and a.dtype in INTEGERS
    if not whole:
        raise Unsupported("a remainder of what is not positions by a whole number")
    quotient = c.w.binary("div", a, c.value(b, c.dtype))
    return c.w.binary("sub", a, c.w.binary("mul", quotient, c.value(b, c.dtype)))


def rest(c, a, b, rounded):
    a, b = c.value(a, c.dtype), c.value(b, c.dtype)
    return c.w.binary("sub", a, c.w.binary("mul", rounded(c, c.w.binary("div", a, b)), b))


@op("fmod.Scalar", "fmod.Tensor")
def truncated_remainder(c, a, b):
    """With the sign of the dividend."""
    if c.dtype not in INTEGERS:
        return rest(c, a, b, truncate)
    return c.w.binary("mul", remainder(c, absolute(c, a), b), sign(c, a))


def function(name):
    return lambda c, x: c.w.unary(name, c.value(x, c.dtype))


@op("neg.default", "neg_.default")
def negative(c, x):
    return c.w.binary("sub", c.w.constant(0, x.shape, x.dtype), x) if x.dtype in INTEGERS else c.w.unary("neg", x)


for _name in ("exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sin", "cos"):
    op(f"{_name}.default", f"{_name}_.default")(function(_name))
op("sigmoid.default", "sigmoid_.default", "special_expit.default")(function("logistic"))


def scaled(c, x, factor):
    return c.w.binary("mul", x, c.value(factor, x.dtype))


@op("exp2.default")
def exp2(c, x):
    return c.w.unary("exp", scaled(c, c.value(x, c.dtype), math.log(2)))


@op("log2.default")
def log2(c, x):
    return scaled(c, c.w.unary("log", c.value(x, c.dtype)), 1 / math.log(2))


@op("log10.default")
def log10(c, x):
    return scaled(c, c.w.unary("log", c.value(x, c.dtype)), 1 / math.log(10))


@op("tan.default")
def tan(c, x):
    x = c.value(x, c.dtype)
    return c.w.binary("div", c.w.unary("sin", x), c.w.unary("cos", x))


def hyperbolic(kind):
    """Half of what e^x and e^-x give together, or apart."""

    def build(c, x):
        x = c.value(x, c.dtype)
        return scaled(c, c.w.binary(kind, c.w.unary("exp", x), c.w.unary("exp", c.w.unary("neg", x))), 0.5)

    return build


op("sinh.default")(hyperbolic("sub"))
op("cosh.default")(hyperbolic("add"))


@op("atanh.default")
def inverse_tanh(c, x):
    return scaled(c, c.w.binary("sub", log1p(c, x), log1p(c, c.w.unary("neg", x))), 0.5)


@op("erfc.default")
def erfc(c, x):
    """To the precision of numbers near one: where erf is one, this is zero."""
    return c.w.binary("sub", c.value(1.0, c.dtype), c.w.unary("erf", c.value(x, c.dtype)))


@op("sign.default", "sgn.default")
def sign(c, x):
    zero = c.w.constant(0, x.shape, x.dtype)
    above, below = (c.w.cast(c.w.compare(kind, x, zero), x.dtype) for kind in ("gt", "lt"))
    return c.w.binary("sub", above, below)


@op("elu.default")
def elu(c, x, alpha=1.0, scale=1.0, input_scale=1.0):
    """scale x above 0, scale alpha (exp(input_scale x) - 1) below."""
    zero = c.w.constant(0.0, x.shape, x.dtype)
    below = c.w.binary("min", x, zero)  # keeps exp finite where it is not taken
    below = below if input_scale == 1 else scaled(c, below, input_scale)
    below = c.w.binary("sub", c.w.unary("exp", below), c.value(1.0, c.dtype))
    y = c.w.binary("add", relu(c, x), scaled(c, below, alpha))
    return y if scale == 1 else scaled(c, y, scale)


@op("silu.default", "silu_.default")
def silu(c, x):
    return c.w.emit(f"silu {x.name} : {x.type}", x.shape, x.dtype)


@op("gelu.default")
def gelu(c, x, approximate="none"):
    kind = {"none": "exact", "tanh": "tanh"}[approximate]
    return c.w.emit(f"gelu {kind} {x.name} : {x.type}", x.shape, x.dtype)


@op("relu.default", "relu_.default")
def relu(c, x):
    """With slope 0 at 0."""
    return c.w.binary("max", c.w.constant(0.0, x.shape, x.dtype), x)


@op("leaky_relu.default")
def leaky_relu(c, x, negative_slope=0.01):
    scaled = c.w.binary("mul", x, c.w.constant(negative_slope, x.shape, x.dtype))
    return c.w.binary("max" if negative_slope <= 1 else "min", scaled, x)


@op("softplus.default")
def softplus(c, x, beta=1, threshold=20):
    scaled = x if beta == 1 else c.w.binary("mul", x, c.value(beta, x.dtype))
    positive = c.w.binary("max", scaled, c.w.constant(0.0, x.shape, x.dtype), SHARED)
    small = c.w.unary("exp", c.w.unary("neg", absolute(c, scaled)))
    y = c.w.binary("add", positive, c.w.unary("log", c.w.binary("add", small, c.value(1.0, x.dtype))))
    y = y if beta == 1 else c.w.binary("mul", y, c.value(1 / beta, x.dtype))
    if threshold >= 16:  # beyond it f32 has no difference
        return y
    is_linear = c.w.compare("gt", scaled, c.w.constant(float(threshold), x.shape, x.dtype))
    return c.w.select(is_linear, x, y)


@op("abs.default")
def absolute(c, x):
    """With slope 0 at 0."""
    return c.w.binary("max", x, negative(c, x), "" if x.dtype in INTEGERS else SHARED)


@op("expm1.default")
def expm1(c, x):
    """2 t / (1 - t) with t = tanh(x / 2) where e^x - 1 would lose the digits of a small x."""
    x, one = c.value(x, c.dtype), c.value(1.0, c.dtype)
    plain = c.w.binary("sub", c.w.unary("exp", x), one)
    small = bounded(c, x, -0.5, 0.5)
    t = c.w.unary("tanh", scaled(c, small, 0.5))
    return c.w.select(c.w.compare("eq", x, small), c.w.binary("div", scaled(c, t, 2.0), c.w.binary("sub", one, t)), plain)


@op("log1p.default")
def log1p(c, x):
    """log(1 + x), and what the rounding of the sum takes from it."""
    x, one = c.value(x, c.dtype), c.value(1.0, c.dtype)
    y = c.w.binary("add", x, one)
    if not any(c.node.meta.get(source) for source in ("depends_on_weights", "depends_on_inputs")):
        return c.w.unary("log", y)  # of positions
    lost = c.w.binary("sub", x, c.w.binary("sub", y, one))
    return c.w.binary("add", c.w.unary("log", y), c.w.binary("div", lost, y))


@op("floor.default")
def floor(c, x):
    """Of numbers that are whole numbers of 32 bits once they are rounded."""
    if x.dtype not in ("f32", "f64"):
        return x
    nearer_zero = truncate(c, x)
    is_above = c.w.cast(c.w.compare("gt", nearer_zero, x), x.dtype)
    return c.w.binary("sub", nearer_zero, is_above)


@op("trunc.default", "fix.default")
def truncate(c, x):
    return c.w.cast(c.w.cast(x, "i32"), x.dtype)


@op("ceil.default")
def ceil(c, x):
    return c.w.unary("neg", floor(c, c.w.unary("neg", x))) if x.dtype in ("f32", "f64") else x


@op("round.default")
def round_half_even(c, x):
    """Of two whole numbers that are as near the even one."""
    if x.dtype not in ("f32", "f64"):
        return x
    shifted = c.w.binary("add", x, c.value(0.5, x.dtype))
    upper = floor(c, shifted)
    half = floor(c, scaled(c, upper, 0.5))
    is_odd = c.w.binary("sub", upper, scaled(c, half, 2.0))
    is_tie = c.w.cast(c.w.compare("eq", upper, shifted), x.dtype)
    return c.w.binary("sub", upper, c.w.binary("mul", is_odd, is_tie))


@op("frac.default")
def frac(c, x):
    return c.w.binary("sub", x, truncate(c, x))


@op("reciprocal.default")
def reciprocal(c, x):
    return c.w.binary("div", c.value(1.0, c.dtype), c.value(x, c.dtype))


@op("square.default")
def square(c, x):
    return c.w.binary("mul", x, x)


MOST_FACTORS = 1024  # twice as many products as that has binary digits


@op("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(c, x, exponent):
    if not isinstance(exponent, Value) and isinstance(x, Value):
        return raised(c, c.value(x, c.dtype), exponent)
    x, exponent = c.value(x, c.dtype), c.value(exponent, c.dtype)
    if c.node.meta.get("depends_on_weights"):  # a power has no gradient; the base must be above 0
        return c.full(c.w.unary("exp", c.w.binary("mul", exponent, c.w.unary("log", x))))
    return c.full(c.w.binary("pow", x, exponent))


def raised(c, x, exponent):
    """x to the power of a number; of a number that is not whole, zero and slope zero at zero."""
    size = abs(exponent)
    if exponent == 0:
        return c.w.constant(1, x.shape, x.dtype)
    if exponent in (0.5, -0.5):
        return c.w.unary("sqrt" if exponent > 0 else "rsqrt", x)
    if exponent < 0 and size in range(1, MOST_FACTORS + 1):
        return c.w.binary("div", c.value(1.0, x.dtype), product_of(c, x, int(size)))
    if size in range(1, MOST_FACTORS + 1):
        return product_of(c, x, int(size))
    if exponent < 0:
        return c.w.unary("exp", scaled(c, c.w.unary("log", x), exponent))
    is_zero = c.w.compare("eq", x, c.value(0.0, x.dtype))
    inside = c.w.select(is_zero, c.value(1.0, x.dtype), x)
    if exponent - 0.5 in range(1, 17):
        y = c.w.binary("mul", product_of(c, x, int(exponent)), c.w.unary("sqrt", inside))
    else:
        y = c.w.unary("exp", scaled(c, c.w.unary("log", inside), exponent))
    return c.w.select(is_zero, c.value(0.0, x.dtype), y)


def product_of(c, x, count):
    """x times itself, by squares."""
    if count == 1:
        return x
    y = square(c, product_of(c, x, count // 2))
    return c.w.binary("mul", y, x) if count % 2 else y


def bounded(c, x, low=None, high=None):
    """Without a slope at bounds that are numbers; values share it."""

    def choose(name, bound, x):
        flag = SHARED if isinstance(bound, Value) and x.dtype not in INTEGERS else ""
        return x if bound is None else c.w.binary(name, c.value(bound, x.dtype), x, flag)

    return choose("min", high, choose("max", low, c.value(x, c.dtype)))


@op("clamp.default", "clamp_min.default", "clamp.Tensor", "clamp_min.Tensor")
def clamp(c, x, low=None, high=None, **named):
    return bounded(c, x, named.get("min", low), named.get("max", high))


@op("clamp_max.default", "clamp_max.Tensor")
def clamp_max(c, x, high):
    return bounded(c, x, None, high)


@op("hardtanh.default")
def hardtanh(c, x, low=-1.0, high=1.0):
    return bounded(c, x, low, high)


@op("hardsigmoid.default")
def hardsigmoid(c, x):
    return scaled(c, bounded(c, c.w.binary("add", x, c.value(3.0, x.dtype)), 0.0, 6.0), 1 / 6)


@op("hardswish.default", "hardswish_.default")
def hardswish(c, x):
    return c.w.binary("mul", x, hardsigmoid(c, x))


# Truth


def comparison(kind):
    def build(c, a, b):
        dtype = common(a, b)
        return c.w.broadcast(c.w.compare(kind, c.value(a, dtype), c.value(b, dtype)), c.shape)

    return build


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    op(f"{_name}.Tensor", f"{_name}.Scalar")(comparison(_name))


@op("isnan.default")
def is_nan(c, x):
    return c.w.compare("ne", x, x)


def over_truth(kind):
    """Whether any is true, or all are."""

    def build(c, x, dims=None, keepdim=False):
        dims = range(x.rank) if dims is None else [dims] if isinstance(dims, int) else dims
        x = c.w.cast(x if x.dtype == "i1" else c.w.compare("ne", x, c.value(0, x.dtype)), "f32")
        sign = (lambda v: v) if kind == "any" else (lambda v: c.w.unary("neg", v))
        return c.w.compare("ne", sign(c.w.reduce("max", sign(x), dims, keepdim)), c.value(0.0, "f32"))

    return build


for _name in ("any", "all"):
    op(f"{_name}.dim", f"{_name}.dims", f"{_name}.default")(over_truth(_name))


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


@op("full.default", "full_like.default")
def full(c, _, value, *__, **___):
    return c.full(value)


@op("new_full.default")
def new_full(c, _, shape, value, *__, **___):
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
