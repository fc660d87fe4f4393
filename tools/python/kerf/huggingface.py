"""Models of the transformers library."""

import os
from pathlib import Path

import torch

from .exporting import export


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
    model.train()
    return export(model, (tokens,), path, loss="cross_entropy", **options), model


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
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    return with_buffers(model, transformers, config)


def with_buffers(model, transformers, config):
    """Buffers of a model on device "meta" have values, too: those of tables of positions follow from the config. The
    modules that hold them are made again on the CPU."""
    for path, module in list(model.named_modules()):
        if not any(b.device.type == "meta" for b in module.buffers(recurse=False)):
            continue
        if any(True for _ in module.parameters()):
            raise ValueError(f"the buffers of '{path}' ({type(module).__name__}) cannot be made without its weights")
        parent = model.get_submodule(path.rpartition(".")[0])
        setattr(parent, path.rpartition(".")[2], type(module)(config=config))
    return model
