#!/usr/bin/env python3
"""Are slow ranks of a job named, and no others?

  slow_ranks.py BIN REPO [--ranks 2] [--minutes 10] [--steps 200] [--quiet-only]

Trains a small Llama on ranks of this machine. Of one rank the process is stopped and continued, so that it
takes 10 or 50 % longer; after how many steps it is named is printed (a window has 50), and after how many it is
said to have recovered. Then the job runs for --minutes as it is, and nobody may be named. Each rank needs a core
of its own, without other work: beside a name stands what other processes took from the rank while it was slow, and
what the host of a virtual machine took from all of its cores (/proc).
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

PERIOD_SEC = 0.02  # of stopping and continuing: many in a step
WINDOW = 50  # steps that a name rests on


class Job:
    def __init__(self, arguments, folder):
        self.bin, repo, self.folder = pathlib.Path(arguments.binaries).resolve(), pathlib.Path(arguments.repo).resolve(), folder
        pages = sorted((repo / "docs").glob("*.md"))
        (folder / "data.txt").write_text("".join(page.read_text() for page in pages))
        self.tool("kerf-import", repo / "examples/models/llama-mini/config.json", "--batch=4", "--seq=64", "-o", "model.mlir")
        self.tool("kerfc", "model.mlir", "--cluster=this-machine", f"--devices={arguments.ranks}", f"--pin=dp={arguments.ranks}",
                  "--precision=f32", "-o", "model.kerf")  # fmt: skip

    def tool(self, name, *arguments):
        subprocess.run([str(self.bin / name), *map(str, arguments)], cwd=self.folder, check=True, capture_output=True)

    def start(self):
        (self.folder / "log.json").unlink(missing_ok=True)
        return subprocess.Popen([str(self.bin / "kerf-run"), "model.kerf", "--data=data.txt", "--data-format=bytes", "--threads=1",
                                 "--steps=10000000", "--log-every=1000000", "--log-json=log.json"],
                                cwd=self.folder, stdout=subprocess.DEVNULL)  # fmt: skip

    def lines(self):
        path = self.folder / "log.json"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]

    def step(self):
        return max((line["iteration"] for line in self.lines() if "elapsed_ms" in line), default=0)

    def named(self):
        return [line for line in self.lines() if "slow_rank" in line]


def slow_down(process, part, is_over):
    """Lets a process take `part` longer until `is_over`."""
    try:
        while not is_over():
            until = time.time() + 1
            while time.time() < until:
                os.kill(process, signal.SIGSTOP)
                time.sleep(PERIOD_SEC * part / (1 + part))
                os.kill(process, signal.SIGCONT)
                time.sleep(PERIOD_SEC / (1 + part))
    finally:
        os.kill(process, signal.SIGCONT)


def try_slow(job, part, steps):
    launcher = job.start()
    try:
        while job.step() < steps // 2:
            time.sleep(0.5)
        ranks = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
        begun = job.step()
        slow_down(int(ranks[1]), part, lambda: job.step() > begun + steps)
        ended = job.step()
        while job.step() < ended + steps:
            time.sleep(0.5)
    finally:
        launcher.terminate()
        launcher.wait()
    words = [f"rank {line['slow_rank']} {'is slow' if line['is_slow'] else 'recovered'} after "
             f"{line['iteration'] - (begun if line['is_slow'] else ended)} steps (excess {100 * line['excess']:.0f} %)"
             for line in job.named()]  # fmt: skip
    print(f"rank 1 takes {100 * part:.0f} % longer from step {begun} to {ended}: {'; '.join(words) or 'nobody is named'}", flush=True)


class Taken:
    """What others take from ranks, sampled with the steps: (step, time, seconds a rank waited for its core, seconds the
    host took)."""

    def __init__(self, job, launcher):
        self.job, self.launcher, self.samples = job, launcher, []

    def ranks(self):
        return pathlib.Path(f"/proc/{self.launcher}/task/{self.launcher}/children").read_text().split()

    def waited(self, rank):
        lines = [task.read_text().split() for task in pathlib.Path(f"/proc/{rank}/task").glob("*/schedstat")]
        return sum(int(line[1]) for line in lines) * 1e-9

    def sample(self):
        stolen = int(pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[8]) / os.sysconf("SC_CLK_TCK")
        self.samples.append((self.job.step(), time.time(), [self.waited(rank) for rank in self.ranks()], stolen))

    def between(self, first, last, rank):
        """Of the time between two steps, in percent of it: other processes, the host."""
        a = max((s for s in self.samples if s[0] <= first), key=lambda s: s[1], default=self.samples[0])
        b = min((s for s in self.samples if s[0] >= last), key=lambda s: s[1], default=self.samples[-1])
        whole = max(b[1] - a[1], 1e-9) / 100
        return (b[2][rank] - a[2][rank]) / whole, (b[3] - a[3]) / whole


def run_quiet(job, minutes):
    launcher = job.start()
    taken, until = Taken(job, launcher.pid), time.time() + 60 * minutes
    time.sleep(2)
    while time.time() < until:
        taken.sample()
        time.sleep(1)
    launcher.terminate()
    launcher.wait()
    words = []
    for line in job.named():
        if line["is_slow"]:
            others, host = taken.between(line["iteration"] - WINDOW, line["iteration"], line["slow_rank"])
            words.append(f"rank {line['slow_rank']} by {100 * line['excess']:.0f} % (other processes took {others:.0f} %, the host {host:.0f} %)")
    others, host = zip(*(taken.between(0, job.step(), rank) for rank in range(len(taken.samples[0][2]))))
    print(f"{minutes:g} minutes, {job.step()} steps without slow ranks: {', '.join(words) or 'nobody is named'}; in all other "
          f"processes took {', '.join(f'{part:.1f}' for part in others)} % of the ranks' time, the host {host[0]:.1f} % of a core")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries")
    parser.add_argument("repo")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--quiet-only", action="store_true", help="no rank is made slow")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        job = Job(arguments, pathlib.Path(folder))
        for part in () if arguments.quiet_only else (0.1, 0.5):
            try_slow(job, part, arguments.steps)
        run_quiet(job, arguments.minutes)


if __name__ == "__main__":
    main()
