#!/usr/bin/env python3
"""Tokens per second of one training step: Kerf, JAX and PyTorch side by side on the CPU.

    test/Bench/training.py [--model NAME] [--dtype f32|bf16] [--python PYTHON] [--quick]
    test/Bench/training.py --compile FOLDER --cpu NAME    compiles alone: for another machine
    test/Bench/training.py --compiled FOLDER ...          with those files: needs kerf-run alone

Needs a build (build/bin, or the folder that KERF_BIN names) and, for the peers, a Python
with torch and jax. Every run is a process of its own on the same cores; rounds alternate between Kerf and the peers, and
the median step of each counts. Of a peer's variants the fastest counts: all of
them are tried in one short round first (--quick: only those that were best when all were
tried last, `BEST`). Losing rows stay in the table. Figures of a machine that others
use are marked by the spread of the rounds.

Also printed per model: the share of time per kind of command, what part of the
matmul ceiling (PyTorch's 2048 x 3072 x 768 matmul, oneDNN or MKL, timed in each
round after Kerf's steps) the step reaches and that ceiling in Gflop/s, compile time
and peak memory.
"""

import argparse
import array
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("KERF_BIN", ROOT / "build/bin"))
PEERS = ROOT / "test/Bench/peers"
sys.path.append(str(PEERS))
from models import config_of  # noqa: E402

MODELS = {
    "gpt2-124m": (512, 4),
    "gpt-mini": (256, 8),
    "llama-mini": (512, 4),
    "moe-mini": (256, 4),
    "qwen3-48m": (256, 4),
}
BEST = {
    ("torch", "f32"): ["eager", "compile"],
    ("torch", "bf16"): ["compile+autocast", "eager+masters", "compile+masters"],
    ("jax", "f32"): ["unroll+hand+einsum"],
    ("jax", "bf16"): ["unroll+optax+einsum"],
}
BEST_EXPERTS = {
    ("torch", "f32"): ["compile+grouped", "compile+loop"],
    ("torch", "bf16"): ["compile+masters+loop", "compile+masters+grouped"],
    ("jax", "f32"): ["unroll+hand+einsum+dense"],
    ("jax", "bf16"): ["unroll+hand+einsum+dense"],
}


def run(command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"{command[0]} failed ({done.returncode}):\n{done.stderr}{done.stdout}")
    return done


def compile_model(name, dtype, threads, folder, options=()):
    """Imports without dropout and compiles. Returns the file and the seconds."""
    seq, batch = MODELS[name]
    config = config_of(name)
    for key in ("attn_pdrop", "embd_pdrop", "resid_pdrop"):
        if key in config:
            config[key] = 0.0
    (folder / "config.json").write_text(json.dumps(config))
    model, artifact = folder / f"{name}.mlir", folder / f"{name}-{dtype}.kerf"
    run([BIN / "kerf-import", folder / "config.json", "--batch", batch, "--seq", seq, "-o", model])
    start = time.perf_counter()
    run([BIN / "kerfc", model, f"--precision={dtype}", f"--max-threads={threads}", *options, "-o", artifact])
    model.unlink()
    return artifact, time.perf_counter() - start


def compile_all(args):
    """Files for --compiled, which may be carried to another machine."""
    args.compile.mkdir(parents=True, exist_ok=True)
    for name, dtype in chosen(args):
        artifact, seconds = compile_model(name, dtype, args.threads, args.compile, [f"--cpu={args.cpu}"])
        print(f"{artifact.name}: {seconds:.2f} s")


def artifact_of(name, dtype, args, folder):
    """The compiled model, now or before, and the seconds that it took (NaN: before)."""
    if args.compiled:
        return args.compiled / f"{name}-{dtype}.kerf", float("nan")
    return compile_model(name, dtype, args.threads, folder)


def chosen(args):
    names = MODELS if args.model == "all" else [args.model]
    return [(name, dtype) for name in names for dtype in (("f32", "bf16") if args.dtype == "all" else (args.dtype,))]


def number_type(vocabulary):
    """How kerf-run calls the smallest type that holds a token."""
    return "u16" if vocabulary <= 1 << 16 else "u32"


def corpus(folder, vocabulary, tokens=1 << 20):
    """A file of random tokens below the vocabulary, in its `number_type`."""
    path = folder / f"tokens-{vocabulary}.bin"
    if not path.exists():
        draw = random.Random(1)
        code = "H" if number_type(vocabulary) == "u16" else "I"
        with path.open("wb") as file:
            array.array(code, (draw.randrange(vocabulary) for _ in range(tokens))).tofile(file)
    return path


def run_kerf(artifact, data, threads, steps, folder, profile=False):
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    command = [BIN / "kerf-run", artifact, "--data", data, "--steps", steps, "--threads", threads]
    command += ["--data-format=u16", "--log-json", log] + (["--profile"] if profile else [])
    done = run(command)
    lines = [json.loads(line) for line in log.read_text().splitlines() if '"run"' not in line]
    steps = [line for line in lines if "elapsed_ms" in line]
    return steps, done.stdout


def kerf_rate(steps, tokens):
    """Median of the steps after the first two."""
    times = [line["elapsed_ms"] for line in steps[2:]]
    return tokens / (statistics.median(times) / 1e3)


def peer_lines(python, peer, name, dtype, threads, steps, variants):
    command = [python, PEERS / f"peer_{peer}.py", f"--model={name}", f"--dtype={dtype}"]
    command += [f"--threads={threads}", f"--steps={steps}", "--warmup=1"]
    if variants:
        command.append("--variant=" + ",".join(variants))
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.stderr.strip():
        print(done.stderr.strip()[-400:], file=sys.stderr)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def ceiling_now(args, dtype):
    """GFLOP/s of one large matmul by the peer's library; NaN without it."""
    if "torch" not in args.peers:
        return float("nan")
    command = [args.python, PEERS / "peer_torch.py", "--ceiling", f"--threads={args.threads}"]
    lines = [json.loads(x) for x in run(command).stdout.splitlines() if x.startswith("{")]
    return next(line["gflop_per_s"] for line in lines if line["dtype"] == dtype)


def bench(name, dtype, args, folder):
    seq, batch = MODELS[name]
    tokens = seq * batch
    artifact, seconds = artifact_of(name, dtype, args, folder)
    vocabulary = config_of(name)["vocab_size"]
    data = corpus(folder, vocabulary)
    best = {}
    for peer in args.peers:
        known = BEST_EXPERTS if name == "moe-mini" else BEST
        variants = known[peer, dtype] if args.quick else None
        lines = peer_lines(args.python, peer, name, dtype, args.threads, 2, variants)
        if lines:
            best[peer] = max(lines, key=lambda line: line["tokens_per_s"])
    rates = {"kerf": []} | {peer: [best[peer]["tokens_per_s"]] for peer in best}
    memory, parts, ceilings = {}, [], []
    for _ in range(args.rounds):
        steps, _ = run_kerf(artifact, data, args.threads, args.steps + 2, folder)
        rates["kerf"].append(kerf_rate(steps, tokens))
        flops = steps[-1]["tflops_per_device"] / steps[-1]["tokens_per_second_per_device"] * 1e3
        memory["kerf"] = steps[-1].get("peak_memory_mb", 0)
        ceilings.append(ceiling_now(args, dtype))
        parts.append(rates["kerf"][-1] * flops / ceilings[-1])
        for peer, line in best.items():
            found = peer_lines(
                args.python, peer, name, dtype, args.threads, args.steps, [line["variant"]]
            )
            rates[peer].append(found[0]["tokens_per_s"])
            memory[peer] = found[0]["peak_rss_mib"]
    row = {peer: statistics.median(values) for peer, values in rates.items()}
    others = [row[peer] for peer in best]
    ratio = row["kerf"] / max(others) if others else float("nan")
    print(
        f"| {name} | {dtype} | {row['kerf']:.0f} | "
        + " | ".join(
            f"{row[p]:.0f} ({best[p]['variant'] or 'jit'})" if p in row else "-" for p in ("jax", "torch")
        )
        + f" | {ratio:.2f} | "
        + f"{statistics.median(parts):.2f} of {statistics.median(ceilings):.0f}"
        + f" | {seconds:.2f} | "
        + " / ".join(f"{memory.get(p, 0):.0f}" for p in ("kerf", "jax", "torch"))
        + " |",
        flush=True,
    )
    _, text = run_kerf(artifact, data, args.threads, 3, folder, profile=True)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", choices=[*MODELS, "all"], default="all")
    parser.add_argument("--dtype", choices=["f32", "bf16", "all"], default="all")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable, help="with torch and jax")
    parser.add_argument("--peers", default="jax,torch", help="by comma; empty for none")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--compile", type=Path, metavar="FOLDER")
    parser.add_argument("--cpu", default="native", help="of --compile: kerfc's --cpu")
    parser.add_argument("--compiled", type=Path, metavar="FOLDER")
    args = parser.parse_args()
    if args.compile:
        return compile_all(args)
    args.peers = [peer for peer in args.peers.split(",") if peer]
    print(f"{args.threads} threads, {args.steps} steps a round, median of {args.rounds} rounds\n")
    print(
        "| model | type | Kerf tokens/s | JAX | PyTorch | Kerf / best | of ceiling | compile s "
        "| peak MiB K/J/T |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    shares = []
    with tempfile.TemporaryDirectory() as folder:
        for name, dtype in chosen(args):
            shares.append((name, dtype, bench(name, dtype, args, Path(folder))))
    for name, dtype, text in shares:
        print(f"\n{name} {dtype}: share of time per kind of command")
        print(text[text.find("time by command") :])


if __name__ == "__main__":
    main()
