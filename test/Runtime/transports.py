"""Runs the conformance suite over one transport.

  transports.py TRANSPORT SUITE [unittest arguments]

SUITE is kerf-transport-suite. TRANSPORT is shm, tcp or nccl, where this script starts the ranks, or mpi, where
mpirun does. What must come out is the same, down to the bits of sums. nccl is the transport of GPUs with
libraries that stand in for NVIDIA's (nccl/StandIn.cpp); KERF_CUDA_PATH tells their folder.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

TRANSPORT = SUITE = ""


def shared_memory():
    """Segments of this transport that have a name."""
    prefix = f"kerf-{os.getuid()}-suite-{os.getpid()}-"
    return [name for name in os.listdir("/dev/shm") if name.startswith(prefix)]


def free_port():
    """A port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def outer_address():
    """An address of this machine that others see, or None."""
    with socket.socket(type=socket.SOCK_DGRAM) as own:
        try:
            own.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return None
        address = own.getsockname()[0]
    return None if address.startswith("127.") else address


class Job:
    """Ranks that run one case; `codes` has the status of each, of mpirun alone with mpi."""

    number = 0

    def __init__(self, case, size, transport=None, ends=True, meanwhile=None):
        self.processes = []
        Job.number += 1
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_"))},
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "KERF_SESSION": f"suite-{os.getpid()}-{Job.number}",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
        }
        self.start = time.monotonic()
        transport = transport or TRANSPORT
        if transport == "mpi":
            launch = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(size)]
            self.add([*launch, SUITE, transport, case], environment)
        else:
            for rank in range(size):
                named = {**environment, "RANK": str(rank), "WORLD_SIZE": str(size)}
                self.add([SUITE, transport, case], named)
                if rank == 0 and meanwhile:
                    meanwhile(int(environment["MASTER_PORT"]))
        self.finish(ends)

    def add(self, command, environment):
        self.processes.append(
            subprocess.Popen(
                command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        )

    def finish(self, ends):
        """Waits for all, or until one is left, which is killed: what a launcher does."""
        while not ends and sum(p.poll() is None for p in self.processes) > 1:
            time.sleep(0.01)
        if not ends and TRANSPORT != "mpi":
            [p.kill() for p in self.processes if p.poll() is None]
        self.out, self.err, self.codes = "", "", []
        for process in self.processes:
            out, err = process.communicate(timeout=300)
            self.out += out
            self.err += err
            code = process.returncode
            self.codes.append(128 - code if code < 0 else code)
        self.seconds = time.monotonic() - self.start


class Conformance(unittest.TestCase):
    def job(self, case, size, code=0, **others):
        """Runs a case in which every rank finds what it must find."""
        job = Job(case, size, **others)
        self.assertEqual(set(job.codes), {code}, job.out + job.err)
        self.assertEqual(shared_memory(), [])
        return job

    # mpirun takes half a second to start anything: it does so less often.

    # What collectives do, for numbers of ranks that have different ways to sum.
    def test_collectives(self):
        for size in (1, 2, 3, 5) if TRANSPORT != "mpi" else (2, 5):
            self.job("collectives", size)

    # Ranks that are members of several groups.
    def test_groups(self):
        self.job("groups", 4)

    # A collective in two halves is that in one, and its first half waits for nobody.
    def test_halves(self):
        for size in (2, 3) if TRANSPORT != "mpi" else (3,):
            self.job("halves", size)

    # Many ranks on few cores get through.
    def test_crowd(self):
        self.job("crowd", 8)

    # Who comes in and says nothing, or something else, delays nobody; and where ranks meet on the loopback, nobody
    # else is heard.
    @unittest.skipUnless("tcp" in sys.argv[1:2], "of the wire that listens")
    def test_strangers(self):
        strangers = []

        def visit(port):
            deadline = time.monotonic() + 10
            while len(strangers) < 12 and time.monotonic() < deadline:
                try:
                    strangers.append(socket.create_connection(("127.0.0.1", port), timeout=1))
                except OSError:
                    time.sleep(0.01)
                    continue
                if len(strangers) % 3 == 0:
                    strangers[-1].sendall(b"GET / HTTP/1.1\r\n\r\n" * 4)
            if address := outer_address():
                with self.assertRaises(OSError):
                    socket.create_connection((address, port), timeout=1)

        job = Job("groups", 4, meanwhile=visit)
        self.assertEqual(set(job.codes), {0}, job.out + job.err)
        self.assertEqual(len(strangers), 12)
        self.assertLess(job.seconds, 10)  # 5 s for each of them, before

    # Sums do not depend on the run, nor on the transport.
    def test_bits(self):
        for size in (2, 3, 5) if TRANSPORT != "mpi" else (5,):
            first = self.job("bits", size).out
            self.assertRegex(first, r"^[0-9a-f]{16}\n[0-9a-f]{16}\n$")
            self.assertEqual(self.job("bits", size).out, first)
            self.assertEqual(Job("bits", size, transport="shm").out, first)

    # Messages of 0 B to 64 MiB come in order; a full channel makes its sender wait; channels do not mix.
    def test_channels(self):
        for size in (2, 3) if TRANSPORT != "mpi" else (2,):
            self.job("channels", size)

    # A rank that stops tells the others why.
    def test_abort(self):
        self.job("aborts", 3)

    # What a collective that was never finished would receive goes nowhere.
    def test_half(self):
        self.job("ends-halfway", 2)

    # A rank that goes home early is missed. NCCL cannot tell it from a slow one.
    def test_leave(self):
        if TRANSPORT == "nccl":
            self.skipTest("a hang, which test_hang sees")
        self.job("leaves", 2)

    # Calls that do not fit together fail and do not hang. NCCL does not look; kerf-run --dry-nccl does.
    def test_disagree(self):
        if TRANSPORT == "nccl":
            self.skipTest("undefined in NCCL")
        for case in "disagree", "disagree-in-kind", "disagree-in-channel":
            self.job(case, 2)

    # A rank that is killed ends the job at once, with the signal in the status.
    def test_death(self):
        for case in "dies", "dies-in-channel":
            job = Job(case, 3)
            wanted = [0, 128 + signal.SIGKILL, 0] if TRANSPORT != "mpi" else [128 + signal.SIGKILL]
            self.assertEqual(job.codes, wanted, job.out + job.err)
            self.assertLess(job.seconds, 20)
            self.assertEqual(shared_memory(), [])

    # A rank that hangs is named, by one rank only.
    def test_hang(self):
        job = Job("hangs", 3, ends=False)
        wanted = [3, 128 + signal.SIGKILL, 3] if TRANSPORT != "mpi" else [3]
        self.assertEqual(job.codes, wanted, job.out + job.err)
        self.assertEqual(job.out, "told\n")

    # A rank that is slow is waited for.
    def test_slow(self):
        self.job("slow", 2)

    # Ranks with different files refuse to start; the status is that of a wrong input.
    def test_other_programs(self):
        job = Job("other-programs", 3)
        wanted = [128, 128, 1] if TRANSPORT != "mpi" else [1]
        self.assertEqual(job.codes, wanted, job.out + job.err)
        self.assertEqual(len(re.findall("^rank 2 runs another program than", job.err, re.M)), 3)


if __name__ == "__main__":
    TRANSPORT, SUITE = sys.argv.pop(1), os.path.abspath(sys.argv.pop(1))
    unittest.main()
