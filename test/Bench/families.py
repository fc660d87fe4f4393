#!/usr/bin/env python3
"""Kerf beside the transformers library, family by family, as a table.

    test/Bench/families.py [BIN]

Runs kerf-reference on all stored cases (test/Reference/README.md; `live.sh` computes
them again with the library) and prints the largest errors of each family's cases:
loss and gradient norm of three steps, gradients of the first, parameters after the
third. An error is max|a - b| / max|b| of a tensor. In f32 a parameter's error is what
is beyond the steps that Adam makes of rounded gradients. Exit status 1 if a case is
out of its bounds.
"""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "test/Reference/cases"
NUMBERS = 4  # loss, norm, gradients, parameters


def family_of(case):
    if (CASES / case / "model.mlir").exists():
        return f"{case} (by hand; own PyTorch)"
    family = json.loads((CASES / case / "config.json").read_text())["model_type"]
    adapters = (CASES / case / "adapter_config.json").exists()
    return f"{family} with adapters" if adapters else family


def main():
    tool = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/bin") / "kerf-reference"
    cases = sorted(path.name for path in CASES.iterdir())
    done = subprocess.run([str(tool), *(str(CASES / case) for case in cases)], capture_output=True, text=True)
    worst = defaultdict(lambda: [0.0] * NUMBERS)
    counts = defaultdict(int)
    for line in done.stdout.splitlines():
        words = line.split()
        if words[0] not in cases or words[1] not in ("f64", "f32"):
            continue
        family = family_of(words[0])
        counts[family] += words[1] == "f64"
        errors = [float(word) for word in words[2 : 2 + NUMBERS]]
        worst[family, words[1]] = [max(pair) for pair in zip(worst[family, words[1]], errors)]
    names = ("loss", "norm", "gradients", "parameters")
    print("| family | cases | " + " | ".join(f"{name} {kind}" for kind in ("f64", "f32") for name in names) + " |")
    print("|---|---|" + "---|" * (2 * NUMBERS))
    for family in sorted(counts):
        cells = [f"{error:.0e}" for kind in ("f64", "f32") for error in worst[family, kind]]
        print(f"| {family} | {counts[family]} | " + " | ".join(cells) + " |")
    print(f"\n{sum(counts.values())} cases, {'all' if done.returncode == 0 else 'NOT all'} within bounds")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
