"""Trees of arrays, as JAX holds parameters: names of leaves, and their weights in files.

A leaf `params['blocks'][3].kernel` is `blocks.3.kernel`. Of a leaf that a scan reads slice by slice, `blocks.qkv` of
shape [L, ...], `kerf-import` makes L parameters `blocks.0.qkv`: weights are saved and loaded as those.
"""

import re
from pathlib import Path

from .programs import model_text


def leaves_of(tree):
    import jax

    return jax.tree_util.tree_leaves(tree)


def leaf_names(tree):
    """Names of the leaves, in their order."""
    import jax

    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    names = [".".join(parts_of(path)) for path in paths]
    if all(name.endswith(".value") for name in names):  # Flax NNX
        names = [name.removesuffix(".value") for name in names]
    return [name or "params" for name in names]


def parts_of(path):
    """`layers`, `0`, `down` of "['layers'][0].down"."""
    keys = re.findall(r"\[([^\]]*)\]|([^.\[\]]+)", path)
    return [re.sub(r"[^A-Za-z0-9_.-]", "_", (key or word).strip("'\"").replace("/", ".")) for key, word in keys]


def numbered(name, whole):
    """The number that `name` has more than `whole`, or None: 3 of blocks.3.qkv and blocks.qkv."""
    parts = name.split(".")
    for i, part in enumerate(parts):
        if part.isdigit() and ".".join(parts[:i] + parts[i + 1 :]) == whole:
            return int(part)
    return None


def slices_of(whole, names):
    """Names of the slices of a leaf, in their order."""
    found = {numbered(name, whole): name for name in names}
    found.pop(None, None)
    return [found[i] for i in sorted(found)] if sorted(found) == list(range(len(found))) else []


def parameter_names(model):
    """Names of the parameters of a lowered function, as kerf-import makes them."""
    text = model_text(model, plain=True, flat=True)
    return re.findall(r'kerf\.param "([^"]*)"', text)


def save_tree(tree, path, model):
    """Writes the leaves of a tree as a safetensors file for kerf-run --init-from; `model` is the
    lowered function, its path or its text."""
    import numpy
    from safetensors.numpy import save_file

    known, tensors = parameter_names(model), {}
    for name, leaf in zip(leaf_names(tree), leaves_of(tree), strict=True):
        array = numpy.ascontiguousarray(numpy.asarray(leaf, dtype=numpy.float32))
        if name in known:
            tensors[name] = array
        else:
            parts = slices_of(name, known)
            tensors.update({part: numpy.ascontiguousarray(array[i]) for i, part in enumerate(parts)})
    path = Path(path)
    part = path.with_name(path.name + ".part")
    save_file(tensors, part)
    part.replace(path)


def load_tree(tree, path):
    """The tree with the values of a file or folder that kerf-run --save-weights wrote; what it has not stays."""
    import jax
    import numpy
    from safetensors.numpy import load_file

    path = Path(path)
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    tensors = {name: tensor for file in files for name, tensor in load_file(file).items()}
    leaves = []
    for name, leaf in zip(leaf_names(tree), leaves_of(tree), strict=True):
        parts = slices_of(name, tensors)
        value = tensors.get(name, numpy.stack([tensors[p] for p in parts]) if parts else None)
        leaves.append(leaf if value is None else jax.numpy.asarray(value, dtype=leaf.dtype))
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(tree), leaves)
