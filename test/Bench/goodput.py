#!/usr/bin/env python3
"""Goodput of a job whose ranks are killed: as kerfc foretells it, and as kerf-run measures it.

  goodput.py BIN REPO [--minutes 30] [--mtbf 120] [--seed 1] [--copies]

Trains a small Llama on two ranks of this machine with `--save-every` and `--max-restarts`. A first run without
faults measures a step, what a save takes and a start. These go into a cluster description (`reliability`), for
which `kerfc --explain-json` foretells the goodput and how often to save. Then a random rank is killed at
random times, on average every --mtbf seconds, for --minutes. Prints both, and what the time went into.

--copies: each rank is on an imitated machine of its own, and goes on from copies in the memory of the other one
(`--peer-copies=1`); a state is on disk every 1,000 copies alone. mpirun's ranks have no account of their time:
the goodput is that of the steps that count, each as long as one of the first run.
"""
import argparse
import json
import math
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import tempfile
import time

from imitated_machines import imitate_machines, ranks_in

RANKS = 2
STEPS = 10_000_000  # more than there is time for
FIRST_STEPS = 120
# From the death of a rank to the launch of the next attempt: a second for what others saw of it, one of pause.
NOTICED_SEC = 2.0


def children(process):
    return [int(p) for p in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


class Job:
    def __init__(self, arguments, folder):
        self.bin, self.repo = pathlib.Path(arguments.binaries).resolve(), pathlib.Path(arguments.repo).resolve()
        self.folder, self.copies = folder, arguments.copies
        self.environment = imitate_machines(folder) if self.copies else os.environ

    def tool(self, name, *arguments):
        return subprocess.run([str(self.bin / name), *map(str, arguments)], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def compile(self):
        self.tool("kerf-import", self.repo / "examples/models/llama-mini/config.json", "--batch=8", "--seq=128", "-o", "model.mlir")
        self.tool("kerfc", "model.mlir", "--cluster=this-machine", f"--devices={RANKS}", f"--pin=dp={RANKS}",
                  "--precision=f32", "-o", "model.kerf")  # fmt: skip
        pages = sorted((self.repo / "docs").glob("*.md"))
        (self.folder / "data.txt").write_text("".join(page.read_text() for page in pages))

    def start(self, state, steps, every):
        """A job that saves, or with copies copies, every so many steps."""
        often = [f"--save-every={every}"]
        if self.copies:
            often = ["--transport=mpi", "--peer-copies=1", f"--copy-every={every}", f"--save-every={1000 * every}"]
        return subprocess.Popen([str(self.bin / "kerf-run"), "model.kerf", "--data=data.txt", "--data-format=bytes",
                                 f"--steps={steps}", "--threads=1", "--log-every=1000", f"--save-state={state}", *often,
                                 "--max-restarts=1000", f"--log-json={state}.json"],
                                cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL,
                                stderr=open(self.folder / "errors.txt", "a"))  # fmt: skip

    def ranks(self, process):
        return list(ranks_in(self.folder)) if self.copies else children(process.pid)

    def told(self, state):
        lines = (self.folder / f"{state}.json").read_text().splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    def time(self, state):
        return json.loads((self.folder / state / "run.json").read_text())["time"]


def first_run(job):
    """Seconds of a step, of writing a state, of its stall, of a start; bytes of a state."""
    before = time.time()
    process = job.start("first", FIRST_STEPS, FIRST_STEPS // 4)
    while job.copies and not any("elapsed_ms" in line for line in told_so_far(job, "first")):
        time.sleep(0.01)
    start = time.time() - before
    if process.wait():
        raise SystemExit((job.folder / "errors.txt").read_text())
    told = job.told("first")
    steps = [line["elapsed_ms"] / 1e3 for line in told if "elapsed_ms" in line]
    kind, size = ("copy", "copied_bytes") if job.copies else ("save", "saved_bytes")
    saves = [line for line in told if f"{kind}_write_ms" in line][: None if job.copies else -1]  # at the end training waits
    written = statistics.mean(save.get("save_copy_ms", 0) + save[f"{kind}_write_ms"] for save in saves) / 1e3
    stall = statistics.mean(save[f"{kind}_stall_ms"] for save in saves) / 1e3
    if not job.copies:
        start = job.time("first")["starting"]
    return statistics.median(steps), written, stall, start, saves[0][size]


def told_so_far(job, state):
    return job.told(state) if (job.folder / f"{state}.json").exists() else []


def foretell(job, mtbf, step, written, stall, start, size):
    """The section `run` of kerfc's report, of a machine that fails so often."""
    text = (job.repo / "examples/clusters/this-machine.yaml").read_text()
    text = re.sub(r"^reliability:.*\n", "", text, flags=re.M)
    if job.copies:  # each rank on a machine of its own, behind a link that takes the measured stall
        link = f"  - {{name: network, size: {RANKS}, bandwidth: {size / RANKS / stall:.0f} B/s, latency: 10 us}}\n"
        text = re.sub(r"(  - \{name: memory, size: )2(.*\n)", rf"\g<1>1\2{link}", text)
    text += (f"\nreliability: {{device_mtbf: {mtbf * RANKS:.3f} s, restart: {start + NOTICED_SEC:.3f} s, "
             f"checkpoint_bandwidth: {size / RANKS / written:.0f} B/s}}\n")  # fmt: skip
    (job.folder / "failing.yaml").write_text(text)
    job.tool("kerfc", "model.mlir", "--cluster=failing.yaml", f"--devices={RANKS}", f"--pin=dp={RANKS}", "--precision=f32",
             "--explain-json=report.json", "-o", "again.kerf")  # fmt: skip
    report = json.loads((job.folder / "report.json").read_text())
    print(f"a step is foretold to take {report['time']['step_sec']:.3f} s, and takes {step:.3f} s")
    return report["run"]


def formula(run, mtbf, restart):
    """The goodput of kerfc's report for another time between faults (lib/Report/ExplainRun.cpp)."""
    failures = run["failures"]
    interval, stall, written = failures["interval_sec"], failures["stall_sec"], failures.get("checkpoint_sec")
    if written is None:  # of copies
        written = stall + interval / 4
    return interval * math.exp(-(written + restart) / mtbf) / (mtbf * math.expm1((interval + stall) / mtbf))


def run_with_faults(job, every, arguments):
    """Kills ranks for a while; how often."""
    draw = random.Random(arguments.seed)
    process = job.start("state", STEPS, every)
    begun, faults = time.time(), 0
    end = begun + 60 * arguments.minutes
    while True:
        pause = draw.expovariate(1 / arguments.mtbf)
        if time.time() + pause > end:
            break
        time.sleep(pause)
        while not (ranks := job.ranks(process)):  # between two attempts
            time.sleep(0.05)
        os.kill(draw.choice(ranks), signal.SIGKILL)
        faults += 1
    time.sleep(max(end - time.time(), 0))
    process.send_signal(signal.SIGTERM)
    process.wait()
    return faults, time.time() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries")
    parser.add_argument("repo")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--mtbf", type=float, default=120, help="seconds between faults, on average")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--copies", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        job = Job(arguments, pathlib.Path(folder))
        job.compile()
        step, written, stall, start, size = first_run(job)
        kind = "copy" if job.copies else "state"
        print(f"a {kind} of {size / 1e6:.1f} MB is written in {written:.3f} s and stops training for {1e3 * stall:.1f} ms; "
              f"a start takes {start:.2f} s")  # fmt: skip
        run = foretell(job, arguments.mtbf, step, written, stall, start, size)
        if job.copies:
            run = {"failures": run["failures"]["copies"], "goodput": run["failures"]["copies"]["goodput"]}
        interval = run["failures"]["interval_sec"]
        every = max(1, round(interval / step))
        print(f"foretold: goodput {100 * run['goodput']:.2f} %, a {kind} every {interval:.2f} s, so every {every} steps", flush=True)
        faults, seconds = run_with_faults(job, every, arguments)
        spent = None if job.copies else job.time("state")
        reached = max(line["iteration"] for line in job.told("state") if "elapsed_ms" in line)
        measured = spent["goodput"] if spent else reached * step / seconds
        as_often = formula(run, seconds / max(faults, 1), start + NOTICED_SEC)
        print(f"measured: goodput {100 * measured:.2f} %, {faults} faults in {seconds:.0f} s; foretold for faults "
              f"as often as that: {100 * as_often:.2f} %")  # fmt: skip
        for name in ("productive", "lost", "starting", "waiting", "saving", "other") if spent else ():
            print(f"  {name:11} {spent[name]:9.1f} s {100 * spent[name] / spent['seconds']:6.2f} %")


if __name__ == "__main__":
    main()
