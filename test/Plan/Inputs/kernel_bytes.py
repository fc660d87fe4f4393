#!/usr/bin/env python3
"""What the planner expects kernels to move beside what the kernels of a program move.

    kernel_bytes.py CONFIG TARGET ARCH FOLDER

Compiles the model for a device of TARGET ("cpu" or "cuda") that moves 1 byte per
picosecond and computes for nothing, so that the predicted seconds of memory-bound kernels
are their bytes, in four micro-batches of two sequences. Fails where these differ from the
operands of the program's kernels by more than BOUND; the update is in neither.
"""

import json
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "Bench"))
from gpu_program import commands_of  # noqa: E402

BOUND = 0.05
RATE = 1e12  # bytes per second
CLUSTER = """
name: bytes
device:
  name: bytes
  memory: 64 GB
  memory_bandwidth: 1 TB/s
  peak: {f32: 1000000000 TFLOP/s}
  launch: 0 us
  efficiency: {matmul: 1, attention: 1, memory: 1, network: 1}
  backend: {target: %s%s}
tiers:
  - {name: node, size: 1, bandwidth: 1 GB/s, latency: 1 us}
"""


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def program_bytes(text, micro_batches):
    """Bytes of the launches and copies of a step, without evaluation and update."""
    return sum(
        command.times * command.bytes
        for command in commands_of(text, micro_batches)
        if command.function in ("forward", "backward") and command.kind in ("launch", "copy")
    )


def main():
    config, target, arch, folder = sys.argv[1:]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model, cluster, plan = folder / "model.mlir", folder / "cluster.yaml", folder / "plan.json"
    cluster.write_text(CLUSTER % (target, f", arch: {arch}" if target == "cuda" else ""))
    run("kerf-import", config, "--batch=8", "--seq=256", "-o", model)
    options = ["--precision=f32", f"--target={target}", f"--cluster={cluster}", "--pin=mb=2", f"--explain-json={plan}"]
    run("kerfc", model, *options, *([f"--gpu={arch}"] if target == "cuda" else []), "-o", folder / "model.kerf")
    program = run("kerf-inspect", "program", folder / "model.kerf")
    expected = json.loads(plan.read_text())["time"]["compute_sec"]["memory_bound"] * RATE
    actual = program_bytes(program, 4)
    print(f"expected {expected / 1e6:.1f} MB, the program moves {actual / 1e6:.1f} MB")
    if abs(expected / actual - 1) > BOUND:
        sys.exit(f"error: {100 * (expected / actual - 1):+.1f} %, at most {100 * BOUND:.0f} % are allowed")


if __name__ == "__main__":
    main()
