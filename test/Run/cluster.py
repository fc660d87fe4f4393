"""The scripts that start a job on several machines, with two ranks on this one.

  cluster.py SCRIPTS MODEL.kerf FOUR.kerf [unittest arguments]

MODEL.kerf is for two ranks, FOUR.kerf for four, with FOUR-2.kerf beside it (`kerfc --survive`). kerf-run is found on the PATH. What needs Open MPI is skipped, and says so,
where it is not installed. Slurm is imitated: srun here is mpirun with Slurm's variables and without those
of Open MPI, which srun does not set either.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import jobs

SCRIPTS = MODEL = FOUR = ""
SRUN = r"""#!/usr/bin/env bash
set -euo pipefail
printf '%s\n' "$@" >srun.options
while [[ $1 == --* ]]; do
  [[ $1 != --ntasks=* ]] || export SLURM_NTASKS=${1#*=}
  shift
done
echo "$SLURM_NTASKS" >>srun.ranks
task='export SLURM_PROCID=$OMPI_COMM_WORLD_RANK SLURM_LOCALID=$OMPI_COMM_WORLD_LOCAL_RANK
for name in ${!OMPI_COMM_WORLD_*}; do unset "$name"; done
exec "$@"'
exec mpirun -n "$SLURM_NTASKS" --oversubscribe --bind-to none bash -c "$task" task "$@"
"""

SINFO = r"""#!/bin/sh
for node in a b; do
  if [ -e "down-$node" ]; then echo "$node down*"; else echo "$node alloc"; fi
done
"""


def losses(text):
    """The printed losses, one per step."""
    return re.findall(r"loss: (\S+)", text)


class Cluster(jobs.Watched, unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        (self.folder / "text.txt").write_text("".join(f"line {i} of {i * i}\n" for i in range(500)))
        (self.folder / "hosts").write_text("localhost slots=2\n")

    def run_in(self, *command, **environment):
        ours = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "KERF_", "SLURM_", "OMPI_", "PMIX_")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return subprocess.run(
            [str(word) for word in command], cwd=self.folder, env=clean | root | environment,
            text=True, capture_output=True, timeout=100,
        )  # fmt: skip

    def trained(self, *command, **environment):
        """Losses of three steps of a job that ends well."""
        done = self.run_in(*command, "--steps=3", **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = losses(done.stdout)
        self.assertEqual(len(found), 3, done.stdout)
        return found

    def expected(self):
        return self.trained("kerf-run", MODEL, "--data=text.txt")

    def refused(self, message, script, *arguments, **environment):
        done = self.run_in(f"{SCRIPTS}/{script}", *arguments, **environment)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"{script}: ", done.stderr)
        self.assertIn(message, done.stderr)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun: examples/cluster is not run")
    def test_mpirun(self):
        expected = self.expected()
        for hosts in ("-", "hosts"):
            found = self.trained(f"{SCRIPTS}/mpirun.sh", 2, hosts, MODEL, "text.txt")
            self.assertEqual(found, expected, hosts)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun: examples/cluster is not run")
    def test_mpirun_with_another_number_of_ranks(self):
        done = self.run_in(f"{SCRIPTS}/mpirun.sh", 3, "-", MODEL, "text.txt", "--steps=3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the file is for 2 ranks, WORLD_SIZE is 3", done.stderr)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun: examples/cluster is not run")
    def test_slurm(self):
        expected = self.expected()
        (self.folder / "srun").write_text(SRUN)
        (self.folder / "srun").chmod(0o755)
        found = self.trained(
            f"{SCRIPTS}/slurm.sh", MODEL, "text.txt",
            PATH=f"{self.folder}:{os.environ['PATH']}",
            SLURM_JOB_ID="1", SLURM_NTASKS="2", SLURM_CPUS_PER_TASK="1",
        )  # fmt: skip
        self.assertEqual(found, expected)
        options = (self.folder / "srun.options").read_text().splitlines()
        for option in ("--mpi=pmix", "--ntasks=2", "--cpus-per-task=1", "--threads=1"):
            self.assertIn(option, options)

    # A node is lost with two of four ranks, and comes back: the job goes on with two, then with four again.
    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun: examples/cluster is not run")
    def test_slurm_restarts(self):
        # On two ranks there must be steps left when the node is seen again.
        options = ("--warmup=0", "--lr-schedule=constant", "--steps=400")
        whole = losses(self.run_in("kerf-run", FOUR, "--data=text.txt", "--threads=1", *options).stdout)
        for name, text in (("srun", SRUN), ("sinfo", SINFO)):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        ours = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "KERF_", "SLURM_", "OMPI_", "PMIX_")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)} | {
            "PATH": f"{self.folder}:{os.environ['PATH']}", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "SLURM_JOB_ID": "1", "SLURM_NTASKS": "4", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "a,b",
            "SLURM_CPUS_PER_TASK": "1", "KERF_RESTARTS": "2", "KERF_NODE_CHECK": "0.1",
        }  # fmt: skip
        with open(self.folder / "out", "w") as out:
            job = subprocess.Popen([f"{SCRIPTS}/slurm.sh", FOUR, "text.txt", *options, "--save-state", "s", "--save-every=5"],
                                   cwd=self.folder, env=environment, stdout=out, stderr=subprocess.STDOUT)  # fmt: skip
        self.addCleanup(job.kill)
        self.wait_for(r"iteration +15/")
        (self.folder / "down-b").touch()
        self.kill_rank(3, "RANK")
        self.wait_for("restart 1 of 2")
        self.wait_for("goes on with 2 of 4 ranks")
        reached = len(losses(self.printed()))
        self.wait_for(rf"iteration +{reached + 10}/")
        (self.folder / "down-b").unlink()
        self.wait_for("nodes are back: goes on with 4 ranks")
        self.assertEqual(self.status(job), 0, self.printed()[-3000:])
        self.assertEqual((self.folder / "srun.ranks").read_text().split(), ["4", "2", "4"])
        found = dict(re.findall(r"iteration +(\d+)/.* loss: (\S+)", self.printed()))
        self.assertEqual(len(found), 400)
        for step, loss in enumerate(whole, 1):
            self.assertAlmostEqual(float(found[str(step)]) / float(loss), 1, delta=1e-5)

    def status(self, job):
        """The exit status of a job, which ends soon."""
        try:
            return job.wait(timeout=200)
        except subprocess.TimeoutExpired:
            return "none"

    # Of four ranks two are lost after step 4, and are back after step 8: the file for those that are there runs, from
    # the state, and the losses are those of a run that lost none.
    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun: examples/cluster is not run")
    def test_fewer_ranks_and_back(self):
        options = ("--warmup=0", "--lr-schedule=constant", "--threads=1")
        whole = losses(self.run_in("kerf-run", FOUR, "--data=text.txt", *options, "--steps=12").stdout)
        found = []
        for ranks, steps, resume in ((4, 4, ()), (2, 8, ("--resume=s",)), (4, 12, ("--resume=s",))):
            done = self.run_in(f"{SCRIPTS}/mpirun.sh", ranks, "-", FOUR, "text.txt", *options, f"--steps={steps}", "--save-state=s",
                               *resume)  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("for as many ranks as were started" in done.stderr, ranks == 2, done.stderr)
            found += losses(done.stdout)
        self.assertEqual(len(whole), 12)
        self.assertEqual(len(found), 12)
        for one, other in zip(whole, found):
            self.assertAlmostEqual(float(one) / float(other), 1, delta=2e-6)

    def test_arguments(self):
        self.refused("expected: RANKS", "mpirun.sh", 2, "-", MODEL)
        self.refused("RANKS is '0'", "mpirun.sh", 0, "-", MODEL, "text.txt")
        self.refused("host file 'none'", "mpirun.sh", 2, "none", MODEL, "text.txt")
        self.refused("model 'none'", "mpirun.sh", 2, "-", "none", "text.txt")
        self.refused("data 'none'", "mpirun.sh", 2, "-", MODEL, "none")
        self.refused("expected: MODEL.kerf", "slurm.sh", MODEL)
        self.refused("model 'none'", "slurm.sh", "none", "text.txt")
        self.refused("start it with sbatch", "slurm.sh", MODEL, "text.txt")
        environment = {"PATH": f"{self.folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "1", "SLURM_NTASKS": "2"}
        for name in ("srun", "sinfo"):
            (self.folder / name).write_text("#!/bin/sh\n")
            (self.folder / name).chmod(0o755)
        self.refused("KERF_RESTARTS is 'x'", "slurm.sh", MODEL, "text.txt", KERF_RESTARTS="x", **environment)
        self.refused("give --save-state=DIR", "slurm.sh", MODEL, "text.txt", KERF_RESTARTS="1", **environment)
        self.refused("2 tasks do not divide by 3 nodes", "slurm.sh", MODEL, "text.txt", KERF_RESTARTS="1", SLURM_JOB_NUM_NODES="3",
                     **environment)  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    SCRIPTS, MODEL, FOUR = (str(pathlib.Path(a).resolve()) for a in sys.argv[1:4])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
