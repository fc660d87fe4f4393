#!/usr/bin/env python3
"""Any layout loads what any layout saved, to the bit, and each rank reads little more than it stores.

    any_layout.py BIN SOURCE [--quick] [--large] [--only=MODEL]...

Of each model some layouts train two steps and save; every other layout of it loads that state and saves it
again without a step: all tensors have to be the same bytes, and manifests have to say the same. Printed is
for each pair what the rank that read the most read, beside what it stores, checksums included. A tile of
checksums has 512 bytes of a row at least, where a row has them; rows of tiny models have fewer. So --large
has a bound: 1.02, and 1.12 where a rank's part of rows of 512 numbers is 256 bytes.
"""

import array
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "Run"))

import states

MOST_READ, MOST_NARROW = 1.02, 1.12

# Name, model, options of kerf-import, precision, layouts as ranks and pins.
TINY = [
    ("gpt2 f32", "tiny-gpt2", [], "f32", [(1, ""), (2, "tp=2"), (4, "pp=2,dp=2,zero=3"), (8, "tp=2,dp=4,zero=1")]),
    ("llama bf16", "tiny-llama", [], "bf16", [(1, ""), (4, "tp=2,pp=2"), (4, "cp=2,dp=2,zero=2"), (8, "dp=8,zero=3")]),
    ("mixtral f32", "tiny-mixtral", [], "f32", [(1, ""), (2, "ep=2,dp=2"), (4, "tp=2,dp=2,ep=2,zero=1"), (4, "pp=2,tp=2")]),
    ("8-bit state", "tiny-llama", ["--optimizer=adamw_8bit", "--state-block=16"], "bf16", [(1, ""), (2, "dp=2,zero=1"), (2, "tp=2"), (4, "pp=2,dp=2,zero=1")]),
    # Rows that 64 bytes do not divide.
    ("odd widths f32", "tiny-gpt2", [], "f32", [(1, ""), (4, "tp=4"), (2, "dp=2,zero=1")]),
    ("LoRA", "tiny-llama", ["--lora-rank=4"], "bf16", [(1, ""), (2, "dp=2,zero=3"), (2, "tp=2"), (4, "pp=2,tp=2")]),
]  # fmt: skip
LARGE = [
    ("llama-mini bf16", "llama-mini", [], "bf16", [(1, ""), (2, "tp=2"), (2, "dp=2,zero=3"), (2, "pp=2"), (4, "tp=4"), (4, "tp=2,dp=2,zero=1")]),
]  # fmt: skip


class Failed(Exception):
    pass


def call(*command, cwd):
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command[:2]))}: exit {done.returncode}: {done.stderr[-800:]}")
    return done.stdout


class Model:
    def __init__(self, binaries, source, folder, row):
        self.bin, self.folder = Path(binaries).resolve(), Path(folder)
        self.name, model, options, self.precision, layouts = row
        self.text = self.folder / "m.mlir"
        config = json.loads((Path(source) / f"examples/models/{model}/config.json").read_text())
        if self.name.startswith("odd"):
            config |= {"n_embd": 200}
        (self.folder / "config.json").write_text(json.dumps(config))
        shape = ["--batch=16", "--seq=16"]
        call(self.bin / "kerf-import", self.folder / "config.json", *shape, *options,
             "-o", self.text, cwd=folder)  # fmt: skip
        tokens = array.array("H", ((i * i + 7 * i) % 89 for i in range(20000)))
        (self.folder / "tokens.bin").write_bytes(tokens.tobytes())
        self.files = [self.compile(number, *layout) for number, layout in enumerate(layouts)]
        self.layouts = [f"{ranks} {pins}".strip() for ranks, pins in layouts]

    def compile(self, number, ranks, pins):
        file = self.folder / f"{number}.kerf"
        call(self.bin / "kerfc", self.text, "--cluster=this-machine", f"--devices={ranks}", f"--precision={self.precision}",
             *([f"--pin={pins}"] if pins else []), "-o", file, cwd=self.folder)  # fmt: skip
        return file

    def run(self, number, save, *options):
        log = self.folder / "log.json"
        log.unlink(missing_ok=True)
        call(self.bin / "kerf-run", self.files[number], "--data-format=u16", "--data=tokens.bin", "--steps=2", "--warmup=0",
             f"--save-state={save}", f"--log-json={log}", "--threads=1", *options, cwd=self.folder)  # fmt: skip
        path = states.newest(self.folder / save)
        said = {key: value for key, value in states.content(path)["manifest.json"].items()
                if not key.startswith("index_") and key != "program"}  # fmt: skip
        lines = [json.loads(line) for line in log.read_text().splitlines() if '"run"' not in line]
        read = [line["most_read"] for line in lines if "most_read" in line]
        return said, states.tensors(path), read

    def pairs(self):
        for first, second in itertools.permutations(range(len(self.files)), 2):
            name = f"{first}-{second}"
            said, tensors, _ = self.run(first, f"s{name}")
            again, loaded, read = self.run(second, f"t{name}", f"--resume=s{name}")
            yield f"{self.layouts[first]} -> {self.layouts[second]}", (said, tensors) == (again, loaded), read[0]


def main():
    quick, large = "--quick" in sys.argv, "--large" in sys.argv
    only = [word[7:] for word in sys.argv if word.startswith("--only=")]
    wrong = count = 0
    quick_rows = [row for row in TINY if row[0] in ("gpt2 f32", "odd widths f32")]
    for row in LARGE if large else quick_rows if quick else TINY:
        if only and row[0] not in only:
            continue
        with tempfile.TemporaryDirectory(prefix="kerf-any-") as folder:
            for pair, is_same, read in Model(sys.argv[1], sys.argv[2], folder, row).pairs():
                bad = [] if is_same else ["OTHER BYTES"]
                most = MOST_NARROW if pair.endswith("tp=4") else MOST_READ
                bad += ["READS TOO MUCH"] if large and read > most else []
                wrong, count = wrong + bool(bad), count + 1
                print(f"{row[0]:15} {pair:35} read {read:.4f} {' '.join(bad)}", flush=True)
    print(f"{count} pairs, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
