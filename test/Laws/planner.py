"""Plans as users ask for them: kerf-import, then `kerfc --explain-json`."""

import dataclasses
import json
import resource
import signal
import subprocess
from pathlib import Path

from description import Description

MOST_SECONDS = 120  # of a processor, of one command: other work beside it changes nothing


class Broken(Exception):
    """A command ended neither with a plan nor with a reason."""


@dataclasses.dataclass(frozen=True)
class Case:
    """What is planned; `pins` are pairs of key and value."""

    model: str
    batch: int
    seq: int
    cluster: Description
    devices: int
    pins: tuple = ()
    options: tuple = ()  # of kerfc
    imports: tuple = ()  # of kerf-import

    def but(self, **fields):
        return dataclasses.replace(self, **fields)

    def imported(self):
        return [f"examples/models/{self.model}/config.json", f"--batch={self.batch}", f"--seq={self.seq}", *self.imports]

    def compiled(self, cluster):
        pins = ",".join(f"{key}={value}" for key, value in self.pins)
        pins = [f"--pin={pins}"] if pins else []
        return [f"--cluster={cluster}", f"--devices={self.devices}", *pins, *self.options]

    def command(self, more="--explain-json=-"):
        """As typed in bash, in the repository, with the tools on the path."""
        arguments = " ".join(f"'{word}'" if "|" in word else word for word in self.compiled(self.cluster.arguments()))
        return f"kerf-import {' '.join(self.imported())} | kerfc - {arguments} {more}".rstrip()


class Answer:
    """What is read of an explanation."""

    def __init__(self, explained):
        self.explained = explained
        self.sec = explained["time"]["step_sec"]
        self.stages = explained["memory"]["stages_bytes"]
        self.bytes = max(stage["total"] for stage in self.stages)
        self.capacity = explained["memory"]["capacity_bytes"]
        self.choice = explained["plan"]["choice"]
        self.proof = explained["trust"]["certificate"]
        self.gap = self.proof["gap"]

    def pins(self):
        """The plan's own decisions."""
        keys = {"mb": "micro_batch", "m": "micro_batches", "v": "chunks", "shard": "shard_group"}
        names = ("tp", "cp", "ep", "pp", "dp", "mb", "m", "v", "zero", "shard", "schedule", "defer")
        own = [(name, keys.get(name, name)) for name in names]
        own = [(name, self.choice[key]) for name, key in own if key in self.choice]
        own = [(key, value) for key, value in own if key != "shard" or self.choice["zero"] > 0]
        short = {"tensor": "tp", "context": "cp", "data": "dp", "pipeline": "pp"}
        order = ".".join(short[axis] for axis in self.choice["order_innermost_first"])
        return (*own, ("order", order))


def limit_seconds():
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS + 5))


class Planner:
    """Runs commands in a folder of its own and remembers their answers."""

    def __init__(self, binaries, repo, folder):
        self.binaries, self.repo, self.folder = Path(binaries), Path(repo), Path(folder)
        self.answers, self.files, self.runs = {}, {}, 0
        self.reason = ""  # of the last command that was refused

    def forget(self):
        """Forgets answers and files: cases share few."""
        for path in self.files.values():
            path.unlink()
        self.answers, self.files = {}, {}

    def tool(self, name, *arguments):
        command = [str(self.binaries / name), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.repo, preexec_fn=limit_seconds)
        if done.returncode == -signal.SIGXCPU:
            raise Broken(f"{name} took more than {MOST_SECONDS} s")
        if done.returncode not in (0, 1):
            raise Broken(f"{name} ended with {done.returncode}: {done.stderr.strip()[-200:]}")
        self.runs += 1
        return done

    def file(self, kind, key, write):
        """A file that is made once."""
        if (kind, key) not in self.files:
            path = self.folder / f"{len(self.files)}.{kind}"
            write(path)
            self.files[kind, key] = path
        return self.files[kind, key]

    def arguments(self, case):
        model = self.file("mlir", tuple(case.imported()), lambda path: self.import_to(path, case))
        cluster = self.file("yaml", case.cluster.text, lambda path: path.write_text(case.cluster.text))
        return [model, *case.compiled(cluster)]

    def import_to(self, path, case):
        done = self.tool("kerf-import", *case.imported(), "-o", path)
        if done.returncode:
            raise Broken(f"kerf-import: {done.stderr.strip()[-200:]}")

    def ask(self, case):
        """The explanation of a plan; None where there is none."""
        if case not in self.answers:
            self.answers[case] = self.explain(*self.arguments(case))
        return self.answers[case]

    def ask_saved(self, case):
        """As `ask`, after the plan went through a file."""
        saved = self.folder / "plan.json"
        arguments = self.arguments(case)
        done = self.tool("kerfc", *arguments, "--emit=plan", "-o", saved)
        if done.returncode:
            raise Broken(f"kerfc --emit=plan: {done.stderr.strip()[-200:]}")
        return self.explain(*(word for word in arguments if not str(word).startswith("--pin=")), f"--plan={saved}")

    def explain(self, *arguments):
        path = self.folder / "explained.json"
        path.unlink(missing_ok=True)
        done = self.tool("kerfc", *arguments, f"--explain-json={path}")
        if not path.exists():
            if "error: " in done.stderr:
                self.reason = done.stderr.split("error: ", 1)[1].splitlines()[0]
                return None
            raise Broken(f"kerfc gives neither plan nor reason: {done.stderr.strip()[-200:]}")
        explained = json.loads(path.read_text())
        self.reason = "" if explained["feasible"] else explained["error"]
        return Answer(explained) if explained["feasible"] else None
