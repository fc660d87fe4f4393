"""Initial values of parameters as the dialect says them, by looking at the module's own.

Parameters of one name but for numbers ("layers.3.attn.wq.weight") and of one shape are drawn alike, so that layers
can be rolled into a loop: their deviation is taken over all of them.
"""

import math
import re
from collections import defaultdict

import numpy

SAMPLE = 1 << 20  # elements of a parameter that are looked at
FLAT = 1.78  # largest element over the deviation: sqrt(3) in a uniform distribution


def masked(name):
    """The name with its numbers hidden: parameters of layers that are alike have one. Without numbers that stand alone,
    the outermost one behind a word: `Block_3.Dense_0` is `Block_{i}.Dense_0`."""
    hidden = re.sub(r"(?<![A-Za-z0-9_])\d+(?![A-Za-z0-9_])", "{i}", name)
    return hidden if hidden != name else re.sub(r"(?<=_)\d+(?![A-Za-z0-9])", "{i}", name, count=1)


def looked_at(tensor):
    """Some of the elements of a tensor of PyTorch or an array, as float64; None without values (device "meta",
    jax.ShapeDtypeStruct)."""
    if hasattr(tensor, "detach"):
        if tensor.device.type == "meta" or type(tensor).__name__ == "FakeTensor":
            return None
        flat = tensor.detach().reshape(-1)
        return flat[:: -(-flat.numel() // SAMPLE) or 1].double().cpu().numpy()
    if not hasattr(tensor, "__array__"):
        return None
    flat = tensor.reshape(-1)
    return numpy.asarray(flat[:: -(-flat.size // SAMPLE) or 1], dtype=numpy.float64)


def moments(tensor):
    """Smallest, largest, mean square, mean and number of elements; None without values."""
    x = looked_at(tensor)
    if x is None:
        return None
    return float(x.min()), float(x.max()), float(numpy.square(x).mean()), float(x.mean()), x.size


def without_values(name, shape, deviation):
    """What a library draws, where the module has no values: matrices with `deviation`, gains of 1, biases of 0."""
    last = name.rsplit(".", 1)[-1]
    if last.startswith("bias") or last.endswith("bias"):
        return "zeros"
    return f"normal, {deviation!r}" if len(shape) >= 2 else "ones"


def init_of(group, shape, deviation):
    """`zeros`, `ones`, `constant, c`, `uniform, c` or `normal, deviation` of the parameters of a group."""
    seen = [moments(tensor) for _, tensor in group]
    if None in seen:
        return without_values(group[0][0], shape, deviation)
    low, high = min(m[0] for m in seen), max(m[1] for m in seen)
    if low == high:
        return {0.0: "zeros", 1.0: "ones"}.get(low, f"constant, {low!r}")
    mean_square = sum(m[2] for m in seen) / len(seen)
    mean = sum(m[3] for m in seen) / len(seen)
    if abs(mean) > 0.5 * math.sqrt(mean_square):  # gains that were trained
        return f"constant, {float(f'{mean:.3g}')!r}"
    deviation = float(f"{math.sqrt(mean_square):.3g}")
    # A normal distribution has elements beyond: of 64, in all but one of 200 cases.
    within = max(-low, high) < FLAT * deviation and sum(m[4] for m in seen) >= 64
    return f"uniform, {float(f'{math.sqrt(3 * mean_square):.3g}')!r}" if within else f"normal, {deviation!r}"


def inits(parameters, deviation=0.02):
    """`init<...>` by name, of (name, tensor) pairs."""
    groups = defaultdict(list)
    for name, tensor in parameters:
        groups[masked(name), tuple(tensor.shape)].append((name, tensor))
    result = {}
    for (_, shape), group in groups.items():
        text = init_of(group, shape, deviation)
        result.update({name: text for name, _ in group})
    return result


# Names of biases of routers, which libraries keep as buffers.
ROUTER_BIASES = ("e_score_correction_bias", "expert_bias")


def states(buffers):
    """Names of those of the (name, tensor) that a checkpoint fills: biases of routers, vectors of one number, and what
    differs among layers. Tables are the same in all layers, and stay numbers of the text."""
    groups = defaultdict(list)
    for name, tensor in buffers:
        groups[masked(name), tuple(tensor.shape)].append((name, tensor))
    return {name for group in groups.values() if is_state(group) for name, _ in group}


def is_state(group):
    name, first = group[0]
    if name.endswith(ROUTER_BIASES) or any(tensor.device.type == "meta" for _, tensor in group):
        return True
    if any(not bool((tensor == first).all()) for _, tensor in group):
        return True
    return first.numel() > 1 and bool((first == first.reshape(-1)[0]).all())


def vectors(parameters):
    """Patterns of the names of parameters of rank 1 and less, which weight decay leaves out."""
    decayed = [name for name, tensor in parameters if len(tensor.shape) >= 2]
    patterns = []
    for name, tensor in parameters:
        if len(tensor.shape) >= 2:
            continue
        pattern = shortest(name, decayed)
        if pattern not in patterns:
            patterns.append(pattern)
    return patterns


def shortest(name, others):
    """The shortest pattern `*tail` of the name that none of the others has."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        tail = ".".join(parts[-count:])
        pattern = name if count == len(parts) else f"*.{tail}"
        if not any(other == tail or other.endswith("." + tail) for other in others):
            return pattern
    return name
