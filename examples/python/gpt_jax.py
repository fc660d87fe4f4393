"""A small decoder in JAX, from its definition to trained weights on four ranks.

    pip install jax safetensors; export KERF_BIN=.../bin PYTHONPATH=.../tools/python
    python3 examples/python/gpt_jax.py text.txt                      # any file of text
    python3 examples/python/gpt_jax.py --lower NAME.stablehlo.mlir   # lower it and stop
"""

import sys

import jax
import jax.numpy as jnp

import kerf

VOCAB, WIDTH, HEADS, LAYERS, BATCH, SEQ = 256, 64, 4, 4, 8, 32


def parameters(key):
    draw = lambda *shape: 0.05 * jax.random.normal(jax.random.fold_in(key, sum(shape)), shape)
    stack = {"norm1": jnp.ones((LAYERS, WIDTH)), "qkv": draw(LAYERS, WIDTH, 3 * WIDTH), "out": draw(LAYERS, WIDTH, WIDTH),
             "norm2": jnp.ones((LAYERS, WIDTH)), "up": draw(LAYERS, WIDTH, 4 * WIDTH), "down": draw(LAYERS, 4 * WIDTH, WIDTH)}  # fmt: skip
    return {"embed": draw(VOCAB, WIDTH), "blocks": stack, "norm": jnp.ones(WIDTH)}


def norm(x, gain):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * gain


def block(x, p):
    q, k, v = (part.reshape(*x.shape[:2], HEADS, -1) for part in jnp.split(norm(x, p["norm1"]) @ p["qkv"], 3, -1))
    x = x + jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape) @ p["out"]
    return x + jax.nn.gelu(norm(x, p["norm2"]) @ p["up"]) @ p["down"], None


def loss(p, tokens, targets):
    x, _ = jax.lax.scan(block, p["embed"][tokens], p["blocks"])
    chances = jax.nn.log_softmax(norm(x, p["norm"]) @ p["embed"].T)
    return -jnp.take_along_axis(chances, targets[..., None], -1).mean()


def main(arguments):
    params, tokens = parameters(jax.random.key(0)), jnp.zeros((BATCH, SEQ), jnp.int32)
    model = arguments[1] if arguments[0] == "--lower" else "gpt.stablehlo.mlir"
    kerf.from_jax(loss, params, tokens, tokens, path=model)
    if arguments[0] == "--lower":
        return
    kerf.save_tree(params, "gpt.safetensors", model)
    print(kerf.plan(model, "this-machine", devices=4))
    print(kerf.compile(model, "this-machine", "gpt.kerf", devices=4, pin={"tp": 2, "dp": 2}))
    options = {"lr": 1e-3, "threads": 1, "init_from": "gpt.safetensors", "save_weights": "trained.safetensors"}
    run = kerf.run("gpt.kerf", arguments[0], steps=50, **options)
    print(f"loss {run.losses[0]:.3f} -> {run.losses[-1]:.3f}")
    trained = kerf.load_tree(params, "trained.safetensors")
    text = jnp.asarray(list(open(arguments[0], "rb").read(BATCH * SEQ + 1)), jnp.int32)
    first, shifted = text[:-1].reshape(BATCH, SEQ), text[1:].reshape(BATCH, SEQ)
    print(f"in JAX {loss(params, first, shifted):.3f} -> {loss(trained, first, shifted):.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
