"""Trains compiled models alike and compares their losses.

losses.py FIRST.kerf OTHER.kerf...

They are one model; each step's loss may differ by rounding. kerf-run is found on the PATH.
"""

import json
import pathlib
import subprocess
import sys
import tempfile


def losses(model):
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "log.json")
        data = pathlib.Path(__file__).with_name("model.mlir")  # any text
        subprocess.run(
            ["kerf-run", model, f"--data={data}", "--data-format=bytes", "--steps=8", "--lr=1e-2",
             f"--log-json={log}"], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
        lines = map(json.loads, log.read_text().splitlines())
        return [line["loss"] for line in lines if "loss" in line]


first, *others = sys.argv[1:]
expected = losses(first)
assert len(expected) == 8 and expected[-1] < 0.9 * expected[0], f"does not learn: {expected}"
for other in others:
    found = losses(other)
    assert len(found) == len(expected), f"{other}: {found}"
    error = max(abs(a - b) / a for a, b in zip(expected, found))
    print(f"{other}: losses differ by {error:.1e}")
    assert error < 2e-5, f"{found}, expected {expected}"
