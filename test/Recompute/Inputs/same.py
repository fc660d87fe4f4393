"""Runs a training step as it is and with values computed again, and compares all bits."""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path


def run(command, **more):
    subprocess.run([str(part) for part in command], check=True, **more)


def interpret(model, folder, name):
    """Losses and saved tensors of two steps in f64, as bytes."""
    saved, log = folder / f"{name}.safetensors", folder / f"{name}.txt"
    with log.open("w") as out:
        run(["kerf-inspect", "interpret", model, "--steps=2", "--compute=f64",
             f"--save={saved}"], stdout=out)
    return log.read_bytes(), saved.read_bytes()


def make_step(source, folder):
    """The training step of a model, given as IR or as a configuration."""
    if source.suffix == ".json":
        run(["kerf-import", source, "--batch=2", "--seq=8", "-o", folder / "model.mlir"])
        source = folder / "model.mlir"
    run(["kerf-opt", "--kerf-differentiate", source, "-o", folder / "step.mlir"])
    return folder / "step.mlir"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path, help="a model or its config.json")
    parser.add_argument("--numbers", required=True, help="forward ops to compute again")
    options = parser.parse_args()
    views, recompute = "--kerf-recompute-views", "--kerf-recompute=values="
    halves = "--kerf-split-repeat=at=2"
    variants = [
        ([], [views]),
        ([], [recompute + "full"]),
        ([], [recompute + "selective"]),
        ([], [views, recompute + options.numbers]),
        ([], [recompute + options.numbers, views]),
        ([], [recompute + "full", "--kerf-split-weight-gradient"]),
        ([halves], [views, recompute + "selective"]),
        (["--kerf-precision=policy=bf16"], [views, recompute + "full"]),
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        step = make_step(options.source, folder)
        expected = {}
        for before, passes in variants:
            first = folder / "first.mlir"
            run(["kerf-opt", *before, step, "-o", first])
            key = tuple(before)
            if key not in expected:
                expected[key] = interpret(first, folder, "first")
            run(["kerf-opt", *passes, "--kerf-verify-differentiated", first,
                 "-o", folder / "second.mlir"])
            if first.read_bytes() == (folder / "second.mlir").read_bytes():
                sys.exit(f"{' '.join(passes)}: changes nothing")
            if interpret(folder / "second.mlir", folder, "second") != expected[key]:
                sys.exit(f"{' '.join(before + passes)}: computes something else")


main()
