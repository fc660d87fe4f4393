"""Throughput of one training step in JAX (jit, CPU); one JSON line per run.

Variants are words joined by '+':
  scan | unroll       layers by lax.scan over stacked weights, or one after the other
  optax | hand        AdamW and clipping by optax, or written out
  einsum | sdpa       attention written out, or jax.nn.dot_product_attention
  dense | ragged      experts only: all experts on all tokens and a mask, or
                      lax.ragged_dot over sorted tokens
In bf16, parameters and optimizer state are f32 and computation is bf16.

--check prints the first loss and gradient norm, which must agree with the other peer's.
"""

import json
import os
import sys

import models

WORDS = ["scan", "unroll", "optax", "hand", "einsum", "sdpa", "dense", "ragged"]


def variants_of(s, dtype):
    result = ["scan+hand+einsum", "unroll+hand+einsum"]
    if s.experts:
        return [f"{v}+{how}" for v in result for how in ("dense", "ragged")]
    return result + ["unroll+optax+einsum", "unroll+hand+sdpa"]


args_parser = models.parser(__doc__, WORDS)
args_parser.add_argument("--check", action="store_true")
args = args_parser.parse_args()
if not models.is_child() and not args.check:
    sys.exit(models.run_all(__file__, args, WORDS, variants_of))
models.use_threads(args.threads)
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402  (threads are set first)
import jax.numpy as jnp  # noqa: E402
import jaxlib  # noqa: E402
import optax  # noqa: E402


def norm(s, x, p, name):
    x32 = x.astype(jnp.float32)
    if s.gpt:
        mean = x32.mean(-1, keepdims=True)
        x32 = x32 - mean
    x32 = x32 * jax.lax.rsqrt(jnp.square(x32).mean(-1, keepdims=True) + s.eps)
    y = x32 * p[name] + p[name + "_b"] if s.gpt else x32 * p[name]
    return y.astype(x.dtype)


def rotated(s, x):
    cos, sin = (jnp.asarray(t)[:, None, :].astype(x.dtype) for t in models.rope_tables(s))
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate((a * cos - b * sin, b * cos + a * sin), -1)


def attention(s, words, x, p):
    d, group = s.head_dim, s.heads // s.kv
    qkv = x @ p["qkv"]
    if s.gpt:
        qkv = qkv + p["qkv_b"]
    q, k, v = (
        part.reshape(*x.shape[:2], -1, d)
        for part in jnp.split(qkv, (s.heads * d, (s.heads + s.kv) * d), -1)
    )
    if s.head_norms:
        q, k = norm(s, q, p, "q_norm"), norm(s, k, p, "k_norm")
    if not s.gpt:
        q, k = rotated(s, q), rotated(s, k)
    if "sdpa" in words:
        out = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    else:
        q = q.reshape(*x.shape[:2], s.kv, group, d)
        scores = jnp.einsum("bqkgd,bskd->bkgqs", q, k, preferred_element_type=jnp.float32)
        visible = jnp.tril(jnp.ones((s.seq, s.seq), bool))
        scores = jnp.where(visible, scores * d**-0.5, -jnp.inf)
        out = jnp.einsum("bkgqs,bskd->bqkgd", jax.nn.softmax(scores).astype(x.dtype), v)
    y = out.reshape(x.shape) @ p["proj"]
    return y + p["proj_b"] if s.gpt else y


def mlp(s, x, p):
    if s.gpt:
        return jax.nn.gelu(x @ p["fc"] + p["fc_b"], approximate=True) @ p["out"] + p["out_b"]
    gate, up = jnp.split(x @ p["gate_up"], 2, -1)
    return (jax.nn.silu(gate) * up) @ p["down"]


def mixture(s, words, x, p):
    rows = x.reshape(-1, s.hidden)
    probabilities = jax.nn.softmax((rows @ p["router"]).astype(jnp.float32))
    share, chosen = jax.lax.top_k(probabilities, s.top)
    share = (share / share.sum(-1, keepdims=True)).astype(x.dtype)
    if "dense" in words:
        weight = (jax.nn.one_hot(chosen, s.experts, dtype=x.dtype) * share[..., None]).sum(1)
        gate, up = jnp.split(jnp.einsum("th,ehf->etf", rows, p["gate_up"]), 2, -1)
        y = jax.nn.silu(gate) * up * weight.T[:, :, None]
        return jnp.einsum("etf,efh->th", y, p["down"]).reshape(x.shape)
    order = jnp.argsort(chosen.reshape(-1), stable=True)
    counts = jnp.bincount(chosen.reshape(-1), length=s.experts).astype(jnp.int32)
    gate, up = jnp.split(jax.lax.ragged_dot(rows[order // s.top], p["gate_up"], counts), 2, -1)
    y = jax.lax.ragged_dot(jax.nn.silu(gate) * up, p["down"], counts)
    y = y * share.reshape(-1)[order, None]
    return jnp.zeros_like(rows).at[order // s.top].add(y).reshape(x.shape)


def parameters(s, words):
    """The weights; without scan, those of each layer by themselves ("3.qkv"): slices of
    stacked ones would make their gradients slow."""
    result = {}
    for name, value in models.weights(s).items():
        if name.startswith(".") and "scan" not in words:
            result |= {f"{index}{name}": jnp.asarray(v) for index, v in enumerate(value)}
        else:
            result[name] = jnp.asarray(value)
    return result


def layer_of(params, prefix):
    """Weights of one layer, or, with an empty prefix, the stacked ones of all."""
    start = prefix + "."
    return {name[len(start) :]: v for name, v in params.items() if name.startswith(start)}


def loss_of(s, words, dtype, params, tokens, targets):
    """Mean cross-entropy; computes in `dtype`."""
    matrices = {
        name: value.astype(dtype) if models.decays(name, value.shape) or "_b" in name else value
        for name, value in params.items()
    }
    whole = {name: v for name, v in matrices.items() if "." not in name}
    x = whole["wte"][tokens]
    if s.gpt:
        x = x + whole["wpe"][: s.seq]

    def layer(x, p):
        x = x + attention(s, words, norm(s, x, p, "ln1"), p)
        y = norm(s, x, p, "ln2")
        return x + (mixture(s, words, y, p) if s.experts else mlp(s, y, p)), None

    if "scan" in words:
        x, _ = jax.lax.scan(layer, x, layer_of(matrices, ""))
    else:
        for index in range(s.layers):
            x, _ = layer(x, layer_of(matrices, str(index)))
    x = norm(s, x, whole, "lnf")
    head = whole["wte"] if s.gpt else whole["head"]
    logits = jnp.einsum("bsh,vh->bsv", x, head, preferred_element_type=jnp.float32)
    picked = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(logits, -1) - picked).mean()


def global_norm(grads):
    return jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))


def optimizer_of(words, params):
    """Initial state, and `update(grads, state, params) -> params, state`."""
    decay = {name: models.decays(name, value.shape) for name, value in params.items()}
    if "optax" in words:
        rule = optax.chain(
            optax.clip_by_global_norm(models.CLIP),
            optax.adamw(
                models.LEARNING_RATE, models.BETA1, models.BETA2, models.EPS,
                weight_decay=models.DECAY, mask=decay,
            ),  # fmt: skip
        )

        def by_optax(grads, state, params):
            updates, state = rule.update(grads, state, params)
            return optax.apply_updates(params, updates), state

        return rule.init(params), by_optax

    def by_hand(grads, state, params):
        count = state["count"] + 1
        scale = jnp.minimum(1.0, models.CLIP / (global_norm(grads) + 1e-6))
        c1, c2 = 1 - models.BETA1**count, 1 - models.BETA2**count
        m, v, new = {}, {}, {}
        for name, p in params.items():
            g = grads[name] * scale
            m[name] = models.BETA1 * state["m"][name] + (1 - models.BETA1) * g
            v[name] = models.BETA2 * state["v"][name] + (1 - models.BETA2) * g * g
            change = (m[name] / c1) / (jnp.sqrt(v[name] / c2) + models.EPS)
            if decay[name]:
                change = change + models.DECAY * p
            new[name] = p - models.LEARNING_RATE * change
        return new, {"count": count, "m": m, "v": v}

    zeros = jax.tree.map(jnp.zeros_like, params)
    state = {"count": jnp.float32(0), "m": zeros, "v": jax.tree.map(jnp.zeros_like, params)}
    return state, by_hand


class Training:
    """A model with its optimizer."""

    def __init__(self, s, dtype, words):
        self.params = parameters(s, words)
        self.data = [jnp.asarray(x) for x in models.tokens(s)]
        self.state, update = optimizer_of(words, self.params)
        kind = {"f32": jnp.float32, "bf16": jnp.bfloat16}[dtype]

        def loss(params, tokens, targets):
            return loss_of(s, words, kind, params, tokens, targets)

        def step(params, state, tokens, targets):
            value, grads = jax.value_and_grad(loss)(params, tokens, targets)
            return value, *update(grads, state, params)

        def first(params, tokens, targets):
            value, grads = jax.value_and_grad(loss)(params, tokens, targets)
            return value, global_norm(grads)

        self.first = jax.jit(first)
        self.jitted = jax.jit(step, donate_argnums=(0, 1))

    def step(self):
        result = self.jitted(self.params, self.state, *self.data)
        value, self.params, self.state = jax.block_until_ready(result)
        return float(value)


def about():
    return {
        "peer": "jax",
        "version": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "optax": optax.__version__,
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


def check():
    """First loss and gradient norm of every model in f32."""
    for name in models.MODELS if args.model == "all" else [args.model]:
        s = models.shape_of(name)
        choices = ["scan+einsum", "unroll+sdpa"]
        if s.experts:
            choices = ["scan+einsum+dense", "unroll+einsum+ragged"]
        for variant in choices:
            training = Training(s, "f32", variant.split("+") + ["hand"])
            loss, norm = (float(x) for x in training.first(training.params, *training.data))
            line = {"model": name, "variant": variant, "loss": loss, "grad_norm": norm}
            print(json.dumps({"peer": "jax"} | line), flush=True)


def main():
    if args.check:
        return check()
    s = models.shape_of(args.model)
    training = Training(s, args.dtype, args.variant.split("+"))
    print(json.dumps(about() | models.measure(s, args, training.step)), flush=True)


main()
