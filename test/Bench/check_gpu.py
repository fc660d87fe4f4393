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
import gpu_torch  # noqa: E402
from gpu_models import MODELS, TINY, chosen, replaced, unknown  # noqa: E402

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
import models as peer_models  # noqa: E402


def event(name, kind, microseconds, size):
    return {"ph": "X", "name": name, "cat": kind, "dur": microseconds, "args": {"bytes": size}}


# 10 us of launching and waiting in each: 300 us of matmuls, 100 us of others.
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

    def test_share_outside_matmuls(self):
        # 60 + 40 + 40 + 10 of 210 + 110 + 150
        self.assertAlmostEqual(gpu_kerf.outside_share(self.commands), 150 / 470)

    def test_gaps_are_what_no_command_fills(self):
        self.assertAlmostEqual(gpu_kerf.gap_share(self.commands, 500e-6), 1 - 470 / 500)

    def test_kernels_by_name_and_size(self):
        rows = gpu_kerf.kernels_of(self.commands, 1 << 20)
        self.assertEqual([(r["name"], r["calls"], r["bytes"]) for r in rows], [("add", 3, 200_000_000)])
        self.assertAlmostEqual(rows[0]["bytes_per_sec"] / 1e12, 5.0)

    def test_slowest_kernel_comes_first(self):
        names = [row["name"] for row in gpu_kerf.kernels_of(self.commands, 0)]
        self.assertEqual(names, ["clip_factor", "add"])


class Texts(unittest.TestCase):
    def test_memory_of_kerf_run(self):
        said = " at the end besides the arena 1.50 GiB are in use (0.40 GiB before anything was loaded)"
        self.assertEqual(gpu_kerf.used_memory(said, 2 << 30), int(3.5 * 2**30))
        self.assertIsNone(gpu_kerf.used_memory("no such line", 1))

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


class AnyOrder(unittest.TestCase):
    def test_has_a_row_of_its_own(self):
        record = json.loads((HERE / "Inputs/gpu-measured.json").read_text())
        model = record["models"][0]
        before = gpu_tables.speed(record).splitlines()
        model["kerf_any_order"] = model["kerf"] | {"tokens_per_sec": 4321.0}
        added = [line for line in gpu_tables.speed(record).splitlines() if line not in before]
        self.assertEqual(len(added), 1)
        self.assertTrue(added[0].startswith("| one | Kerf, attention's sums in any order | 4,321 |"), added)

    def test_variables_reach_the_program(self):
        said = gpu_kerf.run(["sh", "-c", "echo $KERF_X"], variables={"KERF_X": "there"})
        self.assertEqual(said, "there\n")


class Models(unittest.TestCase):
    def test_fused_ones_are_imported_so(self):
        models = chosen(["llama-1b", "llama-1b+fused"], is_tiny=False)
        each, fused = models["llama-1b"], models["llama-1b+fused"]
        self.assertEqual(each.config(), fused.config())
        self.assertNotIn("--fuse-projections", each.import_options())
        self.assertIn("--fuse-projections", fused.import_options())
        self.assertEqual(unknown(["llama-1b+fused", "moe-1b", "llama+fused"]), ["llama+fused"])

    def test_tiny_models_have_the_same_kind(self):
        for name, model in MODELS.items():
            tiny, large = TINY[name].config(), model.config()
            self.assertEqual(tiny.keys(), large.keys())
            self.assertEqual(TINY[name].base, model.base)

    def test_flops_of_the_record_are_the_peers(self):
        record = json.loads((HERE / "Inputs/gpu-record.json").read_text())
        for row in record["models"]:
            config = MODELS[row["name"]].config()
            shape = peer_models.shape_from(row["name"], config, row["seq"], row["batch"])
            self.assertEqual(row["model_flops"], peer_models.step_flops(shape))


# Stands in for peer_torch_gpu.py: answers by the words of a variant.
FAKE_PEER = """
import json, sys, time
for line in sys.stdin:
    words = line.strip().split("+")
    told = {"version": "9", "peak_reserved_bytes": 5, "outside_bytes": 2}
    if "flash" in words: sys.exit("error: a crash")
    if "slow" in words: time.sleep(30)
    fastest = 1 if "cudnn" in words else 2
    told["steps_s"] = [0.001 * fastest, 0.002 * fastest]
    if "micro2" not in words: told = {"error": "OutOfMemoryError: CUDA out of memory"}
    print("noise", flush=True)
    print(json.dumps(told), flush=True)
"""


class Arguments:
    python, torch_device, torch_missing, quick, variants = sys.executable, "cpu", "", False, []


class Variants(unittest.TestCase):
    """What is tried, and what becomes of variants that fail, with a script for a peer."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.peer = Path(self.folder.name, "peer.py")
        self.peer.write_text(FAKE_PEER)
        compiled = gpu_kerf.Compiled(Path(), "x", 100, 1000, 1, 1e9, 1e12, 1, 1.0, {})
        self.side = gpu_torch.TorchSide(compiled, MODELS["llama-1b"], 2, Arguments())

    def tearDown(self):
        self.side.close()
        self.folder.cleanup()

    def search(self, reserved_sec=0):
        with unittest.mock.patch.object(gpu_torch, "PEER", self.peer):
            self.side.search(time.monotonic() + 60, lambda: reserved_sec)
        return self.side.row()

    def test_words_replace_those_of_their_axis(self):
        self.assertEqual(replaced("blocks+masters", "cudnn"), "blocks+masters+cudnn")
        self.assertEqual(replaced("blocks+masters+cudnn", "flash"), "blocks+masters+flash")
        self.assertEqual(replaced("blocks+masters+cudnn", "eager"), "eager+masters+cudnn")
        self.assertEqual(replaced("eager+masters+grouped", "loop"), "eager+masters+loop")

    def test_search_keeps_what_is_faster(self):
        row = self.search()
        self.assertEqual(row["variant"], "blocks+masters+micro2+cudnn")
        self.assertAlmostEqual(row["tokens_per_sec"], 1000 / 0.0015)
        self.assertAlmostEqual(row["mfu"], 1e9 / 0.0015 / 1e12)
        self.assertEqual(row["memory_bytes"], 7)
        said = {variant: told.get("reason", "") for variant, told in row["variants"].items()}
        self.assertIn("out of memory", said["blocks+masters"])
        self.assertEqual(said["blocks+masters+micro2+flash"], "ended with 1: error: a crash")
        self.assertEqual(said["eager+masters+micro2+cudnn"], "")

    def test_time_is_kept_for_rounds(self):
        said = self.search(reserved_sec=1000)["variants"]
        self.assertEqual(said["blocks+masters+micro2+cudnn"]["reason"], "no time was left")

    def test_what_takes_too_long_is_ended(self):
        with unittest.mock.patch.object(gpu_torch, "PEER", self.peer):
            self.assertEqual(self.side.attempt("slow", 0.2)["error"], "took more than 0 s")
        self.assertFalse(self.side.peer.is_alive())

    def test_without_torch_there_is_a_reason(self):
        self.side.missing = "no torch"
        self.assertEqual(self.search(), {"status": "not run", "reason": "no torch"})


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
