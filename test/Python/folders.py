"""Checkpoint folders of transformers: a model of the library is exported, trained for ten steps on four ranks from the
folder's weights, loaded by the library again, and has the held-out loss that kerf-run told, to 1e-5.

    KERF_BIN=build/bin PYTHONPATH=tools/python python3 test/Python/folders.py     (packages: torch, transformers)
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

import kerf
from kerf.programs import program

BATCH, SEQ, VOCAB, BATCHES = 4, 16, 96, 4
COMMON = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None,
}  # fmt: skip
FAMILIES = {
    "llama": COMMON,
    "qwen3": COMMON | {"head_dim": 8},
    "gemma3_text": COMMON | {"head_dim": 8, "sliding_window": 8},
    "gpt_neox": COMMON,
    # The checkpoint has biases of routers, buffers that nobody trains.
    "deepseek_v3": COMMON | {
        "num_key_value_heads": 4, "moe_intermediate_size": 16, "n_routed_experts": 8, "n_group": 4, "topk_group": 2, "q_lora_rank": 12,
        "num_experts_per_tok": 2, "first_k_dense_replace": 1, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
    },
    "minimax_m2": COMMON | {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2},
    "gpt_oss": COMMON | {"head_dim": 8, "sliding_window": 8, "num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": COMMON | {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
}


def write_tokens(path, seed, count):
    numpy.random.default_rng(seed).integers(3, VOCAB, count).astype(numpy.uint16).tofile(path)
    return path


def library_loss(folder, held):
    """The mean over the held-out samples, by the library in f32."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokens = torch.tensor(numpy.fromfile(held, dtype=numpy.uint16).astype(numpy.int64))
    samples = tokens[:-1].view(-1, SEQ), tokens[1:].view(-1, SEQ)
    with torch.no_grad():
        logits = model(samples[0]).logits.float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), samples[1].flatten()).item()


def kerf_loss(path, folder, out, data, held):
    """Trains; the held-out loss after the last step."""
    log = path.with_suffix(".jsonl")
    command = [
        program("kerf-run"), path, f"--data={data}", "--data-format=u16", f"--heldout-data={held}", "--steps=10", "--lr=1e-2",
        f"--eval-every=10", f"--eval-batches={BATCHES}", f"--init-from={folder}", f"--save-weights={out}", f"--log-json={log}",
        "--threads=1",
    ]  # fmt: skip
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line["heldout_loss"] for line in lines if "heldout_loss" in line][-1]


def check(family, place):
    torch.manual_seed(0)
    folder, out = place / family, place / f"{family}-trained"
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **FAMILIES[family]))
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.copy_(0.2 * torch.randn(buffer.shape))
    model.save_pretrained(folder)
    kerf.import_hf(folder, place / "model.mlir", batch=BATCH, sequence=SEQ)
    kerf.compile(place / "model.mlir", "this-machine", place / "model.kerf", devices=4, pin={"tp": 2, "dp": 2})
    data = write_tokens(place / "data.bin", 1, 4000)
    held = write_tokens(place / "held.bin", 2, BATCHES * BATCH * SEQ + 1)
    told = kerf_loss(place / "model.kerf", folder, out, data, held)
    if out.is_file():  # one file of weights: the folder's other files stay
        weights, out = out, place / f"{family}-again"
        shutil.copytree(folder, out)
        shutil.copy(weights, out / "model.safetensors")
    elif not (out / "config.json").exists():
        shutil.copy(folder / "config.json", out)
    before, after = library_loss(folder, held), library_loss(out, held)
    same = abs(after - told) <= 1e-5 * abs(told)
    print(f"{family}: held-out loss {before:.6f} -> kerf-run {told:.6f}, transformers {after:.6f}: {'ok' if same else 'FAILED'}")
    return same and after != before


def main():
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as place:
        passed = [check(family, Path(place)) for family in sys.argv[1:] or FAMILIES]
    return not all(passed)


if __name__ == "__main__":
    sys.exit(main())
