"""Weights of a safetensors file with Hugging Face names, as the PyTorch peers have them."""

import json
import math

import models
import torch

TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "F64": torch.float64}
# Peer's name -> checkpoint's, of a layer. Matrices of a GPT are [in, out] in both.
GPT_LAYER = {
    "ln1": "ln_1.weight", "ln1_b": "ln_1.bias", "qkv": "attn.c_attn.weight", "qkv_b": "attn.c_attn.bias",
    "proj": "attn.c_proj.weight", "proj_b": "attn.c_proj.bias", "ln2": "ln_2.weight", "ln2_b": "ln_2.bias",
    "fc": "mlp.c_fc.weight", "fc_b": "mlp.c_fc.bias", "out": "mlp.c_proj.weight", "out_b": "mlp.c_proj.bias",
}  # fmt: skip
GPT_WHOLE = {
    "wte": "transformer.wte.weight", "wpe": "transformer.wpe.weight",
    "lnf": "transformer.ln_f.weight", "lnf_b": "transformer.ln_f.bias",
}  # fmt: skip
LLAMA_WHOLE = {"wte": "model.embed_tokens.weight", "lnf": "model.norm.weight", "head": "lm_head.weight"}
LLAMA_NORMS = {"ln1": "input_layernorm.weight", "ln2": "post_attention_layernorm.weight"}


def read(path):
    """Name -> f32 tensor of a safetensors file."""
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    result = {}
    for name, told in header.items():
        if name == "__metadata__":
            continue
        start = 8 + length + told["data_offsets"][0]
        count = math.prod(told["shape"])
        flat = torch.frombuffer(data, dtype=TYPES[told["dtype"]], count=count, offset=start)
        result[name] = flat.view(told["shape"]).float()
    return result


def gpt_layer(tensors, layer):
    return {name: tensors[f"transformer.h.{layer}.{other}"] for name, other in GPT_LAYER.items()}


def llama_layer(s, tensors, layer):
    """Checkpoints have matrices as [out, in] and each projection for itself."""
    prefix = f"model.layers.{layer}."

    def joined(*names):
        return torch.cat([tensors[f"{prefix}{name}.weight"] for name in names]).T

    result = {name: tensors[prefix + other] for name, other in LLAMA_NORMS.items()}
    result["qkv"] = joined(*(f"self_attn.{part}_proj" for part in "qkv"))
    result["proj"] = joined("self_attn.o_proj")
    if not s.experts:
        return result | {"gate_up": joined("mlp.gate_proj", "mlp.up_proj"), "down": joined("mlp.down_proj")}
    mixture = "block_sparse_moe."
    result["router"] = joined(mixture + "gate")
    experts = [f"{mixture}experts.{e}." for e in range(s.experts)]
    result["gate_up"] = torch.stack([joined(e + "w1", e + "w3") for e in experts])
    result["down"] = torch.stack([joined(e + "w2") for e in experts])
    return result


def values(s, path, device):
    """The weights of `path` as torch_model.Model takes them. Raises ValueError where
    the file has other parameters than the shape `s`."""
    tensors = read(path)
    layers = [gpt_layer(tensors, i) if s.gpt else llama_layer(s, tensors, i) for i in range(s.layers)]
    whole = {name: tensors[other] for name, other in (GPT_WHOLE if s.gpt else LLAMA_WHOLE).items()}
    used = sum(part.numel() for group in [whole, *layers] for part in group.values())
    there = sum(part.numel() for part in tensors.values())
    if used != there:
        raise ValueError(f"{path} has {there:,} parameters, expected the model's {used:,}")
    for name, shape in models.weight_shapes(s).items():
        parts = [layer[name[1:]] for layer in layers] if name.startswith(".") else [whole[name]]
        found = (len(parts), *parts[0].shape) if name.startswith(".") else parts[0].shape
        if tuple(found) != tuple(shape):
            raise ValueError(f"{path}: '{name}' has shape {tuple(found)}, expected {tuple(shape)}")
        parts = [part.contiguous().to(device) for part in parts]
        yield name, parts if name.startswith(".") else parts[0]
