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


def inferred(x):
    with torch.inference_mode():
        y = torch.tanh(x)
    return x * y.clone()


def detached_in_place(x):
    y = torch.tanh(x)
    y.detach_()
    return x * y


def changed_outside(x):
    y = torch.tanh(x)
    with torch.no_grad():
        y[:, 0] = 0
    return x * y


def changed_alias(x):
    y = torch.tanh(x)
    y.detach().mul_(2)
    return x * y


def changed_copy(x):
    y = torch.tanh(x)
    return x * y.detach().clone().mul_(2) * y


class Freezing(Model):
    def forward(self, tokens):
        self.weight.requires_grad_(False)
        return super().forward(tokens)


class Twice(Model):
    """Two parameters in one memory."""

    def __init__(self):
        super().__init__(torch.tanh)
        self.other = nn.Parameter(self.weight.data)

    def forward(self, tokens):
        return super().forward(tokens) * self.other.sum()


class Masked(Model):
    def forward(self, tokens, attention_mask):
        return super().forward(tokens * attention_mask)


def export(model, *more):
    """The text, or what the error says."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mlir"
        try:
            kerf.export(model, (TOKENS, *more), path)
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


def saves_what_is_read():
    """Parameters with any name; what the loss does not need is in no file."""
    from safetensors import safe_open

    model = Model(torch.tanh)
    model.register_parameter("größe", nn.Parameter(torch.ones(4)))
    model.unused = nn.Linear(4, 4)
    model.function = lambda x: x * model.größe
    assert 'kerf.param "gr\\C3\\B6\\C3\\9Fe"' in export(model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        kerf.save_weights(model, path)
        with safe_open(path, "pt") as file:
            assert sorted(file.keys()) == ["größe", "weight"], file.keys()


def main():
    kept = {
        "detach": (lambda x: x + (torch.floor(x) - x).detach(), 1),
        "no_grad": (without, 1),
        "checkpoint": (lambda x: checkpoint(torch.tanh, x, use_reentrant=False), 0),
        "rows that are dropped": (lambda x: x * x.new_empty((2, 1, 1)).bernoulli_(0.75).div_(0.75), 0),
        "inference_mode": (inferred, 1),
        "a changed copy": (changed_copy, 1),
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
        "detach_() in forward()": Model(detached_in_place),
        "within torch.no_grad a value from outside is changed": Model(changed_outside),
        "a detached value is changed in place": Model(changed_alias),
        "requires_grad_() of a parameter in forward()": Freezing(torch.tanh),
        "are two parameters in one memory": Twice(),
        "the module has a hook": hooked(lambda m: m.register_full_backward_hook(lambda *_: None)),
    }
    assert export(Counting(count, reads=False)).startswith("kerf.model")
    for words, model in refused.items():
        assert words in export(model), (words, export(model))
    assert "the input 'attention_mask' of forward() would be targets" in export(Masked(torch.tanh), TOKENS)
    saves_what_is_read()
    print(f"{len(kept)} kept, {len(refused)} refused")


if __name__ == "__main__":
    sys.exit(main())
