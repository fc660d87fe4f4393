#!/usr/bin/env python3
"""Adds up a trace by itself, and compares with the rows that `kerf-inspect compare` prints per class and op.

    compare_ops.py RUN.json MODEL.kerf CLUSTER

Each op of the rows has the median over ranks and steps of what the trace has of it, and all classes together what is
computed in a step.
"""

import collections
import json
import re
import statistics
import subprocess
import sys

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1}
COLUMN = r"(\d+(?:\.\d+)?) (us|ms|s)"


def sums_of(path):
    """(stage, command, op) -> median seconds of a rank in a step."""
    trace = json.load(open(path))["traceEvents"]
    stages = {e["pid"]: e["args"].get("stage", e["pid"]) for e in trace if e["ph"] == "M" and e["name"] == "process_name"}
    sums = collections.Counter()
    for event in trace:
        call = event.get("args", {}).get("call")
        if event["ph"] == "X" and call and event["cat"] not in ("wait", "send", "receive"):
            if "micro_batch" in event["args"]:
                call = call.rsplit(" ", 1)[0]
            sums[stages[event["pid"]], event["name"], event["args"].get("op", ""), call, event["pid"], event["args"]["step"]] += event["dur"] * 1e-6
    grouped = collections.defaultdict(list)
    for key, sec in sums.items():
        grouped[key[:4]].append(sec)
    return {key: sorted(secs)[len(secs) // 2] for key, secs in grouped.items()}


def main():
    run, model, cluster = sys.argv[1:]
    text = subprocess.run(["kerf-inspect", "compare", run, model, f"--cluster={cluster}"], capture_output=True, text=True, check=True).stdout
    sums = sums_of(run)
    told = 0
    for line in text.split("ops that differ most")[1].splitlines():
        row = re.match(rf"  (\S+)(?: (.*?))?, stage (\d+) +(\S.*?) +[\d,]+ +{COLUMN} +{COLUMN} +[+-]", line)
        if not row:
            continue
        name, op, stage, call = row[1], row[2] or "", int(row[3]), row[4]
        measured = float(row[7]) * UNITS[row[8]]
        expected = sums[stage, name, op, call]
        assert abs(measured - expected) <= 6e-3 * expected, (line, expected)
        told += 1
    assert told >= 10, text
    classes = re.findall(rf"^  (?:matmuls|attention|memory-bound kernels|update|exchanges) +{COLUMN} +{COLUMN}", text, re.M)
    total = sum(float(c[2]) * UNITS[c[3]] for c in classes)
    expected = sum(sums.values()) / 2  # of two stages
    assert abs(total - expected) <= 0.02 * expected, (total, expected)
    return 0


if __name__ == "__main__":
    sys.exit(main())
