#!/usr/bin/env python3
"""Shows that Kerf and the PyTorch peer of gpu.py train the same models. Needs no GPU.

    test/Bench/gpu_same.py [--python PYTHON] [--models A,B] [--compiled]

For each model of gpu.py: Kerf and the peer's shapes have the same number of parameters and
the same flops. Then, where PYTHON has torch and numpy, for the models scaled down: Kerf
compiles for the CPU in f32, trains STEPS steps and saves the weights that it began with;
PyTorch starts from these, with the same tokens. The losses of all steps agree, the first
before any update and the others after the optimizer's, and every variant's loss falls.
--compiled also tries torch.compile, which takes a minute or two for each model.

Exit status 1 where anything differs.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import gpu_kerf
from gpu_models import MODELS, TINY
from training import BIN, corpus, number_type

PEERS = Path(__file__).resolve().parent / "peers"
sys.path.insert(0, str(PEERS))
import models  # noqa: E402  (of the peers)

STEPS = 3
LARGEST = 1e-5  # difference of losses in f32, as a part of them
LARGEST_BF16 = 1e-2  # so, of the first loss in bf16
MODES = ["eager", "eager+masters", "eager+autocast", "eager+masters+micro2", "eager+masters+padded"]
COMPILED = ["blocks", "blocks+masters", "blocks+autocast", "compile+masters", "autotune+masters", "graphs+masters"]


def shape_of(name, model):
    return models.shape_from(name, model.config(), model.seq, model.batch)


def parameters_of(shape):
    return sum(math.prod(sizes) for sizes in models.weight_shapes(shape).values())


def imported(name, model, folder):
    """The model as Kerf's text, with its configuration beside it."""
    config, text = folder / f"{name}.json", folder / f"{name}.mlir"
    config.write_text(json.dumps(model.config()))
    gpu_kerf.run([BIN / "kerf-import", config, "--batch", model.batch, "--seq", model.seq, "-o", text])
    return text


def compare_counts(name, model, folder):
    """What differs between Kerf's counts and the peer's, in a list of texts."""
    told = json.loads(gpu_kerf.run([BIN / "kerf-inspect", "params", "--json", imported(name, model, folder)]))
    shape = shape_of(name, model)
    pairs = {
        "parameters": (told["parameters"], parameters_of(shape)),
        "flops of a step": (told["model_flops_per_token_visible"] * shape.tokens, models.step_flops(shape)),
    }
    return [f"{what}: Kerf {kerf:,.0f}, peer {peer:,.0f}" for what, (kerf, peer) in pairs.items() if kerf != peer]


def kerf_losses(name, model, folder):
    """Losses of STEPS steps in f32 on the CPU, and the initial weights in a file. The
    tokens are one step's: every step has all of them."""
    shape = shape_of(name, model)
    tokens, weights, log = folder / f"{name}.bin", folder / f"{name}.safetensors", folder / f"{name}.log"
    artifact = folder / f"{name}.kerf"
    all_tokens = corpus(folder, shape.vocab).read_bytes()
    width = 2 if number_type(shape.vocab) == "u16" else 4
    tokens.write_bytes(all_tokens[: (shape.tokens + 1) * width])
    gpu_kerf.run([BIN / "kerfc", imported(name, model, folder), "-o", artifact])
    command = [BIN / "kerf-run", artifact, "--data", tokens, f"--data-format={number_type(shape.vocab)}"]
    gpu_kerf.run([*command, "--steps=0", "--save-weights", weights])
    rate = [f"--lr={models.LEARNING_RATE}", "--lr-schedule=constant", "--warmup=0"]
    gpu_kerf.run([*command, f"--steps={STEPS}", "--log-json", log, "--threads=1", *rate])
    lines = [json.loads(line) for line in log.read_text().splitlines() if '"run"' not in line]
    return [line["loss"] for line in lines if "loss" in line]


def peer_lines(name, model, variants, python, folder):
    """The peer's line of every variant. Those with a wider vocabulary draw their own weights."""
    command = [python, PEERS / "peer_torch_gpu.py", "--config", folder / f"{name}.json", "--device=cpu"]
    command += [f"--seq={model.seq}", f"--batch={model.batch}", "--losses", "--tokens", folder / f"{name}.bin"]
    command += [f"--steps={STEPS - 2}", "--warmup=1"]
    lines = []
    for is_wider in (False, True):
        asked = [v for v in variants if ("padded" in v) == is_wider]
        start = [] if is_wider else ["--weights", folder / f"{name}.safetensors"]
        if asked:
            text = gpu_kerf.run([*command, "--variant", ",".join(asked), *start])
            lines += [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return lines


def difference(found, expected):
    return max(abs(a / b - 1) for a, b in zip(found, expected, strict=True))


def judge(line, losses):
    """What is wrong with a variant, or an empty text, and how it compares."""
    if "error" in line:
        return line["error"], ""
    words = line["variant"].split("+")
    if "padded" in words:
        return "", "not compared: a wider vocabulary, weights of its own"
    is_narrow = "masters" in words or "autocast" in words
    bound, count = (LARGEST_BF16, 1) if is_narrow else (LARGEST, STEPS)
    off = difference(line["losses"][:count], losses[:count])
    said = f"{off:.1e} of {bound:.0e}"
    return ("" if off < bound else f"losses differ by {said}"), f"agrees, {said}"


def variants_of(model, is_compiled):
    modes = MODES + (COMPILED if is_compiled else [])
    if "num_local_experts" not in model.config():
        return modes
    return [f"{mode}+grouped" for mode in modes] + ["eager+loop", "eager+dense"]


def compare_losses(name, model, args, folder):
    """Prints a line per variant and returns how many are wrong."""
    losses = kerf_losses(name, model, folder)
    wrong = 0
    for line in peer_lines(name, model, variants_of(model, args.compiled), args.python, folder):
        error, said = judge(line, losses)
        wrong += bool(error)
        rate = f", {line['tokens_per_s']:,.0f} tokens/s on the CPU" if "tokens_per_s" in line else ""
        print(f"  {line['variant']}: {error or said}{rate}", flush=True)
    return wrong


def has_torch(python):
    try:
        return not subprocess.run([python, "-c", "import torch, numpy"], capture_output=True).returncode
    except OSError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="with torch and numpy")
    parser.add_argument("--models", default=",".join(MODELS), help="names by comma")
    parser.add_argument("--compiled", action="store_true")
    args = parser.parse_args()
    names = args.models.split(",")
    with_torch = has_torch(args.python)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            found = [text for table in (MODELS, TINY) for text in compare_counts(name, table[name], Path(folder))]
            wrong += len(found)
            count = parameters_of(shape_of(name, MODELS[name]))
            print(f"{name}: {'; '.join(found) or f'{count:,} parameters and their flops agree'}", flush=True)
            if with_torch:
                wrong += compare_losses(name, TINY[name], args, Path(folder))
    if not with_torch:
        print(f"losses not compared: {args.python} cannot import torch and numpy")
    print(f"{wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
