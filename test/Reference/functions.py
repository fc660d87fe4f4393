"""Makes or checks the cases of functions: models in JAX, lowered and trained by JAX.

    pip install -r test/Reference/requirements-functions.txt
    python test/Reference/functions.py               # write functions/*
    python test/Reference/functions.py --only CASE
    python test/Reference/functions.py --check       # make everything again and compare

A case is a folder of `functions`: `model.stablehlo.mlir`, as kerf.from_jax writes it, and `reference.safetensors`, as
README.md describes it, of JAX's own gradients and optax's AdamW. Parameters that a scan reads are there by layer.
"""

import argparse
import contextlib
import re
import sys
import zlib
from pathlib import Path

import flax
import jax
import jax.numpy as jnp
import numpy
import optax
import safetensors
from jax._src.nn import functions
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).parents[2] / "tools/python"))

import function_models
from function_models import CASES, SEQ, VOCAB
from kerf import from_jax
from kerf.trees import leaf_names

ROOT = Path(__file__).parent / "functions"
STEPS, BATCH = 3, 2
RULE = {"learning_rate": 1e-2, "b1": 0.9, "b2": 0.95, "eps": 1e-8, "weight_decay": 0.1}
STACKS = {
    "jax-complex": "blocks.",
    "jax-scan": "blocks.",
    "jax-stops": "blocks.",
    "flax-linen-scan": "params.ScanCheckpointCarried_0.LinenBlock_0.",
    "penzai-llama-stack": "transformer.blocks.",
}


# With others a gradient of JAX's in f32 is so close to 0 that Adam makes a step of its rounding.
SEEDS = {"equinox": 1}


def generator(case, purpose):
    return numpy.random.default_rng([zlib.crc32(case.encode()), zlib.crc32(purpose.encode()), SEEDS.get(case, 0)])


def drawn(case, shapes, dtype):
    """Seeded values of the parameters: matrices of size 0.1, vectors around 1 or, if their name says bias, 0."""
    is_shape = lambda s: isinstance(s, tuple) and all(isinstance(n, int) for n in s)
    leaves, tree = jax.tree_util.tree_flatten(shapes, is_leaf=is_shape)
    names = leaf_names(jax.tree_util.tree_unflatten(tree, [numpy.zeros(()) for _ in leaves]))
    stack = STACKS.get(case)
    rng, values = generator(case, "weights"), []
    for name, shape in zip(names, leaves, strict=True):
        rank = len(shape) - bool(stack and name.startswith(stack))
        value = 0.1 * rng.standard_normal(shape)
        if rank == 1 and not re.search(r"bias$|\.b$", name):
            value = value + 1.0
        values.append(jnp.asarray(value.astype(numpy.float32), dtype=dtype))
    return jax.tree_util.tree_unflatten(tree, values)


def batches(case):
    """Tokens and the next of each, i32 [STEPS, BATCH, SEQ]."""
    tokens = generator(case, "batches").integers(0, VOCAB, (STEPS, BATCH, SEQ + 1)).astype(numpy.int32)
    return tokens[..., :-1].copy(), tokens[..., 1:].copy()


def given(case, tokens, targets):
    """The function's arguments behind the parameters."""
    return ({"inputs": tokens, "targets": targets},) if case == "jax-scan" else (tokens, targets)


def by_layer(case, tree):
    """Leaves by name; of stacks each layer."""
    result, stack = {}, STACKS.get(case)
    for name, leaf in zip(leaf_names(tree), jax.tree_util.tree_leaves(tree), strict=True):
        value = numpy.asarray(leaf)
        if stack and name.startswith(stack):
            result |= {f"{stack}{i}.{name.removeprefix(stack)}": part for i, part in enumerate(value)}
        else:
            result[name] = value
    return {name: numpy.ascontiguousarray(value) for name, value in result.items()}


def train(case, loss, params, tokens, targets):
    """Losses, norms, the gradients of step 1 and the parameters after the last."""
    stack = STACKS.get(case)
    names = leaf_names(params)
    ranks = [x.ndim - bool(stack and n.startswith(stack)) for n, x in zip(names, jax.tree_util.tree_leaves(params))]
    decayed = jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(params), [rank >= 2 for rank in ranks])
    rule = optax.adamw(**RULE, mask=decayed)
    state, losses, norms, first = rule.init(params), [], [], None
    for x, y in zip(tokens, targets, strict=True):
        value, grads = jax.value_and_grad(loss)(params, *given(case, x, y))
        norm = optax.global_norm(grads)
        first = grads if first is None else first
        losses.append(value)
        norms.append(norm)
        scale = jnp.minimum(1.0, 1.0 / (norm + 1e-6))
        updates, state = rule.update(jax.tree.map(lambda g: (g * scale).astype(g.dtype), grads), state, params)
        params = optax.apply_updates(params, updates)
    return numpy.asarray(losses), numpy.asarray(norms), first, params


class Wide:
    """numpy, in which float32 is float64: jax.nn.dot_product_attention takes its softmax in float32, whatever it is
    given."""

    float32 = numpy.float64

    def __getattr__(self, name):
        return getattr(numpy, name)


@contextlib.contextmanager
def precision(wide):
    """What is computed in this context has 64 bits, or 32."""
    functions.np = Wide() if wide else numpy
    try:
        with jax.enable_x64(wide):
            yield
    finally:
        functions.np = numpy


def produce(case):
    """The text, and tensors and metadata of the reference file."""
    tokens, targets = batches(case)
    tensors = {"tokens": tokens, "targets": targets}
    for prefix, dtype, wide in (("f64", jnp.float64, True), ("f32", jnp.float32, False)):
        with precision(wide):
            shapes, loss = CASES[case]()
            params = drawn(case, shapes, dtype)
            if wide:
                text = from_jax(loss, params, *given(case, tokens[0], targets[0]))
                tensors |= {f"param.{n}": v.astype(numpy.float32) for n, v in by_layer(case, params).items()}
            losses, norms, grads, after = train(case, loss, params, tokens, targets)
            assert losses.dtype == dtype
            tensors |= {f"{prefix}.loss": losses, f"{prefix}.grad_norm": norms}
            tensors |= {f"{prefix}.grad.{n}": v for n, v in by_layer(case, grads).items()}
            tensors |= {f"{prefix}.after.{n}": v for n, v in by_layer(case, after).items()}
    libraries = (equinox_version(), ("flax", flax), ("jax", jax), ("numpy", numpy), ("optax", optax), ("safetensors", safetensors))
    return text, tensors, {"case": case, **{name: library.__version__ for name, library in libraries}}


def equinox_version():
    return "equinox", function_models.equinox


def without_places(text):
    """The text without lines of libraries, which differ among machines: names of arguments stay."""
    text = re.sub(r'loc\("[^"]*\.py":[^)]*\)', "loc(unknown)", text)
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    failed = 0
    for case in [arguments.only] if arguments.only else CASES:
        folder = ROOT / case
        text, tensors, metadata = produce(case)
        text = without_places(text)
        if arguments.check:
            same = text == (folder / "model.stablehlo.mlir").read_text()
            print(f"{case}: {'same' if same else 'DIFFERS'}")
            failed += not same
            continue
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.stablehlo.mlir").write_text(text)
        save_file(tensors, folder / "reference.safetensors", metadata)
        print(f"{case}: losses {' '.join(f'{loss:.6f}' for loss in tensors['f64.loss'])}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
