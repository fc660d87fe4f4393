"""kerf-run --hostfile: a job on machines of which some are lost, and come back.

  hosts.py FOUR.kerf [unittest arguments]

FOUR.kerf is for four ranks, with FOUR-2.kerf beside it (`kerfc --survive`). kerf-run is found on the PATH. The
machines 'a' and 'b' are imitated: mpirun starts all ranks here, and a file in `down` says who does not answer.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import jobs

FOUR = ""
RANK = "OMPI_COMM_WORLD_RANK"
MPIRUN = r"""#!/usr/bin/env bash
set -euo pipefail
words=()
while (($#)); do
  case $1 in
  --hostfile) paste -sd ' ' "$2" >>hosts.used; shift 2 ;;
  --map-by) shift 2 ;;
  *) words+=("$1"); shift ;;
  esac
done
exec REAL --oversubscribe "${words[@]}"
"""
OPTIONS = ("--data=text.txt", "--threads=1", "--warmup=0", "--lr-schedule=constant", "--log-every=1")


def losses(text):
    """Losses by step; of steps made again the last."""
    return {int(step): loss for step, loss in re.findall(r"iteration +(\d+)/.* loss: (\S+)", text)}


class HostsCase(jobs.Watched, unittest.TestCase):
    """A folder with a job on two imitated machines."""

    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        (self.folder / "text.txt").write_text("".join(f"line {i} of {i * i}\n" for i in range(500)))
        (self.folder / "hosts").write_text("a slots=2  # a rack\n\nb slots=2\n")
        (self.folder / "down").mkdir()
        self.program("probe", '#!/bin/sh\n[ ! -e "down/$1" ]\n')
        self.program("mpirun", MPIRUN.replace("REAL", shutil.which("mpirun")))

    def program(self, name, text):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def down(self, name, is_down=True):
        mark = self.folder / "down" / name
        mark.touch() if is_down else mark.unlink()

    def environment(self):
        """Of kerf-run."""
        ours = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "KERF_", "OMPI_", "PMIX_")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        return clean | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                        "KERF_HOST_PROBE": "./probe", "KERF_HOST_CHECK": "0.2",
                        "PATH": f"{self.folder}:{os.environ['PATH']}"}  # fmt: skip

    def start(self, *arguments):
        out = open(self.folder / "out", "w")  # pylint: disable=consider-using-with
        self.addCleanup(out.close)
        job = subprocess.Popen(
            ["kerf-run", FOUR, *OPTIONS, "--hostfile=hosts", "--save-state=s", *arguments], cwd=self.folder,
            env=self.environment(), stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.addCleanup(job.kill)
        return job

    def used(self):
        return (self.folder / "hosts.used").read_text().split("\n")[:-1]


@unittest.skipUnless(shutil.which("mpirun"), "no mpirun: jobs on several machines are not run")
class Hosts(HostsCase):
    # 'b' is lost with two ranks in the middle of the run, and comes back: two ranks go on from the state, then four
    # again, and the losses are those of a run that lost nothing.
    def test_lost_and_back(self):
        whole = subprocess.run(
            ["kerf-run", FOUR, *OPTIONS, "--steps=1000"], cwd=self.folder, text=True, capture_output=True, check=True
        )
        job = self.start("--steps=1000", "--save-every=20", "--max-restarts=3")
        self.wait_for(r"iteration +100/")
        self.down("b")
        self.kill_rank(3, RANK)
        self.wait_for(r"'b' does not answer: goes on with 2 of 4 ranks")
        self.wait_for(r"'b' does not answer; restart 1 of 3|'b' does not answer.*; restart 1 of 3")
        reached = max(losses(self.printed()))
        self.wait_for(rf"iteration +{reached + 40}/")
        self.down("b", is_down=False)
        self.wait_for("machines are back: goes on with more ranks")
        self.assertEqual(job.wait(timeout=200), 0, self.printed()[-3000:])
        self.assertEqual(self.used(), ["a slots=2 b slots=2", "a slots=2", "a slots=2 b slots=2"])
        expected, found = losses(whole.stdout), losses(self.printed())
        self.assertEqual(sorted(found), list(range(1, 1001)))
        for step, loss in expected.items():
            self.assertAlmostEqual(float(found[step]), float(loss), delta=1e-5 * float(loss), msg=f"step {step}")

    # Without a file for what is left the job waits, says so once, and goes on when there are enough.
    def test_waits(self):
        self.down("a")
        self.down("b")
        job = self.start("--steps=20", "--max-restarts=3")
        self.wait_for("'a' and 'b' do not answer: no file is for what is left .kerfc --survive.; waiting")
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(timeout=30), 128 + signal.SIGTERM)
        self.assertEqual(self.printed().count("waiting"), 1)

    # Nobody would start a job without --max-restarts again: it stays with the ranks that it has.
    def test_not_started_again(self):
        self.down("b")
        job = self.start("--steps=600")
        self.wait_for(r"iteration +20/")
        self.down("b", is_down=False)
        self.assertEqual(job.wait(timeout=200), 0, self.printed()[-3000:])
        self.assertNotIn("machines are back", self.printed())
        self.assertEqual(self.used(), ["a slots=2"])

    # A host file without room is no machine that does not answer: it is refused, or fewer ranks run.
    def test_little_room(self):
        (self.folder / "hosts").write_text("a\n")
        self.assertEqual(self.start("--steps=2").wait(timeout=30), 1)
        self.assertIn("the host file has room for fewer than 4 ranks, and there is no file", self.printed())
        (self.folder / "hosts").write_text("a slots=3\n")
        self.assertEqual(self.start("--steps=2").wait(timeout=60), 0)
        self.assertIn("the host file has no room for more: goes on with 2 of 4 ranks", self.printed())

    def test_refused(self):
        for text, message in (
            ("a slots=0\n", "hosts:1: expected slots=RANKS, found 'slots=0'"),
            ("a\na\n", "hosts:2: 'a' is there twice"),
            ("a cores=3\n", "hosts:1: expected 'NAME slots=RANKS', found 'cores=3'"),
            ("# none\n", "the host file 'hosts' names no machine"),
        ):
            (self.folder / "hosts").write_text(text)
            self.assertEqual(self.start("--steps=2").wait(timeout=30), 1)
            self.assertIn(message, self.printed())
        self.assertEqual(self.start("--steps=2", "--transport=shm").wait(timeout=30), 1)
        self.assertIn("'--hostfile' starts ranks on several machines", self.printed())


if __name__ == "__main__":
    FOUR = sys.argv.pop(1)
    unittest.main()
