"""Compiled models on a device whose memory the host cannot address: the losses and weights of the
device cpu to the bit, recorded or not.

  far.py MODEL.kerf... [unittest arguments]

kerf-run is found on the PATH, and the device (test/Runtime/FarDevice.cpp) beside it in the build folder.
"""

import json
import pathlib
import shutil
import struct
import sys
import unittest

import jobs

MODELS = []


class Far(jobs.JobTest):
    def setUp(self):
        super().setUp()
        # Tokens that all the models know.
        numbers = [n * n % 89 for n in range(4096)]
        (self.folder / "t.bin").write_bytes(struct.pack("<4096H", *numbers))

    def train(self, model, *arguments, environment=None):
        """What a run printed, the losses of all steps, and the bytes of the weights."""
        name = str(len(list(self.folder.iterdir())))
        process = self.launch(
            "kerf-run", model, "--data=t.bin", "--data-format=u16", "--steps=6", "--threads=1", "--eval-every=2",
            f"--log-json={name}.jsonl", f"--save-weights={name}", *arguments, environment=environment,
        )  # fmt: skip
        out, _ = self.end(process, 0)
        lines = [json.loads(line) for line in (self.folder / f"{name}.jsonl").read_text().splitlines() if '"run"' not in line]
        losses = [{k: v for k, v in line.items() if "loss" in k or "norm" in k} for line in lines]
        weights = {p.name: p.read_bytes() for p in (self.folder / name).glob("*.safetensors")}
        self.assertTrue(weights)
        self.assertGreaterEqual(len([x for x in losses if x]), 6)
        return out, losses, weights

    def test_same_bits(self):
        for model in MODELS:
            with self.subTest(model):
                out, losses, weights = self.train(model)
                self.assertNotIn("far cpu", out)
                for arguments, extra in [
                    ([], {}),
                    (["--profile"], {}),
                    (["--trace=t.json"], {}),
                    ([], {"KERF_NO_GRAPH": "1"}),
                ]:
                    far = self.train(model, *arguments, environment={"KERF_PLUGIN_PATH": DEVICE} | extra)
                    self.assertIn("far cpu: ", far[0])
                    self.assertRegex(far[0], r"memory +with this arena .* of the device's 1.00 GiB are free")
                    self.assertEqual(far[1:], (losses, weights))

    # The doctor tells what the driver of the device reports, and that an arena of a rank must fit there.
    def test_doctor(self):
        process = self.launch("kerf-run", MODELS[0], "--doctor", environment={"KERF_PLUGIN_PATH": DEVICE})
        out, _ = self.end(process, 0)
        self.assertRegex(out, r"\n  cpu +far cpu: .*\n +1.00 GiB of 1.00 GiB are free\n  cuda ")
        self.assertRegex(out, r"\n  device +.* needed, 1.00 GiB available\n")
        self.assertTrue(out.endswith("\nnothing is missing\n"))

    # What goes wrong on the device is told at the end of the step; with --profile, the command is named.
    def test_failures(self):
        environment = {"KERF_PLUGIN_PATH": DEVICE, "KERF_FAR_FAIL": "20"}
        for arguments, message in [
            ([], r"the device failed in this run: step 20 was told to fail; run with --profile"),
            (["--profile"], r"step 1: '.*' \(\w+.*\): step 20 was told to fail\n"),
        ]:
            process = self.launch(
                "kerf-run", MODELS[0], "--data=t.bin", "--data-format=u16", "--steps=3", *arguments,
                environment=environment,
            )  # fmt: skip
            _, err = self.end(process, 128)
            self.assertRegex(err, message)


if __name__ == "__main__":
    while len(sys.argv) > 1 and sys.argv[1].endswith(".kerf"):
        MODELS.append(str(pathlib.Path(sys.argv.pop(1)).resolve()))
    binary = pathlib.Path(shutil.which("kerf-run")).resolve()
    DEVICE = str(binary.parent.parent / "test/Runtime/plugins/far")
    unittest.main()
