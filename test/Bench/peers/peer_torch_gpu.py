"""Throughput of one training step in PyTorch on a GPU in bf16; one JSON line per variant.

    peer_torch_gpu.py --config config.json --seq S --batch B --variant V[,V...]

Variants are words joined by '+':
  eager | blocks | compile | graphs
                      as it is; each layer compiled, or the whole; the whole compiled
                      and replayed as CUDA graphs (mode "reduce-overhead")
  masters | autocast  bf16 parameters with f32 masters that the optimizer updates, or
                      autocast over f32 parameters
  flash | cudnn       attention by this alone; default: as PyTorch chooses
  dense | loop | grouped
                      experts only, as in peer_torch.py

The optimizer is AdamW(fused=True) with clipping, data are random. Steps are timed by
CUDA events, without waiting for the GPU between them. A variant that fails has a line
with `error`. --device cpu tries the script without a GPU; its figures mean nothing.
"""

import argparse
import contextlib
import gc
import json
import math
import statistics
import sys
import time
from pathlib import Path

import models
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch_model import Training

WORDS = {
    "eager", "blocks", "compile", "graphs", "masters", "autocast",
    "flash", "cudnn", "dense", "loop", "grouped",
}  # fmt: skip
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--seq", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--variant", required=True, help="one or more by comma")
    parser.add_argument("--steps", type=int, default=10, help="timed steps")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    args = parser.parse_args()
    unknown = sorted({w for v in args.variant.split(",") for w in v.split("+")} - WORDS)
    if unknown:
        parser.error(f"--variant: unknown '{unknown[0]}', expected words of: {', '.join(sorted(WORDS))}")
    return args


def drawn(s, device):
    """Initial weights as models.weights has them, but drawn on the device."""
    draw = torch.Generator(device).manual_seed(0)

    def one(name, shape, decays):
        if decays:
            return torch.empty(shape, device=device).normal_(0, 0.02, generator=draw)
        return torch.full(shape, 0.0 if name.endswith("_b") else 1.0, device=device)

    for name, shape in models.weight_shapes(s).items():
        decays = models.decays(name, shape)
        if name.startswith("."):
            yield name, (one(name, shape[1:], decays) for _ in range(shape[0]))
        else:
            yield name, one(name, shape, decays)


class Clock:
    """Seconds of steps: by events in the GPU's stream, or by the processor's clock."""

    def __init__(self, device):
        self.is_cuda = device == "cuda"
        self.marks = []

    def mark(self):
        if not self.is_cuda:
            self.marks.append(time.perf_counter())
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self.marks.append(event)

    def seconds(self):
        if not self.is_cuda:
            return [b - a for a, b in zip(self.marks, self.marks[1:])]
        torch.cuda.synchronize()
        return [a.elapsed_time(b) / 1e3 for a, b in zip(self.marks, self.marks[1:])]


def measure(s, words, args):
    """Figures of one variant."""
    start = time.perf_counter()
    training = Training(s, words, drawn(s, args.device), args.device)
    first = training.step().item()
    prepared = time.perf_counter() - start
    for _ in range(args.warmup):
        training.step()
    clock = Clock(args.device)
    clock.mark()
    for _ in range(args.steps):
        last = training.step().clone()
        clock.mark()
    seconds = clock.seconds()
    last = last.item()
    if not math.isfinite(last) or last >= first:
        raise RuntimeError(f"loss went from {first} to {last}: expected it to fall")
    median = statistics.median(seconds)
    return {
        "step_s": median,
        "steps_s": seconds,
        "tokens_per_s": s.tokens / median,
        "first_step_s": prepared,
        "first_loss": first,
        "last_loss": last,
        "peak_reserved_bytes": torch.cuda.max_memory_reserved() if args.device == "cuda" else 0,
    }


def about(device):
    """Versions and flags that matter."""
    result = {
        "peer": "torch",
        "version": torch.__version__,
        "optimizer": "AdamW(fused=True), clip_grad_norm_(foreach=True)",
        "device": device,
    }
    if device == "cuda":
        result |= {
            "device": torch.cuda.get_device_name(),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        }
    return result


def attempt(s, variant, args):
    """The line of a variant."""
    words = variant.split("+")
    backend = next((BACKENDS[w] for w in words if w in BACKENDS), None)
    line = about(args.device) | {"variant": variant, "seq": s.seq, "batch": s.batch}
    try:
        with sdpa_kernel(backend) if backend else contextlib.nullcontext():
            return line | measure(s, words, args)
    except Exception as error:  # a variant may fail in any way; the others go on
        text = str(error).strip().splitlines() or [""]
        return line | {"error": f"{type(error).__name__}: {text[0][:200]}"}


def forget(device):
    """Frees what a variant left, so that the next starts as if alone."""
    torch.compiler.reset()
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def main():
    args = arguments()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("this PyTorch finds no GPU; see `python -c 'import torch; torch.cuda.init()'`")
    s = models.shape_from(args.config.stem, json.loads(args.config.read_text()), args.seq, args.batch)
    for variant in args.variant.split(","):
        print(json.dumps(attempt(s, variant, args)), flush=True)
        forget(args.device)


main()
