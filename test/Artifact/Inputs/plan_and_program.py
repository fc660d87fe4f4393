#!/usr/bin/env python3
"""The step that was planned beside the step that was compiled.

    plan_and_program.py CONFIG PINS BOUND FOLDER [AXIS]...

Compiles the model for eight GPUs that are launched for free, with PINS, and compares the
seconds of `kerfc --explain-json` with those of `kerf-inspect time`. Fails where they differ
by more than BOUND, a part of the plan's; where the file has other collectives in its plan
than the explanation; and where what is sent over an AXIS is not what was priced.
"""

import json
import subprocess
import sys
from pathlib import Path

CLUSTER = """
name: free-launches
device:
  name: gpu
  memory: 80 GB
  memory_bandwidth: 3 TB/s
  peak: {bf16: 100 TFLOP/s, f32: 50 TFLOP/s}
  launch: 0 us
  efficiency: {matmul: 1, attention: 0.5, memory: 1, network: 1}
  backend: {target: cuda, arch: sm_90}
tiers:
  - {name: node, size: 8, bandwidth: 400 GB/s, latency: 1 us}
"""


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


# Sums of a few numbers (norms, losses, statistics of rows) are not priced.
SMALL = 1e5


def compare_exchanges(explained, timed, axes):
    """What is priced is in the file, and over `axes` it is sent."""
    priced = {(row["kind"], row["axes"]): row for row in explained["collectives"]}
    rows = {(row["kind"], row["axes"]): row for row in timed["exchanges"]}
    kept = {key: row["planned_bytes"] for key, row in rows.items() if row["planned_bytes"] > 0}
    if kept != {key: row["bytes"] for key, row in priced.items()}:
        sys.exit(f"error: priced are {priced}, the file says {kept}")
    for axis in axes:
        of_axis = [row for row in rows.values() if axis in row["axes"].split()]
        for row in of_axis:
            if abs(row["bytes"] - row["planned_bytes"]) > max(SMALL, 1e-3 * row["planned_bytes"]):
                sys.exit(f"error: expected as many bytes as planned, found {row}")
        if not any(row["planned_bytes"] > SMALL for row in of_axis):
            sys.exit(f"error: nothing is priced over {axis}")


def main():
    config, pins, bound, folder, *axes = sys.argv[1:]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model, cluster, plan, made = (folder / name for name in ("model.mlir", "cluster.yaml", "plan.json", "model.kerf"))
    cluster.write_text(CLUSTER)
    run("kerf-import", config, "--batch=16", "--seq=512", "-o", model)
    run("kerfc", model, f"--cluster={cluster}", f"--pin={pins}", "--precision=bf16", "--check=off",
        f"--explain-json={plan}", "-o", made)
    explained = json.loads(plan.read_text())["time"]
    timed = json.loads(run("kerf-inspect", "time", made, f"--cluster={cluster}", "--json"))
    planned, compiled = explained["step_sec"], timed["step_sec"]
    print(f"planned {planned:.6f} s, the program takes {compiled:.6f} s: {100 * (compiled / planned - 1):+.1f} %")
    if abs(compiled / planned - 1) > float(bound):
        sys.exit(f"error: more than {100 * float(bound):.0f} % apart")
    compare_exchanges(explained, timed, axes)


if __name__ == "__main__":
    main()
