"""Models of the GPU benchmark: shipped configurations with fields changed, and steps."""

import dataclasses
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DROPOUT = ("attn_pdrop", "embd_pdrop", "resid_pdrop", "summary_first_dropout")


# ---- PyTorch's variants ------------------------------------------------------

# Words of peers/peer_torch_gpu.py that exclude each other; "" is none of them.
AXES = [
    {"blocks", "compile", "autotune", "graphs", "eager"},
    {"masters", "autocast"},
    {"", "cudnn", "flash"},
    {"", "padded"},
    {"", "micro2", "micro4", "micro8"},
    {"grouped", "loop", "dense"},
]
# What is changed, one word after the other, in the fastest variant so far: what gained
# most for others first, since time may end. A layer compiled for itself is
# compiled in seconds, a whole model of many layers in minutes.
DENSE = ("blocks+masters", ["cudnn", "graphs", "autocast", "compile", "flash", "autotune", "eager"])
EXPERTS = ("blocks+masters+grouped", ["cudnn", "eager", "autocast", "loop", "compile", "dense"])


def replaced(variant, word):
    """The variant with the words of the axis of `word` taken out and `word` put in."""
    axis = next(axis for axis in AXES if word in axis)
    words = [w for w in variant.split("+") if w not in axis]
    return "+".join([word, *words] if axis is AXES[0] else [*words, word])


# ---- Models ------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Model:
    """`base` of examples/models with `fields` of its config.json changed; a step has
    `batch` sequences of `seq` tokens. With `fuses` layers of one input are one matmul."""

    base: str
    seq: int
    batch: int
    fields: dict = dataclasses.field(default_factory=dict)
    fuses: bool = False

    def import_options(self):
        """Of kerf-import, beside the config."""
        return ["--batch", self.batch, "--seq", self.seq, *["--fuse-projections"] * self.fuses]

    def config(self):
        """The configuration without dropout, of which all peers are free."""
        text = (ROOT / f"examples/models/{self.base}/config.json").read_text()
        config = json.loads(text) | self.fields
        return config | {key: 0.0 for key in DROPOUT if key in config}

    def variants(self):
        """PyTorch's first variant, and the words that are tried in it in turn."""
        config = self.config()
        first, words = EXPERTS if "num_local_experts" in config else DENSE
        return first, words if config["vocab_size"] % 128 == 0 else ["padded", *words]


# TinyLlama's sizes with twice its sequence.
LLAMA_1B = {
    "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32,
    "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 4096, "rope_theta": 10000.0,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
MOE_1B = {
    "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 12, "num_attention_heads": 16,
    "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 2048,
}  # fmt: skip
MODELS = {
    "gpt2-124m": Model("gpt2-124m", 1024, 32),
    "gpt2-1.5b": Model("gpt2-1.5b", 1024, 16),
    "llama-1b": Model("llama-3-8b", 4096, 4, LLAMA_1B),
    "llama-3-8b-8-layers": Model("llama-3-8b", 8192, 2, {"num_hidden_layers": 8}),
    "moe-1b": Model("moe-mini", 2048, 16, MOE_1B),
}
# The same five, scaled down: to try the benchmark without a GPU, on a simulator. What is odd
# in the large ones stays so: an odd number of heads, a vocabulary of no round number, 8
# heads that share keys and values.
TINY_LLAMA = {
    "hidden_size": 32, "intermediate_size": 88, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 1, "vocab_size": 96, "max_position_embeddings": 16,
}  # fmt: skip
TINY_GPT2 = {"n_embd": 48, "n_head": 3, "n_layer": 2, "n_positions": 16, "vocab_size": 101}
TINY = {
    "gpt2-124m": Model("gpt2-124m", 16, 4, TINY_GPT2),
    "gpt2-1.5b": Model("gpt2-1.5b", 16, 2, TINY_GPT2 | {"n_embd": 40, "n_head": 5, "n_layer": 3}),
    "llama-1b": Model("llama-3-8b", 16, 4, LLAMA_1B | TINY_LLAMA),
    "llama-3-8b-8-layers": Model("llama-3-8b", 16, 2, TINY_LLAMA | {"num_key_value_heads": 2, "num_hidden_layers": 3}),
    "moe-1b": Model("moe-mini", 16, 4, TINY_LLAMA | {"num_local_experts": 8}),
}


FUSED = "+fused"  # behind a name: the same model, imported so


def unknown(names):
    """Names of no model."""
    return [name for name in names if name.removesuffix(FUSED) not in MODELS]


def model_of(name, models):
    return dataclasses.replace(models[name.removesuffix(FUSED)], fuses=name.endswith(FUSED))


def chosen(names, is_tiny):
    """Models of these names, as they are or scaled down."""
    models = TINY if is_tiny else MODELS
    return {name + "-tiny" * is_tiny: model_of(name, models) for name in names}
