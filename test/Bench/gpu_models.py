"""Models of the GPU benchmark: shipped configurations with fields changed, and steps."""

import dataclasses
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DROPOUT = ("attn_pdrop", "embd_pdrop", "resid_pdrop", "summary_first_dropout")
# Dense models: what was fastest for others first, since time may end.
DENSE = [
    "blocks+masters", "compile+masters", "blocks+autocast", "eager+masters", "compile+autocast",
    "blocks+masters+cudnn", "graphs+masters", "eager+autocast",
]  # fmt: skip
EXPERTS = [
    "blocks+masters+grouped", "eager+masters+grouped", "blocks+autocast+grouped", "eager+masters+loop",
    "compile+masters+dense",
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Model:
    """`base` of examples/models with `fields` of its config.json changed; a step has
    `batch` sequences of `seq` tokens."""

    base: str
    seq: int
    batch: int
    fields: dict = dataclasses.field(default_factory=dict)

    def config(self):
        """The configuration without dropout, of which all peers are free."""
        text = (ROOT / f"examples/models/{self.base}/config.json").read_text()
        config = json.loads(text) | self.fields
        return config | {key: 0.0 for key in DROPOUT if key in config}

    def variants(self):
        """PyTorch's variants, the most promising first."""
        return EXPERTS if "num_local_experts" in self.config() else DENSE


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
# For trying the benchmark without a GPU, on a simulator.
TINY = {
    "tiny-gpt2": Model("tiny-gpt2", 16, 4),
    "tiny-llama": Model("tiny-llama", 16, 4, {"rope_scaling": None}),
    "tiny-mixtral": Model("tiny-mixtral", 16, 4),
}
