"""What --trace writes, in good order and when ranks die.

  trace.py MODEL.kerf [unittest arguments]

The model has two stages, one rank each. kerf-run and kerf-inspect are found on the PATH.
"""

import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import jobs

MODEL = ""
# Times are written in thousandths of a microsecond.
ROUNDING = 0.002


def schedules():
    """The calls of a training step by stage, as (kind, chunk, micro-batch), from the listing of the file."""
    listing = subprocess.run(["kerf-inspect", "program", MODEL], check=True, text=True, capture_output=True).stdout
    found = []
    for part in listing.split("step: ")[1:]:
        calls = []
        for name, micro in re.findall(r"^ +\d+  (\w+) micro-batch (\d+)\b", part.split("evaluation: ")[0], re.M):
            base, _, chunk = name.partition("_")
            kind = {"weights": "weight gradient"}.get(base, base)
            has_micro = kind in ("forward", "backward", "weight gradient")
            calls.append((kind, int(chunk or 0), int(micro)) if has_micro else (name, None, None))
        found.append(calls)
    return found


class Trace(jobs.JobTest):
    def start(self, *arguments):
        return self.launch("kerf-run", MODEL, "--data=text.txt", "--trace=t.json", *arguments)

    def trace(self):
        return json.loads((self.folder / "t.json").read_text())

    def events(self, trace):
        return [e for e in trace["traceEvents"] if e["ph"] == "X"]

    def files(self):
        return sorted(p.name for p in self.folder.iterdir())

    def by(self, events, key):
        groups = collections.defaultdict(list)
        for event in sorted(events, key=lambda e: e["ts"]):
            groups[key(event)].append(event)
        return groups

    def whole_steps(self, trace):
        """(rank, step) whose calls are the schedule; fails on anything else but a step that was cut short."""
        expected, whole = schedules(), []
        calls = [e for e in self.events(trace) if e["tid"] == 3]
        for (rank, step), made in sorted(self.by(calls, lambda e: (e["pid"], e["args"]["step"])).items()):
            names = [(e["cat"], e["args"].get("chunk"), e["args"].get("micro_batch")) for e in made]
            self.assertEqual(names, expected[rank][: len(names)])
            for call, (kind, _, micro) in zip(made, names):
                self.assertEqual(call["name"], kind if micro is None else f"{kind} {micro}")
            if len(names) == len(expected[rank]):
                whole.append((rank, step))
        return whole

    # Two traced steps: every call of the schedule in its order, commands inside of their calls, no two events at a
    # time on one engine, and no message received before its sending began.
    def test_a_run(self):
        out, _ = self.end(self.start("--steps=4", "--trace-steps=2..3"), 0)
        self.assertIn(" wrote 't.json': steps 2..3 of 2 ranks\n", out)
        self.assertEqual(self.files(), ["t.json", "text.txt"])
        trace = self.trace()
        self.assertTrue(trace["otherData"]["complete"])
        names = {e["pid"]: e["args"] for e in trace["traceEvents"] if e["name"] == "process_name"}
        self.assertEqual(names, {r: {"name": f"rank {r}, stage {r}", "stage": r} for r in (0, 1)})
        self.assertEqual(self.whole_steps(trace), [(r, s) for r in (0, 1) for s in (2, 3)])

        events = self.events(trace)
        for (_, thread), row in self.by(events, lambda e: (e["pid"], e["tid"])).items():
            for a, b in zip(row, row[1:]):
                self.assertLessEqual(a["ts"] + a["dur"], b["ts"] + ROUNDING, (thread, a, b))
        spans = {(e["pid"], e["args"]["step"], e["name"], e["args"].get("chunk")): e for e in events if e["tid"] == 3}
        commands = [e for e in events if e["tid"] < 3]
        self.assertGreater(len(commands), 100)
        for e in commands:
            a = e["args"]
            call = spans[e["pid"], a["step"], a["call"], a.get("chunk")]
            self.assertLessEqual(call["ts"], e["ts"] + ROUNDING)
            self.assertLessEqual(e["ts"] + e["dur"], call["ts"] + call["dur"] + ROUNDING)

        messages = [e for e in events if e["tid"] == 1]
        ends = self.by(messages, lambda e: (e["args"]["channel"], e["args"]["step"],
                                            *((e["pid"], e["args"]["peer"]) if e["cat"] == "send"
                                              else (e["args"]["peer"], e["pid"])), e["cat"]))  # fmt: skip
        pairs = 0
        for (*channel, kind), sends in ends.items():
            if kind != "send":
                continue
            receives = ends[(*channel, "receive")]
            self.assertEqual(len(sends), len(receives))
            for s, r in zip(sends, receives):
                self.assertLess(s["ts"], r["ts"] + r["dur"])
                self.assertEqual(s["args"]["bytes"], r["args"]["bytes"])
                pairs += 1
        self.assertEqual(2 * pairs, len(messages))
        self.assertGreater(pairs, 0)

    # The steps that are traced when none are named, and where there are fewer.
    def test_default_steps(self):
        for steps, traced in (9, {2, 3, 4}), (2, {2}), (1, {1}):
            self.end(self.start(f"--steps={steps}"), 0)
            self.assertEqual({e["args"]["step"] for e in self.events(self.trace())}, traced)

    # A disk that fills ends no training. Whole lines of the parts are merged where there is room; a part that has no end is named.
    def test_full_disk(self):
        command = "ulimit -f 1200; exec kerf-run \"$@\""
        out, err = self.end(self.launch("bash", "-c", command, "-", MODEL, "--data=text.txt", "--trace=t.json",
                                        "--steps=300", "--trace-steps=2..290"), 0)  # fmt: skip
        self.assertIn(" iteration      300/     300", out)
        for rank in (0, 1):
            self.assertIn(f"  note        the trace lacks the end of rank {rank}: File too large\n", out)
        self.assertIn("  note        the trace stays in parts beside 't.json': cannot write 't.json': File too large\n", out)
        self.assertEqual(self.files(), ["t.json.rank0.part", "t.json.rank1.part", "text.txt"])
        self.assertNotIn("note", err)

    # A rank that is killed: what all ranks had done until then is kept, said, and sound.
    def test_kill(self):
        process = self.start("--steps=100000", "--trace-steps=2..100000")
        for line in process.stdout:
            if re.match(r" iteration +20/", line):
                break
        ranks = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(ranks[1]), signal.SIGKILL)
        _, err = self.end(process, 128 + signal.SIGKILL)
        self.assertTrue(err.endswith("\nkerf-run: note: the trace until then is in 't.json'\n"), err)
        self.assertEqual(self.files(), ["t.json", "text.txt"])
        self.assertFalse(self.trace()["otherData"]["complete"])
        whole = self.whole_steps(self.trace())
        self.assertLessEqual({(r, s) for r in (0, 1) for s in range(2, 20)}, set(whole))

    # A run that fails before its first traced step leaves an older trace alone; files that are no parts are not
    # replaced; parts that the killed launcher of an older job left are.
    def test_other_files(self):
        (self.folder / "t.json").write_text("older")
        (self.folder / "t.json.rank1.part").write_text("mine")
        _, err = self.end(self.start("--steps=3"), 1)
        self.assertEqual(err, "kerf-run: rank 1: error: cannot write 't.json.rank1.part': File exists\n")
        self.assertEqual((self.folder / "t.json").read_text(), "older")
        self.assertEqual((self.folder / "t.json.rank1.part").read_text(), "mine")
        self.assertEqual(self.files(), ["t.json", "t.json.rank1.part", "text.txt"])
        (self.folder / "t.json.rank1.part").unlink()

        process = self.start("--steps=100000", "--trace-steps=2..100000")
        for line in process.stdout:
            if re.match(r" iteration +4/", line):
                break
        process.kill()
        process.communicate(timeout=60)
        self.assertEqual((self.folder / "t.json").read_text(), "older")
        time.sleep(0.2)  # Its ranks die with it.
        self.assertEqual(len(self.files()), 4)
        self.end(self.start("--steps=3"), 0)
        self.assertEqual(self.whole_steps(self.trace()), [(r, s) for r in (0, 1) for s in (2, 3)])
        self.assertEqual(self.files(), ["t.json", "text.txt"])

    # What cannot be is said before anything runs.
    def test_refused(self):
        for arguments, message in [
            (["--steps=3", "--trace-steps=7..9"], "'--trace' has no step to trace: this run makes steps 1..3"),
            (["--steps=3", "--trace=."], "cannot write '.': it is a folder"),
            (["--steps=3", "--trace=/dev/null"], "cannot write '/dev/null': '--trace' needs a file that it can make parts beside"),
            (["--steps=3", "--trace=no/t.json"], "cannot write 'no/t.json': there is no folder 'no'"),
        ]:
            _, err = self.end(self.start(*arguments), 1)
            self.assertEqual(err, f"kerf-run: error: {message}\n")


if __name__ == "__main__":
    MODEL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
