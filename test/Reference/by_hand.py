"""Reference results of a model that the library does not have, written here.

PaLM (Chowdhery et al. 2022, arXiv 2204.02311, section 2) in plain PyTorch, by its
formulas and nothing of the library: attention and MLP of a layer read one norm and are
added, all query heads share one head of keys and values, nothing has a bias, the
embedding is the head, logits are divided by sqrt(width), and each token adds
1e-4 ln(Z)^2 to the loss.
"""

import copy
from types import SimpleNamespace

import torch
from torch import nn

import cases
import checks
import training
from float64 import Float64, NoFloat32

# The sizes of cases/palm/model.mlir.
VOCAB, WIDTH, LAYERS, HEADS, HEAD_DIM, FFN = 24, 16, 2, 3, 4, 20
Z_LOSS = 1e-4


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


def rotate(x):
    """Rotary embedding of x [B, S, H, E]: channel j turns with channel j + E / 2."""
    half = x.shape[-1] // 2
    j = torch.arange(half, dtype=x.dtype)
    position = torch.arange(x.shape[1], dtype=x.dtype)
    angle = position[:, None] * torch.full((), 10000.0, dtype=x.dtype) ** (-j / half)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = linear(WIDTH, HEADS * HEAD_DIM)
        self.k, self.v = linear(WIDTH, HEAD_DIM), linear(WIDTH, HEAD_DIM)
        self.o = linear(HEADS * HEAD_DIM, WIDTH)

    def forward(self, x):
        queries = rotate(self.q(x).unflatten(-1, (HEADS, HEAD_DIM)))
        keys = rotate(self.k(x)[:, :, None])[:, :, 0]
        scores = torch.einsum("bqhe,bke->bhqk", queries, keys) / HEAD_DIM**0.5
        hidden = ~checks.visible(x.shape[1], None)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        return self.o(torch.einsum("bhqk,bke->bqhe", weights, self.v(x)).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = linear(WIDTH, FFN), linear(WIDTH, FFN)
        self.down = linear(FFN, WIDTH)

    def forward(self, x):
        gate = self.gate(x)
        return self.down(gate * torch.sigmoid(gate) * self.up(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, eps=1e-5, bias=False)
        self.attn, self.mlp = Attention(), Mlp()

    def forward(self, x):
        normed = self.norm(x)
        return x + self.mlp(normed) + self.attn(normed)


class Palm(nn.Module):
    """Called like a model of the library."""

    def __init__(self):
        super().__init__()
        self.palm = nn.Module()
        self.palm.embed_tokens = nn.Embedding(VOCAB, WIDTH)
        self.palm.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.palm.norm = nn.LayerNorm(WIDTH, eps=1e-5, bias=False)

    def forward(self, input_ids, labels):
        x = self.palm.embed_tokens(input_ids)
        for layer in self.palm.layers:
            x = layer(x)
        logits = self.palm.norm(x) @ self.palm.embed_tokens.weight.T / WIDTH**0.5
        # The model says at position i what stands at i + 1.
        logits, wanted = logits[:, :-1], labels[:, 1:]
        valid = wanted != cases.IGNORED
        log_z = logits.logsumexp(-1)
        picked = logits.gather(-1, wanted.clamp(min=0)[..., None])[..., 0]
        losses = log_z - picked + Z_LOSS * log_z**2
        return SimpleNamespace(loss=losses[valid].sum() / valid.sum())


def produce(case):
    """Tensors and metadata of the reference file of `case`."""
    model = Palm()
    shapes = {name: tuple(value.shape) for name, value in model.named_parameters()}
    weights = cases.weights(case, shapes, WIDTH**-0.5)
    model.load_state_dict(weights)
    tokens, targets = cases.batches(case, VOCAB, None)
    model64 = copy.deepcopy(model).double()
    with Float64(), NoFloat32():
        exact = training.train(model64, tokens, targets)
    rounded = training.train(model, tokens, targets)
    tensors = {"tokens": tokens, "targets": targets}
    tensors |= {f"param.{name}": tensor for name, tensor in weights.items()}
    for prefix, run in (("f64", exact), ("f32", rounded)):
        tensors |= training.stored(prefix, run, lambda values, _: dict(zip(shapes, values)))
    metadata = training.metadata(case)
    return tensors, metadata
