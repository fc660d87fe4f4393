"""Builds library models and reads tensors of them under checkpoint names.

The library keeps some weights in another form than it saves them (Mixtral's
experts are one 3-D tensor in memory and 3 matrices per expert in the file).
Everything that goes into a reference file goes through `save_pretrained`, so that
names and shapes are those of a saved checkpoint, also for gradients.
"""

import copy
import json
import shutil
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

import cases
import checks
import training
from float64 import Float64


def plain(config):
    """The plain implementations: no fused attention, no grouped matmul."""
    experts = {"experts_implementation": "eager"} if checks.has_experts(config) else {}
    return {"attn_implementation": "eager", **experts}


def config_of(case):
    """The library's config object of `case`."""
    return AutoConfig.from_pretrained(cases.folder(case))


def untrained(case):
    """A model of `case` in training mode with the library's own initial values."""
    config = config_of(case)
    return AutoModelForCausalLM.from_config(config, **plain(config)).train()


def tensors_of(model, values=None, others=None):
    """Checkpoint name -> tensor, as `save_pretrained` writes it.

    `values`, one tensor per parameter that is trained, replaces the parameters' values
    (gradients, say), `others` those of other tensors by name. Tied tensors appear once.
    """
    model = copy.deepcopy(model)
    for name, value in (others or {}).items():
        training.untrained_tensor(model, name).copy_(value)
    if values is not None:
        with torch.no_grad():
            for parameter, value in zip(training.trained(model), values, strict=True):
                parameter.copy_(value)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        # Read from memory: the folder is about to go.
        return {k: v.clone() for k, v in load_file(f"{folder}/model.safetensors").items()}


def load(case, tensors):
    """Loads `tensors` (checkpoint names) the way a user loads a checkpoint, in f32.

    Fails if the library misses or does not expect a tensor, or does not give the
    same tensors back.
    """
    kinds = plain(config_of(case))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(cases.folder(case) / "config.json", folder)
        save_file(tensors, f"{folder}/model.safetensors", metadata={"format": "pt"})
        model, info = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True, **kinds
        )
    problems = {kind: list(names) for kind, names in info.items() if names}
    if problems:
        raise ValueError(f"checkpoint of '{case}' does not load cleanly: {problems}")
    frozen = {name for name, p in untrained(case).named_parameters() if not p.requires_grad}
    for name, p in model.named_parameters():  # the library's loader makes all of them trained ones
        p.requires_grad_(name not in frozen)
    back = tensors_of(model)
    if back.keys() != tensors.keys():
        raise ValueError(f"names of '{case}' change in a round trip")
    for name, tensor in tensors.items():
        if not torch.equal(back[name], tensor):
            raise ValueError(f"'{name}' of '{case}' changes in a round trip")
    return model.train()


def to_float64(case, model, mode: Float64):
    """A float64 model of `case` with the parameters of `model` (f32).

    Built inside `mode`, so that constants the library computes once (the rotary
    frequencies) are computed in float64 rather than converted to it.
    """
    with mode:
        result = untrained(case).double()
    result.load_state_dict(model.state_dict())
    for name, tensor in (*result.named_parameters(), *result.named_buffers()):
        if tensor.dtype != torch.float64:
            raise TypeError(f"'{name}' of '{case}' is {tensor.dtype} in the float64 model")
    return result


def write_reference(path: Path, tensors, metadata):
    """Writes a safetensors file whose bytes depend on its contents only.

    The library writes the metadata in random order; here it is sorted.
    """
    save_file(tensors, path, metadata=metadata)
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode().ljust(length)
    if len(text) != length:
        raise ValueError(f"header of '{path.name}' changes its size when sorted")
    path.write_bytes(data[:8] + text + data[8 + length :])
