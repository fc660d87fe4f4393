#!/usr/bin/env python3
"""The planner's memory against the arena that is placed.

  arena.py BIN SOURCE [--large]

Plans of small models in many layouts: per stage the bytes that the search reckons
with, and the arena that the memory stage places. The plan knows no workspaces of
library calls (scratch of the threads, which belong to no layer) and no inputs, so the
arena is shown with them and less them. Since not all is largest at one time, the
truth lies between: a plan that reckons with less than the smaller number is wrong.
With --large the models have a few million parameters, beside which one thread's
workspaces are small. Prints a line per plan (the stage with the largest error), what
classes differ by, and the range of errors against the smaller number.
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
LAYOUTS = [
    (1, ""), (1, "m=4"), (1, "m=2,recompute=full"), (2, "dp=2,zero=0"), (2, "dp=2,zero=1"),
    (2, "dp=2,zero=2,m=2"), (2, "dp=2,zero=3"), (2, "tp=2"), (2, "tp=2,m=4"), (2, "pp=2,m=4,schedule=1f1b"),
    (4, "pp=4,m=4,schedule=gpipe"), (4, "pp=2,dp=2,zero=1,m=4,schedule=1f1b"),
    (4, "pp=2,tp=2,m=4,schedule=1f1b"), (8, "pp=2,tp=2,dp=2,zero=1,m=2,schedule=1f1b"),
]
FAMILIES = ["gpt2", "llama", "mixtral"]
# Of a few million parameters.
LARGER = {
    "gpt2": {"n_embd": 256, "vocab_size": 1024},
    "llama": {"hidden_size": 256, "intermediate_size": 768, "vocab_size": 1024},
    "mixtral": {"hidden_size": 256, "intermediate_size": 512, "vocab_size": 1024},
}
# Classes of the placed program, as the plan calls those that layers have.
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


def compare(binaries, model, cluster, devices, pins, folder):
    plan, explained, memory = (os.path.join(folder, n) for n in ("plan.json", "explained.json", "memory.mlir"))
    for name in (plan, explained, memory):
        if os.path.exists(name):
            os.remove(name)
    pin = [f"--pin={pins}"] if pins else []
    found = run(binaries + "/kerfc", model, "--cluster=" + cluster, f"--devices={devices}", *pin,
                "--emit=plan", "-o", plan, "--explain-json=" + explained)
    if found.returncode:
        return None, found.stderr.splitlines()[0]
    made = run(binaries + "/kerfc", model, "--plan=" + plan, "--cpu=x86-64-v3", "--max-threads=1",
               "--stop-after=memory", "-o", memory)
    if made.returncode:
        return None, made.stderr.splitlines()[0]
    planned = json.load(open(explained))["memory"]["stages_bytes"]
    return list(zip(planned, placed(open(memory).read()))), ""


def main():
    binaries, source, large = sys.argv[1], sys.argv[2], "--large" in sys.argv
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        cluster = os.path.join(folder, "cluster.yaml")
        open(cluster, "w").write(CLUSTER)
        print(f"{'model':8} {'plan':42} {'reckoned':>10} {'less them':>10} {'arena':>10} {'error':>7}   by class, reckoned - placed")
        for family in FAMILIES:
            config = json.load(open(f"{source}/examples/models/tiny-{family}/config.json"))
            if large:
                config.update(LARGER[family])
            path, model = os.path.join(folder, "config.json"), os.path.join(folder, "model.mlir")
            json.dump(config, open(path, "w"))
            size = ("--batch=16", "--seq=64") if large else ("--batch=8", "--seq=16")
            run(binaries + "/kerf-import", path, *size, "-o", model).check_returncode()
            for devices, pins in LAYOUTS:
                stages, error = compare(binaries, model, cluster, devices, pins, folder)
                if stages is None:
                    print(f"{family:8} {pins:42} {error}")
                    continue
                worst = None
                for planned, (arena, classes) in stages:
                    reckoned = planned["total"] - planned["reserved"]
                    least = arena - classes["workspaces"] - classes["inputs"]
                    relative = reckoned / least - 1
                    errors.append(relative)
                    if worst is None or abs(relative) > abs(worst[0]):
                        worst = (relative, reckoned, least, arena, planned, classes)
                relative, reckoned, least, arena, planned, classes = worst
                parts = [f"{name} {planned[name] - classes[name]:+}" for name in CLASSES[:6]
                         if planned[name] != classes[name]]
                print(f"{family:8} {pins or '-':42} {reckoned:10} {least:10} {arena:10} {100 * relative:+6.1f}%   "
                      f"{', '.join(parts)}, communication {planned['communication']:+}")
    print(f"{len(errors)} stages: error {100 * min(errors):+.1f} % to {100 * max(errors):+.1f} %, "
          f"{sum(e < 0 for e in errors)} under, {sum(0 <= e <= 0.03 for e in errors)} from 0 to 3 % over")


if __name__ == "__main__":
    main()
