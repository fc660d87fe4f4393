"""A small GPT in PyTorch, from its definition to trained weights on four ranks.

    pip install torch safetensors; export KERF_BIN=.../bin PYTHONPATH=.../tools/python
    python3 examples/python/gpt_torch.py text.txt      # any file of text
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F

import kerf

VOCAB, WIDTH, HEADS, LAYERS, BATCH, SEQ = 256, 64, 4, 4, 8, 32


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, seq, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, seq, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, seq, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(SEQ, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def main(data):
    torch.manual_seed(0)
    module, tokens = GPT(), torch.zeros(BATCH, SEQ, dtype=torch.long)
    kerf.export(module, (tokens, tokens), "gpt.mlir")
    kerf.save_weights(module, "gpt.safetensors")
    print(kerf.plan("gpt.mlir", "this-machine", devices=4))
    print(kerf.compile("gpt.mlir", "this-machine", "gpt.kerf", devices=4, pin={"tp": 2, "dp": 2}))
    options = {"lr": 1e-3, "threads": 1, "init_from": "gpt.safetensors", "save_weights": "trained.safetensors"}
    run = kerf.run("gpt.kerf", data, steps=50, **options)
    print(f"loss {run.losses[0]:.3f} -> {run.losses[-1]:.3f}")
    text = torch.tensor(list(open(data, "rb").read(BATCH * SEQ + 1)))
    first, shifted = text[:-1].view(BATCH, SEQ), text[1:].view(BATCH, SEQ)
    before = module(first, shifted).item()
    kerf.load_weights(module, "trained.safetensors")
    print(f"in PyTorch {before:.3f} -> {module(first, shifted).item():.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
