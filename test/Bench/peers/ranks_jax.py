"""Training steps of JAX on several devices that are this machine, on request.

    ranks_jax.py --model NAME

The number of devices is in XLA_FLAGS (--xla_force_host_platform_device_count). Reads
requests as lines of JSON, {"variant": "dp", "steps": 3}, and answers each with a line:
seconds of the steps and the first loss. The first request of a variant compiles and makes
the warm-up steps. With 0 steps its arrays are given up.

Variants, all one jit over arrays with a NamedSharding; sequences are cut over the devices:
  dp        every device has all weights and state
  sharded   weights and state are cut in their first dimension that the devices divide
"""

import argparse
import json
import os
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402  (the platform is chosen first)
import jax.numpy as jnp  # noqa: E402
import models  # noqa: E402
import numpy as np  # noqa: E402
import ranks_model  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

WARMUP = 2


def norm(s, x, p, name):
    x = x - x.mean(-1, keepdims=True)
    x = x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + s.eps)
    return x * p[name] + p[name + "_b"]


def block(s, x, p):
    q, k, v = (
        part.reshape(*x.shape[:2], s.heads, s.head_dim)
        for part in jnp.split(norm(s, x, p, "ln1") @ p["qkv"] + p["qkv_b"], 3, -1)
    )
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * s.head_dim**-0.5
    scores = jnp.where(jnp.tril(jnp.ones((s.seq, s.seq), bool)), scores, -jnp.inf)
    seen = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    x = x + seen.reshape(x.shape) @ p["proj"] + p["proj_b"]
    y = norm(s, x, p, "ln2") @ p["fc"] + p["fc_b"]
    return x + jax.nn.gelu(y, approximate=True) @ p["out"] + p["out_b"]


def loss_of(s, params, tokens, targets):
    x = params["wte"][tokens] + params["wpe"][: s.seq]
    for index in range(s.layers):
        start = f"{index}."
        x = block(s, x, {n[len(start) :]: v for n, v in params.items() if n.startswith(start)})
    logits = jnp.einsum("bsh,vh->bsv", norm(s, x, params, "lnf"), params["wte"])
    picked = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(logits, -1) - picked).mean()


def updated(params, state, grads):
    """AdamW on gradients that are clipped by their norm."""
    count = state["count"] + 1
    total = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, models.CLIP / (total + 1e-6))
    c1, c2 = 1 - models.BETA1**count, 1 - models.BETA2**count
    m, v, new = {}, {}, {}
    for name, p in params.items():
        g = grads[name] * scale
        m[name] = models.BETA1 * state["m"][name] + (1 - models.BETA1) * g
        v[name] = models.BETA2 * state["v"][name] + (1 - models.BETA2) * g * g
        change = (m[name] / c1) / (jnp.sqrt(v[name] / c2) + models.EPS)
        decay = models.DECAY if p.ndim >= 2 else 0.0
        new[name] = p - models.LEARNING_RATE * (change + decay * p)
    return new, {"count": count, "m": m, "v": v}


class Training:
    """Weights, state and the step of one variant."""

    def __init__(self, s, variant):
        self.mesh = Mesh(np.array(jax.devices()), ("devices",))
        self.cut = variant == "sharded"
        values = {}
        for name, value in models.weights(s).items():
            parts = [name] if not name.startswith(".") else [f"{i}{name}" for i in range(s.layers)]
            values |= zip(parts, value if name.startswith(".") else [value])
        self.params = {n: jax.device_put(v, self.placing(v.shape)) for n, v in values.items()}
        zeros = {n: jax.device_put(np.zeros_like(v), self.placing(v.shape)) for n, v in values.items()}
        count = jax.device_put(np.float32(0), self.placing(()))
        self.state = {"count": count, "m": zeros, "v": jax.tree.map(jnp.copy, zeros)}
        rows = NamedSharding(self.mesh, PartitionSpec("devices"))
        self.data = [jax.device_put(x, rows) for x in models.tokens(s)]

        def step(params, state, tokens, targets):
            value, grads = jax.value_and_grad(lambda p: loss_of(s, p, tokens, targets))(params)
            return value, *updated(params, state, grads)

        def places(tree):
            return jax.tree.map(lambda x: x.sharding, tree)

        outputs = (self.placing(()), places(self.params), places(self.state))
        self.jitted = jax.jit(step, donate_argnums=(0, 1), out_shardings=outputs)
        self.first = self.step()
        for _ in range(WARMUP - 1):
            self.step()

    def placing(self, shape):
        """How a weight of this shape is placed."""
        count = self.mesh.size
        at = next((d for d, size in enumerate(shape) if size % count == 0), None)
        if not self.cut or at is None:
            return NamedSharding(self.mesh, PartitionSpec())
        return NamedSharding(self.mesh, PartitionSpec(*[None] * at, "devices"))

    def step(self):
        result = self.jitted(self.params, self.state, *self.data)
        value, self.params, self.state = jax.block_until_ready(result)
        return float(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=ranks_model.SIZES, required=True)
    args = parser.parse_args()
    shape = ranks_model.shape(args.model)
    print(json.dumps({"version": f"JAX {jax.__version__}"}), flush=True)
    trainings = {}
    for line in sys.stdin:
        request = json.loads(line)
        variant = request["variant"]
        if not request["steps"]:
            del trainings[variant]
            continue
        if variant not in trainings:
            trainings[variant] = Training(shape, variant)
        seconds = []
        for _ in range(request["steps"]):
            start = time.perf_counter()
            trainings[variant].step()
            seconds.append(time.perf_counter() - start)
        answer = {"seconds": seconds, "first_loss": trainings[variant].first}
        print(json.dumps(answer), flush=True)


main()
