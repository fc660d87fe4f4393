"""The Python package's calls of Kerf's programs. Needs no PyTorch.

    programs_test.py ROOT BIN
"""

import array
import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT, BIN = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))
GRAPH = ROOT / "test/Reference/packages/litgpt-llama/graph.mlir"
FUNCTION = ROOT / "examples/python/gpt.stablehlo.mlir"


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.place.name)
        sys.path.insert(0, str(ROOT / "tools/python"))
        sys.dont_write_bytecode = True
        os.environ["KERF_BIN"] = str(BIN)
        import kerf

        cls.kerf = kerf

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    # A graph that PyTorch exported: planned, compiled for four ranks and trained.
    def test_from_graph_to_losses(self):
        kerf, path = self.kerf, self.folder / "model.kerf"
        plan = kerf.plan(GRAPH, "this-machine", devices=4)
        self.assertTrue(plan.feasible)
        self.assertGreater(plan.step_sec, 0)
        self.assertIn(f"pp {plan.choice['pp']}" if plan.choice["pp"] > 1 else "layout", str(plan))
        self.assertIn("<iframe", plan._repr_html_())
        said = kerf.compile(GRAPH, "this-machine", path, devices=4, pin={"tp": 2, "dp": 2}, sampler=True)
        self.assertIn("its twin trains as on one rank", said)
        data = self.folder / "text.bin"
        data.write_bytes(array.array("H", (i % 29 for i in range(4000))).tobytes())
        options = {"steps": 30, "lr": 1e-2, "threads": 1, "data_format": "u16"}
        run = kerf.run(path, data, **options)
        self.assertEqual(len(run.losses), 30)
        self.assertLess(run.losses[-1], 0.7 * run.losses[0])
        self.assertIn("<polyline", run._repr_html_())
        said = str(kerf.run(path, sample=["tokens:1,2", "tokens:3"], sample_tokens=5, threads=1))
        self.assertRegex(said, r"5 tokens behind 2.*\n  \| 1,2(,\d+){5}\n sample: .*\n  \| 3(,\d+){5}\n")
        alone = self.folder / "alone.kerf"
        kerf.compile(GRAPH, "this-machine", alone, devices=1)
        for here, there in zip(run.losses, kerf.run(alone, data, **options).losses):
            self.assertAlmostEqual(here, there, delta=2e-3 * there)

    # A function that JAX lowered, by its path and by its text; names of the parameters of layers, which weights have.
    def test_from_function(self):
        from kerf import trees

        path = self.folder / "gpt.kerf"
        said = self.kerf.compile(FUNCTION, "this-machine", path, devices=4, pin={"tp": 2, "dp": 2})
        self.assertIn("its twin trains as on one rank", said)
        self.assertTrue(self.kerf.plan(FUNCTION.read_text(), "this-machine", devices=4).feasible)
        names = trees.parameter_names(FUNCTION)
        self.assertIn("embed", names)
        self.assertEqual(trees.slices_of("blocks.qkv", names), [f"blocks.{i}.qkv" for i in range(4)])
        self.assertEqual(trees.slices_of("embed", names), [])
        self.assertEqual(trees.parts_of("['layers'][0].down.value"), ["layers", "0", "down", "value"])
        self.assertEqual(trees.parts_of("['a/b c']['d']"), ["a.b_c", "d"])

    # What fits nowhere is an answer; a wrong option is an error with what the program said.
    def test_refusals(self):
        with self.assertRaisesRegex(self.kerf.KerfError, "tp=5"):
            self.kerf.compile(GRAPH, "this-machine", self.folder / "none.kerf", devices=4, pin={"tp": 5})
        self.assertFalse((self.folder / "none.kerf").exists())
        large = ROOT / "examples/models/llama-3-70b/config.json"
        plan = self.kerf.plan(large, "hgx-h100", devices=1, batch=8, seq=4096, precision="bf16")
        self.assertFalse(plan.feasible)
        self.assertIn("no plan of", str(plan))
        with self.assertRaisesRegex(self.kerf.KerfError, "cannot read"):
            self.kerf.plan(self.folder / "missing.mlir", "this-machine")


if __name__ == "__main__":
    unittest.main()
