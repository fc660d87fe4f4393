#!/usr/bin/env python3
"""What the planner's search costs, and how its plans compare with published layouts.

    test/Bench/planner.py search [--only NAME] [--prove]
    test/Bench/planner.py experts [--only NAME]

`search`: seconds (CPU seconds in brackets), memory, size of the space, tables solved and bounded and the
certificate, for large models on large clusters and gpt-100b on 64 devices of every
shipped cluster; the median and the worst. `experts`: the step time of the plan that
is found beside that of the layout that its authors published, pinned, both in the
same timeline. Needs a build (build/bin). One process at a time on an idle machine.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build/bin"
CLUSTERS = ROOT / "examples/clusters"
# model, sequences, tokens of a sequence, cluster, devices
SEARCHES = [
    ("gpt3-175b", 1536, 2048, "dgx-a100-80g", 1024),
    ("sc21-1t", 3072, 2048, "dgx-a100-80g", 3072),
    ("llama-3-70b", 512, 8192, "hgx-h100", 256),
    ("llama-3.1-405b", 2048, 8192, "hgx-h100", 16384),
    ("mixtral-8x7b", 256, 4096, "hgx-h100", 64),
    ("qwen3-235b-a22b", 1024, 4096, "hgx-h100", 512),
    ("deepseek-v3", 15360, 4096, "hgx-h100", 2048),
    ("deepseek-v3", 15360, 4096, "hgx-h800", 2048),
    ("palm-540b", 2048, 2048, "tpu-v4-2pods", 6144),
]
FULL = "recompute=full,zero=0,cp=1,ep=1"
DEEPSEEK = "tp=1,cp=1,pp=16,dp=128,ep=64,mb=1,zero=1,schedule=zb-h1,moe=all_to_all"
# model, sequences, tokens, cluster, devices, the published layout: SC21 table 1
# (arXiv 2104.04473), MT-NLG (arXiv 2201.11990, table 1), Llama 3 (arXiv 2407.21783,
# table 4), PaLM (arXiv 2204.02311, section 4: state cut inside a pod), DeepSeek-V3
# (arXiv 2412.19437, section 3.2: DualPipe, here its nearest relative ZB-H1).
EXPERTS = [
    ("sc21-1.7b", 512, 2048, "dgx-a100-80g", 32, f"tp=1,pp=1,mb=16,{FULL}"),
    ("sc21-3.6b", 512, 2048, "dgx-a100-80g", 64, f"tp=2,pp=1,mb=16,{FULL}"),
    ("sc21-7.5b", 512, 2048, "dgx-a100-80g", 128, f"tp=4,pp=1,mb=16,{FULL}"),
    ("sc21-18b", 1024, 2048, "dgx-a100-80g", 256, f"tp=8,pp=1,mb=8,{FULL}"),
    ("sc21-39b", 1536, 2048, "dgx-a100-80g", 512, f"tp=8,pp=2,mb=4,schedule=1f1b,{FULL}"),
    ("sc21-76b", 1792, 2048, "dgx-a100-80g", 1024, f"tp=8,pp=4,mb=2,schedule=interleaved,v=3,{FULL}"),
    ("sc21-145b", 2304, 2048, "dgx-a100-80g", 1536, f"tp=8,pp=8,mb=2,schedule=interleaved,v=2,{FULL}"),
    ("sc21-310b", 2160, 2048, "dgx-a100-80g", 1920, f"tp=8,pp=16,mb=1,schedule=interleaved,v=2,{FULL}"),
    ("sc21-530b", 2520, 2048, "dgx-a100-80g", 2520, f"tp=8,pp=35,mb=1,schedule=interleaved,v=3,{FULL}"),
    ("sc21-1t", 3072, 2048, "dgx-a100-80g", 3072, f"tp=8,pp=64,mb=1,schedule=1f1b,{FULL}"),
    ("sc21-530b", 1920, 2048, "dgx-a100-80g", 3360, f"tp=8,pp=35,dp=12,mb=1,schedule=1f1b,{FULL}"),
    ("llama-3.1-405b", 2048, 8192, "hgx-h100", 16384, "tp=8,pp=16,dp=128,cp=1,mb=1,zero=1|2"),
    ("llama-3.1-405b", 128, 131072, "hgx-h100", 16384, "tp=8,pp=16,cp=16,dp=8,mb=1,zero=1|2"),
    ("palm-540b", 2048, 2048, "tpu-v4-2pods", 6144, "tp=12,dp=512,pp=1,cp=1,mb=4,zero=3,shard=256,recompute=full"),
    ("deepseek-v3", 15360, 4096, "hgx-h800", 2048, DEEPSEEK),
    ("deepseek-v3", 15360, 4096, "hgx-h100", 2048, DEEPSEEK),
]


# More options of a model: DeepSeek-V3 exchanges rows of experts.
OPTIONS = {"deepseek-v3": ["--moe-buffer=1.25"]}


def step_of(folder, model, batch, sequence):
    """The step after `precision`, made once."""
    path = folder / f"{model}-{batch}-{sequence}.mlir"
    if not path.exists():
        source = ROOT / f"examples/models/{model}"
        text = source / "model.mlir"  # written by hand, of this batch and sequence
        if not text.exists():
            text = folder / "model.mlir"
            run([BIN / "kerf-import", source / "config.json", "--batch", batch, "--seq", sequence, "-o", text])
        run([BIN / "kerfc", text, "--precision=bf16", "--stop-after=precision", "-o", path])
    return path


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[0]} failed ({done.returncode}):\n{done.stderr}{done.stdout}")


def plan(step, cluster, devices, pins="", prove=False):
    """(explanation or None, (seconds, CPU seconds), peak MiB, message) of one plan in a process of its own."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [BIN / "kerfc", step, "--start-after=precision", f"--cluster={CLUSTERS / cluster}.yaml",
                   f"--devices={devices}", "--explain=full", f"--explain-json={out.name}"]
        command += [f"--pin={pins}"] if pins else []
        command += ["--prove"] if prove else []
        command += OPTIONS.get(step.stem.rsplit("-", 2)[0], [])
        start = time.perf_counter()
        child = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        message = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        seconds = (time.perf_counter() - start, usage.ru_utime + usage.ru_stime)
        if status:
            return None, seconds, usage.ru_maxrss / 1024, message.strip()
        text = Path(out.name).read_text()
        return json.loads(text), seconds, usage.ru_maxrss / 1024, ""


def layout_of(found):
    choice = found["plan"]["choice"]
    parts = [f"{k} {choice[k]}" for k in ("tp", "cp", "ep", "dp", "pp") if choice[k] > 1]
    schedule = choice["schedule"] + (f" v {choice['chunks']}" if choice["chunks"] > 1 else "")
    if "defer" in choice and choice["defer"] < choice["pp"] - 1:
        schedule += f" defer {choice['defer']}"
    parts.append(f", {choice['micro_batches']} x {choice['micro_batch']}")
    parts.append(f", {schedule}, zero {choice['zero']}")
    return " ".join(parts).replace(" ,", ",")


def reason_of(message):
    """What the first line of a refusal says, without the file that it names."""
    said = message.splitlines()[0].split("error: ")[-1] if message else ""
    needs = re.search(r"needs ([0-9.]+ GiB)", said)
    if "fits" not in said:
        return said[:80] or "refused"
    return "does not fit" + (f", needs {needs[1]}" if needs else "")


def search(args, folder):
    rows = list(SEARCHES)
    for path in sorted(CLUSTERS.glob("*.yaml")):
        rows.append(("gpt-100b", 1024, 2048, path.stem, 64))
    print("| model | on | step s | layout | search s | MiB | space | tables solved / bounded | bound s | gap % |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    times = []
    for model, batch, sequence, cluster, devices in rows:
        if args.only and args.only not in model:
            continue
        step = step_of(folder, model, batch, sequence)
        found, seconds, mib, message = plan(step, cluster, devices, prove=args.prove)
        times.append(seconds)
        took = f"{seconds[0]:.2f} ({seconds[1]:.2f})"
        where = f"{devices} x {cluster}"
        if found is None or not found["feasible"]:
            why = reason_of(message)
            print(f"| {model} | {where} | - | {why} | {took} | {mib:.0f} | | | | |", flush=True)
            continue
        proof = found["trust"]["certificate"]
        print(f"| {model} | {where} | {found['time']['step_sec']:.3f} | {layout_of(found)} | {took} | {mib:.0f} | "
              f"{proof['space']:.3g} | {proof['tables_solved']} / {proof['tables_bounded']} | {proof['bound_sec']:.3f} | "
              f"{100 * proof['gap']:.1f} |", flush=True)
    for name, kind in (("search", [wall for wall, _ in times]), ("CPU", [cpu for _, cpu in times])):
        print(f"\n{name}: median {statistics.median(kind):.2f} s, worst {max(kind):.2f} s")


def figures_of(found):
    """Seconds, MFU in percent and GiB of the most loaded rank, as cells."""
    if not found or not found["feasible"]:
        return "- | - | -"
    stages = found["memory"]["stages_bytes"]
    gib = max(stage["total"] for stage in stages) / 2**30
    return f"{found['time']['step_sec']:.3f} | {100 * found['time']['mfu']:.1f} | {gib:.1f}"


def experts(args, folder):
    print("| model | devices | published layout, pinned | s | MFU | GiB | found | s | MFU | GiB | published / found |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    worst = None
    for model, batch, sequence, cluster, devices, pins in EXPERTS:
        if args.only and args.only not in model:
            continue
        step = step_of(folder, model, batch, sequence)
        theirs, _, _, message = plan(step, cluster, devices, pins)
        ours, _, _, _ = plan(step, cluster, devices)
        second = theirs["time"]["step_sec"] if theirs and theirs["feasible"] else None
        best = ours["time"]["step_sec"] if ours and ours["feasible"] else None
        ratio = second / best if second and best else None
        if ratio:
            worst = ratio if worst is None else min(worst, ratio)
        why = "" if second else f" ({reason_of(message)})"
        print(f"| {model} | {devices} x {cluster} | {pins.replace('|', ' or ')}{why} | {figures_of(theirs)} | {layout_of(ours) if ours else '-'} | "
              f"{figures_of(ours)} | {f'{ratio:.3f}' if ratio else '-'} |", flush=True)
    print(f"\nleast ratio {worst:.3f}: below 1 the search would have missed a published layout" if worst else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["search", "experts"])
    parser.add_argument("--only", default="", help="models whose name has this")
    parser.add_argument("--prove", action="store_true")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        {"search": search, "experts": experts}[args.what](args, Path(folder))


if __name__ == "__main__":
    main()
