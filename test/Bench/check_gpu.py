"""Checks the arithmetic of the GPU benchmark on steps and tables made by hand."""

import json
import os
import re
import sys
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

sys.dont_write_bytecode = True
import gpu_kerf  # noqa: E402
import gpu_tables  # noqa: E402
from gpu_models import MODELS  # noqa: E402


def event(name, kind, microseconds, size):
    return {"ph": "X", "name": name, "cat": kind, "dur": microseconds, "args": {"bytes": size}}


# 10 us of launching and waiting in each: 300 us of products, 100 us of others.
STEP = [
    event("matmul", "matmul", 210, 1000),
    event("attention", "attention", 110, 1000),
    event("add", "launch", 60, 200_000_000),
    event("add", "launch", 40, 200_000_000),
    event("add", "launch", 40, 200_000_000),
    event("clip_factor", "launch", 10, 4),
    {"ph": "X", "name": "step 2", "cat": "step", "dur": 900, "args": {"step": 2}},
    {"ph": "M", "name": "process_name", "args": {"name": "rank 0"}},
]


class Trace(unittest.TestCase):
    def setUp(self):
        self.commands = gpu_kerf.commands_of(STEP)

    def test_commands_are_those_that_touch_memory(self):
        self.assertEqual(len(self.commands), 6)
        self.assertAlmostEqual(gpu_kerf.floor_of(self.commands), 10e-6)

    def test_share_outside_products(self):
        # 50 + 30 + 30 + 0 of 200 + 100 + 110
        self.assertAlmostEqual(gpu_kerf.outside_share(self.commands), 110 / 410)

    def test_gaps_are_what_no_command_fills(self):
        self.assertAlmostEqual(gpu_kerf.gap_share(self.commands, 500e-6), 1 - 410 / 500)

    def test_kernels_by_name_and_size(self):
        rows = gpu_kerf.kernels_of(self.commands, 1 << 20)
        self.assertEqual([(r["name"], r["calls"], r["bytes"]) for r in rows], [("add", 3, 200_000_000)])
        self.assertAlmostEqual(rows[0]["bytes_per_sec"] / 1e12, 5.0)

    def test_slowest_kernel_comes_first(self):
        names = [row["name"] for row in gpu_kerf.kernels_of(self.commands, 0)]
        self.assertEqual(names, ["clip_factor", "add"])


class Texts(unittest.TestCase):
    def test_memory_of_kerf_run(self):
        said = "  memory      with this arena 1.50 GiB of the device's 4.00 GiB are free"
        self.assertEqual(gpu_kerf.used_memory(said), int(2.5 * 2**30))
        self.assertIsNone(gpu_kerf.used_memory("no such line"))

    def test_cluster_by_name(self):
        names = [gpu_kerf.cluster_of(g).stem for g in ("NVIDIA H200", "NVIDIA H100 80GB HBM3", "other")]
        self.assertEqual(names, ["hgx-h200", "hgx-h100", "hgx-h200"])
        self.assertTrue(all(gpu_kerf.cluster_of(g).exists() for g in gpu_kerf.CLUSTERS))

    def test_target_by_architecture(self):
        found = [gpu_kerf.target_of(arch) for arch in ("sm_80", "sm_89", "sm_90", "sm_103", "sm_70")]
        self.assertEqual(found, ["sm_80", "sm_80", "sm_90", "sm_90", "sm_70"])

    def test_failure_names_the_error(self):
        with self.assertRaisesRegex(gpu_kerf.Failed, r"sh \(3\): error: no room"):
            gpu_kerf.run(["sh", "-c", "echo hm; echo 'error: no room' >&2; exit 3"])
        with self.assertRaisesRegex(gpu_kerf.Failed, "took more than 1 s"):
            gpu_kerf.run(["sleep", "9"], timeout=1)

    def test_models_have_no_dropout(self):
        for model in MODELS.values():
            dropped = {k: v for k, v in model.config().items() if re.search("pdrop|dropout", k)}
            self.assertFalse(any(dropped.values()), dropped)
        self.assertEqual(MODELS["llama-3-8b-8-layers"].config()["num_hidden_layers"], 8)


class Memory(unittest.TestCase):
    """What nvidia-smi reports, here a script in its place."""

    def measured(self, script):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "nvidia-smi")
            program.write_text("#!/bin/sh\n" + script)
            program.chmod(0o755)
            with unittest.mock.patch.dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"):
                with gpu_kerf.Meter() as meter:
                    time.sleep(0.5)
        return meter.bytes

    def test_highest_above_before(self):
        script = 'case "$*" in *--loop*) printf "100\\n900\\n500\\n"; exec sleep 9;; *) echo 100;; esac'
        self.assertEqual(self.measured(script), 800 << 20)

    def test_none_where_it_fails(self):
        self.assertIsNone(self.measured("echo 'no devices were found'; exit 6"))


class Pages(unittest.TestCase):
    """Tables go between the marks, and other figures or lost marks are found."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        (self.root / "docs").mkdir()
        for page, names in gpu_tables.PAGES.items():
            text = "".join(f"before {name}\n" + gpu_tables.marked(name, "") + "\nafter\n" for name in names)
            (self.root / page).write_text(text)
        self.record = json.loads((Path(__file__).parent / "Inputs/gpu-record.json").read_text())

    def tearDown(self):
        self.folder.cleanup()

    def test_written_pages_agree(self):
        self.assertEqual(gpu_tables.update(self.root, self.record, True), 1)
        self.assertEqual(gpu_tables.update(self.root, self.record, False), 0)
        self.assertEqual(gpu_tables.update(self.root, self.record, True), 0)
        text = (self.root / "README.md").read_text()
        self.assertTrue(text.startswith("before summary\n") and text.endswith("\nafter\n"))
        self.assertIn(gpu_tables.summary(self.record), text)

    def test_another_figure_is_found(self):
        gpu_tables.update(self.root, self.record, False)
        self.record["models"][0]["batch"] += 1
        self.assertEqual(gpu_tables.update(self.root, self.record, True), 1)

    def test_lost_marks_are_found(self):
        (self.root / "README.md").write_text("nothing\n")
        self.assertEqual(gpu_tables.update(self.root, self.record, True), 1)


if __name__ == "__main__":
    unittest.main()
