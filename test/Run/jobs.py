"""Commands that tests run in a folder of their own."""

import os
import pathlib
import subprocess
import tempfile
import unittest


def text(lines):
    return "".join(f"line {i} of {i * i} and {i % 7}\n" for i in range(lines))


def children(pid):
    """Processes that a process started; none where it is gone."""
    try:
        return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


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
