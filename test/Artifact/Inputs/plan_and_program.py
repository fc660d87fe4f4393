#!/usr/bin/env python3
"""The step that was planned beside the step that was compiled.

    plan_and_program.py CONFIG PINS BOUND FOLDER

Compiles the model for eight GPUs that are launched for free, with PINS, and compares the
seconds of `kerfc --explain-json` with those of `kerf-inspect time`. Fails where they differ
by more than BOUND, a part of the plan's.
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


def main():
    config, pins, bound, folder = sys.argv[1:]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model, cluster, plan, made = (folder / name for name in ("model.mlir", "cluster.yaml", "plan.json", "model.kerf"))
    cluster.write_text(CLUSTER)
    run("kerf-import", config, "--batch=16", "--seq=512", "-o", model)
    run("kerfc", model, f"--cluster={cluster}", f"--pin={pins}", "--precision=bf16", "--check=off",
        f"--explain-json={plan}", "-o", made)
    planned = json.loads(plan.read_text())["time"]["step_sec"]
    compiled = json.loads(run("kerf-inspect", "time", made, f"--cluster={cluster}", "--json"))["step_sec"]
    print(f"planned {planned:.6f} s, the program takes {compiled:.6f} s: {100 * (compiled / planned - 1):+.1f} %")
    if abs(compiled / planned - 1) > float(bound):
        sys.exit(f"error: more than {100 * float(bound):.0f} % apart")


if __name__ == "__main__":
    main()
