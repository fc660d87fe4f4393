#!/usr/bin/env python3
"""Predicted and measured step times and memory of many layouts of a small model on this machine.

    kerf-run --calibrate --ranks=4 -o four.yaml
    test/Bench/layouts.py --cluster four.yaml [--rounds N] [--steps N] [--only REGEX]

A description of N ranks has the figures of fewer, too. Of several a layout is predicted with the
smallest one of at least its ranks.

Each layout is pinned (`kerfc --pin`), predicted (`--explain-json`), compiled and run. Rounds go
over all layouts, so that a machine that gets slower does so for all; the median of all
steps counts, the first two of a run left out. Predictions come from the description alone:
nothing is fitted to the steps.

Printed: a table; the rank correlation (Spearman's) of predicted and measured times; the regret, which is the
measured time of the layout that is predicted fastest over that of the fastest one; the same
among the layouts of each number of ranks; and, with --profile, where time goes beside what
was predicted for it. A step's spread (third over first quartile) tells how quiet the machine was.
"""

import argparse
import array
import collections
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build/bin"
BATCH, SEQUENCE = 8, 128
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
    "hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 2048,
    "max_position_embeddings": SEQUENCE, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
}  # fmt: skip

# Ranks and pins. What is not pinned is the planner's: without pins, everything.
LAYOUTS = [
    (1, "mb=8"), (1, "mb=4"), (1, "mb=2"), (1, "mb=1"),
    (1, "mb=8,recompute=full"), (1, "mb=8,recompute=selective"), (1, "mb=1,recompute=full"),
    (2, "dp=2,mb=4"), (2, "dp=2,mb=2"), (2, "dp=2,mb=1"), (2, "dp=2,mb=4,recompute=full"),
    (2, "tp=2,mb=8"), (2, "tp=2,mb=2"), (2, "tp=2,mb=1"), (2, "tp=2,mb=8,recompute=full"),
    (2, "pp=2,mb=4"), (2, "pp=2,mb=2"), (2, "pp=2,mb=1"), (2, "pp=2,mb=2,schedule=gpipe"),
    (2, "pp=2,mb=8"), (2, "pp=2,mb=2,recompute=full"),
    (2, "dp=2,zero=1,mb=4"), (2, "dp=2,zero=2,mb=4"), (2, "dp=2,zero=3,mb=4"),
    (2, "dp=2,zero=3,mb=1"),
    (4, "dp=4,mb=2"), (4, "tp=4,mb=8"), (4, "dp=2,tp=2,mb=4"), (4, "pp=4,mb=1"),
    (1, ""), (2, ""), (4, ""),
    (4, "pp=2,dp=2,mb=1"), (4, "pp=2,tp=2,mb=2"), (4, "dp=4,zero=3,mb=2"),
]  # fmt: skip

# Which of the prediction's times a command belongs to; what matches none is memory-bound.
KINDS = [
    ("matmul", r"^matmul$"),
    ("attention", r"^attention"),
    ("update", r"^(update|global_norm|clip|sqrt)"),
    ("traffic", r"^(all_|reduce_scatter|rotate|send|receive)"),
]


class Layout:
    def __init__(self, ranks, pins, folder):
        self.ranks, self.pins = ranks, pins
        self.name = f"{ranks}: {pins or 'planner'}"
        stem = re.sub(r"[^a-z0-9]+", "-", f"{ranks}-{pins}")
        self.file, self.json = folder / f"{stem}.kerf", folder / f"{stem}.json"
        self.plan, self.log = folder / f"{stem}.plan", folder / f"{stem}.log"
        self.times, self.profile, self.peak_mb, self.arena_mib = [], {}, 0, 0

    def measured(self):
        return statistics.median(self.times)

    def spread(self):
        low, _, high = statistics.quantiles(self.times, n=4)
        return high / low


def run(command, may_fail=False):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode and not may_fail:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}{done.stdout}")
    return done


def make_inputs(folder):
    """The model and tokens."""
    (folder / "config.json").write_text(json.dumps(CONFIG))
    model = folder / "model.mlir"
    run([BIN / "kerf-import", folder / "config.json", "--batch", BATCH, "--seq", SEQUENCE, "-o", model])
    draw = random.Random(1)
    tokens = array.array("H", (draw.randrange(CONFIG["vocab_size"]) for _ in range(1 << 17)))
    with (folder / "tokens.bin").open("wb") as file:
        tokens.tofile(file)
    return model


def clusters(files, folder):
    """By their number of ranks: a description, and the same as one that only plans."""
    found = {}
    for number, file in enumerate(files):
        text = Path(file).read_text()
        size = re.search(r"tiers:[^-]*- \{name: \w+, size: (\d+)", text, re.S)
        plans_only = folder / f"plans-only-{number}.yaml"
        plans_only.write_text(re.sub(r"\{\s*target:[^}]*\}", "none", text))
        found[int(size[1]) if size else 1] = (file, plans_only)
    return found


def compile_layout(layout, model, described, threads):
    """Plans, predicts and compiles. Returns what is wrong, if anything."""
    pins = [f"--pin={layout.pins}"] if layout.pins else []
    devices = f"--devices={layout.ranks}"
    found = None
    # The search leaves out some layouts that can be compiled when a plan asks for them.
    for cluster in described:
        options = [f"--cluster={cluster}", devices, *pins]
        found = run(
            [BIN / "kerfc", model, *options, "--emit=plan", "-o", layout.plan,
             f"--explain-json={layout.json}"], may_fail=True,
        )  # fmt: skip
        if found.returncode == 0:
            break
    if found.returncode == 0:
        options = [f"--plan={layout.plan}", f"--max-threads={threads}", "-o", layout.file]
        found = run([BIN / "kerfc", model, *options], may_fail=True)
    if found.returncode:
        return found.stderr.strip().splitlines()[0]
    said = json.loads(layout.json.read_text())
    layout.predicted = said["time"]["step_sec"]
    layout.time = said["time"]
    stages = said["memory"]["stages_bytes"]
    layout.predicted_mib = max(s["total"] - s["reserved"] for s in stages) / 2**20
    return ""


def run_layout(layout, steps, folder, profile=False):
    layout.log.unlink(missing_ok=True)
    command = [BIN / "kerf-run", layout.file, "--data", folder / "tokens.bin", "--data-format=u16"]
    command += ["--steps", steps + 2, "--log-json", layout.log] + ["--profile"] * profile
    out = run(command).stdout
    lines = [json.loads(line) for line in layout.log.read_text().splitlines() if '"run"' not in line]
    lines = [line for line in lines if "elapsed_ms" in line]
    layout.peak_mb = max(layout.peak_mb, max(line.get("peak_memory_mb", 0) for line in lines))
    layout.arena_mib = float(re.search(r"arena +([0-9.,]+) MiB", out)[1].replace(",", ""))
    if profile:
        total = collections.Counter()
        for ms, name in re.findall(r"% +([0-9.]+) ms +\d+ calls +(\S+)", out):
            kind = next((k for k, pattern in KINDS if re.search(pattern, name)), "memory")
            total[kind] += float(ms) / 1e3 / (steps + 2)
        layout.profile = total
    else:
        layout.times += [line["elapsed_ms"] / 1e3 for line in lines[2:]]


def ranks_of(values):
    """Ranks from 1, ties shared."""
    order = sorted(values)
    return [(2 * order.index(v) + order.count(v) + 1) / 2 for v in values]


def spearman(xs, ys):
    if len(xs) < 3 or len(set(xs)) < 2 or len(set(ys)) < 2:
        return float("nan")
    return statistics.correlation(ranks_of(xs), ranks_of(ys))


def summary(layouts, title):
    predicted = [layout.predicted for layout in layouts]
    measured = [layout.measured() for layout in layouts]
    chosen = min(layouts, key=lambda layout: layout.predicted)
    fastest = min(layouts, key=lambda layout: layout.measured())
    regret = chosen.measured() / fastest.measured() - 1
    # A factor that is common to all layouts moves no choice.
    ratios = [p / m for p, m in zip(predicted, measured)]
    common = statistics.median(ratios)
    errors = [abs(r - 1) for r in ratios]
    relative = [abs(r / common - 1) for r in ratios]
    print(f"| {title} | {len(layouts)} | {spearman(predicted, measured):.3f} | {100 * regret:.1f} % "
          f"({chosen.name}; fastest {fastest.name}) | {100 * statistics.median(errors):.0f} % "
          f"| {common:.2f} | {100 * statistics.median(relative):.0f} % |")  # fmt: skip


def print_times(layouts):
    print("| ranks: layout | predicted ms | measured ms | ratio | spread | predicted MiB "
          "| arena MiB | peak MB |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|")
    for layout in sorted(layouts, key=lambda layout: layout.predicted):
        measured = layout.measured()
        print(f"| {layout.name} | {1e3 * layout.predicted:.1f} | {1e3 * measured:.1f} "
              f"| {layout.predicted / measured:.2f} | {layout.spread():.2f} | {layout.predicted_mib:.1f} "
              f"| {layout.arena_mib:.1f} | {layout.peak_mb:.0f} |")  # fmt: skip
    print("\n| layouts | number | rank correlation | regret | median error | common factor "
          "| median error without it |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    summary(layouts, "all")
    for ranks in sorted({layout.ranks for layout in layouts}):
        summary([one for one in layouts if one.ranks == ranks], f"{ranks} ranks")
    predicted = [layout.predicted_mib for layout in layouts]
    arena = [layout.arena_mib for layout in layouts]
    print(f"| memory | {len(layouts)} | {spearman(predicted, arena):.3f} | | "
          f"{100 * statistics.median(abs(p / a - 1) for p, a in zip(predicted, arena)):.0f} % | "
          f"{statistics.median(p / a for p, a in zip(predicted, arena)):.2f} | |")  # fmt: skip


def print_profiles(layouts):
    """Predicted / measured milliseconds per kind of command, on rank 0."""
    kinds = ["matmul", "attention", "memory", "update", "traffic"]
    print("\nmilliseconds on rank 0, predicted / measured\n")
    print("| ranks: layout | " + " | ".join(kinds) + " | bubble, predicted |")
    print("|---" * (len(kinds) + 2) + "|")
    for layout in layouts:
        said = layout.time["compute_sec"]
        traffic = sum(one["exposed_sec"] for one in layout.time["communication"])
        predicted = {
            "matmul": said["matmul"] + said["recompute"], "attention": said["attention"],
            "memory": said["memory_bound"] + said["launch"],
            "update": said["optimizer"], "traffic": traffic,
        }  # fmt: skip
        cells = [f"{1e3 * predicted[k]:.1f} / {1e3 * layout.profile[k]:.1f}" for k in kinds]
        bubble = layout.time["coordination_sec"]["bubble"]
        print(f"| {layout.name} | " + " | ".join(cells) + f" | {1e3 * bubble:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cluster", required=True, action="append", help="of kerf-run --calibrate -o")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="measured steps of a run")
    parser.add_argument("--only", default="", help="regular expression on '2: dp=2,mb=4'")
    parser.add_argument("--profile", action="store_true", help="also compare kinds of commands")
    args = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    print(f"load average before: {os.getloadavg()[0]:.2f}; {threads} cores", file=sys.stderr)
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        model = make_inputs(folder)
        described = clusters(args.cluster, folder)
        layouts = []
        for ranks, pins in LAYOUTS:
            layout = Layout(ranks, pins, folder)
            if not re.search(args.only, layout.name):
                continue
            ranks = min((n for n in described if n >= layout.ranks), default=max(described))
            wrong = compile_layout(layout, model, described[ranks], threads)
            if wrong:
                print(f"left out: {layout.name}: {wrong}", file=sys.stderr)
            else:
                layouts.append(layout)
        for round_ in range(args.rounds):
            for layout in layouts:
                run_layout(layout, args.steps, folder)
            print(f"round {round_ + 1}, load average {os.getloadavg()[0]:.2f}", file=sys.stderr)
        print_times(layouts)
        if args.profile:
            for layout in layouts:
                run_layout(layout, args.steps, folder, profile=True)
            print_profiles(layouts)


if __name__ == "__main__":
    main()
