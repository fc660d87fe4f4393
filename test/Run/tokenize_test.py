"""examples/tokenize.py: formats, counts and errors, with a stand-in for `tokenizers`.

  tokenize_test.py SCRIPT PROGRAM

PROGRAM (kerf-run over the imitated runtime) reads what the script writes.
"""

import array
import os
import pathlib
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

    def test_documents(self):
        out = self.run_script("a.txt", "a.txt", "-o", "a.bin", "--format=plain", r"--split=\n\n")
        self.assertIn("4 documents", out)
        ab, cd = [97, 98, 255], [99, 100, 255]
        self.assertEqual(self.ints("a.bin", "H"), ab + cd + ab + cd)

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
