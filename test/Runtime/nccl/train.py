#!/usr/bin/env python3
"""Trains layouts over NCCL's transport, without a GPU, against shm: the same bits.

    train.py BIN SOURCE DEVICES LIBRARIES [FAMILY:LAYOUT...]

DEVICES holds a device that runs the CPU's steps on streams (StreamDevice.cpp), LIBRARIES what stands in for
NVIDIA's (StandIn.cpp, which sums in the order of shm). Steps, collectives and messages then run at the same
time, ordered by nothing but what the transport asks for; a missing order gives other losses. Exit status 1
when a loss, a norm or a held-out loss differs, or when a trace does not have the times of the streams.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "E2E"))

import layouts as e2e

LAYOUTS = """llama:dp2.m2.early llama:tp2.sp.vocab.m2.selective llama:pp2.dp2.v2.m2.zero1 llama:cp2.dp2.m2.zero3
    llama:pp2.zb-h1.m4 gpt2:pp4.1f1b.m8 mixtral:ep2.dp2.m2.zero1 mixtral:pp2.ep2.1f1b.m4""".split()
TOKENS = 90  # below the vocabularies


def write_tokens(path):
    draw = random.Random(1)
    path.write_bytes(b"".join(draw.randrange(TOKENS).to_bytes(2, "little") for _ in range(20000)))


def losses(bench, file, data, log, *options, **variables):
    """What each step and evaluation says that does not depend on time."""
    command = [bench.bin / "kerf-run", file, "--data", data, "--data-format=u16", "--steps=4", "--threads=1"]
    command += ["--eval-every=2", "--eval-batches=1", f"--log-json={log}", "--hang-timeout=60", *options]
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        raise e2e.Failed(f"{options} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    rows = [json.loads(line) for line in Path(log).read_text().splitlines() if '"run"' not in line]
    keys = ("step", "loss", "grad_norm", "heldout_loss", "eval_loss")
    return [[row[key] for key in keys if key in row] for row in rows]


def orderedTimes(path):
    """Waits of a trace, which stand among the steps, as text where something is wrong: collectives of a
    rank follow one another, and no wait ends before the collective that was started last before it."""
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    slack, waits = 1, 0  # microseconds
    for rank in {e["pid"] for e in events}:
        own = sorted((e for e in events if e["pid"] == rank), key=lambda e: e["ts"])
        collectives = [e for e in own if e["tid"] == 2]
        if max((e["dur"] for e in collectives), default=0) < 10:
            return "no collective of a rank waited for the other rank: they have times of enqueueing"
        for before, after in zip(collectives, collectives[1:]):
            if after["ts"] < before["ts"] + before["dur"] - slack:
                return f"{before} and {after} at the same time"
        for wait in (e for e in own if e["tid"] == 0 and e["cat"] == "wait"):
            waits += 1
            end = wait["ts"] + wait["dur"]
            started = [e for e in collectives if e["ts"] < end - slack]
            if not started or started[-1]["ts"] + started[-1]["dur"] > end + slack:
                return f"{wait} ends before {started[-1:]}"
    return waits


def main():
    bin, source, devices, libraries, *names = sys.argv[1:]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = e2e.Bench(bin, source, folder)
        data, imported = Path(folder) / "tokens.bin", set()
        write_tokens(data)
        for name in names or LAYOUTS:
            family, _, words = name.partition(":")
            if family not in imported:
                bench.import_model(family, False)
                imported.add(family)
            try:
                _, file = bench.compile(family, e2e.Layout(words))
                log = Path(folder) / "log.json"
                wanted = losses(bench, file, data, log, "--transport=shm")
                nccl = {"KERF_PLUGIN_PATH": devices, "KERF_CUDA_PATH": libraries}
                trace = Path(folder) / "trace.json"
                traced = [f"--trace={trace}", "--trace-steps=2..3"] if "early" in words else []
                found = losses(bench, file, data, log, "--transport=nccl", *traced, **nccl)
                told = orderedTimes(trace) if traced else 1
                found = found if told and isinstance(told, int) else str(told)
            except (e2e.Failed, subprocess.TimeoutExpired) as error:
                wanted, found = "", str(error)
            isRight = found == wanted and len(wanted) >= 4
            failed += not isRight
            print(f"{name:36} {'same bits' if isRight else f'{wanted} but {found}'}", flush=True)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
