"""Throughput of one training step in PyTorch on a GPU in bf16; one JSON line per variant.

    peer_torch_gpu.py --config config.json --seq S --batch B [--variant V[,V...]]

Without --variant they are read from standard input, one a line, until it ends.
Variants are words joined by '+':
  eager | blocks | compile | autotune | graphs
                      as it is; each layer and the loss compiled; the whole compiled;
                      so, in mode "max-autotune-no-cudagraphs"; so, in mode
                      "reduce-overhead", replayed as CUDA graphs
  masters | autocast  bf16 parameters with f32 masters that the optimizer updates, or
                      autocast over f32 parameters; neither: f32
  flash | cudnn       attention by this alone; default: as PyTorch chooses
  padded              a vocabulary that is a multiple of 128
  micro2 micro4 micro8
                      the batch in so many parts, gradients summed up in f32
  dense | loop | grouped
                      experts only: all experts on all tokens, a matmul per expert, or
                      grouped_mm over rows sorted by expert

The optimizer is AdamW(fused=True), which also divides by the clipped norm; data are
random. Steps are timed by CUDA events, without waiting for the GPU between them. A
variant that fails has a line with `error`. --device cpu tries the script without a GPU;
its figures mean nothing. --weights starts from a safetensors file with Hugging Face's
names, --tokens from the first tokens of a file, --losses has those of every step.
"""

import argparse
import contextlib
import dataclasses
import gc
import json
import math
import statistics
import sys
import time
from pathlib import Path

import hf_weights
import models
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch_model import Training

WORDS = {
    "eager", "blocks", "compile", "autotune", "graphs", "masters", "autocast", "flash", "cudnn",
    "padded", "micro2", "micro4", "micro8", "dense", "loop", "grouped",
}  # fmt: skip
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--seq", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--variant", help="one or more by comma")
    parser.add_argument("--steps", type=int, default=10, help="timed steps")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--tokens", type=Path, help="u16, or u32 where the vocabulary is larger")
    parser.add_argument("--losses", action="store_true")
    args = parser.parse_args()
    asked = args.variant.split(",") if args.variant else []
    if unknown := unknown_words("+".join(asked)):
        parser.error(f"--variant: unknown '{unknown[0]}', expected words of: {', '.join(sorted(WORDS))}")
    return args


def unknown_words(variant):
    return sorted(set(variant.split("+")) - WORDS) if variant else []


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


def data_of(s, args):
    """Tokens and next tokens, i64 [batch, seq]: random, or the first of --tokens."""
    if not args.tokens:
        return [torch.from_numpy(x).long().to(args.device) for x in models.tokens(s)]
    kind = torch.uint16 if s.vocab <= 1 << 16 else torch.uint32
    flat = torch.frombuffer(bytearray(args.tokens.read_bytes()), dtype=kind).long()
    if flat.numel() <= s.tokens:
        raise ValueError(f"{args.tokens} has {flat.numel()} tokens, expected at least {s.tokens + 1}")
    starts = [flat[i : i + s.tokens].view(s.batch, s.seq) for i in (0, 1)]
    return [part.to(args.device) for part in starts]


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


def memory(device):
    """Bytes: the allocator's peak, and what the driver has given out besides (context,
    code, libraries; other programs' memory too, if there are any)."""
    if device == "cpu":
        return {"peak_reserved_bytes": 0, "outside_bytes": 0}
    free, total = torch.cuda.mem_get_info()
    outside = total - free - torch.cuda.memory_reserved()
    return {"peak_reserved_bytes": torch.cuda.max_memory_reserved(), "outside_bytes": outside}


def prepared(s, words, args):
    """The training of a variant. Its vocabulary may be wider than the data's."""
    data = data_of(s, args)
    if "padded" in words:
        s = dataclasses.replace(s, vocab=(s.vocab + 127) // 128 * 128)
    values = hf_weights.values(s, args.weights, args.device) if args.weights else drawn(s, args.device)
    return Training(s, words, values, args.device, data)


def measure(s, words, args):
    """Figures of one variant."""
    start = time.perf_counter()
    training = prepared(s, words, args)
    losses = [training.step()]
    first = losses[0].item()
    ready = time.perf_counter() - start
    losses += [training.step() for _ in range(args.warmup)]
    clock = Clock(args.device)
    clock.mark()
    for _ in range(args.steps):
        losses.append(training.step())
        clock.mark()
    seconds = clock.seconds()
    last = losses[-1].item()
    if not math.isfinite(last) or last >= first:
        raise RuntimeError(f"loss went from {first} to {last}: expected it to fall")
    median = statistics.median(seconds)
    all_losses = {"losses": [loss.item() for loss in losses]} if args.losses else {}
    return memory(args.device) | all_losses | {
        "parameters": sum(p.numel() for p in training.parameters),
        "step_s": median,
        "steps_s": seconds,
        "tokens_per_s": s.tokens / median,
        "first_step_s": ready,
        "first_loss": first,
        "last_loss": last,
    }


def about(device):
    """Versions and flags that matter."""
    result = {
        "peer": "torch",
        "version": torch.__version__,
        "optimizer": "AdamW(fused=True), clipped by its kernel",
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
    start = time.perf_counter()
    try:
        if unknown := unknown_words(variant):
            raise ValueError(f"unknown word '{unknown[0]}'")
        with sdpa_kernel(backend) if backend else contextlib.nullcontext():
            line |= measure(s, words, args)
    except Exception as error:  # a variant may fail in any way; the others go on
        text = str(error).strip().splitlines() or [""]
        line |= {"error": f"{type(error).__name__}: {text[0][:200]}"}
    return line | {"seconds": time.perf_counter() - start}


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
    torch.set_float32_matmul_precision("high" if args.device == "cuda" else "highest")
    s = models.shape_from(args.config.stem, json.loads(args.config.read_text()), args.seq, args.batch)
    asked = args.variant.split(",") if args.variant else (line.strip() for line in sys.stdin)
    for variant in asked:
        print(json.dumps(attempt(s, variant, args)), flush=True)
        forget(args.device)


main()
