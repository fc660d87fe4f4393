"""Checks how runs on a GPU are bounded, told and kept, with scripts for programs."""

import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import types
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
import gpu_day  # noqa: E402
import gpu_day_steps  # noqa: E402

HERE = Path(__file__).resolve().parent


class Runs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = Path(self.folder.name, "out")
        self.day = self.new_day()

    def tearDown(self):
        self.day.record.close()
        self.folder.cleanup()

    def new_day(self, limit=60):
        if hasattr(self, "day"):
            self.day.record.close()
        folder = Path(self.folder.name)
        args = types.SimpleNamespace(action="first", folder=folder, out=self.out, limit=limit, tiny=True, options=[])
        return gpu_day.Day(args)

    def shell(self, text, limit=20, **options):
        return self.day.run("run", limit, ["sh", "-c", text], **options)

    def test_words_for_exit_statuses(self):
        self.assertEqual(self.shell("echo fine")["status"], "ok")
        self.assertEqual(self.shell("exit 77")["status"], "skipped")
        row = self.shell("echo 'an error: no room'; echo more; exit 3")
        self.assertEqual((row["status"], row["exit"], row["said"]), ("FAILED", 3, "an error: no room"))
        self.assertEqual(self.day.run("run", 5, ["/no/such/program"])["status"], "not run")
        self.assertEqual(self.day.failures, 1)

    def test_what_hangs_is_ended_with_its_children(self):
        child = Path(self.folder.name, "child")
        row = self.shell(f"sleep 60 & echo $! > {child}; echo so far; wait", limit=1)
        self.assertEqual(row["status"], "FAILED")
        self.assertEqual(row["said"], "took more than 1 s; so far")
        self.assertLess(row["seconds"], 10)
        state = Path(f"/proc/{int(child.read_text())}/stat")
        self.assertTrue(not state.exists() or state.read_text().split()[2] == "Z")

    def test_no_run_outlives_the_day(self):
        self.day = self.new_day(limit=2)
        self.assertEqual(self.shell("sleep 60")["status"], "FAILED")
        row = self.shell("echo late")
        self.assertEqual((row["status"], row["said"]), ("not run", "no time was left"))

    def test_steps_keep_their_time(self):
        self.day = self.new_day(limit=100)
        self.day.begin("1", 10)
        self.assertAlmostEqual(self.day.left(), 10, delta=1)
        self.day.begin("2", 20)  # with what step 1 left
        self.assertAlmostEqual(self.day.left(), 30, delta=1)
        self.day.begin("3", 200)
        self.assertAlmostEqual(self.day.left(), 100, delta=1)

    def test_budgets_are_the_whole(self):
        budgets = []
        day = types.SimpleNamespace(tiny=False, folder=Path("/nowhere"), scratch=Path("/nowhere"), logs=Path("/nowhere"))
        day.begin = lambda _, seconds: budgets.append(seconds)
        day.run = day.tell = lambda *_, **__: {}
        test, gpu_day_steps.test_device = gpu_day_steps.test_device, lambda _: None
        gpu_day_steps.first(day)
        gpu_day_steps.test_device = test
        self.assertEqual((len(budgets), sum(budgets)), (9, gpu_day.LIMIT_SEC))

    def test_long_logs_are_cut(self):
        self.shell("head -c 9000000 /dev/zero | tr '\\0' x | fold -w 99")
        self.assertLess((self.day.logs / "run").stat().st_size, gpu_day.LOG_BYTES + 200)
        self.assertIn("characters are left out", (self.day.logs / "run").read_text())

    def test_other_losses_are_failures(self):
        log = Path(self.folder.name, "log")
        rows = [{"loss": x, "elapsed_ms": 1.0} for x in (2.0, 1.5)]
        log.write_text("".join(json.dumps(row) + "\n" for row in rows))
        judge = gpu_day_steps.judge_of
        self.assertNotIn("failed", judge(log, [2.0, 1.5], 0)(""))
        self.assertIn("losses 1.5001 and 1.5", judge(log, [2.0, 1.5001], 0)("")["failed"])
        self.assertNotIn("failed", judge(log, [2.0, 1.5001], 1e-3)(""))
        self.assertIn("found 2 losses, expected 1", judge(log, [2.0], 0)("")["failed"])
        row = self.shell("true", judge=judge(log, [2.0, 1.4], 0))
        self.assertEqual((row["status"], row["losses"]), ("FAILED", [2.0, 1.5]))


class Ended(unittest.TestCase):
    def test_what_there_is_is_packed(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "bin").mkdir()
            (folder / "layouts").mkdir()
            program = folder / "bin/kerf-run"
            program.write_text("#!/bin/sh\necho started\nexec sleep 60\n")
            program.chmod(0o755)
            command = [sys.executable, "-B", HERE / "gpu_day.py", "first", folder, "--tiny"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                self.assertEqual(process.stdout.readline(), "started\n")
                process.send_signal(signal.SIGTERM)
                process.communicate()
            self.assertEqual(process.returncode, 143)
            self.assertEqual(sorted(os.listdir(folder / "out")), ["logs.tar.gz", "record.jsonl"])
            with tarfile.open(folder / "out/logs.tar.gz") as archive:
                self.assertIn("logs/doctor", archive.getnames())


if __name__ == "__main__":
    unittest.main()
