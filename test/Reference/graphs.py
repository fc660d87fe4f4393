"""Writes or checks the graphs of the cases' models, as the Python package exports them.

    pip install -r test/Reference/requirements.txt
    python test/Reference/graphs.py                # write cases/*/graph.mlir
    python test/Reference/graphs.py --only CASE
    python test/Reference/graphs.py --check        # export everything again and compare

`kerf-reference` trains them beside the library's results: as they stand, and raised and rolled.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import argparse
import sys
from pathlib import Path

import safetensors
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "tools/python"))

import cases
import checkpoint
import kerf
from float64 import Float64
from kerf.huggingface import loss_of, saved_names

# Cases that say nothing of a graph that another one does not say.
LEFT_OUT = ("llama-new-spelling", "llama-pad-token", "gpt2-tied", "llama-mha", "mixtral-window")
# Nor are those there whose reference moves biases of routers, which the library never does: packages.py has some.
# Cases with attention spelled out.
EAGER = ("gemma2", "gemma2-no-cap", "gpt-oss", "gpt-oss-aux", "llama-gqa", "gpt2-four-layers", "gemma3", "olmo2", "qwen2-window", "stablelm")


def names():
    return sorted(
        folder.name
        for folder in (Path(__file__).parent / "cases").iterdir()
        if (folder / "config.json").exists()
        and not (folder / "adapter_config.json").exists()
        and folder.name not in LEFT_OUT
        and not moves_biases(folder / "reference.safetensors")
    )


def moves_biases(path):
    with safetensors.safe_open(path, "pt") as file:
        return any(name.endswith("e_score_correction_bias") for name in file.keys())


def graph_of(case):
    """The text of the case's model, tables of positions in f64."""
    torch.manual_seed(0)  # initial values tell how weights are drawn
    model = checkpoint.to_float64(case, checkpoint.untrained(case), Float64())
    model.config.use_cache = False
    model.set_attn_implementation("eager" if case in EAGER else "sdpa")
    tokens = torch.zeros(2, 12, dtype=torch.long)
    names = saved_names(model.config.model_type)
    return kerf.export(model, (tokens,), loss=loss_of(model.config), name="graph", locations=False, names=names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    failed = 0
    for name in [arguments.only] if arguments.only else names():
        path = cases.folder(name) / "graph.mlir"
        if arguments.check and not path.exists():  # as a graph another case says the same
            continue
        try:
            text = graph_of(name)
        except kerf.ExportError as error:
            print(f"{name}: {error}")
            failed += 1
            continue
        if not arguments.check:
            path.write_text(text)
        elif text != path.read_text():
            print(f"{name}: differs")
            failed += 1
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
