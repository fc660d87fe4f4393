"""What the peers share: shapes of models (`config_of`), weights, tokens, timing, report.

Weights are drawn with numpy and are the same for all peers, so that their first loss
must agree (`check_loss`). Layers are stacked in dimension 0 of their weights. Shapes
and flops need no numpy, which is imported where it is used.
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

# name -> (sequence length, sequences per step)
MODELS = {
    "gpt2-124m": (512, 4),
    "gpt-mini": (256, 8),
    "llama-mini": (512, 4),
    "moe-mini": (256, 4),
    "qwen3-48m": (256, 4),
}
LEARNING_RATE, BETA1, BETA2, EPS, DECAY, CLIP = 3e-4, 0.9, 0.95, 1e-8, 0.1, 1.0


@dataclass(frozen=True)
class Shape:
    """A model and its step. `kv` is the number of key and value heads; `experts` is 0
    for a dense model. A GPT has biases, layer norms and learned positions. `head_norms`:
    queries and keys are normed by head, as in Qwen3."""

    name: str
    gpt: bool
    layers: int
    hidden: int
    heads: int
    kv: int
    ffn: int
    vocab: int
    positions: int
    eps: float
    theta: float
    experts: int
    top: int
    seq: int
    batch: int
    head_norms: bool = False

    @property
    def head_dim(self):
        return self.hidden // self.heads

    @property
    def tokens(self):
        return self.seq * self.batch


def config_of(name):
    """Hugging Face configuration of the model `name` of MODELS: one that ships, or one of
    the benchmark's own."""
    own = ROOT / f"test/Bench/Inputs/{name}.json"
    path = own if own.exists() else ROOT / f"examples/models/{name}/config.json"
    return json.loads(path.read_text())


def shape_of(name):
    """Shape of the model `name` of MODELS, from its config. Dropout is left out."""
    return shape_from(name, config_of(name), *MODELS[name])


def shape_from(name, config, seq, batch):
    """Shape of a Hugging Face configuration. Dropout is left out."""
    if config["model_type"] == "gpt2":
        hidden, heads = config["n_embd"], config["n_head"]
        sizes = (config["n_layer"], hidden, heads, heads, 4 * hidden)
        eps, theta, experts, top = config["layer_norm_epsilon"], 0.0, 0, 0
        positions = config["n_positions"]
    else:
        sizes = (
            config["num_hidden_layers"],
            config["hidden_size"],
            config["num_attention_heads"],
            config["num_key_value_heads"],
            config["intermediate_size"],
        )
        eps, theta, positions = config["rms_norm_eps"], config["rope_theta"], 0
        experts = config.get("num_local_experts", 0)
        top = config.get("num_experts_per_tok", 0)
    gpt = config["model_type"] == "gpt2"
    vocab = config["vocab_size"]
    norms = config["model_type"] == "qwen3"
    return Shape(name, gpt, *sizes, vocab, positions, eps, theta, experts, top, seq, batch, norms)


def weight_shapes(s):
    """Name -> shape. Names with a dot first are per layer and stacked. Matrices are
    [in, out], but the vocabulary's are [vocabulary, hidden]."""
    h, kv = s.hidden, s.kv * s.head_dim
    if s.gpt:
        layer = {
            "ln1": (h,), "ln1_b": (h,), "qkv": (h, 3 * h), "qkv_b": (3 * h,),
            "proj": (h, h), "proj_b": (h,), "ln2": (h,), "ln2_b": (h,),
            "fc": (h, s.ffn), "fc_b": (s.ffn,), "out": (s.ffn, h), "out_b": (h,),
        }  # fmt: skip
        whole = {"wte": (s.vocab, h), "wpe": (s.positions, h), "lnf": (h,), "lnf_b": (h,)}
    else:
        layer = {"ln1": (h,), "qkv": (h, h + 2 * kv), "proj": (h, h), "ln2": (h,)}
        if s.head_norms:
            layer |= {"q_norm": (s.head_dim,), "k_norm": (s.head_dim,)}
        if s.experts:
            layer |= {
                "router": (h, s.experts),
                "gate_up": (s.experts, h, 2 * s.ffn),
                "down": (s.experts, s.ffn, h),
            }
        else:
            layer |= {"gate_up": (h, 2 * s.ffn), "down": (s.ffn, h)}
        whole = {"wte": (s.vocab, h), "lnf": (h,), "head": (s.vocab, h)}
    return whole | {"." + name: (s.layers, *shape) for name, shape in layer.items()}


def decays(name, shape):
    """Whether weight decay applies: to tensors of rank >= 2 before stacking."""
    return len(shape) - name.startswith(".") >= 2


def weights(s):
    """Initial weights: f32, matrices normal with deviation 0.02, norms 1, biases 0."""
    import numpy as np

    rng = np.random.default_rng(0)
    result = {}
    for name, shape in weight_shapes(s).items():
        if decays(name, shape):
            value = rng.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
        else:
            value = np.full(shape, 0.0 if name.endswith("_b") else 1.0, np.float32)
        result[name] = value
    return result


def tokens(s):
    """Tokens and next tokens, i32 [batch, seq]."""
    import numpy as np

    drawn = np.random.default_rng(1).integers(0, s.vocab, (s.batch, s.seq + 1))
    return drawn[:, :-1].astype(np.int32), drawn[:, 1:].astype(np.int32)


def rope_tables(s):
    """cos and sin, f32 [seq, head_dim / 2], of rotary positions (halves rotated)."""
    import numpy as np

    half = s.head_dim // 2
    frequencies = s.theta ** (-np.arange(half, dtype=np.float64) / half)
    angles = np.arange(s.seq)[:, None] * frequencies[None, :]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def step_flops(s):
    """Flops of matmuls and attention (visible pairs) of one step, without
    recomputation: three times the forward pass."""
    h, kv = s.hidden, s.kv * s.head_dim
    ffn = 2 * h * s.ffn if s.gpt else 3 * h * s.ffn
    if s.experts:
        ffn = s.top * ffn + h * s.experts
    matmul = 2 * (s.layers * (h * (h + 2 * kv) + h * h + ffn) + h * s.vocab)
    attention = 2 * s.layers * 2 * h * (s.seq + 1) / 2
    return 3 * s.tokens * (matmul + attention)


# ---- Runs -------------------------------------------------------------------


def parser(doc, variants):
    """The options of a peer script."""
    result = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument("--model", choices=[*MODELS, "all"], default="all")
    result.add_argument("--dtype", choices=["f32", "bf16", "all"], default="all")
    result.add_argument(
        "--variant",
        default="all",
        help="'all', or one or more by comma of: " + ", ".join(variants),
    )
    result.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    result.add_argument("--steps", type=int, default=5, help="timed steps")
    result.add_argument("--warmup", type=int, default=2, help="steps before the timed ones")
    return result


def use_threads(count):
    """Keeps this process on `count` cores. Before a library starts its threads."""
    cores = sorted(os.sched_getaffinity(0))
    if not 1 <= count <= len(cores):
        sys.exit(f"--threads={count}: expected 1 to {len(cores)}, the cores of this process")
    os.sched_setaffinity(0, cores[:count])
    os.environ["OMP_NUM_THREADS"] = str(count)


def run_all(script, args, words, variants_of, environment=None):
    """One process per model, number type and variant, each printing its line. A
    variant that fails is reported, not left out."""
    asked = [] if args.variant == "all" else args.variant.split(",")
    unknown = sorted({word for v in asked for word in v.split("+")} - set(words))
    if unknown:
        sys.exit(f"--variant: unknown '{unknown[0]}', expected words of: {', '.join(words)}")
    models = list(MODELS) if args.model == "all" else [args.model]
    dtypes = ["f32", "bf16"] if args.dtype == "all" else [args.dtype]
    failures = 0
    for model in models:
        for dtype in dtypes:
            for variant in asked or variants_of(shape_of(model), dtype):
                command = [sys.executable, script, f"--model={model}", f"--dtype={dtype}"]
                command += [f"--variant={variant}", f"--threads={args.threads}"]
                command += [f"--steps={args.steps}", f"--warmup={args.warmup}"]
                done = subprocess.run(
                    command,
                    env=os.environ | (environment or {}) | {"KERF_PEER_CHILD": "1"},
                    capture_output=True,
                    text=True,
                )
                lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
                if done.returncode or not lines:
                    failures += 1
                    print(f"{model} {dtype} {variant}: failed\n{done.stderr}", file=sys.stderr)
                for line in lines:
                    print(line, flush=True)
    return 1 if failures else 0


def is_child():
    return "KERF_PEER_CHILD" in os.environ


def status_kib(key):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    return 0


def measure(s, args, step):
    """Runs `step()` (one training step, returns the loss before it as a float) and
    returns the figures, by the median step. On a machine that others use too, see
    `best_tokens_per_s`, of the fastest step, and `cpu_s`, processor time per step over
    all threads. `peak_rss_mib` is of the timed steps alone, so it leaves out
    compilation; `peak_rss_total_mib` is of the whole process."""
    start = time.perf_counter()
    first = step()
    compile_and_first = time.perf_counter() - start
    for _ in range(args.warmup - 1):
        step()
    # Resets the high-water mark that is VmHWM.
    Path("/proc/self/clear_refs").write_text("5")
    seconds = []
    cpu = time.process_time()
    for _ in range(args.steps):
        start = time.perf_counter()
        last = step()
        seconds.append(time.perf_counter() - start)
    cpu = time.process_time() - cpu
    if not math.isfinite(last) or last >= first:
        sys.exit(f"loss went from {first} to {last}: expected it to fall")
    median = statistics.median(seconds)
    return {
        "model": s.name,
        "dtype": args.dtype,
        "variant": args.variant,
        "threads": args.threads,
        "seq": s.seq,
        "batch": s.batch,
        "tokens_per_s": round(s.tokens / median, 1),
        "best_tokens_per_s": round(s.tokens / min(seconds), 1),
        "step_s": round(median, 4),
        "cpu_s": round(cpu / args.steps, 4),
        "steps_s": [round(x, 4) for x in seconds],
        "first_step_s": round(compile_and_first, 2),
        "gflop_per_s": round(step_flops(s) / median / 1e9, 1),
        "peak_rss_mib": status_kib("VmHWM") // 1024,
        "peak_rss_total_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "first_loss": first,
        "last_loss": last,
    }
