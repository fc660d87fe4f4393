"""Throughput of one training step in PyTorch on the CPU; one JSON line per run.

Variants are words joined by '+':
  eager | compile     as it is, or torch.compile (inductor)
  autocast | masters  bf16 only: autocast over f32 parameters, or bf16 parameters with
                      f32 masters that the optimizer updates
  dense | loop | grouped
                      experts only: all experts on all tokens and a mask, one matmul per
                      expert over its tokens, or torch's grouped_mm over sorted tokens

--ceiling prints the speed of one large matmul instead; --check the first loss and
gradient norm, which must agree with the other peer's.
"""

import json
import os
import sys
import time

import models

WORDS = ["eager", "compile", "autocast", "masters", "dense", "loop", "grouped"]

# Large blocks come from the heap and stay there, instead of being mapped and faulted
# in anew at each step: 3 to 7 % less processor time for gpt-mini in bf16.
ENVIRONMENT = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
}


def variants_of(s, dtype):
    result = ["eager", "compile"]
    if dtype == "bf16":
        result = [f"{v}+{how}" for v in result for how in ("autocast", "masters")]
    if s.experts:
        result = [f"{v}+{how}" for v in result for how in ("dense", "loop", "grouped")]
    return result


args_parser = models.parser(__doc__, WORDS)
args_parser.add_argument("--ceiling", action="store_true")
args_parser.add_argument("--check", action="store_true")
args = args_parser.parse_args()
if not models.is_child() and not args.ceiling and not args.check:
    sys.exit(models.run_all(__file__, args, WORDS, variants_of, ENVIRONMENT))
models.use_threads(args.threads)

import torch  # noqa: E402  (threads are set first)
import torch.nn.functional as F  # noqa: E402
from torch_model import Training  # noqa: E402


def about():
    """Versions and flags that matter."""
    return {
        "peer": "torch",
        "version": torch.__version__,
        "mkldnn": torch.backends.mkldnn.is_available(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "environment": {key: os.environ[key] for key in ENVIRONMENT if key in os.environ},
        "optimizer": "AdamW(fused=True)",
    }


def ceiling():
    """GFLOP/s of a 2048x3072x768 matmul, the best of 5 x 20."""
    for dtype in (torch.float32, torch.bfloat16):
        a = torch.randn(2048, 768).to(dtype)
        b = torch.randn(3072, 768).to(dtype)
        best = float("inf")
        for _ in range(6):
            start = time.perf_counter()
            for _ in range(20):
                F.linear(a, b)
            best = min(best, (time.perf_counter() - start) / 20)
        gflops = round(2 * 2048 * 3072 * 768 / best / 1e9, 1)
        name = "f32" if dtype == torch.float32 else "bf16"
        line = {"matmul": "2048x3072x768", "dtype": name, "gflop_per_s": gflops}
        print(json.dumps(about() | {"threads": args.threads} | line), flush=True)


def check():
    """First loss and gradient norm of every model in f32."""
    for name in models.MODELS if args.model == "all" else [args.model]:
        s = models.shape_of(name)
        for words in (["dense"], ["loop"], ["grouped"]) if s.experts else ([],):
            training = Training(s, words)
            loss = training.backward().item()
            norm = torch.nn.utils.get_total_norm([p.grad for p in training.masters]).item()
            line = {"model": name, "variant": "+".join(words), "loss": loss, "grad_norm": norm}
            print(json.dumps({"peer": "torch"} | line), flush=True)


def main():
    torch.set_num_threads(args.threads)
    if args.ceiling:
        return ceiling()
    if args.check:
        return check()
    s = models.shape_of(args.model)
    training = Training(s, args.variant.split("+"))
    print(json.dumps(about() | models.measure(s, args, lambda: training.step().item())), flush=True)


main()
