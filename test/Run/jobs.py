"""Commands that tests run in a folder of their own."""

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest


def text(lines):
    return "".join(f"line {i} of {i * i} and {i % 7}\n" for i in range(lines))


def children(pid):
    """Processes that a process started; none where it is gone."""
    try:
        return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class Watched:
    """Looks at a job that prints to the file `out` of a test's folder."""

    def printed(self):
        return (self.folder / "out").read_text()

    def wait_for(self, pattern, seconds=120):
        end = time.monotonic() + seconds
        while not re.search(pattern, self.printed()):
            self.assertLess(time.monotonic(), end, f"'{pattern}' was not printed:\n{self.printed()[-3000:]}")
            time.sleep(0.02)

    def kill_rank(self, rank, variable):
        """As if its machine had gone; `variable` has the number of a rank."""
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                known = (entry / "environ").read_bytes().split(b"\0")
                here = os.readlink(entry / "cwd") == str(self.folder)
                is_rank = os.path.basename(os.readlink(entry / "exe")) == "kerf-run"
            except OSError:
                continue
            if here and is_rank and f"{variable}={rank}".encode() in known:
                os.kill(int(entry.name), signal.SIGKILL)
                return
        self.fail(f"rank {rank} was not found")


class JobTest(unittest.TestCase):
    """Each test has a new folder, with a text."""

    lines = 2000

    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        (self.folder / "text.txt").write_text(text(self.lines))

    def launch(self, *command, environment=None):
        """Starts a command that knows nothing of a job around this test."""
        outside = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "KERF_SESSION", "KERF_LAUNCHED")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(outside)}
        process = subprocess.Popen(
            command, cwd=self.folder, env=clean | (environment or {}), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(process.kill)
        return process

    def end(self, process, status, seconds=60):
        """Waits for the end of a command and says what it printed."""
        out, err = process.communicate(timeout=seconds)
        self.assertEqual(process.returncode, status, out[-2000:] + err)
        return out, err
