"""Models of the transformers library."""

import os
from pathlib import Path

import torch
from torch.overrides import TorchFunctionMode

from .exporting import cross_entropy, export
from .parameters import ROUTER_BIASES


def import_hf(name, path=None, *, batch, sequence, meta=None, **options):
    """Writes the training step of a causal language model of the transformers library as a `kerf.model`.

    name      folder with a config.json (and weights), a config, a model, or a name that the library can load.
    path      file to write to.
    batch     sequences of the global batch.
    sequence  tokens of a sequence.
    meta      True builds the model without values: for sizes that do not fit this machine. Default: where the
              folder has no weights.
    options   of `export`.

    Returns (text, model): the model is the library's, for its weights.
    """
    import transformers

    if isinstance(name, torch.nn.Module):
        model = name
    else:
        model = _load(transformers, name, meta)
    model.config.use_cache = False
    tokens = torch.zeros(batch, sequence, dtype=torch.long)
    if next(model.parameters()).device.type == "meta":
        tokens = tokens.to("meta")
    options.setdefault("deviation", getattr(model.config, "initializer_range", None) or 0.02)
    options.setdefault("name", model.config.model_type)
    options.setdefault("names", saved_names(model.config.model_type))
    model.train()
    return export(model, (tokens,), path, loss=loss_of(model.config), **options), model


def loss_of(config):
    """The library's loss of logits, with its auxiliary loss where the config asks for that."""
    coefficient = getattr(config, "router_aux_loss_coef", 0.0)

    def loss(output, targets):
        total = cross_entropy(output, targets)
        balance = getattr(output, "aux_loss", None)
        return total if balance is None else total + coefficient * balance

    return loss


# How a checkpoint names what the library holds in another form: (part of a module's name, in a checkpoint).
GRANITE = [
    (".experts.gate_up_proj", ".input_linear.weight"),
    (".experts.down_proj", ".output_linear.weight"),
    (".router.weight", ".router.layer.weight"),
]
RENAMED = {
    "ernie4_5_moe": [(".gate.moe_statics.", ".moe_statics.")],
    "gpt_neox": [("lm_head.weight", "embed_out.weight")],
    "granitemoe": GRANITE,
    "granitemoeshared": GRANITE,
    "minimax_m2": [(".mlp.", ".block_sparse_moe.")],
    "mixtral": [(".mlp.", ".block_sparse_moe.")],
}
# Families whose checkpoints have experts as the library holds them.
STACKED = ("gpt_oss", "granitemoe", "granitemoeshared", "llama4_text")
# Names of an expert's gate, up and down.
EXPERTS = {"minimax_m2": ("w1", "w3", "w2"), "mixtral": ("w1", "w3", "w2")}


def saved_names(model_type):
    """The function that gives a parameter's name in checkpoints: experts are one matrix each there."""
    gate, up, down = EXPERTS.get(model_type, ("gate_proj", "up_proj", "down_proj"))

    def saved(name):
        for own, other in RENAMED.get(model_type, ()):
            name = name.replace(own, other)
        module, _, last = name.rpartition(".")
        if model_type in STACKED:
            return name
        if module.endswith(".experts") and last == "gate_up_proj":
            return [f"{module}.{{e}}.{half}.weight" for half in (gate, up)]
        return f"{module}.{{e}}.{down}.weight" if module.endswith(".experts") and last == "down_proj" else name

    return saved


class NumbersOnCpu(TorchFunctionMode):
    """A single number has its value on any device: factors of embeddings are buffers."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function is torch.tensor and args and isinstance(args[0], (int, float)):
            kwargs["device"] = "cpu"
        return function(*args, **kwargs)


def _load(transformers, name, meta):
    config = name
    if isinstance(name, (str, os.PathLike)):
        has_weights = any(Path(name).glob("*.safetensors")) if Path(name).is_dir() else True
        if has_weights and not meta:
            return transformers.AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
        meta = True if meta is None else meta
        config = transformers.AutoConfig.from_pretrained(name)
    if not meta:
        return transformers.AutoModelForCausalLM.from_config(config)
    with torch.device("meta"), NumbersOnCpu():
        model = transformers.AutoModelForCausalLM.from_config(config)
    return with_buffers(model, transformers, config)


def with_buffers(model, transformers, config):
    """Buffers of a model on device "meta" have values, too: those of tables of positions follow from the config. The
    modules that hold them are made again on the CPU. Biases of routers are parameters, and need none."""
    for path, module in list(model.named_modules()):
        names = [name for name, buffer in module.named_buffers(recurse=False) if buffer.device.type == "meta"]
        if all(name.endswith(ROUTER_BIASES) for name in names):
            continue
        if any(True for _ in module.parameters()):
            raise ValueError(f"the buffers of '{path}' ({type(module).__name__}) cannot be made without its weights")
        parent = model.get_submodule(path.rpartition(".")[0])
        setattr(parent, path.rpartition(".")[2], type(module)(config=config))
    return model
