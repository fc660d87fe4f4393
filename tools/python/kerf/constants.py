"""Tensors of which every element is known when a model is exported, as ops: numbers that are all equal, ranges,
masks of positions, biases by distance, tables of cosines and sines. What is none of them stands in the text, if it is small."""

import torch

LARGEST = 1 << 14  # elements in the text
LARGEST_KNOWN = 1 << 28  # elements of a table that is computed to be looked at


def computed(node, values, shape):
    """What an op gives whose operands are known; None where it is too large. Dimensions along which nothing changes
    (the batch of a mask) are held once, as PyTorch's expand() does."""
    named = {key: value for key, value in node.kwargs.items() if key not in ("device", "pin_memory", "layout")}
    pointwise = torch.Tag.pointwise in node.target.tags

    def operand(n):
        known = values[n]
        return held_once(known) if pointwise and isinstance(known, torch.Tensor) else known

    args, kwargs = (torch.fx.node.map_arg(a, operand) for a in (node.args, named))
    sizes = [t.shape for t in args if isinstance(t, torch.Tensor)]
    held = torch.broadcast_shapes(*sizes) if pointwise else shape
    if torch.Size(held).numel() > LARGEST_KNOWN:
        return None
    result = node.target(*args, **kwargs)
    for d, size in enumerate(result.shape):
        if size > 1 and result.stride(d) and is_alike(result, d):
            result = result.narrow(d, 0, 1).expand(result.shape)
    return result.expand(shape)


def held_once(tensor):
    """Without the repetitions of expand()."""
    for d, size in enumerate(tensor.shape):
        if size > 1 and tensor.stride(d) == 0:
            tensor = tensor.narrow(d, 0, 1)
    return tensor


def written(w, tensor, dtype):
    """A value for `tensor`, or None where it follows no rule and is too large to stand in the text."""
    narrow = held_once(tensor)
    for d, size in enumerate(narrow.shape):
        if size > 1 and is_alike(narrow, d):
            narrow = narrow.narrow(d, 0, 1)
    if narrow.numel() == 1:
        return w.constant(narrow.item(), tuple(tensor.shape), dtype)
    if narrow.shape != tensor.shape:
        value = written(w, narrow, dtype)
        return None if value is None else w.broadcast(value, tensor.shape)
    for build in (as_range, as_mask, as_distances, as_rotation):
        value = build(w, tensor, dtype)
        if value is not None:
            return value
    if tensor.numel() > LARGEST:
        return None
    return w.table(tensor.reshape(-1).tolist(), tuple(tensor.shape), dtype)


def is_alike(tensor, dim):
    """All slices along the dimension are one."""
    return bool((tensor == tensor.narrow(dim, 0, 1)).all())


def wide_dims(tensor):
    return [d for d, size in enumerate(tensor.shape) if size > 1]


# Ranges


def as_range(w, tensor, dtype):
    """start + step i along the only dimension that is not of size 1."""
    sizes = wide_dims(tensor)
    if len(sizes) != 1 or dtype == "i1":
        return None
    flat = tensor.reshape(-1)
    start, step = flat[0].item(), (flat[1] - flat[0]).item()
    if not torch.equal(flat, start + step * torch.arange(len(flat), dtype=flat.dtype)):
        return None
    y = w.cast(w.iota(tuple(tensor.shape), sizes[0]), dtype)
    if step != 1:
        y = w.binary("mul", y, w.constant(step, (), dtype))
    return y if start == 0 else w.binary("add", y, w.constant(start, (), dtype))


# Masks


def as_mask(w, tensor, dtype):
    """Two numbers in a plane of rows and columns: one where a row sees a column, the other elsewhere."""
    sizes = wide_dims(tensor)
    if len(sizes) != 2:
        return None
    plane = tensor.reshape([tensor.shape[d] for d in sizes])
    corner, values = plane[-1, 0], plane.unique()
    if len(values) != 2:
        return None
    other = values[0] if values[1] == corner else values[1]
    # What is in the lower left is seen under a causal mask; where a window hides it, the diagonal is.
    for seen, hidden in ((corner, other), (other, corner)):
        mask = seen_columns(w, plane == seen)
        if mask is None:
            continue
        if dtype != "i1":
            one, two = (w.constant(v.item(), mask.shape, dtype) for v in (seen, hidden))
            mask = w.select(mask, one, two)
        elif not bool(seen):
            mask = w.select(mask, w.constant(False, mask.shape, "i1"), w.constant(True, mask.shape, "i1"))
        return w.reshape(mask, tensor.shape)
    return None


def seen_columns(w, plane):
    """Rows i that see columns from i - window + 1, or from the first of their chunk, to i + ahead."""
    rows, columns = plane.shape
    count = plane.sum(1)
    if bool((count == 0).any()):
        return None
    i, j = torch.arange(rows), torch.arange(columns)
    first = plane.int().argmax(1)
    last = first + count - 1
    if not torch.equal(plane, (j >= first[:, None]) & (j <= last[:, None])):
        return None
    parts = []
    shape = (rows, columns)
    row, column = (w.iota(shape, 0), w.iota(shape, 1))
    if not bool((last == columns - 1).all()):
        ahead = int(last[0])
        if not torch.equal(last, (i + ahead).clamp(max=columns - 1)):
            return None
        parts.append(w.compare("le", column, shifted(w, row, ahead)))
    if bool((first > 0).any()):
        lower = lower_edge(w, first, i, row)
        if lower is None:
            return None
        parts.append(w.compare("ge", column, lower))
    mask = parts[0]
    for part in parts[1:]:
        mask = w.select(mask, part, w.constant(False, shape, "i1"))
    return mask


def lower_edge(w, first, i, row):
    """The first column that a row sees, as a value."""
    behind = int((i - first).max())
    if torch.equal(first, (i - behind).clamp(min=0)):
        return shifted(w, row, -behind)
    chunk = int(first.unique()[1])
    if torch.equal(first, i // chunk * chunk):
        size = w.constant(chunk, (), "i32")
        return w.binary("mul", w.binary("div", row, size), size)
    return None


def shifted(w, x, by):
    return w.binary("add", x, w.constant(by, (), x.dtype)) if by else x


# Biases by distance


def as_distances(w, tensor, dtype):
    """slope[h] (j - first), slope[h] (j - i) or slope[h] |j - i|: what ALiBi adds to scores. Or one slope for all."""
    sizes = wide_dims(tensor)
    if dtype == "i1" or len(sizes) not in (2, 3) or tensor.shape[sizes[0]] > 1024:
        return None
    table = tensor.reshape([tensor.shape[d] for d in sizes])
    if len(sizes) == 2 and bool((table.diagonal() == 0).all()):  # a plane
        sizes, table = [None, *sizes], table[None]
    heads, *places = sizes
    if len(places) == 1:
        zeros = (table == 0).all(0).nonzero()
        if len(zeros) != 1:
            return None
        first = int(zeros[0])
        distance = torch.arange(table.shape[1]) - first
    else:
        i, j = (torch.arange(size) for size in table.shape[1:])
        distance = j - i[:, None]
        if torch.equal(table[:, 0, 1], table[:, 1, 0]):
            distance = distance.abs()
    at = tuple(int(x) for x in (distance.abs() == 1).nonzero()[-1])
    slopes = (table[(slice(None), *at)] / distance[at]).to(table.dtype)
    spread = slopes.reshape(-1, *[1] * len(places)) * distance.to(table.dtype)
    if not torch.equal(spread, table):
        return None
    shape = tuple(tensor.shape)
    value = w.cast(w.iota(shape, places[-1]), dtype)
    if len(places) == 1:
        value = shifted(w, value, -first)
    else:
        value = w.binary("sub", value, w.cast(w.iota(shape, places[0]), dtype))
        if bool((distance >= 0).all()):
            value = w.binary("max", value, w.binary("sub", w.constant(0, (), dtype), value))
    ones = tuple(size if d == heads else 1 for d, size in enumerate(shape))
    return w.binary("mul", w.broadcast(w.table(slopes.tolist(), ones, dtype), shape), value)


# Tables of rotary embeddings


def as_rotation(w, tensor, dtype):
    """cos(p f) or sin(p f), p along one dimension and f along the next; or both, as pairs or side by side."""
    if dtype != "f32" or tensor.numel() < 8 or not tensor.abs().max() > 0.5:  # small numbers are near any slow rotation
        return None
    if tensor.shape[-1] == 2 and len(wide_dims(tensor)) == 3:
        halves = [angles(w, part, dtype, name) for part, name in zip(tensor.unbind(-1), ("cos", "sin"))]
        if None in halves:
            return None
        return w.concat([w.reshape(x, (*x.shape, 1)) for x in halves], tensor.dim() - 1)
    for name in ("cos", "sin"):
        value = angles(w, tensor, dtype, name)
        if value is not None:
            return value
    if tensor.shape[-1] % 2 or len(wide_dims(tensor)) != 2:
        return None
    for names in (("cos", "sin"), ("sin", "cos")):  # side by side
        halves = [angles(w, part, dtype, name) for part, name in zip(tensor.chunk(2, -1), names)]
        if None not in halves:
            return w.concat(halves, tensor.dim() - 1)
    return None


def frequencies_of(table, name):
    """f of a table cos(p f) or sin(p f), from the row that says most of each: the largest p with p f < 1.5."""
    first = table[1].clamp(-1, 1)
    found = first.arccos() if name == "cos" else first.arcsin()
    row = 2
    while row < len(table):
        value = table[row].clamp(-1, 1)
        refined = (value.arccos() if name == "cos" else value.arcsin()) / row
        found = torch.where(row * found < 1.5, refined, found)
        row *= 2
    return found


def angles(w, tensor, dtype, name):
    sizes = wide_dims(tensor)
    if len(sizes) != 2:
        return None
    table = tensor.reshape([tensor.shape[d] for d in sizes]).double()
    if bool((table.abs() > 1.000001).any()):
        return None
    frequencies = frequencies_of(table, name)
    positions = torch.arange(len(table), dtype=torch.float64)[:, None]
    if not torch.allclose(getattr(torch, name)(positions * frequencies), table, rtol=0, atol=2e-4):
        return None
    shape = tuple(table.shape)
    f = w.broadcast(w.table(frequencies.tolist(), shape[1:], dtype), shape)
    y = w.unary(name, w.binary("mul", w.cast(w.iota(shape, 0), dtype), f))
    return w.reshape(y, tensor.shape)
