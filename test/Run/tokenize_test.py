"""examples/tokenize.py: formats, counts and errors, with a stand-in for `tokenizers`.

  tokenize_test.py SCRIPT PROGRAM

PROGRAM (kerf-run over the imitated runtime) reads what the script writes.
"""

import array
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

SCRIPT = PROGRAM = ""

# One token per character; the vocabulary's size and the end token are in the file.
STAND_IN = '''
import json

class Encoding:
    def __init__(self, ids):
        self.ids = ids

class Tokenizer:
    @staticmethod
    def from_file(path):
        tokenizer = Tokenizer()
        with open(path) as file:
            tokenizer.fields = json.load(file)
        return tokenizer

    def no_truncation(self): pass
    def no_padding(self): pass

    def encode(self, text, add_special_tokens):
        assert not add_special_tokens
        return Encoding([ord(c) for c in text])

    def decode(self, ids, skip_special_tokens):
        assert not skip_special_tokens
        return "".join(map(chr, ids))

    def get_vocab_size(self, with_added_tokens):
        return self.fields["size"]

    def token_to_id(self, name):
        return self.fields["end"] if name == "</s>" else None
'''


class Tokenize(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        (self.folder / "packages").mkdir()
        (self.folder / "packages/tokenizers.py").write_text(STAND_IN)
        self.tokenizer(256, 255)
        (self.folder / "a.txt").write_text("ab\n\ncd")

    def tokenizer(self, size, end):
        (self.folder / "t.json").write_text(f'{{"size": {size}, "end": {end}}}')

    def run_script(self, *arguments, status=0, packages="packages"):
        result = subprocess.run(
            [sys.executable, SCRIPT, "t.json", *arguments], cwd=self.folder, text=True,
            env=os.environ | {"PYTHONPATH": str(self.folder / packages)}, capture_output=True,
        )  # fmt: skip
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def ints(self, name, code):
        data = (self.folder / name).read_bytes()
        size = array.array(code).itemsize
        return array.array(code, data[: len(data) // size * size]).tolist()

    def test_formats(self):
        out = self.run_script("a.txt", "-o", "a.bin")
        self.assertIn("7 tokens of 16 bits, format llmc", out)
        self.assertIn("1 documents, 6 characters", out)
        self.assertIn("--document-end=255", out)
        header = self.ints("a.bin", "i")[:256]
        self.assertEqual(header, [20240520, 1, 7] + [0] * 253)
        tokens = [ord(c) for c in "ab\n\ncd"] + [255]
        self.assertEqual(self.ints("a.bin", "H")[512:], tokens)
        self.run_script("a.txt", "-o", "a.bin", "--format=plain")
        self.assertEqual(self.ints("a.bin", "H"), tokens)
        self.tokenizer(100000, 99999)
        self.run_script("a.txt", "-o", "a.bin", "--end=none")
        self.assertEqual(self.ints("a.bin", "I")[:3], [20240801, 7, 6])
        self.assertEqual(self.ints("a.bin", "I")[256:], tokens[:-1])

    # What kerf-run --sample takes and prints.
    def test_numbers(self):
        self.assertEqual(self.run_script("--encode", "ab c"), "tokens:97,98,32,99\n")
        self.assertEqual(self.run_script("--decode", "97,98,32,99"), "ab c\n")
        self.assertEqual(self.run_script("--decode", "tokens:97"), "a\n")
        sample = " sample: 2 tokens behind 1\n  | 97,\n  | 98,99\n these are token numbers\n"
        said = subprocess.run([sys.executable, SCRIPT, "t.json", "--decode", "-"], cwd=self.folder, input=sample, text=True,
                              env=os.environ | {"PYTHONPATH": str(self.folder / "packages")}, capture_output=True)  # fmt: skip
        self.assertEqual(said.stdout, "abc\n")
        for wrong in ("", "1,x", "1 2"):
            self.assertIn("expected token numbers", self.run_script("--decode", wrong, status=1))
        self.assertIn("they take no files", self.run_script("a.txt", "--encode", "a", status=1))
        self.assertIn("expected text files", self.run_script("a.txt", status=1))

    def test_documents(self):
        out = self.run_script("a.txt", "a.txt", "-o", "a.bin", "--format=plain", r"--split=\n\n")
        self.assertIn("4 documents", out)
        ab, cd = [97, 98, 255], [99, 100, 255]
        self.assertEqual(self.ints("a.bin", "H"), ab + cd + ab + cd)

    def masks(self, name):
        return list((self.folder / name).read_bytes())

    # The loss counts answers and the end token behind them.
    def test_answers(self):
        (self.folder / "q.jsonl").write_text('{"prompt": "ab", "answer": "c"}\n\n{"prompt": "", "answer": "de"}\n')
        out = self.run_script("q.jsonl", "-o", "q.bin", "--format=plain")
        self.assertEqual(self.ints("q.bin", "H"), [97, 98, 99, 255, 100, 101, 255])
        self.assertEqual(self.masks("q.mask"), [0, 0, 1, 1, 1, 1, 1])
        self.assertIn("wrote 'q.mask': the loss counts 5 tokens, 71.4 %", out)
        self.assertIn("2 documents, 5 characters", out)
        # Text, all of which counts, is not written beside a mask of others.
        said = self.run_script("a.txt", "-o", "q.bin", status=1)
        self.assertIn("'q.mask' is of other tokens: remove it", said)
        for line, message in (("{", "line 1 is no JSON"), ('{"prompt": 3}', 'line 1: expected {"prompt": "...", "answer"')):
            (self.folder / "bad.jsonl").write_text(line)
            self.assertIn(message, self.run_script("bad.jsonl", "-o", "b.bin", status=1))

    # Whole documents, the longest first, each where it leaves the least room; the rest is not counted.
    def test_packs(self):
        lines = [{"prompt": "a" * n, "answer": "b" * m} for n, m in ((1, 1), (2, 3), (1, 2), (0, 9))]
        (self.folder / "q.jsonl").write_text("\n".join(map(json.dumps, lines)))
        out = self.run_script("q.jsonl", "-o", "q.bin", "--format=plain", "--pack=8")
        tokens, mask, end = self.ints("q.bin", "H"), self.masks("q.mask"), 255
        a, b = 97, 98
        # Lengths with the end: 3, 6, 4, and 10 as 8 and 2.
        self.assertEqual(tokens[:8], [b] * 8)
        self.assertEqual(mask[:8], [0] + [1] * 7)
        self.assertEqual(tokens[8:16], [a, a, b, b, b, end, b, end])
        self.assertEqual(mask[8:16], [0, 0, 1, 1, 1, 1, 0, 1])
        self.assertEqual(tokens[16:], [a, b, b, end, a, b, end, end, end])
        self.assertEqual(mask[16:], [0, 1, 1, 1, 0, 1, 1, 0, 0])
        self.assertIn("3 samples of 8 tokens", out)
        self.assertIn("--pack fills samples", self.run_script("q.jsonl", "-o", "q.bin", "--pack=8", "--end=none", status=1))
        self.assertIn("expected at least 2 tokens", self.run_script("q.jsonl", "-o", "q.bin", "--pack=1", status=1))

    # An index says where documents end; what fills a sample is one more. kerf-run needs no end token.
    def test_writes_an_index(self):
        out = self.run_script("a.txt", "a.txt", "-o", "m.bin", "--format=megatron", r"--split=\n\n", "--end=none")
        self.assertIn("documents end where 'm.idx' says", out)
        self.assertEqual(self.ints("m.bin", "H"), [97, 98, 99, 100] * 2)
        self.assertEqual((self.folder / "m.idx").read_bytes(), struct.pack(
            "<9sQBQQ4i4q5q", b"MMIDIDX", 1, 8, 4, 5, 2, 2, 2, 2, 0, 4, 8, 12, 0, 1, 2, 3, 4))  # fmt: skip
        self.assertIn("'m.idx' is of other tokens: remove it", self.run_script("a.txt", "-o", "m.bin", status=1))
        self.assertIn("ends in .bin", self.run_script("a.txt", "-o", "m.dat", "--format=megatron", status=1))
        lines = [{"prompt": "a" * n, "answer": "b" * m} for n, m in ((1, 1), (2, 3), (1, 2), (0, 9)) * 8]
        (self.folder / "q.jsonl").write_text("\n".join(map(json.dumps, lines)))
        self.run_script("q.jsonl", "-o", "p.bin", "--format=megatron", "--pack=64", "--bits=32")
        tokens, index = self.ints("p.bin", "I"), (self.folder / "p.idx").read_bytes()
        n = struct.unpack_from("<Q", index, 18)[0]
        lengths = struct.unpack_from(f"<{n}i", index, 34)
        self.assertEqual(sum(lengths), len(tokens))
        ends = [sum(lengths[: i + 1]) for i in range(n)]
        self.assertLessEqual(set(range(64, len(tokens), 64)), set(ends))  # no document is cut
        self.assertEqual([tokens[end - 1] for end in ends], [255] * n)
        self.assertEqual(sum(length == 10 for length in lengths), 8)
        out = subprocess.run([PROGRAM, "fake.kerf", "--data=p.bin", "--steps=1"],
                             cwd=self.folder, capture_output=True, text=True, check=True).stdout  # fmt: skip
        self.assertIn(f"(megatron, 32 bits, {n} documents", out)

    def test_kerf_run_reads_masks(self):
        (self.folder / "q.jsonl").write_text("\n".join(['{"prompt": "some ", "answer": "text"}'] * 60))
        self.run_script("q.jsonl", "-o", "q.bin")
        run = lambda: subprocess.run([PROGRAM, "fake.kerf", "--data=q.bin", "--steps=1"],
                                     cwd=self.folder, capture_output=True, text=True)  # fmt: skip
        self.assertIn("targets by 'q.mask'", run().stdout)
        (self.folder / "q.mask").write_bytes(b"\1")
        done = run()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("'q.mask' has 1 bytes, expected one for each of the 600 tokens", done.stderr)

    def test_kerf_run_reads_it(self):
        (self.folder / "long.txt").write_text("some text " * 50)
        self.run_script("long.txt", "-o", "a.bin")
        out = subprocess.run([PROGRAM, "fake.kerf", "--data=a.bin", "--steps=1"],
                             cwd=self.folder, capture_output=True, text=True, check=True).stdout  # fmt: skip
        self.assertIn("'a.bin', 501 tokens (llmc, 16 bits, by its magic number)", out)

    def test_errors(self):
        for message, arguments in (
            ("cannot read 'none.txt': No such file", ["none.txt"]),
            ("'bad.txt' is no UTF-8 text: byte 1", ["bad.txt"]),
            ("the input has no text", ["empty.txt"]),
            ("has no token '<x>' for --end", ["a.txt", "--end=<x>"]),
        ):
            (self.folder / "bad.txt").write_bytes(b"a\xff")
            (self.folder / "empty.txt").write_text("\n")
            self.assertIn(message, self.run_script(*arguments, "-o", "a.bin", status=1))
            self.assertFalse((self.folder / "a.bin").exists())
        self.assertIn("cannot write 'x/a.bin'", self.run_script("a.txt", "-o", "x/a.bin", status=1))
        self.tokenizer(70000, 1)
        out = self.run_script("a.txt", "-o", "a.bin", "--bits=16", status=1)
        self.assertIn("a vocabulary of 70,000 does not fit 16 bits", out)

    def test_missing_package(self):
        (self.folder / "none").mkdir()
        (self.folder / "none/tokenizers.py").write_text("raise ImportError\n")
        out = self.run_script("a.txt", "-o", "a.bin", status=1, packages="none")
        self.assertIn("the Python package 'tokenizers' is missing: pip install tokenizers", out)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop()).resolve())
    SCRIPT = str(pathlib.Path(sys.argv.pop()).resolve())
    unittest.main()
