#!/usr/bin/env python3
"""Runs on a GPU from a prepared folder, each with a limit, a line and a record.

    test/Bench/gpu_day.py first|check|bench|kernels FOLDER [--out=OUT] [--tiny]
                          [--limit=SECONDS] [OPTION...]

Called by gpu-day.sh, which tells what the actions are and prepares FOLDER. Everything
that is written lies under OUT (FOLDER/out): `record.jsonl`, a line of JSON for each run as
soon as it is over, and `logs.tar.gz` with what the runs printed and traced. Nothing that
fails keeps later runs from running. What is under way after --limit seconds (540) is
ended, and what is left says so. Exit status 1 where a run failed.
"""

import argparse
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path

import gpu_kerf
from gpu_day_steps import ACTIONS

LIMIT_SEC = 540
LOG_BYTES = 4 << 20  # of a run, at most
SKIPPED = 77  # exit status of what finds that it cannot run here
GRACE_SEC = 3  # between asking a program to end and ending it


def last_words(text):
    """The line that tells most: an error, or else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors[:1] or lines[-1:] or [""])[0][:300]


class Log:
    """What a program prints: a file of LOG_BYTES at most, shown as well if asked for."""

    def __init__(self, path, shows):
        self.path, self.shows, self.room = path, shows, LOG_BYTES
        self.file = path.open("w", errors="replace")

    def add(self, line):
        if self.shows:
            print(line, end="", flush=True)
        if self.room > 0:
            self.file.write(line)
        self.room -= len(line)

    def close(self):
        if self.room <= 0:
            self.file.write(f"\n... {-self.room} characters are left out\n")
        self.file.close()
        return self.path.read_text(errors="replace")


def end_group(process):
    """Ends a program and all that it started."""
    for number, seconds in ((signal.SIGTERM, GRACE_SEC), (signal.SIGKILL, GRACE_SEC)):
        try:
            os.killpg(process.pid, number)
            process.wait(seconds)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def execute(command, variables, limit, log):
    """Exit status; None where the time was over, a text where nothing started."""
    command = [str(word) for word in command]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    try:
        process = subprocess.Popen(
            command, env=os.environ | variables, text=True, errors="replace", start_new_session=True, **options
        )
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    reader = threading.Thread(target=lambda: [log.add(line) for line in process.stdout], daemon=True)
    reader.start()
    try:
        process.wait(limit)
        status = process.returncode
    except subprocess.TimeoutExpired:
        status = None
    finally:
        end_group(process)
        reader.join(GRACE_SEC)
        process.stdout.close()
    return status


class Day:
    """A folder, what is written about it, and the time that is left."""

    def __init__(self, args):
        self.folder, self.out, self.tiny, self.options = args.folder, args.out, args.tiny, args.options
        self.logs = self.out / "logs"
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir(parents=True)
        self.record = (self.out / "record.jsonl").open("w")
        self.scratch = Path(tempfile.mkdtemp())
        self.start = time.monotonic()
        self.end = self.step_end = self.start + args.limit
        self.step, self.budget, self.failures = args.action, 0, 0
        about = self.folder / "models/about.json"
        how = json.loads(about.read_text()) if about.exists() else {}
        self.write({"action": args.action, "date": datetime.datetime.now().isoformat(timespec="seconds"), **how})

    def write(self, row):
        self.record.write(json.dumps(row) + "\n")
        self.record.flush()

    def begin(self, step, budget_sec):
        """Names the runs that follow. Time that earlier steps left is theirs, too."""
        self.step = step
        self.budget += budget_sec
        self.step_end = min(self.end, self.start + self.budget)

    def left(self):
        return self.step_end - time.monotonic()

    def run(self, name, limit, command, variables={}, judge=None, shows=False):
        """Runs a program. `judge` turns its exit status 0 and what it printed into further
        fields of the record; "failed" among them says that it failed after all.
        Returns the record."""
        start = time.monotonic()
        limit = min(limit, self.left())
        if limit < 1:
            return self.tell(name, "not run", 0, {"said": "no time was left"})
        log = Log(self.logs / name, shows)
        status = execute(command, variables, limit, log)
        said = log.close()
        fields = {"exit": status, "said": last_words(said), "variables": variables}
        word = {0: "ok", SKIPPED: "skipped"}.get(status, "FAILED")
        if status is None:
            fields["said"] = f"took more than {limit:.0f} s; {fields['said']}"
        elif isinstance(status, str):
            word, fields = "not run", {"said": status}
        elif status == 0 and judge:
            fields |= judge(said)
            word = "FAILED" if fields.get("failed") else "ok"
        return self.tell(name, word, time.monotonic() - start, fields)

    def tell(self, name, word, seconds, fields):
        """Prints and writes what became of a run."""
        row = {"step": self.step, "run": name, "status": word, "seconds": round(seconds, 2), **fields}
        self.write(row)
        self.failures += word == "FAILED"
        said = fields.get("failed") or fields.get("shown") or fields.get("said", "")
        shown = f": {said}" if word != "ok" or "shown" in fields else ""
        print(f"{word} {name}, {seconds:.0f} s{shown}", flush=True)
        return row

    def close(self):
        """Packs the logs; with the record they are all that is left in OUT."""
        with tarfile.open(self.out / "logs.tar.gz", "w:gz") as archive:
            archive.add(self.logs, "logs")
        shutil.rmtree(self.logs)
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.record.close()
        print(f"{self.failures} failed; {self.out}: record.jsonl, logs.tar.gz", flush=True)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("action", choices=list(ACTIONS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, help="all that is written (default: FOLDER/out)")
    parser.add_argument("--limit", type=float, default=LIMIT_SEC, help="seconds for everything")
    parser.add_argument("--tiny", action="store_true", help="models scaled down and few cases, for a simulator")
    args, args.options = parser.parse_known_args()
    args.out = args.out or args.folder / "out"
    if not (args.folder / "bin/kerf-run").exists():
        parser.error(f"'{args.folder}' was not written by gpu-day.sh prepare")
    return args


def main():
    args = arguments()
    # Ended from outside, what there is is packed all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    day = Day(args)
    try:
        ACTIONS[args.action](day)
    finally:
        day.close()
    return 1 if day.failures else 0


if __name__ == "__main__":
    sys.exit(main())
