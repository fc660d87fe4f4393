#!/usr/bin/env python3
"""Step times on 1, 2, 4 and 8 ranks of this machine: Kerf, PyTorch and JAX side by side.

    test/Bench/ranks.py BIN [--model tiny|small] [--rounds 3] [--python PYTHON]

BIN is the folder with kerfc, kerf-run and so on; PYTHON has torch and jax. All compute
the same GPT in f32 with AdamW and clipping, the same sequences per step, on the same
cores, on random tokens. Kerf's ranks are processes that talk over shared memory: the plan
that `kerfc --cluster` finds, and pinned ones. PyTorch's are processes over gloo
(DistributedDataParallel, eager and compiled; fully_shard). JAX's are devices of one
process (jit over sharded arrays).

For each number of ranks, rounds alternate between all of them; a row is the median of the
steps of all rounds, and its spread the fastest and the slowest step. A peer that took more
than `HOPELESS` times the best one in the first round is not measured again; its row stays.
The last column divides by the best peer on the same number of ranks.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "test/Bench/peers"
CLUSTER = ROOT / "examples/clusters/this-machine.yaml"
sys.path.insert(0, str(PEERS))

import ranks_model  # noqa: E402  (lies with the peers)

HOPELESS = 1.5
# Kerf's steps that do not count, in each round: the first one touches memory for the first time.
WARMUP = 1


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stderr}{done.stdout}")
    return done.stdout


class Row:
    """Something that is measured. `measure(steps)` is (seconds of the steps, first loss)."""

    def __init__(self, ranks, program, layout, threads, measure, end=lambda: None):
        self.ranks, self.program, self.layout, self.threads = ranks, program, layout, threads
        self.measure, self.end, self.ended = measure, end, False
        self.seconds, self.rounds, self.first_loss = [], 0, None

    def round(self, steps):
        seconds, self.first_loss = self.measure(steps)
        self.seconds += seconds
        self.rounds += 1

    def finish(self):
        """Gives up what it holds, once."""
        if not self.ended:
            self.end()
        self.ended = True

    @property
    def median(self):
        return statistics.median(self.seconds)


# ---- Kerf -------------------------------------------------------------------


def layout_of(plan):
    """A plan in words: 'dp 2, zero 3' or 'pp 4, zb-h1 with 8 micro-batches'."""
    words = [f"{axis} {size}" for axis, size in plan["mesh"].items()]
    if plan.get("zero"):
        words.append(f"zero {plan['zero']}")
    if "pp" in plan["mesh"]:
        words.append(plan["schedule"])
    if plan["micro_batches"] > 1:
        words.append(f"{plan['micro_batches']} micro-batches")
    return ", ".join(words) or "one rank"


def kerf_row(bin, folder, model, data, ranks, pin, cores):
    name = folder / f"kerf-{ranks}-{pin or 'best'}"
    artifact, log = name.with_suffix(".kerf"), name.with_suffix(".log")
    options = [f"--cluster={CLUSTER}", f"--devices={ranks}"] + ([f"--pin={pin}"] if pin else [])
    run([bin / "kerfc", model, *options, f"--max-threads={cores}", "-o", artifact])

    def measure(steps):
        log.unlink(missing_ok=True)
        command = [bin / "kerf-run", artifact, "--data", data, "--data-format=u16"]
        run([*command, "--steps", steps + WARMUP, "--log-json", log])
        lines = [json.loads(line) for line in log.read_text().splitlines() if '"run"' not in line]
        lines = [line for line in lines if "elapsed_ms" in line]
        return [line["elapsed_ms"] / 1e3 for line in lines[WARMUP:]], lines[0]["loss"]

    plan = json.loads(run([bin / "kerf-inspect", "plan", artifact]))
    layout = ("pinned: " if pin else "planned: ") + layout_of(plan)
    return Row(ranks, "Kerf", layout, max(1, cores // ranks), measure)


def kerf_rows(bin, folder, model, data, ranks, cores):
    pins = [""]
    if ranks > 1:
        pins += [f"dp={ranks},zero=0", f"dp={ranks},zero=3", f"tp={ranks}", f"pp={ranks}"]
    return [kerf_row(bin, folder, model, data, ranks, pin, cores) for pin in pins]


# ---- Peers ------------------------------------------------------------------


class Peer:
    """A peer's process, which answers requests; see peers/ranks_torch.py."""

    def __init__(self, args, script, **environment):
        self.process = subprocess.Popen(
            [args.python, str(PEERS / script), f"--model={args.model}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )
        self.version = self.answer()["version"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args[1]} ended with {self.process.wait()}")
        return json.loads(line)

    def request(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def row(self, ranks, program, layout, threads, variant):
        what = {"ranks": ranks, "variant": variant, "threads": threads}

        def measure(steps):
            self.request(**what, steps=steps)
            answer = self.answer()
            return answer["seconds"], answer["first_loss"]

        return Row(ranks, program, layout, threads, measure, lambda: self.request(**what, steps=0))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def torch_rows(peer, ranks, cores):
    """With one thread each; with all cores too while ranks do not outnumber them."""
    most = cores if ranks <= cores else 1
    if ranks == 1:
        kinds = [("one process, eager", "ddp+eager", most), ("one process, compile", "ddp+compile", most)]
    else:
        kinds = [("DDP, eager", "ddp+eager", most), ("DDP, compile", "ddp+compile", 1)]
        kinds += [("FSDP", "fsdp+eager", 1)]
    return [
        peer.row(ranks, "PyTorch", name, threads, variant)
        for name, variant, most in kinds
        for threads in sorted({1, most})
    ]


def jax_rows(peer, ranks, cores):
    """Devices share the threads of one pool."""
    variants = {"dp": "replicated", "sharded": "sharded weights"} if ranks > 1 else {"dp": "jit"}
    return [peer.row(ranks, "JAX", name, cores, variant) for variant, name in variants.items()]


# ---- The table --------------------------------------------------------------


def measure(rows, rounds, steps):
    for number in range(rounds):
        peers = [row.median for row in rows if row.program != "Kerf" and row.rounds]
        for row in rows:
            if number == 0 or row.program == "Kerf" or row.median < HOPELESS * min(peers):
                row.round(steps)
            else:
                row.finish()


def check_losses(rows, vocabulary):
    """Rows of a program start from the same loss, all near that of a guess."""
    for row in rows:
        same = next(r for r in rows if (r.program == "Kerf") == (row.program == "Kerf"))
        if abs(row.first_loss - same.first_loss) > 1e-4 or abs(
            row.first_loss - math.log(vocabulary)
        ) > 0.3:
            sys.exit(f"{row.program}, {row.layout}: the first loss is {row.first_loss}")


def show(rows, tokens):
    best = min(row.median for row in rows if row.program != "Kerf")
    for row in rows:
        times = f"{row.median * 1e3:.1f} | {min(row.seconds) * 1e3:.0f} - {max(row.seconds) * 1e3:.0f}"
        print(
            f"| {row.ranks} | {row.program} | {row.layout} | {row.threads} | {times} | {row.rounds} "
            f"| {tokens / row.median:.0f} | {best / row.median:.2f} |",
            flush=True,
        )


def bench(args, folder, model, data, torch, ranks):
    """All rows of one number of ranks."""
    cores = args.cores
    flags = f"--xla_force_host_platform_device_count={ranks}"
    jax = Peer(args, "ranks_jax.py", XLA_FLAGS=flags)
    rows = kerf_rows(args.bin, folder, model, data, ranks, cores)
    rows += torch_rows(torch, ranks, cores) + jax_rows(jax, ranks, cores)
    measure(rows, args.rounds, args.steps)
    for row in rows:
        row.finish()
    jax.close()
    return rows


def corpus(path, vocabulary):
    """Random tokens as uint16."""
    draw = random.Random(1)
    array("H", (draw.randrange(vocabulary) for _ in range(1 << 18))).tofile(path.open("wb"))
    return path


def describe(args, torch, jax_version):
    sizes = ranks_model.SIZES[args.model]
    compiler = run([args.bin / "kerf-run", "--version"]).strip()
    print(
        f"{compiler}, {torch.version}, {jax_version}; {args.cores} cores; f32, AdamW, clipping.\n"
        f"GPT of {ranks_model.parameters(args.model) / 1e6:.1f} million parameters: "
        + ", ".join(f"{name} {size}" for name, size in sizes.items())
        + f".\nMedian of {args.rounds} rounds of {args.steps} steps. "
        f"Load average before: {os.getloadavg()[0]:.2f}.\n"
        "Flags: kerfc --cluster=examples/clusters/this-machine.yaml --devices=RANKS [--pin=...]; "
        "XLA_FLAGS=--xla_force_host_platform_device_count=RANKS;\n"
        "torch.set_num_threads, AdamW(fused=True).\n"
    )
    columns = "ranks | program | how | threads each | ms per step | fastest - slowest | rounds | tokens/s"
    print(f"| {columns} | of best peer |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bin", type=Path)
    parser.add_argument("--model", choices=ranks_model.SIZES, default="small")
    parser.add_argument("--ranks", default="1,2,4,8", help="by comma")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2, help="of a round")
    parser.add_argument("--python", default=sys.executable, help="with torch and jax")
    args = parser.parse_args()
    args.cores = len(os.sched_getaffinity(0))
    sizes = ranks_model.SIZES[args.model]
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.json").write_text(json.dumps(ranks_model.config(args.model)))
        model, data = folder / "model.mlir", corpus(folder / "tokens.bin", sizes["vocab"])
        options = ["--batch", sizes["batch"], "--seq", sizes["seq"], "-o", model]
        run([args.bin / "kerf-import", folder / "config.json", *options])
        torch = Peer(args, "ranks_torch.py", TORCHINDUCTOR_CACHE_DIR=str(folder / "compiled"))
        jax = Peer(args, "ranks_jax.py")
        describe(args, torch, jax.version)
        jax.close()
        for ranks in map(int, args.ranks.split(",")):
            rows = bench(args, folder, model, data, torch, ranks)
            check_losses(rows, sizes["vocab"])
            show(rows, sizes["batch"] * sizes["seq"])
        torch.close()
    print(f"\n{time.monotonic() - start:.0f} s in all; load average after: {os.getloadavg()[0]:.2f}")


main()
