#!/usr/bin/env python3
"""Compares what is said of the largest buffer of a plan with the model and with other plans.

    check_buffer.py MODEL.mlir CLUSTER DEVICES

The line that is named has the op; each pin that is named leaves no buffer of that op that is as large.
"""

import json
import re
import subprocess
import sys


def buffers(model, cluster, devices, *pins):
    """The largest buffers of the plan, or of one that needs the least where none fits."""
    done = subprocess.run(["kerfc", model, "--precision=bf16", f"--cluster={cluster}", f"--devices={devices}", "--explain-json=-",
                           *(f"--pin={pin}" for pin in pins)], capture_output=True, text=True)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    return (told if "error" in told else told["memory"])["largest_buffers"]


def main():
    model, cluster, devices = sys.argv[1:]
    largest = buffers(model, cluster, devices)[0]
    line = open(model).read().splitlines()[int(re.search(r":(\d+)$", largest["place"])[1]) - 1]
    op = largest["op"].split()[0].removesuffix(",").removesuffix("_backward")
    assert f"kerf.{op}" in line, (largest, line)
    assert largest["pins"], largest
    for pin in largest["pins"]:
        same = [b for b in buffers(model, cluster, devices, pin) if (b["op"], b["place"]) == (largest["op"], largest["place"])]
        assert all(b["bytes"] < largest["bytes"] for b in same), (pin, largest, same)
    return 0


if __name__ == "__main__":
    sys.exit(main())
