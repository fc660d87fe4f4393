"""What kerf-run does when ranks die, hang, differ or are told to stop.

  faults.py MODEL.kerf OTHER.kerf [unittest arguments]

Both are for two ranks or more, the same number. kerf-run is found on the PATH.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import sys
import time
import unittest

import jobs
from jobs import children

MODEL = OTHER = ""
TRANSPORTS = ["shm"] + (["mpi"] if shutil.which("mpirun") else [])


def lives(pid):
    """Runs: is there and no zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def segments(pid):
    """Named shared memory of the job that launcher `pid` started."""
    prefix = f"kerf-{os.getuid()}-kerf-{pid}-"
    return [name for name in os.listdir("/dev/shm") if name.startswith(prefix)]


class Faults(jobs.JobTest):
    def start(self, *arguments, model=None, environment=None):
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return self.launch(
            "kerf-run", model or MODEL, "--data=text.txt", "--steps=1000000", *arguments,
            environment=root | (environment or {}),
        )  # fmt: skip

    def ranks(self, process):
        """Process numbers of the ranks, once all are there."""
        found = []
        while len(found) < 2 and process.poll() is None:
            found = children(process.pid)
            time.sleep(0.001)
        return found

    def step(self, process, number):
        """Reads on until this step was made."""
        for line in process.stdout:
            if re.match(rf" iteration +{number}/", line):
                return
        self.fail(f"no step {number}: {process.stderr.read()}")

    def assert_gone(self, processes):
        """They were killed by somebody who did not wait for them."""
        until = time.monotonic() + 10
        while any(map(lives, processes)) and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual([p for p in processes if lives(p)], [])

    # Whenever a rank is killed, the job ends with that signal, says which rank it was, and leaves nothing.
    def test_kill_of_a_rank(self):
        for moment, rank in (0, 0), (0, 1), (0.01, 1), (0.03, 0), (0.1, 1), (0.4, 0):
            process = self.start()
            ranks = self.ranks(process)
            time.sleep(moment)
            os.kill(ranks[rank], signal.SIGKILL)
            _, err = self.end(process, 128 + signal.SIGKILL)
            self.assertEqual(err, f"kerf-run: error: rank {rank} was killed by signal 9 (Killed)\n")
            self.assertEqual([p for p in ranks if lives(p)], [])
            self.assertEqual(segments(process.pid), [])

    # A job that saves its state says from what step, and by which command, it goes on; that command does.
    def test_how_to_go_on(self):
        process = self.start("--save-state=my state", "--save-every=2", "--warmup=0", "--init-from=nothing")
        self.end(process, 1)  # What is wrong comes again: nothing is said of resuming.
        process = self.start("--save-state=my state", "--save-every=2", "--warmup=0")
        ranks = self.ranks(process)
        self.step(process, 6)
        os.kill(ranks[1], signal.SIGKILL)
        _, err = self.end(process, 128 + signal.SIGKILL)
        found = re.search(r"note: 'my state' has step (\d+); to go on from it:\n  (kerf-run .*)\n", err)
        self.assertTrue(found, err)
        self.assertGreaterEqual(int(found[1]), 2)
        self.assertEqual(shlex.split(found[2])[-2:], ["--resume", "my state"])
        process = self.launch(*shlex.split(found[2]))
        self.step(process, int(found[1]) + 1)
        process.terminate()
        self.end(process, 128 + signal.SIGTERM)

    # No rank outlives its launcher.
    def test_kill_of_the_launcher(self):
        process = self.start()
        ranks = self.ranks(process)
        self.step(process, 3)
        process.kill()
        process.communicate(timeout=60)
        self.assert_gone(ranks)
        self.assertEqual(segments(process.pid), [])

    # A rank that stands still is named once, with the command where the others wait for it.
    def test_hang(self):
        process = self.start("--hang-timeout=0.5")
        ranks = self.ranks(process)
        self.step(process, 3)
        os.kill(ranks[1], signal.SIGSTOP)
        _, err = self.end(process, 128)
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertRegex(
            err,
            r"^kerf-run: rank \d+: error: (step \d+: '.+' \(.+\): )?"
            r"waited \S+ s in a group of ranks \d.*; late: rank 1 \(process (\d+) on '([^']+)'\) (in '.+' \(.+\)|outside of a step)\n$",
        )
        process, host = re.search(r"late: rank 1 \(process (\d+) on '([^']+)'\)", err).groups()
        self.assertEqual((int(process), host), (ranks[1], socket.gethostname()[:39]))
        self.assertEqual([p for p in ranks if lives(p)], [])

    # Ranks that were started with different files refuse.
    def test_different_files(self):
        world = self.count_ranks()
        processes = []
        for rank in range(world):
            environment = {
                "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20000 + os.getpid() % 40000),
            }  # fmt: skip
            model = OTHER if rank == 1 else MODEL
            processes.append(self.start(model=model, environment=environment))
        message = "rank 1 runs another program than rank 0: start all ranks with the same file"
        for rank, process in enumerate(processes):
            _, err = self.end(process, 1 if rank == 1 else 128)
            self.assertIn(message, err)

    # A rank that waits for others that never come still ends when it is told to.
    def test_stop_before_all_came(self):
        for rank in ("0", "1"):
            environment = {"RANK": rank, "WORLD_SIZE": str(self.count_ranks()),
                           "MASTER_PORT": str(20000 + os.getpid() % 40000)}  # fmt: skip
            process = self.start("--transport=tcp", environment=environment)
            time.sleep(0.5)
            self.assertIsNone(process.poll())
            process.terminate()
            self.end(process, -signal.SIGTERM, seconds=10)

    def test_wrong_port(self):
        for port in ("0", "65536", "29500x"):
            environment = {"RANK": "1", "WORLD_SIZE": str(self.count_ranks()), "MASTER_PORT": port}
            process = self.start("--transport=tcp", environment=environment)
            _, err = self.end(process, 1, seconds=10)
            self.assertIn(f"MASTER_PORT is '{port}', expected a port from 1 to 65535", err)

    def count_ranks(self):
        process = self.start()
        self.ranks(process)
        self.step(process, 1)
        ranks = len(children(process.pid))
        process.terminate()
        process.communicate(timeout=60)
        return ranks

    # Told to stop, all ranks end after the same step, and save; every transport goes on bit for bit.
    def test_stop(self):
        losses = {}
        for transport in TRANSPORTS:
            process = self.start(f"--transport={transport}", f"--save-state={transport}", "--warmup=0")
            self.step(process, 3)
            process.terminate()
            # As timeout does, which tells the job and then its own group; mpirun kills for that.
            for rank in children(process.pid) if transport != "mpi" else ():
                os.kill(rank, signal.SIGTERM)
            out, _ = self.end(process, 128 + signal.SIGTERM)
            self.assertIn("saved the state of step", out)
            log = self.folder / f"{transport}.json"
            process = self.start(f"--transport={transport}", "--resume=shm", f"--log-json={log}")
            while not log.exists() or len(log.read_text().splitlines()) < 5:
                self.assertIsNone(process.poll())
                time.sleep(0.01)
            process.terminate()
            self.end(process, 128 + signal.SIGTERM)
            lines = [json.loads(line) for line in log.read_text().splitlines() if '"run"' not in line]
            lines = [line for line in lines if "loss" in line]
            losses[transport] = [(line["iteration"], line["loss"]) for line in lines[:3]]
        for transport in TRANSPORTS:
            self.assertEqual(losses[transport], losses["shm"])

    # Under mpirun a killed rank ends the job with the same status.
    @unittest.skipIf("mpi" not in TRANSPORTS, "no mpirun")
    def test_kill_of_a_rank_of_mpi(self):
        process = self.start("--transport=mpi")
        self.step(process, 3)
        starter = children(process.pid)
        ranks = [p for p in children(starter[0]) if "kerf-run" in
                 pathlib.Path(f"/proc/{p}/cmdline").read_text()]  # fmt: skip
        self.assertGreater(len(ranks), 1)
        os.kill(ranks[1], signal.SIGKILL)
        out, err = self.end(process, 128 + signal.SIGKILL)
        self.assertRegex(out + err, r"process rank 1 .* exited on signal 9")
        self.assert_gone(starter + ranks)

    SUPERVISED = ("--save-state=s", "--save-every=2", "--warmup=0", "--log-json=log.json")

    def kill_one(self, process):
        ranks = self.ranks(process)
        os.kill(ranks[1], signal.SIGKILL)

    # A job whose rank is killed goes on from the newest state, and ends as if nothing had been.
    def test_starts_again(self):
        process = self.start(*self.SUPERVISED, "--max-restarts=2", "--steps=300")
        self.step(process, 6)
        self.kill_one(process)
        out, err = self.end(process, 0)
        self.assertRegex(err, r"note: rank 1 was killed by signal 9 \(Killed\) (in|after) step \d+; restart 1 of 2 within an "
                              r"hour, from 's/step-\d+', in 1 s\n$")  # fmt: skip
        self.assertIn("saved the state of step 300 in 's/step-300'", out)
        history = json.loads((self.folder / "s/run.json").read_text())
        attempts = history["attempts"]
        self.assertEqual([attempt["status"] for attempt in attempts], [137, 0])
        self.assertEqual([attempt["from_step"] for attempt in attempts], [0, int(re.search(r"step-(\d+)'", err)[1])])
        self.assertEqual(attempts[1]["to_step"], 300)
        self.assert_told(attempts[0])
        self.assertIn("rank 1 was killed by signal 9", attempts[0]["fault"])
        self.assertIsNone(attempts[1]["fault"])
        found = {}
        for line in (self.folder / "log.json").read_text().splitlines():
            said = json.loads(line)
            if "loss" in said:
                self.assertEqual(found.setdefault(said["iteration"], said["loss"]), said["loss"])
        self.assertEqual(sorted(found), list(range(1, 301)))
        self.assert_time(history, out)

    # The parts of a job's time are all of it, and steps that count take as long as they say.
    def assert_time(self, history, out):
        time, attempts = history["time"], history["attempts"]
        parts = {name: time[name] for name in ("productive", "lost", "starting", "waiting", "saving", "other")}
        self.assertAlmostEqual(sum(parts.values()), time["seconds"], delta=0.01)
        self.assertEqual(time["starts"], len(attempts))
        ran = sum(attempt["seconds"] for attempt in attempts)
        self.assertAlmostEqual(time["seconds"], ran + time["waiting"], delta=0.1)
        self.assertGreaterEqual(time["waiting"], len(attempts) - 1)
        steps = {}
        for line in (self.folder / "log.json").read_text().splitlines():
            said = json.loads(line)
            if "elapsed_ms" in said:
                steps[said["iteration"]] = said["elapsed_ms"] / 1000
        self.assertGreater(time["productive"], 0.99 * sum(steps.values()))
        self.assertAlmostEqual(time["goodput"], time["productive"] / time["seconds"], delta=1e-3)
        self.assertIn("the job took", out)
        shown = re.search(r"productive +(\d+\.\d) s", out)
        self.assertTrue(shown, out)
        # run.json is rounded itself, so a half may go either way.
        self.assertAlmostEqual(float(shown[1]), time["productive"], delta=0.0511)

    # States that were there before are another run's.
    def test_leaves_states_of_others_alone(self):
        self.end(self.start("--save-state=s", "--warmup=0", "--steps=20"), 0)
        _, err = self.end(self.start("--save-state=s", "--save-every=5", "--max-restarts=2"), 1)
        self.assertIn("'s' has the states of another run, up to step 20", err)
        self.assertNotIn("restart 1", err)

    # Before its first save a job begins anew; signals reach ranks of a second start, too.
    def test_starts_again_from_the_start(self):
        process = self.start("--save-state=s", "--save-every=1000000", "--max-restarts=2", "--trace=t.json", "--trace-steps=2..3")
        self.step(process, 6)
        self.kill_one(process)
        self.step(process, 1)
        self.step(process, 4)
        process.terminate()
        out, err = self.end(process, 128 + signal.SIGTERM)
        self.assertIn("restart 1 of 2 within an hour, from the start", err)
        self.assertIn("saved the state of step ", out)

    def test_trace_is_made_once(self):
        process = self.start(*self.SUPERVISED, "--max-restarts=2", "--trace=t.json", "--trace-steps=2..3", "--steps=200")
        self.step(process, 8)
        self.kill_one(process)
        out, _ = self.end(process, 0)
        self.assertIn("the steps of '--trace' were made before the job was started again", out)
        self.assertIn("traceEvents", (self.folder / "t.json").read_text())

    def test_restarts_are_counted(self):
        process = self.start(*self.SUPERVISED, "--max-restarts=1")
        self.step(process, 6)
        self.kill_one(process)
        self.step(process, 8)
        time.sleep(0.1)
        self.kill_one(process)
        _, err = self.end(process, 128 + signal.SIGKILL)
        self.assertIn("error: 1 restart within an hour: not started again", err)

    # What the program does each time is no fault of the machine.
    def test_same_fault_again(self):
        process = self.start(*self.SUPERVISED, "--max-restarts=9", "--lr=1e30")
        _, err = self.end(process, 1)
        self.assertRegex(err, r"the loss was no number in step (\d+); restart 1 of 9[^\n]*\n(.*\n)*"
                              r"[^\n]*error: the loss was no number in step \1 again: the same fault")  # fmt: skip

    def test_what_is_wrong_is_not_tried_again(self):
        process = self.start(*self.SUPERVISED, "--max-restarts=9", "--init-from=nothing")
        _, err = self.end(process, 1)
        self.assertNotIn("restart", err)
        process = self.start("--max-restarts=9")
        _, err = self.end(process, 1)
        self.assertIn("'--max-restarts' needs '--save-state=DIR'", err)

    # What is wrong for all ranks is told by one.
    def test_no_place_for_states(self):
        _, err = self.end(self.start("--save-state=text.txt/s"), 1)
        self.assertEqual(err, "kerf-run: rank 0: error: the state cannot be saved: cannot make the folder 'text.txt/s': "
                              "Not a directory\n")  # fmt: skip

    def test_stop_between_two_starts(self):
        process = self.start(*self.SUPERVISED, "--max-restarts=9")
        self.step(process, 4)
        self.kill_one(process)
        for line in process.stderr:
            if "restart 1 of 9" in line:
                break
        process.terminate()
        self.end(process, 128 + signal.SIGTERM, seconds=10)

    # A rank that stands still is a fault of the machine, too.
    def test_hang_starts_again(self):
        process = self.start(*self.SUPERVISED, "--max-restarts=2", "--steps=300", "--hang-timeout=0.5")
        self.step(process, 6)
        os.kill(self.ranks(process)[1], signal.SIGSTOP)
        _, err = self.end(process, 0)
        self.assertRegex(err, r"note: nothing moved in the job (in|after) step \d+; restart 1 of 2")
        first = self.attempts()[0]
        self.assertRegex(first["fault"], r"^nothing moved in the job (in|after) step \d+$")
        self.assert_told(first)

    def attempts(self):
        return json.loads((self.folder / "s/run.json").read_text())["attempts"]

    def assert_told(self, attempt):
        """The attempt has the steps that were made, and its fault the step that it was in, or that was over."""
        made = self.made()
        self.assertEqual(attempt["to_step"], made)
        place, step = re.search(r" (in|after) step (\d+)$", attempt["fault"]).groups()
        self.assertEqual(int(step), made + (place == "in"))

    def made(self):
        """The last step that the log of the first attempt has."""
        first = (self.folder / "log.json").read_text().split('{"run"')[1]
        return max(json.loads(line)["iteration"] for line in first.splitlines() if '"loss"' in line)

    # Who was asked to end did not fail.
    def test_who_asked_is_told(self):
        process = self.start(*self.SUPERVISED, "--max-restarts=2")
        self.step(process, 4)
        process.terminate()
        self.end(process, 128 + signal.SIGTERM)
        first = self.attempts()[0]
        self.assertRegex(first["fault"], r"^the job was asked to end by signal 15 \(Terminated\) after step \d+$")
        self.assert_told(first)

    # A closed terminal asks as the others do; under nohup it says nothing.
    def test_hangup(self):
        process = self.start("--save-state=s", "--warmup=0")
        self.step(process, 4)
        process.send_signal(signal.SIGHUP)
        out, _ = self.end(process, 128 + signal.SIGHUP)
        self.assertIn("saved the state of step ", out)
        process = self.launch("nohup", "kerf-run", MODEL, "--data=text.txt", "--steps=200", "--log-every=1")
        self.step(process, 4)
        for pid in [process.pid, *self.ranks(process)]:
            os.kill(pid, signal.SIGHUP)
        self.end(process, 0)

    # A job that was suspended did not hang.
    def test_suspended(self):
        process = self.start("--hang-timeout=2", "--steps=300")
        others, last = [process.pid, *self.ranks(process)[:-1]], self.ranks(process)[-1]
        self.step(process, 3)
        os.kill(last, signal.SIGSTOP)
        time.sleep(0.5)  # now the others wait
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(3)
        for pid in others:
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.3)
        os.kill(last, signal.SIGCONT)
        self.end(process, 0)

    # The doctor looks at the machine with the eyes of the model.
    def test_doctor(self):
        out, _ = self.end(self.start("--doctor"), 0)
        for word in ("processor", "cores", "/dev/shm", "devices", "transports", "ranks", "needed"):
            self.assertIn(word, out)
        self.assertTrue(out.endswith("\nnothing is missing\n"))
        out, _ = self.end(self.start("--doctor", "--plugin-path=nowhere", "--transport=mpi"),
                          0 if "mpi" in TRANSPORTS else 1)  # fmt: skip
        self.assertIn("mpi", out)


if __name__ == "__main__":
    MODEL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    OTHER = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
