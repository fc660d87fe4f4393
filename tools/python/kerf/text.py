"""Writes ops of the kerf dialect as text.

A `Value` is what an op gives; a `Writer` holds the lines. Methods of the writer take values and give values,
follow the dialect's rules of shapes, and leave out ops that would change nothing.
"""

import math
import struct
from dataclasses import dataclass

INTEGERS = ("i32",)


@dataclass(frozen=True)
class Value:
    """What an op gives: its name, shape (a tuple) and element type; `splat` is the number that all elements are."""

    name: str
    shape: tuple
    dtype: str
    splat: object = None

    @property
    def type(self):
        return type_of(self.shape, self.dtype)

    @property
    def rank(self):
        return len(self.shape)


def type_of(shape, dtype):
    return f"tensor<{''.join(f'{size}x' for size in shape)}{dtype}>"


def number(value, dtype):
    """A number as MLIR reads it back to the same bits; what is not finite as its bits."""
    if dtype == "i1":
        return "true" if value else "false"
    if dtype in INTEGERS:
        return str(int(value))
    value = float(value)
    if math.isfinite(value):
        text = repr(value)
        mantissa, e, exponent = text.partition("e")
        return mantissa + ("" if "." in mantissa else ".0") + e + exponent
    sign, nan = value < 0, math.isnan(value)
    if dtype == "f64":
        return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"
    if dtype == "f32":
        return f"0x{struct.unpack('>I', struct.pack('>f', value))[0]:08X}"
    infinity = 0x7C00 if dtype == "f16" else 0x7F80
    return f"0x{infinity | (sign << 15) | (0x40 if nan else 0):04X}"


LARGEST_F32 = 3.4028234663852886e38


def is_exact(value, dtype):
    """Whether a type has the number."""
    if dtype != "f32" or not math.isfinite(value):
        return True
    return struct.unpack(">f", struct.pack(">f", value))[0] == value


def dense(values, shape, dtype):
    """The nested lists of a `dense<...>`."""
    if not shape:
        return number(values[0], dtype)
    step = len(values) // shape[0] if shape[0] else 0
    parts = (dense(values[i * step : (i + 1) * step], shape[1:], dtype) for i in range(shape[0]))
    return f"[{', '.join(parts)}]"


def quoted(text):
    """A string as MLIR reads it: what is not plain as its bytes."""
    plain = lambda byte: chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}"
    return '"' + "".join(plain(byte) for byte in text.encode()) + '"'


def product(sizes):
    return math.prod(sizes)


class Writer:
    """Lines of the body of a model; `place` is where in the user's source the next ops come from."""

    def __init__(self):
        self.lines = []
        self.place = None
        self._constants = {}
        self._names = set()

    def fresh(self, hint="v"):
        """A name that no value has."""
        hint = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in hint)
        name, count = hint, 1
        while name in self._names:
            name, count = f"{hint}_{count}", count + 1
        self._names.add(name)
        return f"%{name}"

    def emit(self, text, shape, dtype, hint="v", splat=None):
        """Adds `%name = kerf.TEXT`."""
        value = Value(self.fresh(hint), tuple(shape), dtype, splat)
        self.lines.append(f"  {value.name} = kerf.{text}{self._location()}")
        return value

    def many(self, text, results):
        """Adds `%a, %b = kerf.TEXT`, an op with several results (shape, element type)."""
        values = tuple(Value(self.fresh(), tuple(shape), dtype) for shape, dtype in results)
        self.lines.append(f"  {', '.join(v.name for v in values)} = kerf.{text}{self._location()}")
        return values

    def _location(self):
        if not self.place:
            return ""
        file, line = self.place
        return f" loc({quoted(file)}:{line}:1)"

    # Sources

    def constant(self, value, shape=(), dtype="f32"):
        """A tensor whose elements are all `value`."""
        if dtype == "f32" and math.isfinite(value):
            value = max(-LARGEST_F32, min(value, LARGEST_F32))
        key = (repr(value), tuple(shape), dtype)
        if key not in self._constants and not is_exact(value, dtype):
            # As the user wrote it; the type of training rounds it.
            wide = self.constant(value, shape, "f64")
            text = f"cast {wide.name} : {wide.type} -> {type_of(shape, dtype)}"
            self._constants[key] = self.emit(text, shape, dtype, "c", splat=value)
        if key not in self._constants:
            text = f"constant dense<{number(value, dtype)}> : {type_of(shape, dtype)}"
            self._constants[key] = self.emit(text, shape, dtype, "c", splat=value)
        return self._constants[key]

    def table(self, values, shape, dtype):
        """A tensor of the listed elements, row by row."""
        if not all(is_exact(value, dtype) for value in values):
            return self.cast(self.table(values, shape, "f64"), dtype)
        return self.emit(f"constant dense<{dense(values, shape, dtype)}> : {type_of(shape, dtype)}", shape, dtype, "c")

    def iota(self, shape, dim):
        return self.emit(f"iota dim {dim} : {type_of(shape, 'i32')}", shape, "i32", "i")

    # Shapes

    def reshape(self, x, shape):
        shape = tuple(shape)
        if shape == x.shape:
            return x
        if x.splat is not None:
            return self.constant(x.splat, shape, x.dtype)
        return self.emit(f"reshape {x.name} : {x.type} -> {type_of(shape, x.dtype)}", shape, x.dtype)

    def transpose(self, x, perm):
        perm = [p % x.rank for p in perm]
        if perm == list(range(x.rank)):
            return x
        shape = tuple(x.shape[p] for p in perm)
        if x.splat is not None:
            return self.constant(x.splat, shape, x.dtype)
        return self.emit(f"transpose {x.name} perm {perm} : {x.type}", shape, x.dtype)

    def swap(self, x, a, b):
        perm = list(range(x.rank))
        perm[a], perm[b] = perm[b], perm[a]
        return self.transpose(x, perm)

    def broadcast(self, x, shape):
        """As numpy does: dimensions of size 1 are stretched, missing ones are put in front."""
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if x.splat is not None:
            return self.constant(x.splat, shape, x.dtype)
        lead = len(shape) - x.rank
        kept = [d for d in range(x.rank) if x.shape[d] == shape[lead + d]]
        narrow = self.reshape(x, [x.shape[d] for d in kept])
        dims = [lead + d for d in kept]
        if narrow.shape == shape:
            return narrow
        target = type_of(shape, x.dtype)
        return self.emit(f"broadcast {narrow.name} dims {dims} : {narrow.type} -> {target}", shape, x.dtype)

    def slice(self, x, dim, start, size):
        if size == x.shape[dim]:
            return x
        shape = tuple(size if d == dim else n for d, n in enumerate(x.shape))
        if x.splat is not None:
            return self.constant(x.splat, shape, x.dtype)
        offsets = [start if d == dim else 0 for d in range(x.rank)]
        return self.emit(f"slice {x.name} offsets {offsets} sizes {list(shape)} : {x.type}", shape, x.dtype)

    def pad(self, x, low, high):
        """Zeros around."""
        if not any(low) and not any(high):
            return x
        shape = [a + n + b for a, n, b in zip(low, x.shape, high)]
        return self.emit(f"pad {x.name} low {list(low)} high {list(high)} : {x.type}", shape, x.dtype)

    def concat(self, parts, dim):
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        shape[dim] = sum(part.shape[dim] for part in parts)
        names, types = ", ".join(p.name for p in parts), ", ".join(p.type for p in parts)
        return self.emit(f"concat dim {dim} {names} : {types}", shape, parts[0].dtype)

    # Elements

    def cast(self, x, dtype):
        if x.dtype == dtype:
            return x
        if x.splat is not None:
            value = bool(x.splat) if dtype == "i1" else int(x.splat) if dtype in INTEGERS else float(x.splat)
            return self.constant(value, x.shape, dtype)
        return self.emit(f"cast {x.name} : {x.type} -> {type_of(x.shape, dtype)}", x.shape, dtype)

    def unary(self, name, x):
        return self.emit(f"{name} {x.name} : {x.type}", x.shape, x.dtype)

    def together(self, *values):
        """All with the shape that they have together."""
        rank = max(value.rank for value in values)
        shape = [1] * rank
        for value in values:
            for d, size in enumerate(value.shape, rank - value.rank):
                shape[d] = size if shape[d] == 1 else shape[d]
        return [self.broadcast(value, shape) for value in values]

    def binary(self, name, a, b, flag=""):
        a, b = self.together(a, b)
        return self.emit(f"{name} {a.name}, {b.name} {flag and f'{{{flag}}} '}: {a.type}", a.shape, a.dtype)

    def compare(self, kind, a, b):
        a, b = self.together(a, b)
        return self.emit(f"compare {kind} {a.name}, {b.name} : {a.type}", a.shape, "i1")

    def select(self, condition, a, b):
        condition, a, b = self.together(condition, a, b)
        text = f"select {condition.name}, {a.name}, {b.name} : {a.type}"
        return self.emit(text, a.shape, a.dtype)

    # Combinations

    def reduce(self, kind, x, dims, keep=False):
        dims = sorted(d % x.rank for d in dims)
        shape = [size for d, size in enumerate(x.shape) if d not in dims]
        y = self.emit(f"reduce {kind} {x.name} dims {dims} : {x.type}", shape, x.dtype) if dims else x
        return self.reshape(y, [1 if d in dims else size for d, size in enumerate(x.shape)]) if keep else y

    def linear(self, x, weight, bias=None, transposed=False):
        out = weight.shape[1] if transposed else weight.shape[0]
        words = (f" bias {bias.name}" if bias is not None else "") + " transposed" * transposed
        types = ", ".join(v.type for v in (x, weight, bias) if v is not None)
        return self.emit(f"linear {x.name}, {weight.name}{words} : {types}", (*x.shape[:-1], out), x.dtype)

    def matmul(self, a, b):
        lead = [max(m, n) for m, n in zip(a.shape[:-2], b.shape[:-2])]
        a = self.broadcast(a, (*lead, *a.shape[-2:]))
        b = self.broadcast(b, (*lead, *b.shape[-2:]))
        shape = (*lead, a.shape[-2], b.shape[-1])
        return self.emit(f"matmul {a.name}, {b.name} : {a.type}, {b.type}", shape, a.dtype)

    def einsum(self, equation, a, b):
        terms, out = equation.split("->")
        sizes = {}
        for term, value in zip(terms.split(","), (a, b)):
            sizes.update(zip(term, value.shape))
        shape = [sizes[letter] for letter in out]
        text = f'einsum "{equation}" {a.name}, {b.name} : {a.type}, {b.type} -> {type_of(shape, a.dtype)}'
        return self.emit(text, shape, a.dtype)
