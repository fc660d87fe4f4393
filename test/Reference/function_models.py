"""Loss functions of tiny models in JAX: by hand, with Flax (Linen and NNX) and Equinox, and Penzai's own. See
functions.py."""

import dataclasses
from functools import partial

import equinox
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy
import optax
from flax import nnx
from penzai import pz
from penzai.models.transformer.variants import gpt_neox, llamalike_common

VOCAB, WIDTH, HEADS, LAYERS, SEQ = 32, 16, 2, 3, 12
HEAD = WIDTH // HEADS


def cross_entropy(logits, targets):
    """By hand: the mean of what a log-softmax gives the targets."""
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], axis=-1)
    return -chosen.mean()


def shared_cross_entropy(logits, targets):
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()


# By hand


def norm_shapes():
    return {"g": (WIDTH,), "b": (WIDTH,)}


def layer_shapes():
    return {
        "ln1": norm_shapes(), "qkv": (WIDTH, 3 * WIDTH), "proj": (WIDTH, WIDTH),
        "ln2": norm_shapes(), "up": (WIDTH, 4 * WIDTH), "up_bias": (4 * WIDTH,), "down": (4 * WIDTH, WIDTH),
    }  # fmt: skip


def layer_norm(x, p):
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * p["g"] + p["b"]


def split_heads(x):
    return x.reshape(*x.shape[:2], HEADS, HEAD).transpose(0, 2, 1, 3)


def attend(x, p):
    q, k, v = (split_heads(part) for part in jnp.split(x @ p["qkv"], 3, -1))
    scores = q @ k.transpose(0, 1, 3, 2) / numpy.sqrt(HEAD)
    mask = jnp.tril(jnp.ones((SEQ, SEQ), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e10), -1)
    return (weights @ v).transpose(0, 2, 1, 3).reshape(x.shape) @ p["proj"]


def block(x, p):
    x = x + attend(layer_norm(x, p["ln1"]), p)
    hidden = jax.nn.gelu(layer_norm(x, p["ln2"]) @ p["up"] + p["up_bias"])
    return x + hidden @ p["down"]


def plain():
    """A list of layers, a tied head."""
    shapes = {"wte": (VOCAB, WIDTH), "wpe": (SEQ, WIDTH), "layers": [layer_shapes() for _ in range(LAYERS)], "lnf": norm_shapes()}

    def loss(p, tokens, targets):
        x = p["wte"][tokens] + p["wpe"][: tokens.shape[1]]
        for layer in p["layers"]:
            x = block(x, layer)
        return cross_entropy(layer_norm(x, p["lnf"]) @ p["wte"].T, targets)

    return shapes, loss


def scanned():
    """Layers in stacks, read by a scan whose body is computed again."""
    stack = jax.tree.map(lambda shape: (LAYERS, *shape), layer_shapes(), is_leaf=lambda s: isinstance(s, tuple))
    shapes = {"wte": (VOCAB, WIDTH), "wpe": (SEQ, WIDTH), "blocks": stack, "lnf": norm_shapes()}

    def loss(p, batch):
        x = p["wte"][batch["inputs"]] + p["wpe"][jnp.arange(SEQ)]
        x, _ = jax.lax.scan(jax.checkpoint(lambda x, layer: (block(x, layer), None)), x, p["blocks"])
        logits = layer_norm(x, p["lnf"]) @ p["wte"].T
        one_hot = jax.nn.one_hot(batch["targets"], VOCAB)
        return optax.softmax_cross_entropy(logits, one_hot).mean()

    return shapes, loss


EXPERTS, CHOSEN = 4, 2


def expert_block(x, p):
    """Two of four experts, all of them computed, weighed by a one-hot sum."""
    x = x + attend(layer_norm(x, p["ln1"]), p)
    hidden = layer_norm(x, p["ln2"])
    chances, chosen = jax.lax.top_k(jax.nn.softmax(hidden @ p["router"], -1), CHOSEN)
    weights = jnp.sum(jax.nn.one_hot(chosen, EXPERTS) * (chances / chances.sum(-1, keepdims=True))[..., None], axis=2)
    gate, up = (jnp.einsum("bsd,edf->bsef", hidden, p[name]) for name in ("gate", "up"))
    y = jnp.einsum("bsef,efd->bsed", jax.nn.silu(gate) * up, p["down"])
    return x + jnp.einsum("bsed,bse->bsd", y, weights)


def experts():
    layer = {
        "ln1": norm_shapes(), "qkv": (WIDTH, 3 * WIDTH), "proj": (WIDTH, WIDTH), "ln2": norm_shapes(),
        "router": (WIDTH, EXPERTS), "gate": (EXPERTS, WIDTH, 24), "up": (EXPERTS, WIDTH, 24), "down": (EXPERTS, 24, WIDTH),
    }  # fmt: skip
    shapes = {"wte": (VOCAB, WIDTH), "layers": [layer, layer], "head": (WIDTH, VOCAB)}

    def loss(p, tokens, targets):
        x = p["wte"][tokens]
        for each in p["layers"]:
            x = expert_block(x, each)
        return cross_entropy(x @ p["head"], targets)

    return shapes, loss


def turned(x, table):
    """Rotary embeddings as products of complex numbers: channels 2j and 2j + 1 are a pair."""
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    y = jax.lax.complex(pairs[..., 0], pairs[..., 1]) * table[:, :, None]
    return jnp.stack([jnp.real(y), jnp.imag(y)], -1).reshape(x.shape).astype(x.dtype)


def complex_block(x, p, table):
    hidden = layer_norm(x, p["ln1"])
    q, k, v = (part.reshape(*x.shape[:2], HEADS, HEAD) for part in jnp.split(hidden @ p["qkv"], 3, -1))
    y = jax.nn.dot_product_attention(turned(q, table), turned(k, table), v, is_causal=True)
    x = x + y.reshape(x.shape) @ p["proj"]
    return x + jax.nn.gelu(layer_norm(x, p["ln2"]) @ p["up"] + p["up_bias"]) @ p["down"]


def complexes():
    """A table of complex numbers, rows of it by positions, read in a scan."""
    stack = jax.tree.map(lambda shape: (LAYERS, *shape), layer_shapes(), is_leaf=lambda s: isinstance(s, tuple))
    shapes = {"wte": (VOCAB, WIDTH), "blocks": stack, "lnf": norm_shapes()}
    angles = numpy.outer(numpy.arange(2 * SEQ), 10000.0 ** -(numpy.arange(0, HEAD, 2) / HEAD))

    def loss(p, tokens, targets):
        x = p["wte"][tokens]
        table = jnp.asarray(numpy.cos(angles) + 1j * numpy.sin(angles)).astype(jax.lax.complex(x, x).dtype)
        positions = jnp.broadcast_to(jnp.arange(SEQ), tokens.shape)
        table = jnp.take(table, positions, axis=0)
        x, _ = jax.lax.scan(lambda x, layer: (complex_block(x, layer, table), None), x, p["blocks"])
        return cross_entropy(layer_norm(x, p["lnf"]) @ p["wte"].T, targets)

    return shapes, loss


def sorted_tokens(x, p):
    """Tokens of a sequence in the order of a score, mixed with their neighbors there, and put back."""
    score = x @ p["score"]
    order = jnp.argsort(score, axis=1)
    rows = jnp.arange(x.shape[0])[:, None]
    y = jnp.take_along_axis(x, order[..., None], axis=1)
    y = y + y.at[:, 1:].add(y[:, :-1] * 0.5)
    return jnp.zeros_like(x).at[rows, order].set(y) * jax.nn.sigmoid(score)[..., None]


def routed(x, p):
    """Two of four experts with room for so many tokens: copied to their places, computed, added back by weight."""
    flat = x.reshape(-1, WIDTH)
    count, room = flat.shape[0], 10
    chances, chosen = jax.lax.top_k(jax.nn.softmax(flat @ p["router"], -1), CHOSEN)
    dense = jnp.zeros((count, EXPERTS)).at[jnp.arange(count)[:, None], chosen].set(chances)
    loads = jnp.zeros(EXPERTS).at[chosen.reshape(-1)].add(1.0)
    expert, token = chosen.reshape(-1), jnp.repeat(jnp.arange(count), CHOSEN)
    mine = jax.nn.one_hot(expert, EXPERTS, dtype=jnp.int32)
    place = jnp.sum((jnp.cumsum(mine, 0) - 1) * mine, -1)  # tokens beyond the room are dropped
    sent = jnp.zeros((EXPERTS, room, WIDTH)).at[expert, place].add(flat[token], mode="drop")
    hidden = jax.nn.silu(jnp.einsum("ecd,edf->ecf", sent, p["gate"])) @ p["down"]
    back = hidden.at[expert, place].get(mode="fill", fill_value=0.0) * dense[token, expert][:, None]
    y = jnp.zeros_like(flat).at[token].add(back)
    return y.reshape(x.shape), jnp.sum(loads / count * dense.mean(0))


def rows():
    """Scatters, gathers along several dimensions, and sorts."""
    layer = {
        "ln1": norm_shapes(), "qkv": (WIDTH, 3 * WIDTH), "proj": (WIDTH, WIDTH), "ln2": norm_shapes(), "score": (WIDTH,),
        "router": (WIDTH, EXPERTS), "gate": (EXPERTS, WIDTH, 24), "down": (EXPERTS, 24, WIDTH),
    }  # fmt: skip
    shapes = {"wte": (VOCAB, WIDTH), "bag": (VOCAB, WIDTH), "layers": [layer, layer], "head": (WIDTH, VOCAB)}

    def loss(p, tokens, targets):
        before = jnp.zeros_like(tokens).at[:, 1:].set(tokens[:, :-1]).at[:, 0].set(VOCAB - 1)
        present = jnp.zeros((tokens.shape[0], VOCAB)).at[jnp.arange(tokens.shape[0])[:, None], tokens].set(1.0)
        often = jnp.bincount(before.reshape(-1), length=VOCAB) / before.size
        x = p["wte"][tokens] + p["bag"][before] + (present @ p["bag"])[:, None] + often @ p["wte"]
        balance = 0.0
        for each in p["layers"]:
            x = x + attend(layer_norm(x, each["ln1"]), each)
            y, more = routed(layer_norm(x, each["ln2"]), each)
            x, balance = x + y + sorted_tokens(x, each), balance + more
        middle = jnp.sort(x, axis=-1)[..., 4:12].mean(-1, keepdims=True) + jnp.median(x, axis=-1, keepdims=True)
        return cross_entropy((x - middle) @ p["head"], targets) + 0.01 * balance

    return shapes, loss


def recurrent(x):
    """h[t] = a[t] h[t - 1] + x[t], by a scan that is associative."""
    both = lambda one, two: (one[0] * two[0], one[1] * two[0] + two[1])
    return jax.lax.associative_scan(both, (jax.nn.sigmoid(x), x), axis=1)[1]


def windows():
    """Convolutions (causal and channel by channel, in groups, of a sequence as a plane, with strides and holes), maxima of
    windows, running products and a recurrence."""
    layer = {
        "ln1": norm_shapes(), "short": (4, 1, WIDTH), "bias": (WIDTH,), "grouped": (WIDTH, WIDTH // 4, 3),
        "plane": (3, 2, 1, 2), "half": (2, WIDTH, WIDTH), "ln2": norm_shapes(), "up": (WIDTH, 24), "down": (24, WIDTH),
    }  # fmt: skip
    shapes = {"wte": (VOCAB, WIDTH), "layers": [layer, layer], "lnf": norm_shapes()}
    convolve = jax.lax.conv_general_dilated

    def mixed(x, p):
        y = convolve(x, p["short"], (1,), [(3, 0)], dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=WIDTH)
        y = jax.nn.relu6(jax.nn.silu(y + p["bias"])) + recurrent(x)
        y = y + jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 1), (1, 1, 1), [(0, 0), (2, 0), (0, 0)])
        y = y * jnp.cumprod(1 + 0.1 * x, axis=1)
        y = y + convolve(
            x.transpose(0, 2, 1), p["grouped"], (1,), [(4, 0)], rhs_dilation=(2,), feature_group_count=4
        ).transpose(0, 2, 1)
        plane = convolve(x[..., None], p["plane"], (1, 2), [(2, 0), (0, 0)], dimension_numbers=("NHWC", "HWIO", "NHWC"))
        y = y + plane.reshape(x.shape)
        half = convolve(x, p["half"], (2,), "VALID", dimension_numbers=("NWC", "WIO", "NWC"))
        # A pair sees the pair before.
        return y + jnp.repeat(jnp.pad(half, ((0, 0), (1, 0), (0, 0)))[:, :-1], 2, axis=1)

    def loss(p, tokens, targets):
        x = p["wte"][tokens]
        for each in p["layers"]:
            x = x + mixed(layer_norm(x, each["ln1"]), each)
            x = x + jax.nn.gelu(layer_norm(x, each["ln2"]) @ each["up"]) @ each["down"]
        return cross_entropy(layer_norm(x, p["lnf"]) @ p["wte"].T, targets)

    return shapes, loss


def stops():
    """Gradients that are stopped: rounding that is seen through, in a scan, and a loss with a constant in it."""
    stack = jax.tree.map(lambda shape: (LAYERS, *shape), layer_shapes(), is_leaf=lambda s: isinstance(s, tuple))
    shapes = {"wte": (VOCAB, WIDTH), "blocks": stack, "lnf": norm_shapes()}

    def body(x, layer):
        x = block(x, layer)
        rounded = (jnp.floor(x * 16) + jnp.round(x * 16) + jnp.ceil(x * 16)) / 48
        return x + jax.lax.stop_gradient(rounded - x), None

    def loss(p, tokens, targets):
        x, _ = jax.lax.scan(body, p["wte"][tokens], p["blocks"])
        x = layer_norm(x, p["lnf"])
        logits = x @ p["wte"].T
        certain = jax.lax.stop_gradient(jax.nn.softmax(logits)).max(-1)
        return cross_entropy(logits, targets) + 0.1 * (certain * jnp.square(x).mean(-1)).mean()

    return shapes, loss


def ties():
    """Slopes at bounds and of equal values: jax.nn.relu has none at 0, in scans and batches, too; jnp.maximum shares."""

    def zero(x):
        return x - jax.lax.stop_gradient(x)

    def mine(x):
        return jnp.maximum(x, 0)

    def loss(p, tokens, targets):
        x = p["wte"][tokens]
        y = jax.nn.relu(zero(x)) + jnp.maximum(zero(x), 0) * 2 + jax.jit(mine)(zero(x)) * 4 + jnp.abs(zero(x)) * 8
        y += jax.vmap(jax.nn.relu)(zero(x)) + jax.nn.relu6(zero(x) + 6) * 2 + jax.checkpoint(jax.nn.relu6)(zero(x)) * 4
        y += jnp.clip(zero(x), 0, 1) + jnp.clip(zero(x) + 1, 0, 1) * 2 + jax.lax.clamp(0.0, zero(x), 1.0) * 4
        y += jnp.minimum(x, jax.lax.stop_gradient(x)) + jax.nn.leaky_relu(zero(x)) * 2 + jax.nn.elu(zero(x)) * 4
        y += zero(x).max(-1, keepdims=True) + jax.nn.softplus(zero(x)) * 2 + jax.nn.hard_tanh(zero(x) + 1) * 4
        y += jax.nn.hard_sigmoid(zero(x) - 3) + jax.nn.hard_silu(zero(x) + 3) * 2 + jnp.logaddexp(zero(x), 0) * 4
        carried, _ = jax.lax.scan(lambda carry, row: (jax.nn.relu(carry + zero(row)), None), zero(x[0]), x)
        return cross_entropy((x + 0.1 * y + 0.1 * carried) @ p["wte"].T, targets)

    return {"wte": (VOCAB, WIDTH)}, loss


def places():
    """Where values are, and what is read and written where values say; functions that need no digits of 1 + x."""

    def best(x):
        return jax.lax.stop_gradient(x).argmax(-1)

    def loss(p, tokens, targets):
        x = p["wte"][tokens]
        at = best(x)[0, 0]
        y = x * jnp.argmin(x, -1, keepdims=True) + x * (best(x) * 7 % 5).argmax(1)[:, None, None]
        y += jnp.select([x > 0.1, x < -0.1], [x, 2 * x], 3 * x) + x * (x > 0.1).argmax(-1, keepdims=True)
        y += jax.lax.dynamic_slice(x, (0, at, 0), (x.shape[0], 3, WIDTH)).sum(1, keepdims=True)
        y += jax.lax.dynamic_update_slice(x, x[:, :2, :5] * 3, (0, at, best(x)[1, 0]))
        y += jax.lax.dynamic_index_in_dim(x, best(x)[0, 1] - 8, 1)
        y += jnp.mod(x, 0.3) + jnp.fmod(x, 0.2) * 2 + x * jnp.mod(best(x) - 8, 3)[..., None] + x * jax.lax.rem(best(x) - 8, 3)[..., None]
        y += jax.lax.cumlogsumexp(x, 1) + jax.lax.cumlogsumexp(x, 2, reverse=True) * 2
        y += jnp.sinh(x) + jnp.cosh(x) + jnp.arctanh(x) + jnp.expm1(x * 1e-6) * 1e6 + jnp.log1p(x * 1e-6) * 1e6
        return cross_entropy((x + 0.1 * y) @ p["wte"].T, targets)

    return {"wte": (VOCAB, WIDTH)}, loss


# Flax Linen


class LinenBlock(nn.Module):
    @nn.compact
    def __call__(self, x, mask):
        hidden = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(num_heads=HEADS, use_bias=False)(hidden, hidden, mask=mask)
        hidden = nn.silu(nn.Dense(4 * WIDTH)(nn.RMSNorm()(x)))
        return x + nn.Dense(WIDTH)(hidden)


class Linen(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(VOCAB, WIDTH)(tokens) + nn.Embed(SEQ, WIDTH)(jnp.arange(SEQ)[None])
        mask = nn.make_causal_mask(tokens)
        for _ in range(LAYERS):
            x = LinenBlock()(x, mask)
        return nn.Dense(VOCAB, use_bias=False)(nn.LayerNorm()(x))


class Carried(nn.Module):
    @nn.compact
    def __call__(self, x, mask):
        return LinenBlock()(x, mask), None


class LinenScan(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(VOCAB, WIDTH)(tokens)
        stack = nn.scan(nn.remat(Carried), variable_axes={"params": 0}, split_rngs={"params": True}, in_axes=nn.broadcast, length=LAYERS)
        x, _ = stack()(x, nn.make_causal_mask(tokens))
        return nn.Dense(VOCAB, use_bias=False)(nn.RMSNorm()(x))


def linen(model):
    def build():
        tokens = jnp.zeros((2, SEQ), jnp.int32)
        shapes = jax.tree.map(lambda x: x.shape, jax.eval_shape(model().init, jax.random.key(0), tokens))
        return shapes, lambda p, tokens, targets: shared_cross_entropy(model().apply(p, tokens), targets)

    return build


# Flax NNX


def rotate(x):
    """Rotary embeddings of halves."""
    angles = jnp.arange(SEQ)[:, None] / 10000.0 ** (jnp.arange(0, HEAD, 2) / HEAD)
    cos, sin = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


class NnxBlock(nnx.Module):
    """As Llama: rotary embeddings, one group of keys and values, a gate."""

    def __init__(self, rngs):
        linear = partial(nnx.Linear, use_bias=False, rngs=rngs)
        self.norm1, self.norm2 = nnx.RMSNorm(WIDTH, rngs=rngs), nnx.RMSNorm(WIDTH, rngs=rngs)
        self.q, self.k, self.v = linear(WIDTH, WIDTH), linear(WIDTH, HEAD), linear(WIDTH, HEAD)
        self.o = linear(WIDTH, WIDTH)
        self.gate, self.up, self.down = linear(WIDTH, 24), linear(WIDTH, 24), linear(24, WIDTH)

    def __call__(self, x):
        hidden = self.norm1(x)
        q, k, v = (f(hidden).reshape(*x.shape[:2], -1, HEAD) for f in (self.q, self.k, self.v))
        y = jax.nn.dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        x = x + self.o(y.reshape(x.shape))
        hidden = self.norm2(x)
        return x + self.down(nnx.silu(self.gate(hidden)) * self.up(hidden))


class NnxModel(nnx.Module):
    def __init__(self, rngs):
        # What it looks up has the type that it was made with.
        self.embed = nnx.Embed(VOCAB, WIDTH, param_dtype=jnp.result_type(float), rngs=rngs)
        self.blocks = nnx.List([NnxBlock(rngs) for _ in range(LAYERS)])
        self.norm = nnx.RMSNorm(WIDTH, rngs=rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        for each in self.blocks:
            x = each(x)
        return self.embed.attend(self.norm(x))


def nnx_model():
    graph, state = nnx.split(nnx.eval_shape(lambda: NnxModel(nnx.Rngs(0))))
    shapes = jax.tree.map(lambda x: x.shape, state)
    return shapes, lambda p, tokens, targets: shared_cross_entropy(nnx.merge(graph, p)(tokens), targets)


# Equinox


class EquinoxBlock(equinox.Module):
    attention: equinox.nn.MultiheadAttention
    norm1: equinox.nn.LayerNorm
    norm2: equinox.nn.RMSNorm
    mlp: equinox.nn.MLP
    rope: equinox.nn.RotaryPositionalEmbedding

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.attention = equinox.nn.MultiheadAttention(HEADS, WIDTH, key=first)
        self.norm1, self.norm2 = equinox.nn.LayerNorm(WIDTH), equinox.nn.RMSNorm(WIDTH)
        self.mlp = equinox.nn.MLP(WIDTH, WIDTH, 4 * WIDTH, 1, activation=jax.nn.gelu, key=second)
        self.rope = equinox.nn.RotaryPositionalEmbedding(HEAD)

    def __call__(self, x):
        def turned(q, k, v):
            return jax.vmap(self.rope, 1, 1)(q), jax.vmap(self.rope, 1, 1)(k), v

        hidden = jax.vmap(self.norm1)(x)
        mask = jnp.tril(jnp.ones((SEQ, SEQ), bool))
        x = x + self.attention(hidden, hidden, hidden, mask=mask, process_heads=turned)
        return x + jax.vmap(self.mlp)(jax.vmap(self.norm2)(x))


class EquinoxModel(equinox.Module):
    embed: equinox.nn.Embedding
    blocks: list
    norm: equinox.nn.LayerNorm
    head: equinox.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, LAYERS + 2)
        self.embed = equinox.nn.Embedding(VOCAB, WIDTH, key=keys[0])
        self.blocks = [EquinoxBlock(k) for k in keys[1:-1]]
        self.norm = equinox.nn.LayerNorm(WIDTH)
        self.head = equinox.nn.Linear(WIDTH, VOCAB, use_bias=False, key=keys[-1])

    def __call__(self, tokens):
        x = jax.vmap(self.embed)(tokens)
        for each in self.blocks:
            x = each(x)
        return jax.vmap(self.head)(jax.vmap(self.norm)(x))


def equinox_model():
    arrays, rest = equinox.partition(EquinoxModel(jax.random.key(0)), equinox.is_inexact_array)
    shapes = jax.tree.map(lambda x: x.shape, arrays)
    return shapes, lambda p, tokens, targets: shared_cross_entropy(jax.vmap(equinox.combine(p, rest))(tokens), targets)


# Penzai: models that others publish, with named axes


def penzai(build, config, **options):
    def model():
        dtype = jnp.result_type(float)
        whole = build(config(parameter_dtype=dtype, activation_dtype=dtype, **options), init_base_rng=jax.random.key(0))
        empty, variables = pz.unbind_params(whole, freeze=True)
        shapes = {variable.label: variable.value.data_array.shape for variable in variables}

        def loss(p, tokens, targets):
            filled = [dataclasses.replace(v, value=dataclasses.replace(v.value, data_array=p[v.label])) for v in variables]
            logits = pz.bind_variables(empty, filled)(pz.nx.wrap(tokens, "batch", "seq"))
            return shared_cross_entropy(logits.unwrap("batch", "seq", "vocabulary"), targets)

        return shapes, loss

    return model


PENZAI = {
    "embedding_dim": WIDTH, "projection_dim": HEAD, "mlp_hidden_dim": 24, "num_decoder_blocks": LAYERS, "vocab_size": VOCAB,
}  # fmt: skip
PENZAI_LLAMA = PENZAI | {"query_head_multiplier": 2, "num_kv_heads": 2, "tie_embedder_and_logits": False, "mlp_variant": "swiglu"}
PENZAI_GEMMA = PENZAI | {
    "query_head_multiplier": 2, "num_kv_heads": 1, "tie_embedder_and_logits": True, "mlp_variant": "geglu_approx",
    "num_decoder_blocks": 4, "use_post_attn_norm": True, "use_post_ffw_norm": True,
    "attention_type": (llamalike_common.AttentionTypeSlidingWindowCausal(5), llamalike_common.AttentionTypeGlobalCausal()),
    "final_logit_softcap": 30.0, "attn_logits_soft_cap": 50.0,
}  # fmt: skip
PENZAI_NEOX = PENZAI | {
    "num_attention_heads": HEADS, "activation_fn": "gelu_exact", "rope_subset_size": 4, "rope_wavelength": 10000.0,
    "layernorm_epsilon": 1e-5,
}  # fmt: skip
llamalike = partial(penzai, llamalike_common.build_llamalike_transformer, llamalike_common.LlamalikeTransformerConfig)

CASES = {
    "jax-plain": plain,
    "jax-scan": scanned,
    "jax-experts": experts,
    "jax-complex": complexes,
    "jax-rows": rows,
    "jax-windows": windows,
    "jax-stops": stops,
    "jax-ties": ties,
    "jax-places": places,
    "flax-linen": linen(Linen),
    "flax-linen-scan": linen(LinenScan),
    "flax-nnx": nnx_model,
    "equinox": equinox_model,
    "penzai-llama": llamalike(**PENZAI_LLAMA),
    "penzai-llama-stack": llamalike(**PENZAI_LLAMA, use_layer_stack=True),
    "penzai-gemma2": llamalike(**PENZAI_GEMMA),
    "penzai-neox": penzai(gpt_neox.build_gpt_neox_transformer, gpt_neox.GPTNeoXTransformerConfig, **PENZAI_NEOX),
}
