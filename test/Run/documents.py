"""Documents of an index under kerf-run.

  documents.py MODEL.kerf OTHER.kerf

A model with segments and positions, and the same one for two ranks; kerf-run is found on the PATH.
"""

import json
import pathlib
import random
import struct
import sys
import unittest

import jobs

MODEL = OTHER = ""
END = 7


class Documents(jobs.JobTest):
    def setUp(self):
        super().setUp()
        draw = random.Random(1)
        # Some are empty, some longer than a sample.
        self.documents("d", [draw.choice((0, 1, 5, 12, 30, 70)) for _ in range(90)], draw)
        self.documents("e", [draw.choice((3, 9, 40)) for _ in range(40)], draw)

    def documents(self, name, lengths, draw):
        tokens = []
        for length in lengths:
            tokens += [draw.randrange(8, 80) for _ in range(length - 1)] + [END] * (length > 0)
        n, starts = len(lengths), [2 * sum(lengths[:i]) for i in range(len(lengths))]
        (self.folder / f"{name}.bin").write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
        (self.folder / f"{name}.idx").write_bytes(
            struct.pack(f"<9sQBQQ{n}i{n}q{n + 1}q", b"MMIDIDX", 1, 8, n, n + 1, *lengths, *starts, *range(n + 1)))  # fmt: skip

    def losses(self, *arguments, model=None, data=("--data=d",)):
        log = self.folder / "log.json"
        log.unlink(missing_ok=True)
        out, err = self.end(self.launch("kerf-run", model or MODEL, *data, "--lr=1e-2", f"--log-json={log}",
                                        *arguments), 0, seconds=300)  # fmt: skip
        lines = [json.loads(line) for line in log.read_text().splitlines() if '"run"' not in line]
        found = {("heldout" if "heldout_loss" in line else "loss", line["iteration"]): line.get("heldout_loss", line.get("loss"))
                 for line in lines if "loss" in line or "heldout_loss" in line}  # fmt: skip
        return found, out + err

    def test_index_and_end_token_say_the_same(self):
        common = ("--steps=8", "--heldout=0.2", "--eval-every=4")
        by_index, out = self.losses(*common)
        self.assertIn("90 documents kept apart, by its index)", out)
        self.assertIn("  documents   end where the index of the data says", out)
        by_token, out = self.losses(*common, f"--document-end={END}")
        self.assertIn("90 documents, by its index)", out)
        self.assertIn(f"  documents   end with token {END}", out)
        self.assertEqual(by_index, by_token)
        apart, out = self.losses(*common, "--document-end=none")
        self.assertIn("  documents   not separated", out)
        self.assertNotEqual(apart[("loss", 1)], by_index[("loss", 1)])
        self.assertNotEqual(apart[("heldout", 4)], by_index[("heldout", 4)])
        other, _ = self.losses(*common, model=OTHER)
        for key, loss in by_index.items():
            self.assertLess(abs(other[key] - loss), 1e-5 * loss)

    def test_mixed_and_resumed(self):
        plain = (self.folder / "e.bin").read_bytes()
        (self.folder / "plain.bin").write_bytes(plain)
        for second in "e", "plain.bin":
            data = ("--data=0.7:d", f"--data=0.3:{second}")
            whole, out = self.losses("--steps=8", data=data)
            self.assertEqual("; those of files without one are not separated" in out, second != "e")
            self.losses("--steps=3", "--decay-steps=8", "--warmup=0", f"--save-state=s{second}", data=data)
            rest, out = self.losses("--steps=8", f"--resume=s{second}", data=data)
            self.assertNotIn("other data", out)
            self.assertEqual(rest, {key: loss for key, loss in whole.items() if key[1] > 3})
        by_token, _ = self.losses("--steps=8", f"--document-end={END}", data=("--data=0.7:d", "--data=0.3:e"))
        self.assertEqual(by_token, self.losses("--steps=8", data=("--data=0.7:d", "--data=0.3:e"))[0])

    # Another index of the same tokens is other data.
    def test_tells_another_index(self):
        self.losses("--steps=2", "--save-state=s")
        tokens = (self.folder / "d.bin").read_bytes()
        self.documents("d", [len(tokens) // 2 - 50, 50], random.Random(2))
        (self.folder / "d.bin").write_bytes(tokens)
        _, out = self.losses("--steps=3", "--resume=s")
        self.assertIn("the saved run had other data", out)


if __name__ == "__main__":
    MODEL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    OTHER = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
