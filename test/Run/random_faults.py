#!/usr/bin/env python3
"""Breaks runs at random moments, and compares what becomes of them with runs that nothing happened to.

    random_faults.py BIN SOURCE [--count N] [--seed S] [--seconds T]

Each case is a layout on 1, 2, 4 or 8 ranks, which trains and saves a state every few steps, as slowly as
--save-bandwidth says, and a fault at a random moment:

  rank       a rank is killed; --max-restarts starts the job again
  ranks      three times a rank is killed
  hang       a rank stands still; --hang-timeout ends the job, --max-restarts starts it again
  launcher   the launcher is killed; the run goes on by --resume
  stop       SIGTERM to the launcher; the run goes on by --resume
  full       the disk is full as a rank writes; the run goes on by --resume
  bit        a bit of the newest state flips: it is refused, and the one before it is gone on from
  missing    a file of the newest state is gone: the same
  other      another model's run is asked to go on from the state: it refuses
  two        a second run saves to the same folder meanwhile: it refuses

After each fault every checkpoint in the folder has to be, byte for byte, that of the undisturbed run of the
same layout at that step, at least one has to be left if there was one, and nothing else is left but what one
save that never ended can leave. In the end the losses and the samples of all steps have to be those of the
undisturbed run, bit for bit. The status is 1 where something is not.
"""

import argparse
import array
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import states
from jobs import children

STEPS, EVERY = 60, 4
# Ranks and pins; the others are free.
LAYOUTS = [
    ("gpt2", 1, ""), ("gpt2", 2, "tp=2"), ("llama", 2, "dp=2,zero=1"), ("gpt2", 2, "pp=2"),
    ("llama", 4, "dp=2,tp=2,zero=2"), ("gpt2", 4, "pp=2,dp=2,zero=3"), ("mixtral", 4, "ep=2,dp=4"),
    ("llama", 4, "cp=2,dp=2,zero=1"), ("gpt2", 8, "pp=2,tp=2,dp=2,zero=1"), ("llama", 8, "dp=8,zero=3"),
]  # fmt: skip
MODELS = {"gpt2": "tiny-gpt2", "llama": "tiny-llama", "mixtral": "tiny-mixtral"}
KINDS = ["rank", "ranks", "hang", "launcher", "stop", "full", "bit", "missing", "other", "two"]
AGAIN = ("rank", "ranks", "hang")  # the launcher starts the job again


class Wrong(Exception):
    pass


def expect(is_true, what):
    if not is_true:
        raise Wrong(what)


class Layout:
    """A compiled model, and its undisturbed run."""

    def __init__(self, bench, family, ranks, pins):
        self.bench, self.family, self.ranks = bench, family, ranks
        self.name = f"{family}-{ranks}" + (f" {pins}" if pins else "")
        self.folder = Path(tempfile.mkdtemp(dir=bench.folder))
        model, self.file = self.folder / "m.mlir", self.folder / "m.kerf"
        config = bench.source / f"examples/models/{MODELS[family]}/config.json"
        bench.call("kerf-import", config, "--batch=16", "--seq=16", "-o", model)
        bench.call("kerfc", model, "--cluster=this-machine", f"--devices={ranks}", "--precision=f32",
                   *([f"--pin={pins}"] if pins else []), "-o", self.file)  # fmt: skip
        bench.call(*self.command("whole", "--keep=1000", "--save-every=1"), cwd=self.folder)
        self.losses = losses(self.folder / "whole.json")
        self.states = {path.name: states.content(path) for path in states.steps(self.folder / "whole")}
        expect(sorted(self.losses) == list(range(1, STEPS + 1)), "the undisturbed run lacks steps")

    def command(self, name, *options):
        return [self.bench.bin / "kerf-run", self.file, "--data-format=u16", f"--data={self.bench.folder / 'tokens.bin'}", f"--steps={STEPS}",
                f"--save-every={EVERY}", f"--save-state={name}", f"--log-json={name}.json", "--threads=1", *options]  # fmt: skip


def losses(log):
    """Loss and samples of each step, as they were told last; a step that was made again had the same."""
    found = {}
    for line in log.read_text().splitlines() if log.exists() else ():
        said = json.loads(line)
        if "loss" not in said:
            continue
        told = (said["loss"], said["consumed_samples"])
        expect(found.setdefault(said["iteration"], told) == told, f"step {said['iteration']} was made again with another loss")
    return found


class Bench:
    def __init__(self, binaries, source, folder):
        self.bin, self.source, self.folder = Path(binaries).resolve(), Path(source).resolve(), Path(folder)
        tokens = array.array("H", ((i * i + 7 * i) % 89 for i in range(30000)))
        (self.folder / "tokens.bin").write_bytes(tokens.tobytes())
        self.layouts = {}

    def call(self, command, *arguments, cwd=None):
        program = command if "/" in str(command) else self.bin / command
        done = subprocess.run([program, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
        expect(done.returncode == 0, f"{program}: exit {done.returncode}: {done.stderr[-500:]}")
        return done

    def layout(self, number):
        if number not in self.layouts:
            self.layouts[number] = Layout(self, *LAYOUTS[number])
        return self.layouts[number]


class Case:
    def __init__(self, bench, draw):
        self.bench, self.draw = bench, draw
        self.kind = draw.choice(KINDS)
        self.layout = bench.layout(draw.randrange(len(LAYOUTS)))
        self.bandwidth = draw.choice([0.3, 1, 4])
        self.folder = Path(tempfile.mkdtemp(dir=bench.folder))
        self.text = f"{self.kind:9} {self.layout.name}"

    def start(self, *options):
        command = self.layout.command("s", f"--save-bandwidth={self.bandwidth}", *options)
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait(self, process, statuses):
        out, err = process.communicate(timeout=120)
        expect(process.returncode in statuses, f"exit {process.returncode}: {err[-500:]}")
        return out, err

    def sleep(self):
        time.sleep(self.draw.uniform(0, 1.2))

    def ranks(self, process):
        """Processes of the ranks; that of the job itself where one does all."""
        found = []
        while process.poll() is None and len(found) < self.layout.ranks:
            found = children(process.pid)
            if self.layout.ranks == 1 and self.kind not in AGAIN:
                return [process.pid]
            time.sleep(0.005)
        return found

    def hit(self, process, number):
        """Sends a signal to a rank; False where none runs any more."""
        ranks = self.ranks(process)
        if not ranks:
            return False
        try:
            os.kill(self.draw.choice(ranks), number)
        except ProcessLookupError:
            return False
        return True

    # What a fault leaves.

    def steps(self):
        return states.steps(self.folder / "s")

    def check_states(self, before=(), unfinished=r"step-\d+\.(partial|removed)|manifest\.json\.tmp-\d+"):
        """Whole checkpoints are those of the undisturbed run; those of `before` are there, or newer ones are. What a
        job did not end, the next one removes."""
        for path in self.steps():
            expect(states.content(path) == self.layout.states[path.name], f"{path.name} is not that of the undisturbed run")
        left = [path.name for path in (self.folder / "s").glob("*")] if (self.folder / "s").exists() else []
        unknown = [name for name in left if not re.fullmatch(rf"step-\d+|\.kerf-run\.lock|run\.json|{unfinished}", name)]
        expect(not unknown, f"left behind: {unknown}")
        expect(sum(name.endswith(".partial") for name in left) <= 1, f"several unfinished saves: {left}")
        expect(not before or self.steps(), "all states are gone")

    def go_on(self):
        """Resumes until the end; what was made has to be the undisturbed run."""
        resume = ["--resume=s"] if self.steps() else []
        self.bandwidth = 1000
        self.wait(self.start(*resume), [0])
        self.check_end()

    def check_end(self):
        self.check_states(unfinished="")
        expect([path.name for path in self.steps()][-1:] == [f"step-{STEPS}"], "the last state is missing")
        expect(losses(self.folder / "s.json") == self.layout.losses, "losses or samples differ")

    # Faults.

    def run(self):
        getattr(self, "run_" + self.kind)()
        shutil.rmtree(self.folder)

    def again(self, hits, number, *options):
        process = self.start("--max-restarts=5", *options)
        for _ in range(hits):
            self.sleep()
            self.hit(process, number)
            time.sleep(1)
        _, err = self.wait(process, [0])
        self.text += f", {len(re.findall('; restart ', err))} restarts"
        self.check_end()

    def run_rank(self):
        self.again(1, signal.SIGKILL)

    def run_ranks(self):
        self.again(3, signal.SIGKILL)

    def run_hang(self):
        # One rank waits for nobody: the test ends it.
        if self.layout.ranks == 1:
            return self.again(1, signal.SIGKILL)
        return self.again(1, signal.SIGSTOP, "--hang-timeout=0.5")

    def run_launcher(self):
        process = self.start()
        self.sleep()
        before = self.steps()
        process.kill()
        process.communicate(timeout=60)
        time.sleep(0.2)  # ranks die with it
        self.check_states(before)
        self.go_on()

    def run_stop(self):
        process = self.start()
        self.sleep()
        self.ranks(process)
        before = self.steps()
        process.terminate()
        # One that comes before ranks listen kills them.
        self.wait(process, [0, 128 + signal.SIGTERM, -signal.SIGTERM])
        self.check_states(before)
        self.go_on()

    def run_full(self):
        """The folder of states is a small disk, on which some saves have room."""
        size = sum(path.stat().st_size for path in (self.layout.folder / f"whole/step-{EVERY}").iterdir())
        disk = self.folder / "s"
        disk.mkdir()
        kib = int(self.draw.uniform(0.2, 2.8) * size / 1024) + 16
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "none", disk], capture_output=True, check=False).returncode:
            self.text += ": no right to mount a small disk"
            return
        try:
            self.bandwidth = self.draw.choice([4, 1000])
            _, err = self.wait(self.start(), [1])
            told = [line for line in err.splitlines() if re.search("the state (was not saved|cannot be saved): cannot write", line)]
            expect(len(told) == len(err.splitlines()) == 1, f"a full disk is told {len(told)} times: {err[-500:]}")
            self.check_states()
            self.text += f", after {len(self.steps())} states"
            shutil.copytree(disk, self.folder / "copy")
        finally:
            subprocess.run(["umount", disk], check=True)
        disk.rmdir()
        (self.folder / "copy").rename(disk)
        self.go_on()

    def broken(self, damage, name):
        """A damaged newest state is refused by name; the one before it is gone on from."""
        self.bandwidth = 1000
        process = self.start(f"--steps={self.draw.randrange(2 * EVERY, STEPS)}", "--decay-steps=60", "--warmup=3")
        self.wait(process, [0])
        path, good = states.newest(self.folder / "s"), states.newest(self.folder / "s") / name
        kept = good.read_bytes()
        damage(good, kept)
        log = self.folder / "s.json"
        told = log.read_text()
        _, err = self.wait(self.start("--resume=s"), [1, 128])
        expect(str(Path("s") / path.name / name) in err, f"{name} is not named: {err[-500:]}")
        expect(not re.search(r"step-\d+\.partial", " ".join(os.listdir(self.folder / "s"))), "it began to save")
        log.write_text(told)
        if self.draw.random() < 0.5:
            good.write_bytes(kept)
        else:
            shutil.rmtree(path)
        self.go_on()

    def run_bit(self):
        step = states.files(self.layout.folder / f"whole/step-{STEPS}")
        name = self.draw.choice(sorted(step))

        def flip(path, data):
            at = self.draw.randrange(len(data))
            if name.startswith("rank-"):
                # The header of a file is for other tools.
                start = json.loads((path.parent / "index.json").read_text())["files"][int(name[5:10])]["data"]
                at = self.draw.randrange(start, len(data))
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << self.draw.randrange(8)]) + data[at + 1 :])

        self.broken(flip, name)

    def run_missing(self):
        name = self.draw.choice(sorted(name for name in states.files(self.layout.folder / f"whole/step-{STEPS}") if name != "manifest.json"))
        self.broken(lambda path, _: path.unlink(), name)

    def run_other(self):
        others = [number for number, row in enumerate(LAYOUTS) if row[0] != self.layout.family]
        other = self.bench.layout(self.draw.choice(others))
        self.bandwidth = 1000
        self.wait(self.start(f"--steps={EVERY}"), [0])
        before = {path.name: states.files(path) for path in self.steps()}
        command = other.command("t", "--resume=s")
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=60)
        expect(done.returncode == 1 and "is of another model: " in done.stderr, f"exit {done.returncode}: {done.stderr[-300:]}")
        expect({path.name: states.files(path) for path in self.steps()} == before, "the state changed")

    def run_two(self):
        process = self.start()
        while process.poll() is None and not (self.folder / "s").exists():
            time.sleep(0.005)
        self.sleep()
        # The log is the first run's.
        command = [word for word in self.layout.command("s") if not str(word).startswith("--log-json")]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=60)
        is_over = process.poll() is not None
        expect(is_over or (done.returncode == 1 and "another run saves to 's' now" in done.stderr),
               f"exit {done.returncode}: {done.stderr[-300:]}")  # fmt: skip
        self.wait(process, [0])
        self.check_end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", metavar="BIN")
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS)
    options = parser.parse_args()
    KINDS[:] = options.kinds
    start, done, wrong = time.time(), {}, 0
    with tempfile.TemporaryDirectory(prefix="kerf-faults-") as folder:
        bench = Bench(options.bin, options.source, folder)
        for number in range(options.count):
            if time.time() - start > options.seconds:
                break
            case = Case(bench, random.Random(f"{options.seed} {number}"))
            done[case.kind] = done.get(case.kind, 0) + 1
            try:
                case.run()
                print(f"{number:4} {case.text}", flush=True)
            except (Wrong, subprocess.TimeoutExpired, AssertionError) as error:
                wrong += 1
                print(f"{number:4} {case.text}: WRONG: {error}", flush=True)
    count = ", ".join(f"{kind} {number}" for kind, number in sorted(done.items()))
    print(f"{sum(done.values())} faults ({count}), {wrong} wrong, {time.time() - start:.0f} s, seed {options.seed}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
