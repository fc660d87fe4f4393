"""kerf-run --sample as its users call it.

  sample.py ROOT FOLDER
"""

import array
import json
import math
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time
import unittest

ROOT, FOLDER = pathlib.Path(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1))
WORDS = "the quick brown fox\njumps over it.\n"
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "KERF_SESSION"))}
MASK = 2**64 - 1


def call(*command, status=0):
    """What a command prints: (standard output, errors)."""
    done = subprocess.run([*map(str, command)], cwd=FOLDER, env=CLEAN, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, (command, done.returncode, done.stdout[-2000:], done.stderr)
    return done.stdout, done.stderr


def compiled(name, *options, model="tiny-gpt2", sizes=("--batch=8", "--seq=32"), sampler=True):
    """A compiled model of a config that ships."""
    config = ROOT / f"examples/models/{model}/config.json"
    call("kerf-import", config, *sizes, "-o", f"{name}.mlir")
    call("kerfc", f"{name}.mlir", "-o", f"{name}.kerf", *options, *(["--sampler"] if sampler else []))
    return f"{name}.kerf"


def samples(out):
    """The texts of the samples in what a run printed."""
    texts, inside = [], False
    for line in out.splitlines():
        if line.startswith(" sample: "):
            texts.append([])
        elif line.startswith("  | ") and texts:
            texts[-1].append(line[4:])
    return ["\n".join(text) for text in texts]


def run(path, *options, status=0):
    return call("kerf-run", path, "--threads=1", *options, status=status)


def mix(x):
    """kerf_mix of Format.h."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def uniform(seed, sample, index):
    """The random number of a token: 23 bits."""
    name = 0xCBF29CE484222325
    for c in b"sample":
        name = (name ^ c) * 0x100000001B3 & MASK
    key = mix(seed)
    for part in (sample, 0):
        key = mix(key ^ part)
    key = mix(key ^ name)
    return (mix(key ^ mix(index)) >> 40 >> 1) / 2**23


def floats(path, name):
    """A tensor of a .safetensors file, in f32."""
    data = (FOLDER / path).read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    begin, end = json.loads(data[8 : 8 + size])[name]["data_offsets"]
    return array.array("f", data[8 + size + begin : 8 + size + end]).tolist()


BIGRAM = """
kerf.model @bigram(tokens %t: tensor<2x4xi32>, targets %y: tensor<2x4xi32>) attributes {optimizer = #kerf.adamw<>} {
  %w = kerf.param "table" init<normal, 1.5> : tensor<8x8xf32>
  %x = kerf.embedding %t, %w : tensor<2x4xi32>, tensor<8x8xf32>
  %n = kerf.count_valid %y : tensor<2x4xi32>
  %l = kerf.cross_entropy %x, %y normalizer %n : tensor<2x4x8xf32>, tensor<2x4xi32>
  kerf.return %l : tensor<f32>
}
"""


class Sample(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (FOLDER / "words.txt").write_text(WORDS * 60)
        cls.one = compiled("one")

    # A text that repeats, learnt on one rank and in three layouts of four: each goes on as the text does.
    def test_goes_on_as_the_text_does(self):
        wanted = (WORDS * 4)[:100].rstrip("\n")
        train = ["--data=words.txt", "--steps=150", "--lr=1e-2", "--log-every=150", "--heldout=0.2", "--eval-every=150",
                 f"--sample={WORDS[:9]}", f"--sample-tokens={len(wanted) - 9}", "--sample-temperature=0"]  # fmt: skip
        out, _ = run(self.one, *train, "--save-state=state", "--save-weights=weights")
        self.assertEqual(samples(out), [wanted])
        self.assertIn(" sample: 91 tokens behind 9, the likeliest each time\n  | the quick brown fox\n  | jumps", out)
        # The sample is what is printed last.
        self.assertLess(out.index("wrote 'weights/config.json'"), out.index(" sample: "))
        for pins in ("dp=4", "dp=2,tp=2", "pp=2,tp=2"):
            four = compiled("four", "--cluster=this-machine", "--devices=4", f"--pin={pins}")
            self.assertEqual(samples(run(four, *train)[0]), [wanted], pins)
        # Weights and a saved state alone, without data.
        for start in ("--init-from=weights", "--resume=state"):
            out, _ = run(self.one, start, *train[5:])
            self.assertEqual(samples(out), [wanted], start)
            self.assertNotIn("iteration", out)

    # bf16, ZeRO and weights of layers in pieces: the weights that are gathered are the ones that were trained.
    def test_other_number_types(self):
        for options in (["--precision=bf16"], ["--precision=f16"],
                        ["--cluster=this-machine", "--devices=2", "--pin=dp=2,zero=3"]):  # fmt: skip
            path = compiled("other", *options)
            out, _ = run(path, "--data=words.txt", "--steps=150", "--lr=1e-2", "--log-every=150", "--sample=the quick",
                         "--sample-temperature=0", "--sample-tokens=26")  # fmt: skip
            self.assertEqual(samples(out), [WORDS[:35].rstrip("\n")], options)

    # Every token of 3,000 is the one that the probabilities of the table and the random number give.
    def test_probabilities(self):
        (FOLDER / "bigram.mlir").write_text(BIGRAM)
        call("kerfc", "bigram.mlir", "--sampler", "-o", "bigram.kerf")
        for seed, temperature in ((3, 1.0), (4, 0.5), (5, 2.0)):
            out, _ = run("bigram.kerf", "--sample=tokens:5", "--sample=tokens:1,2", "--sample-tokens=1500", f"--seed={seed}",
                         f"--sample-temperature={temperature}", "--save-weights=table.safetensors")  # fmt: skip
            table = floats("table.safetensors", "table")
            near = 0
            for number, text in enumerate(samples(out)):
                tokens = [int(t) for t in text.replace("\n", "").split(",")]
                self.assertEqual(len(tokens), 1501 + number)
                for index, (token, following) in enumerate(zip(tokens[number:], tokens[number + 1 :])):
                    weights = [math.exp(x / temperature) for x in table[8 * token : 8 * token + 8]]
                    total, u = sum(weights), uniform(seed, number, index)
                    sums = [sum(weights[: k + 1]) / total for k in range(8)]
                    near += min(abs(u - s) for s in sums) < 1e-5
                    if not any(abs(u - s) < 1e-5 for s in sums):
                        self.assertEqual(following, sum(s <= u for s in sums), (seed, number, index))
            self.assertLess(near, 10)
        self.assertIn("these are token numbers; examples/tokenize.py --decode prints their text", out)

    # What the batch of training is makes no difference.
    def test_same_by_batch(self):
        ask = lambda path: samples(run(path, "--sample=the", "--sample-tokens=30", "--sample-temperature=0")[0])
        self.assertEqual(ask(compiled("single", sizes=("--batch=1", "--seq=32"))), ask(self.one))

    # Models that come as graphs and functions, by hand, with adapters on weights in codes.
    def test_other_models(self):
        def ask(source, *options):
            call("kerf-import", *source, "-o", "other.mlir")
            call("kerfc", "other.mlir", "--sampler", "-o", "other.kerf", *options)
            out, _ = run("other.kerf", "--sample=tokens:1,2,3", "--sample-tokens=20", "--sample-temperature=0")
            self.assertRegex(samples(out)[0].replace("\n", ""), r"^1,2,3(,\d+){20}$")

        ask([ROOT / "examples/graph.mlir"])
        ask([ROOT / "test/Reference/packages/palm-rlhf/graph.mlir"])
        ask([ROOT / "examples/python/gpt.stablehlo.mlir"])
        # Blocks of codes have 64 numbers.
        mini = json.loads((ROOT / "examples/models/llama-mini/config.json").read_text())
        (FOLDER / "config.json").write_text(json.dumps(mini | {"intermediate_size": 1344}))
        ask(["config.json", "--batch=2", "--seq=8", "--lora-rank=4", "--quantize-base=nf4"], "--precision=bf16")

    def test_same_by_seed(self):
        ask = lambda *options: samples(run(self.one, "--sample=a", "--sample=b", "--sample-tokens=40", *options)[0])
        first = ask("--seed=0")
        self.assertEqual(len(first), 2)
        self.assertNotEqual(first[0][1:], first[1][1:])
        self.assertEqual(ask("--threads=2"), first)
        self.assertNotEqual(ask("--seed=1"), first)
        # An untrained model takes all bytes: none of them moves the cursor or colours the screen.
        out = run(self.one, "--sample=a", "--sample-tokens=600", "--sample-temperature=3")[0]
        shown = out[out.index(" sample: ") :]
        self.assertFalse([c for c in shown if ord(c) < 32 and c not in "\n\t" or 0x7F <= ord(c) < 0xA0])
        self.assertIn("\\x0", shown)
        self.assertIn("\ufffd", shown)
        self.assertTrue(all(line.startswith("  | ") for line in shown.splitlines()[1:]))

    # All families that ship; those of experts, latents, windows and segments among them.
    def test_families(self):
        for config in sorted(path.parent for path in ROOT.glob("examples/models/tiny-*/config.json")):
            for packed in ([], ["--packed"]) if config.name in ("tiny-llama", "tiny-deepseek-v3") else ([],):
                path = compiled("family", model=config.name, sizes=["--batch=2", "--seq=16", *packed])
                out, _ = run(path, "--sample=tokens:1,2,3", "--sample-tokens=20", "--sample-temperature=0")
                (text,) = samples(out)
                self.assertRegex(text, r"^1,2,3(,\d+){20}$", config.name)
                if packed:
                    self.assertEqual(text, whole, config.name)
                whole = text

    def refused(self, message, *options, path=None):
        out, err = run(path or self.one, *options, status=1)
        self.assertIn(message, err)
        self.assertNotIn("iteration", out)

    def test_refusals(self):
        plain = compiled("plain", sampler=False)
        self.refused("'--sample' needs a model that was compiled with a sampler: kerfc MODEL.mlir --sampler", "--sample=a", path=plain)
        self.refused("option '--sample': expected a text, or tokens:1,2,3, found ''", "--sample=")
        self.refused("token 256 is not in the vocabulary of 256", "--sample=tokens:1,256", "--data=words.txt")
        self.refused("token -1 is not in the vocabulary", "--sample=tokens:-1")
        for wrong in ("tokens:", "tokens:1,,2", "tokens:1 2", "tokens:x"):
            self.refused("expected token numbers as tokens:1,2,3", f"--sample={wrong}")
        self.refused("expected an integer from 1 to 1,000,000, found '0'", "--sample=a", "--sample-tokens=0")
        self.refused("expected a number that is not negative", "--sample=a", "--sample-temperature=-1")
        self.refused("'--sample-tokens' needs '--sample", "--sample-tokens=3", "--data=words.txt")
        self.refused("'--sample-temperature' needs '--sample", "--sample-temperature=0", "--data=words.txt")
        self.refused("expected training data", "--sample=a", "--steps=5")
        self.refused("expected training data", "--steps=0")
        # Tokens of other data are no bytes.
        (FOLDER / "numbers.bin").write_bytes(array.array("H", [i % 250 for i in range(2000)]).tobytes())
        self.refused("tokens are no bytes: give their numbers", "--sample=a", "--data=numbers.bin")
        # All weights of 70 billion parameters in one machine.
        config = ROOT / "examples/models/llama-3-70b/config.json"
        call("kerf-import", config, "--batch=1", "--seq=8", "-o", "large.mlir")
        call("kerfc", "large.mlir", "--sampler", "-o", "large.kerf")
        out, err = run("large.kerf", "--sample=tokens:1", status=1)
        self.assertIn("'--sample' puts all weights into the memory of one machine, in f32: it needs 26", err)

    # Weights that are no numbers choose nothing.
    def test_no_numbers(self):
        run(self.one, "--sample=a", "--sample-tokens=1", "--save-weights=w.safetensors")
        data = bytearray((FOLDER / "w.safetensors").read_bytes())
        data[-4:] = struct.pack("<f", math.nan)
        (FOLDER / "w.safetensors").write_bytes(data)
        out, err = run(self.one, "--sample=a", "--init-from=w.safetensors", status=1)
        self.assertRegex(err, "no number|nan")

    # A text ends where a document does.
    def test_ends(self):
        ask = lambda *options: samples(run("bigram.kerf", "--sample=tokens:5", "--sample-tokens=40", *options)[0])[0].split(",")
        (FOLDER / "bigram.mlir").write_text(BIGRAM)
        call("kerfc", "bigram.mlir", "--sampler", "-o", "bigram.kerf")
        whole = ask()
        self.assertEqual(len(whole), 41)
        self.assertEqual(ask(f"--document-end={whole[20]}"), whole[: whole.index(whole[20], 1) + 1])
        self.assertEqual(ask("--document-end=none"), whole)

    # Ctrl-C ends a sample in good order: its line is whole, the status that of the signal.
    def test_stops(self):
        process = subprocess.Popen(["kerf-run", self.one, "--threads=1", "--sample=a", "--sample-tokens=1000000"], cwd=FOLDER,
                                   env=CLEAN, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        while not process.stdout.readline().startswith(b" sample: "):
            self.assertIsNone(process.poll())
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        self.assertEqual((process.returncode, err), (130, b""))
        self.assertTrue(out.endswith(b"\n"))

    # The file has one sampler, which tools show beside the rest of it.
    def test_file(self):
        plain = compiled("plain", sampler=False)
        size = lambda path: (FOLDER / path).stat().st_size
        self.assertGreater(size(self.one), size(plain))
        for command in ("program", "memory", "kernels", "params", "plan"):
            self.assertEqual(call("kerf-inspect", command, self.one), call("kerf-inspect", command, plain), command)


if __name__ == "__main__":
    unittest.main()
