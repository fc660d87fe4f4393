"""A compiled language model under kerf-run.

  end_to_end.py MODEL.kerf OTHER.kerf

OTHER is the same model for another number of ranks. It has a vocabulary of 256 and few parameters;
kerf-run is found on the PATH.
"""

import json
import os
import pathlib
import signal
import struct
import sys
import unittest

import jobs

MODEL = OTHER = ""


class Compiled(jobs.JobTest):
    def start(self, *arguments, model=None):
        return self.launch("kerf-run", model or MODEL, "--data=text.txt", *arguments)

    def run_program(self, *arguments, status=0, **others):
        out, err = self.end(self.start(*arguments, **others), status, seconds=300)
        return out + err

    def losses(self, *arguments, status=0, model=None):
        """Loss by step of a run with these arguments, and what it printed."""
        log = self.folder / "log.json"
        log.unlink(missing_ok=True)
        out = self.run_program(f"--log-json={log}", *arguments, status=status, model=model)
        lines = [json.loads(line) for line in log.read_text().splitlines() if '"run"' not in line]
        return {line["iteration"]: line["loss"] for line in lines if "loss" in line}, out

    def test_learns(self):
        losses, out = self.losses("--steps=60", "--lr=1e-2", "--heldout=0.1", "--eval-every=30")
        self.assertLess(losses[60], 0.7 * losses[1])
        self.assertEqual(out.count("held-out loss at iteration"), 3)

    def test_same_every_time_and_for_any_number_of_threads(self):
        first, _ = self.losses("--steps=5", "--lr=1e-2")
        for more in ([], ["--threads=1"], ["--threads=2"], ["--log-every=3"],
                     ["--heldout=0.1", "--eval-every=2"]):  # fmt: skip
            if "--heldout=0.1" in more:
                first, _ = self.losses("--steps=5", "--lr=1e-2", "--heldout=0.1", "--eval-every=9")
            self.assertEqual(self.losses("--steps=5", "--lr=1e-2", *more)[0], first, more)
        self.assertNotEqual(self.losses("--steps=5", "--lr=1e-2", "--seed=1")[0], first)

    def test_resume_is_bitwise(self):
        whole, _ = self.losses("--steps=12", "--lr=1e-2")
        self.losses("--steps=5", "--lr=1e-2", "--decay-steps=12", "--warmup=0", "--save-state=s")
        rest, out = self.losses("--steps=12", "--resume=s")
        self.assertIn("from step 5", out)
        self.assertEqual(rest, {k: v for k, v in whole.items() if k > 5})

    def test_other_layout_goes_on(self):
        whole, _ = self.losses("--steps=12", "--lr=1e-2")
        self.losses("--steps=5", "--lr=1e-2", "--decay-steps=12", "--warmup=0", "--save-state=s")
        rest, _ = self.losses("--steps=12", "--resume=s", model=OTHER)
        self.assertEqual(sorted(rest), list(range(6, 13)))
        for step, loss in rest.items():
            self.assertLess(abs(loss - whole[step]), 1e-5 * whole[step])

    # A constant rate has no end: it goes on lower, or decays to the end of the run that says so.
    def test_constant_rate_goes_on(self):
        constant = ("--lr-schedule=constant", "--warmup=0")
        self.losses("--steps=5", "--lr=1e-2", *constant, "--save-state=s")
        _, out = self.losses("--steps=8", "--resume=s", "--lr=1e-4")
        self.assertIn("constant, learning rate 0.0001, 0 steps of warm-up", out)
        _, out = self.losses("--steps=12", "--resume=s", "--lr-schedule=linear")
        self.assertIn("linear, learning rate 0.01 to 0.001 at step 12, 0 steps", out)

    # A text and a dataset of Megatron-LM, mixed: the other number of ranks goes on with the same sequences.
    def test_mixed_data_goes_on(self):
        tokens = b"another text, in three documents. " * 300
        (self.folder / "d.bin").write_bytes(tokens)
        parts = (len(tokens) // 2, len(tokens) // 4, len(tokens) // 4)
        starts = (0, parts[0], parts[0] + parts[1])
        (self.folder / "d.idx").write_bytes(struct.pack(
            "<9sQBQQ3i3q4q", b"MMIDIDX", 1, 1, 3, 4, *parts, *starts, 0, 1, 2, 3))  # fmt: skip
        mix = ("--data=d", "--lr=1e-2", "--heldout=0.1", "--eval-every=4")
        whole, out = self.losses("--steps=12", *mix)
        self.assertIn("'d.bin', 10,200 tokens (megatron, 8 bits, 3 documents, by its index)", out)
        self.losses("--steps=5", *mix, "--decay-steps=12", "--warmup=0", "--save-state=s")
        rest, _ = self.losses("--steps=12", "--data=d", "--heldout=0.1", "--eval-every=4", "--resume=s")
        self.assertEqual(rest, {k: v for k, v in whole.items() if k > 5})
        rest, _ = self.losses("--steps=12", "--data=d", "--heldout=0.1", "--resume=s", model=OTHER)
        self.assertEqual(sorted(rest), list(range(6, 13)))
        for step, loss in rest.items():
            self.assertLess(abs(loss - whole[step]), 1e-5 * whole[step])

    def test_signal_saves(self):
        process = self.start("--steps=100000", "--save-state=s", "--save-weights=w", "--lr=1e-2", "--warmup=0")
        for line in process.stdout:
            if " iteration        3/" in line:
                break
        process.terminate()
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, out + err)
        self.assertIn("saved the state of step", out)
        self.assertEqual(len(list(self.folder.glob("s/step-*/manifest.json"))), 1)
        self.assertTrue((self.folder / "w/model.safetensors").exists())

    def test_weights_come_back(self):
        self.losses("--steps=5", "--lr=1e-2", "--save-weights=w")
        first = (self.folder / "w/model.safetensors").read_bytes()
        self.losses("--steps=0", "--init-from=w", "--save-weights=again.safetensors")
        self.assertEqual((self.folder / "again.safetensors").read_bytes(), first)
        one, _ = self.losses("--steps=1", "--init-from=w")
        two, _ = self.losses("--steps=1", "--init-from=again.safetensors")
        self.assertEqual(one, two)
        self.assertNotEqual(one, self.losses("--steps=1")[0])

    def test_loss_that_is_no_number(self):
        self.losses("--steps=1", "--save-weights=w.safetensors")
        data = bytearray((self.folder / "w.safetensors").read_bytes())
        start = 8 + struct.unpack("<Q", data[:8])[0]
        for at in range(start, len(data) - 3, 4):
            data[at : at + 4] = struct.pack("<f", 3e38 if at % 8 else -3e38)
        (self.folder / "w.safetensors").write_bytes(data)
        _, out = self.losses("--steps=3", "--init-from=w.safetensors", status=1)
        self.assertRegex(out, r"the loss of step 1 is -?(nan|inf); --check-nans names the op")
        out = self.run_program("--steps=3", "--init-from=w.safetensors", "--check-nans", status=1)
        self.assertRegex(out, r"error: step 1: .*'[^']+'")

    def test_weights_that_are_no_numbers_are_told_once(self):
        self.losses("--steps=0", "--save-weights=w.safetensors")
        data = (self.folder / "w.safetensors").read_bytes()
        (self.folder / "w.safetensors").write_bytes(data[:-4] + struct.pack("<f", float("inf")))
        out = self.run_program("--steps=1", "--init-from=w.safetensors", status=1)
        self.assertRegex(out, r"cannot start from 'w.safetensors': tensor '[^']+' is not finite: element \d+ is inf")
        self.assertEqual(out.count("is not finite"), 1, out)

    def test_damaged_artifact(self):
        data = pathlib.Path(MODEL).read_bytes()
        bad = self.folder / "bad.kerf"
        for name, damaged in (
            ("damaged", data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]),
            ("truncated", data[: len(data) // 2]),
        ):
            bad.write_bytes(damaged)
            self.assertIn(name, self.run_program(model=str(bad), status=1))

    def test_data(self):
        (self.folder / "text.txt").write_text("short")
        self.assertIn("shorter than one sample", self.run_program(status=1))


if __name__ == "__main__":
    MODEL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    OTHER = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
