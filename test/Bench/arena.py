#!/usr/bin/env python3
"""The memory that the planner expects against the arena that is placed.

  arena.py BIN SOURCE [--large] [--few] [--buckets] [--under=PERCENT] [--over=PERCENT]

Plans of small models in many layouts: per stage the bytes that the planner expects of
a program, and the arena that the stage `memory` gives it. With --large the models have
a few million parameters, beside which one thread's workspaces are small; with --few
there are a few layouts of each, with --buckets gradients are summed over ranks in the
last backward pass (expect --over=15). Prints a line per plan (its stage with the largest
error) with the classes at the plan's peak less the most that the program has of them
at any time, and the range of errors. Fails when an error is outside of what --under
and --over allow (0 and 3 unless stated).
"""
import json
import os
import re
import subprocess
import sys
import tempfile

CLUSTER = """name: eight
device:
  name: cpu
  memory: 16 GB
  memory_bandwidth: 20 GB/s
  peak: {f32: 0.31 TFLOP/s}
  launch: 5 us
  backend: {target: cpu}
tiers:
  - {name: memory, size: 8, bandwidth: 10 GB/s, latency: 10 us}
"""
# Devices, pins, and whether it is one of the few.
LAYOUTS = [
    (1, "", True), (1, "m=2", False), (1, "m=4", True), (1, "m=8", False),
    (1, "m=2,recompute=full", True), (1, "recompute=full", False), (1, "m=2,recompute=selective", False),
    (2, "dp=2,zero=0", True), (2, "dp=2,zero=1", False), (2, "dp=2,zero=2", False), (2, "dp=2,zero=3", True),
    (2, "dp=2,zero=0,m=2", False), (2, "dp=2,zero=1,m=2", False), (2, "dp=2,zero=2,m=2", True),
    (2, "dp=2,zero=3,m=2", False), (4, "dp=4,zero=3,m=2", False), (4, "dp=4,zero=1", False),
    (2, "tp=2", True), (2, "tp=2,m=4", False), (4, "tp=4", False), (4, "tp=2,dp=2,zero=1", False),
    (2, "tp=2,recompute=full", False), (4, "tp=2,dp=2,zero=3", False),
    (2, "pp=2,m=4,schedule=1f1b", True), (2, "pp=2,m=4,schedule=gpipe", False), (2, "pp=2,m=4,schedule=zb-h1", False),
    (2, "pp=2,m=4,v=2,schedule=interleaved", False), (4, "pp=4,m=4,schedule=1f1b", False),
    (4, "pp=4,m=4,schedule=gpipe", False), (2, "pp=2,m=4,schedule=1f1b,recompute=full", False),
    (4, "pp=2,dp=2,zero=1,m=4,schedule=1f1b", True), (4, "pp=2,dp=2,zero=2,m=2,schedule=1f1b", False),
    (4, "pp=2,dp=2,zero=3,m=2,schedule=1f1b", False), (4, "pp=2,tp=2,m=4,schedule=1f1b", False),
    (8, "pp=2,tp=2,dp=2,zero=1,m=2,schedule=1f1b", False), (8, "pp=4,dp=2,zero=0,m=4,schedule=1f1b", False),
    (2, "cp=2", False), (4, "cp=2,dp=2,zero=1", False), (2, "dp=2,ep=2,zero=0", False),
    (4, "dp=4,ep=2,zero=1", False), (4, "dp=2,ep=2,tp=2", False),
    (2, "pp=2,m=1,schedule=zb-h1", False), (2, "pp=2,m=4,schedule=zb-h1,recompute=full", True),
    (2, "pp=2,m=4,schedule=zb-h1,recompute=selective", False), (4, "cp=4", False),
    (2, "dp=2,ep=2,m=2", False), (2, "dp=2,ep=2,moe=all_to_all", False), (4, "dp=4,zero=3,shard=2", False),
]
FAMILIES = ["gpt2", "llama", "mixtral"]
# Of a few million parameters.
LARGER = {
    "gpt2": {"n_embd": 256, "vocab_size": 1024, "n_positions": 256},
    "llama": {"hidden_size": 256, "intermediate_size": 768, "vocab_size": 1024},
    "mixtral": {"hidden_size": 256, "intermediate_size": 512, "vocab_size": 1024},
}
# Classes of the placed program, as the plan calls those that both have.
CLASSES = ["weights", "masters", "optimizer", "gradients", "activations", "temporaries", "workspaces", "inputs"]


def run(*arguments):
    return subprocess.run([str(a) for a in arguments], capture_output=True, text=True)


def placed(text):
    """Per stage: the arena, and the most bytes of each class."""
    stages = []
    for line in text.splitlines():
        found = re.match(r"\s*exec\.program @\S+ arena (\d+) .*?classes \[([^\]]*)\]", line)
        if found:
            stages.append((int(found[1]), dict(zip(CLASSES, map(int, found[2].split(", "))))))
    return stages


def compare(binaries, model, cluster, devices, pins, options, folder):
    plan, explained, memory = (os.path.join(folder, n) for n in ("plan.json", "explained.json", "memory.mlir"))
    for name in (plan, explained, memory):
        if os.path.exists(name):
            os.remove(name)
    pin = [f"--pin={pins}"] if pins else []
    options = ["--max-threads=1", *options]
    found = run(binaries + "/kerfc", model, "--cluster=" + cluster, f"--devices={devices}", *pin, *options,
                "--emit=plan", "-o", plan, "--explain-json=" + explained)
    if found.returncode:
        return None, found.stderr.splitlines()[0]
    made = run(binaries + "/kerfc", model, "--plan=" + plan, "--cpu=x86-64-v3", *options,
               "--stop-after=memory", "-o", memory)
    if made.returncode:
        return None, made.stderr.splitlines()[0]
    planned = json.load(open(explained))["memory"]["stages_bytes"]
    return list(zip(planned, placed(open(memory).read()))), ""


def describe(stages):
    """The error of the stage with the largest, and its line."""
    def error(planned, arena):
        return (planned["total"] - planned["reserved"]) / arena - 1
    planned, (arena, classes) = max(stages, key=lambda s: abs(error(s[0], s[1][0])))
    expected = planned["total"] - planned["reserved"]
    parts = [f"{name} {planned[name] - classes[name]:+}" for name in CLASSES[:6] if planned[name] != classes[name]]
    return (f"{expected:10} {arena:10} {100 * error(planned, arena):+6.1f}%   {', '.join(parts)}, "
            f"communication {planned['communication']:+}")


def write_model(binaries, source, family, large, folder):
    config = json.load(open(f"{source}/examples/models/tiny-{family}/config.json"))
    if large:
        config.update(LARGER[family])
    path, model = os.path.join(folder, "config.json"), os.path.join(folder, "model.mlir")
    json.dump(config, open(path, "w"))
    size = ("--batch=16", "--seq=64") if large else ("--batch=8", "--seq=16")
    run(binaries + "/kerf-import", path, *size, "-o", model).check_returncode()
    return model


def main():
    binaries, source = sys.argv[1], sys.argv[2]
    large, few = "--large" in sys.argv, "--few" in sys.argv
    options = ["--bucket-gradients"] if "--buckets" in sys.argv else []
    limits = {"under": 0.0, "over": 3.0}
    for argument in sys.argv[3:]:
        if found := re.fullmatch(r"--(under|over)=([\d.]+)", argument):
            limits[found[1]] = float(found[2])
    errors, failed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        cluster = os.path.join(folder, "cluster.yaml")
        open(cluster, "w").write(CLUSTER)
        print(f"{'model':8} {'plan':42} {'expected':>10} {'arena':>10} {'error':>7}   by class, expected - placed")
        for family in FAMILIES:
            model = write_model(binaries, source, family, large, folder)
            for devices, pins, is_few in LAYOUTS:
                if (few and not is_few) or ("ep=" in pins and family != "mixtral"):
                    continue
                stages, problem = compare(binaries, model, cluster, devices, pins, options, folder)
                if stages is None:
                    print(f"{family:8} {pins:42} {problem}")
                    failed += 1
                    continue
                errors += [(p["total"] - p["reserved"]) / arena - 1 for p, (arena, _) in stages]
                print(f"{family:8} {pins or '-':42} {describe(stages)}", flush=True)
    wrong = [e for e in errors if 100 * e < -limits["under"] or 100 * e > limits["over"]]
    print(f"{len(errors)} stages: error {100 * min(errors):+.1f} % to {100 * max(errors):+.1f} %, "
          f"{sum(e < 0 for e in errors)} under, {sum(0 <= e <= 0.03 for e in errors)} from 0 to 3 % over; "
          f"{len(wrong)} outside of {-limits['under']:g} to {limits['over']:g} %; {failed} plans without a program")
    return 1 if wrong or failed else 0


if __name__ == "__main__":
    sys.exit(main())
