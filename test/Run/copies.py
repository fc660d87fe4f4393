"""kerf-run --peer-copies: a job that lost a machine goes on from the memory of another one.

  copies.py FOUR.kerf [unittest arguments]

FOUR.kerf is for four ranks, with FOUR-2.kerf beside it (`kerfc --survive`). The machines 'a' and 'b' are imitated
(hosts.py); KERF_MACHINE tells a rank on which it is, and each has a folder of its own in KERF_COPY_FOLDER.
"""

import re
import shutil
import subprocess
import sys
import unittest

import hosts
from hosts import OPTIONS, losses

AS_MACHINE = """#!/bin/sh
test "$OMPI_COMM_WORLD_RANK" -lt 2 && KERF_MACHINE=a || KERF_MACHINE=b
export KERF_MACHINE
exec "$@"
"""
LAST = r"restart 1 of 3 within an hour, from 's/(step-\d+[.a-z]*)'"


@unittest.skipUnless(shutil.which("mpirun"), "no mpirun: jobs on several machines are not run")
class Copies(hosts.HostsCase):
    def setUp(self):
        super().setUp()
        self.program("as-machine", AS_MACHINE)
        text = (self.folder / "mpirun").read_text()
        self.program("mpirun", text.replace("  *) words+=", "  */kerf-run) words+=(./as-machine \"$1\"); shift ;;\n  *) words+="))
        self.memory_folder = self.folder / "memory"
        self.memory_folder.mkdir()

    def start(self, *arguments):
        return super().start("--max-restarts=3", "--peer-copies=1", *arguments)

    def environment(self):
        return super().environment() | {"KERF_COPY_FOLDER": str(self.memory_folder)}

    def memory(self, machine):
        """Folders of copies on a machine."""
        return list((self.folder / "memory").glob(f"*@{machine}"))

    def lose(self, machine):
        # At once, as a machine loses it: ranks that run remove older copies there meanwhile.
        for folder in self.memory(machine):
            lost = folder.rename(self.folder / f"lost {folder.name}")
            shutil.rmtree(lost, ignore_errors=True)

    def whole(self, steps):
        done = subprocess.run(
            ["kerf-run", hosts.FOUR, *OPTIONS, f"--steps={steps}"], cwd=self.folder, text=True, capture_output=True, check=True
        )
        return losses(done.stdout)

    def finish(self, job, steps, delta=0.0):
        """The job ends with the losses of a run that lost nothing; no copy stays."""
        self.assertEqual(job.wait(timeout=200), 0, self.printed()[-3000:])
        expected, found = self.whole(steps), losses(self.printed())
        self.assertEqual(sorted(found), list(range(1, steps + 1)))
        for step, loss in expected.items():
            self.assertAlmostEqual(float(found[step]), float(loss), delta=delta * float(loss), msg=f"step {step}")
        self.assertEqual(list((self.folder / "memory").iterdir()), [])
        self.assertEqual(list((self.folder / "s").glob("*.copy*")), [])

    def wait_for_restart(self):
        self.wait_for(LAST)
        return re.search(LAST, self.printed()).group(1)

    # A rank is killed, its machine's memory stays.
    def test_rank_lost(self):
        job = self.start("--steps=200", "--save-every=1000", "--copy-every=5")
        self.wait_for(r"iteration +30/")
        self.kill_rank(3, hosts.RANK)
        state = self.wait_for_restart()
        self.assertRegex(state, r"step-\d+.copy")
        self.assertGreaterEqual(int(re.search(r"\d+", state).group()), 20)
        self.finish(job, 200)

    # 'b' is lost with its memory: 'a' has all, and goes on alone; then 'b' is back.
    def test_machine_lost(self):
        job = self.start("--steps=300", "--save-every=1000", "--copy-every=5")
        self.wait_for(r"iteration +30/")
        self.down("b")
        self.kill_rank(3, hosts.RANK)
        self.kill_rank(2, hosts.RANK)
        self.assertRegex(self.wait_for_restart(), r"step-\d+.copy")
        self.lose("b")
        self.wait_for("all ranks are on one machine: '--peer-copies' keeps no copy")
        reached = max(losses(self.printed()))
        self.wait_for(rf"iteration +{reached + 20}/")
        self.down("b", is_down=False)
        self.finish(job, 300, delta=1e-5)
        self.assertEqual(self.used(), ["a slots=2 b slots=2", "a slots=2", "a slots=2 b slots=2"])

    # 'b' comes back with an empty memory: 'a' sends what it lacks.
    def test_memory_lost(self):
        job = self.start("--steps=200", "--save-every=1000", "--copy-every=5")
        self.wait_for(r"iteration +30/")
        self.lose("b")
        self.kill_rank(3, hosts.RANK)
        self.assertRegex(self.wait_for_restart(), r"step-\d+.copy")
        self.finish(job, 200)

    # No memory is left: the job goes on from the disk.
    def test_all_memory_lost(self):
        job = self.start("--steps=200", "--save-every=50", "--copy-every=10")
        self.wait_for(r"saved the state of step 50 ")
        self.wait_for(r"iteration +75/")
        self.kill_rank(3, hosts.RANK)
        state = self.wait_for_restart()
        self.lose("a")
        self.lose("b")
        if "copy" in state:
            self.wait_for(rf"'s/{state}' was in the memory of machines that are gone: 'rank-0000\d.safetensors' is on none")
            self.wait_for(r"restart 2 of 3 within an hour, from 's/step-\d+'")
        self.finish(job, 200)

    # A run that goes on from an older state on disk leaves the copies of the other one alone.
    def test_older(self):
        job = self.start("--steps=60", "--save-every=20", "--copy-every=5", "--keep=3")
        self.assertEqual(job.wait(timeout=60), 0, self.printed()[-3000:])
        job = self.start("--steps=60", "--save-every=20", "--copy-every=5", "--resume=s/step-20")
        self.assertEqual(job.wait(timeout=60), 0, self.printed()[-3000:])
        self.assertIn("from step 20 saved in 's/step-20'", self.printed())

    def test_refused(self):
        for options, message in (
            (("--save-every=5", "--peer-copies=2"), "'--peer-copies' keeps one copy, found 2"),
            (("--steps=5",), "'--peer-copies' needs '--save-every=N' or '--copy-every=N'"),
        ):
            self.assertEqual(self.start(*options).wait(timeout=30), 1)
            self.assertIn(message, self.printed())
        self.memory_folder = "/proc"
        self.assertEqual(self.start("--steps=5", "--copy-every=1").wait(timeout=60), 1)
        self.assertRegex(self.printed(), r"copies take up to \S+ \S+ of '/proc', which has 0 B: make it larger")


if __name__ == "__main__":
    hosts.FOUR = sys.argv.pop(1)
    unittest.main()
