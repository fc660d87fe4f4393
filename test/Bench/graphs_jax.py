"""A Llama in plain JAX with the sizes of a config: groups of heads, rotary embeddings, a gate, layers in a scan."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp

import kerf

CONFIG = Path(__file__).resolve().parents[2] / "examples/models/llama-3-8b/config.json"


def norm(x, gain, eps):
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + eps)).astype(x.dtype) * gain


def rotate(x, theta):
    size = x.shape[-1]
    angles = jnp.arange(x.shape[1])[:, None] / theta ** (jnp.arange(0, size, 2) / size)
    cos, sin = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def lower_llama(path, batch, sequence):
    """Lowers the loss of the config's model, without values, to `path`."""
    c = json.loads(CONFIG.read_text())
    width, inner, layers, heads = c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"], c["num_attention_heads"]
    head, eps, theta = width // heads, c["rms_norm_eps"], c["rope_theta"]
    pairs = c["num_key_value_heads"] * head
    of = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.bfloat16)
    stack = {
        "norm1": of(layers, width), "q": of(layers, width, width), "k": of(layers, width, pairs), "v": of(layers, width, pairs),
        "o": of(layers, width, width), "norm2": of(layers, width), "gate": of(layers, width, inner), "up": of(layers, width, inner),
        "down": of(layers, inner, width),
    }  # fmt: skip
    params = {"embed": of(c["vocab_size"], width), "layers": stack, "norm": of(width), "head": of(width, c["vocab_size"])}

    @jax.checkpoint
    def block(x, p):
        hidden = norm(x, p["norm1"], eps)
        q, k, v = ((hidden @ p[name]).reshape(*x.shape[:2], -1, head) for name in "qkv")
        y = jax.nn.dot_product_attention(rotate(q, theta), rotate(k, theta), v, is_causal=True)
        x = x + y.reshape(x.shape) @ p["o"]
        hidden = norm(x, p["norm2"], eps)
        return x + (jax.nn.silu(hidden @ p["gate"]) * (hidden @ p["up"])) @ p["down"], None

    def loss(p, tokens, targets):
        x, _ = jax.lax.scan(block, p["embed"][tokens], p["layers"])
        logits = (norm(x, p["norm"], eps) @ p["head"]).astype(jnp.float32)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1).mean()

    tokens = jax.ShapeDtypeStruct((batch, sequence), jnp.int32)
    kerf.from_jax(loss, params, tokens, tokens, path=path)
