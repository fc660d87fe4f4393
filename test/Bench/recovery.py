#!/usr/bin/env python3
"""From a killed rank to the next step: from a state on disk, and from one in a neighbour's memory.

  recovery.py BIN REPO [--kills 5] [--save-every 20] [--copy-every 5] [--seed 1] [--kinds disk memory]

Trains a small Llama on two ranks, each on an imitated machine of its own (KERF_MACHINE), by mpirun. A rank is killed at a
random moment, --kills times; its machine stays. Told: seconds from the kill until a step is finished that was not finished
before it, medians and extremes, how many of these are steps that were made again, and what a step takes.
"""
import argparse
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

STEP = re.compile(rb"iteration +(\d+)/")


def prepare(arguments, folder):
    """Model and data; the program that runs them."""
    repo, binaries = pathlib.Path(arguments.repo).resolve(), pathlib.Path(arguments.binaries).resolve()

    def tool(name, *options):
        subprocess.run([str(binaries / name), *options], cwd=folder, check=True, capture_output=True)

    tool("kerf-import", str(repo / "examples/models/llama-mini/config.json"), "--batch=8", "--seq=128", "-o", "model.mlir")
    tool("kerfc", "model.mlir", "--cluster=this-machine", "--devices=2", "--pin=dp=2", "--precision=f32", "-o", "model.kerf")
    (folder / "data.txt").write_text("".join(page.read_text() for page in sorted((repo / "docs").glob("*.md"))))
    return binaries / "kerf-run"


class Job:
    """A job that starts again, and what it prints."""

    def __init__(self, program, folder, name, *options):
        self.folder, self.log = folder, folder / f"{name}.txt"
        command = [program, "model.kerf", "--data=data.txt", "--data-format=bytes", "--steps=1000000", "--threads=1", "--log-every=1",
                   "--transport=mpi", "--max-restarts=1000", f"--save-state={name}", *options]  # fmt: skip
        self.process = subprocess.Popen(command, cwd=folder, env=imitate_machines(folder), stdout=open(self.log, "w"), stderr=subprocess.STDOUT)

    def steps(self):
        return [int(step) for step in STEP.findall(self.log.read_bytes())]

    def wait_beyond(self, step):
        while not (steps := self.steps()) or steps[-1] <= step:
            if self.process.poll() is not None:
                raise SystemExit(self.log.read_text()[-2000:])
            time.sleep(0.01)
        return time.monotonic()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def measure(job, draw, kills):
    """Seconds of each recovery, steps made again in each, and the median step."""
    job.wait_beyond(20)
    start, first = time.monotonic(), max(job.steps())
    step_sec = (job.wait_beyond(first + 20) - start) / 21
    seconds, again = [], []
    for _ in range(kills):
        job.wait_beyond(max(job.steps()) + 20)
        time.sleep(draw.uniform(0, 20 * step_sec))
        before = len(job.steps())
        os.kill(draw.choice(list(ranks_in(job.folder))), signal.SIGKILL)
        killed, reached = time.monotonic(), max(job.steps())
        seconds.append(job.wait_beyond(reached) - killed)
        again.append(sum(step <= reached for step in job.steps()[before:]))
    return seconds, again, step_sec


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries")
    parser.add_argument("repo")
    for name, default in (("kills", 5), ("save-every", 20), ("copy-every", 5), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--kinds", nargs="+", choices=("disk", "memory"), default=("disk", "memory"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = prepare(arguments, folder)
        kinds = {"disk": [], "memory": ["--peer-copies=1", f"--copy-every={arguments.copy_every}"]}
        for kind in arguments.kinds:
            job = Job(program, folder, kind, f"--save-every={arguments.save_every}", *kinds[kind])
            try:
                seconds, again, step_sec = measure(job, random.Random(arguments.seed), arguments.kills)
            finally:
                job.end()
            print(f"{kind}: {statistics.median(seconds):.1f} s ({min(seconds):.1f} to {max(seconds):.1f}) to the next step, "
                  f"{statistics.mean(again):.1f} steps made again, a step takes {step_sec:.3f} s")  # fmt: skip


if __name__ == "__main__":
    main()
