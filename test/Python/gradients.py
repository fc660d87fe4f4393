"""Gradients that a trace of PyTorch would lose are kept or refused: constants, own gradients, hooks, recomputation."""

import sys
import tempfile
from pathlib import Path

import kerf
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

TOKENS = torch.zeros(2, 4, dtype=torch.long)


class Model(nn.Module):
    """The sum of what `function` makes of embedded tokens."""

    def __init__(self, function):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8, 4))
        self.function = function

    def forward(self, tokens):
        return self.function(self.weight[tokens]).sum()


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return torch.floor(x)

    @staticmethod
    def backward(context, gradient):
        return gradient


def without(x):
    with torch.no_grad():
        y = torch.tanh(x)
    return x * y


def export(model):
    """The text, or what the error says."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mlir"
        try:
            kerf.export(model, (TOKENS,), path)
        except kerf.ExportError as error:
            return str(error)
        return path.read_text()


def hooked(register):
    model = Model(torch.tanh)
    register(model)
    return model


class Counting(nn.Module):
    """A loss of a buffer that each forward changes."""

    def __init__(self, change, reads=True):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8, 4))
        self.register_buffer("seen", torch.zeros(()))
        self.change, self.reads = change, reads

    def forward(self, tokens):
        self.change(self)
        x = self.weight[tokens].sum()
        return x * (1 + self.seen) if self.reads else x


def count(model):
    model.seen += 1


def clamp(model):
    with torch.no_grad():
        model.weight.clamp_(-0.1, 0.1)


def main():
    kept = {
        "detach": (lambda x: x + (torch.floor(x) - x).detach(), 1),
        "no_grad": (without, 1),
        "checkpoint": (lambda x: checkpoint(torch.tanh, x, use_reentrant=False), 0),
        "reentrant checkpoint": (lambda x: checkpoint(torch.tanh, x, use_reentrant=True), 0),
    }
    for name, (function, stops) in kept.items():
        text = export(Model(function))
        assert text.startswith("kerf.model") and text.count("kerf.stop_gradient") == stops, (name, text)
    refused = {
        "a gradient of one's own (Straight)": Model(Straight.apply),
        "the parameter 'weight' has a hook": hooked(lambda m: m.weight.register_hook(lambda g: 2 * g)),
        "'seen' is changed in forward()": Counting(count),
        "'weight' is changed in forward()": Counting(clamp, reads=False),
        "the module has a hook": hooked(lambda m: m.register_full_backward_hook(lambda *_: None)),
    }
    assert export(Counting(count, reads=False)).startswith("kerf.model")
    for words, model in refused.items():
        assert words in export(model), (words, export(model))
    print(f"{len(kept)} kept, {len(refused)} refused")


if __name__ == "__main__":
    sys.exit(main())
