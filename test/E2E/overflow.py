#!/usr/bin/env python3
"""Plants an overflow on one rank of f16 training: all ranks have to skip the step.

    overflow.py BIN SOURCE [--quick]

A gradient in the programs of a layout becomes infinite on the ranks of one coordinate alone, in steps whose
loss scale is above 40,000. Step 1 runs with a scale of 1,024 and is saved. Step 2 runs with 65,536: it must
leave every weight, master and optimizer state of every rank as it was, bit for bit, halve the scale, and be
told. Steps 3 and 4 go on, and have the bits of a run that was not stopped behind the skipped step. With a
fixed small scale, nothing is planted, and the losses have to be close to those of one rank, also where
--check-nans looks at every result. It ends a run with the plant, and names the op.
"""

import array
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "Run"))

import layouts as e2e
import states

# Family, layout, stage, the axis and coordinate that overflow, and where: a gradient that the update reads
# (of which ranks hold different parts), or an operand in the backward pass (of one data rank's rows).
CASES = [
    ("llama", "dp2.m2", 0, "dp", 1, "embedding_gradient"),
    ("gpt2", "tp2.m2", 0, "tp", 1, "transformer.h.{i}.mlp.c_fc.weight"),
    ("llama", "pp2.1f1b.m4", 1, "pp", 1, "model.norm.weight"),
    ("llama", "dp2.m2.zero3", 0, "dp", 1, "model.layers.{i}.mlp.up_proj.weight"),
    ("gpt2", "pp2.zb-h1.m4", 0, "pp", 0, "transformer.h.{i}.mlp.c_fc.weight"),
    ("mixtral", "ep2.m2", 0, "ep", 1, "model.layers.{i}.block_sparse_moe.experts.{e}.w1.weight"),
    ("llama", "pp2.tp2.dp2.sp.v2.m2.zero1", 0, "tp", 1, "model.layers.{i}.mlp.up_proj.weight"),
    ("gpt2", "pp2.dp2.zb-h1.m4.zero2", 1, "dp", 0, "transformer.h.{i}.mlp.c_proj.weight"),
    ("llama", "cp2.dp2.m2", 0, "cp", 1, "embedding_gradient"),
]
QUICK = CASES[:4]

SCALE = 1024  # of steps without overflow
CLOSE = 1e-4  # relative, of a loss in f16 whose sums are taken in another order

# Infinity on the ranks of a coordinate, in steps of a large scale; else 0.
PLANT = """
%plant_at = spmd.offset [{axis} * 1]
%plant_rank = kerf.constant dense<{coordinate}> : tensor<i32>
%plant_here = kerf.compare eq %plant_at, %plant_rank : tensor<i32>
%plant_scale = spmd.read @loss_scale : tensor<f32>
%plant_bound = kerf.constant dense<4.0e4> : tensor<f32>
%plant_now = kerf.compare gt %plant_scale, %plant_bound : tensor<f32>
%plant_a = kerf.cast %plant_here : tensor<i1> -> tensor<f32>
%plant_b = kerf.cast %plant_now : tensor<i1> -> tensor<f32>
%plant_c = kerf.mul %plant_a, %plant_b : tensor<f32>
%plant_large = kerf.constant dense<3.0e38> : tensor<f32>
%plant_d = kerf.mul %plant_c, %plant_large : tensor<f32>
%plant_e = kerf.mul %plant_d, %plant_d : tensor<f32>
%plant_f = kerf.broadcast %plant_e dims [] : tensor<f32> -> tensor<{shape}xf32>
""".strip()


def planted(text, stage, axis, coordinate, where):
    """The programs with the overflow."""
    lines = text.split("\n")
    starts = [i for i, line in enumerate(lines) if "spmd.program @" in line] + [len(lines)]
    name = re.escape(where)
    read = re.compile(rf'^ *(%\w+) = spmd\.read @"?gradient\.{name}"?() : tensor<([\dx]+)x(f32)>')
    used = re.compile(rf"^ *%\w+ = kerf\.{name} (%[\w#]+), .* : (tensor<.*>, )?tensor<([\dx]+)x(f16)>")
    for at in range(starts[stage], starts[stage + 1]):
        found = read.match(lines[at]) or used.match(lines[at])
        if not found:
            continue
        value, _, shape, element = found.groups()
        code = PLANT.format(axis=axis, coordinate=coordinate, shape=shape).split("\n")
        if element == "f16":
            code.append(f"%plant_g = kerf.cast %plant_f : tensor<{shape}xf32> -> tensor<{shape}xf16>")
        plus = "%plant_g" if element == "f16" else "%plant_f"
        code.append(f"%planted = kerf.add {value}, {plus} : tensor<{shape}x{element}>")
        here = at if element == "f16" else at + 1
        end = next(i for i in range(at, len(lines)) if "spmd.return" in lines[i])
        rename = re.compile(re.escape(value) + r"(?![\w#])")
        rest = [rename.sub("%planted", line) for line in lines[here:end]]
        return "\n".join(lines[:here] + code + rest + lines[end:])
    raise e2e.Failed(f"stage {stage} has no {where}")


def tensors(folder):
    """The manifest of a saved state, and its tensors as bytes."""
    path = states.newest(folder)
    entries = states.manifest(path)
    for key in ("checksum", "save", "index_bytes", "index_checksum"):
        entries.pop(key)
    return entries, states.tensors(path)


class Runs:
    """Runs of one file."""

    def __init__(self, bench, file, folder):
        self.bench, self.file, self.folder = bench, file, folder
        tokens = array.array("H", ((i * i + 7 * i) % 89 for i in range(4000)))
        (folder / "tokens.bin").write_bytes(tokens.tobytes())

    def run(self, name, *options):
        """What the log tells of each step; saves the state under the name."""
        log = self.folder / f"{name}.log"
        log.unlink(missing_ok=True)
        if not any(option.startswith("--resume") for option in options):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        fixed = ["--data-format=u16", f"--data={self.folder / 'tokens.bin'}", "--threads=1"]
        fixed += ["--lr=1e-3", "--lr-schedule=constant", "--warmup=0"]
        fixed += [f"--save-state={self.folder / name}", f"--log-json={log}"]
        e2e.call(self.bench.bin / "kerf-run", self.file, *fixed, *options)
        lines = [json.loads(line) for line in log.read_text().splitlines() if '"run"' not in line]
        return [line for line in lines if "loss" in line]

    def saved(self, name):
        return tensors(self.folder / name)


def check_skip(runs):
    """What is wrong with a run that skips its second step."""
    wrong = []

    def expect(what, is_true):
        if not is_true:
            wrong.append(what)

    at = lambda name: f"--resume={runs.folder / name}"
    (first,) = runs.run("first", "--steps=1", f"--initial-loss-scale={SCALE}")
    (second,) = runs.run("second", at("first"), "--steps=2", "--initial-loss-scale=65536")
    rest = runs.run("rest", at("second"), "--steps=4")
    whole = runs.run("whole", at("first"), "--steps=4", "--initial-loss-scale=65536")
    expect("step 1 is skipped", first["skipped_iterations"] == 0 and first["grad_norm"])
    expect("step 2 is not", second["skipped_iterations"] == 1 and second["grad_norm"] is None)
    expect("scales", [s["loss_scale"] for s in [first, second, *rest]] == [SCALE, 65536, 32768, 32768])
    expect("step 3 is skipped", rest[-1]["skipped_iterations"] == 1 and rest[0]["grad_norm"])
    before, after = runs.saved("first")[1], runs.saved("second")[1]
    expect("tensors of another name", set(before) == set(after))
    wrong += [f"{name} changed" for name in before if before[name] != after.get(name)]
    meta, later = runs.saved("rest")
    expect("a master stays", all(later[n] != before[n] for n in before if n.startswith("master:")))
    expect("metadata", [meta[k] for k in ("step", "skipped_steps", "good_steps", "loss_scale")]
           == ["4", "1", "2", "32768"])  # fmt: skip
    expect("the saved state goes on differently", (meta, later) == runs.saved("whole"))
    expect("losses go on differently", [s["loss"] for s in rest] == [s["loss"] for s in whole[1:]])
    return wrong


def check_nans(runs):
    """What is wrong with runs that look at every result."""
    looked = runs.run("looked", "--steps=2", f"--loss-scale={SCALE}", "--check-nans")
    plain = runs.run("plain", "--steps=2", f"--loss-scale={SCALE}")
    try:
        runs.run("planted", "--steps=1", "--initial-loss-scale=65536", "--check-nans")
    except e2e.Failed as failed:
        named = re.search(r"step 1: '[^']+' \(.*made (inf|nan|-inf) at element", str(failed))
        skips = "a dynamic loss scale skips such a step" in str(failed)
        wrong = [] if named and skips else [f"--check-nans says {str(failed)[-300:]}"]
    else:
        wrong = ["--check-nans sees nothing"]
    same = [s["loss"] for s in looked] == [s["loss"] for s in plain]
    return wrong + ([] if same else ["--check-nans changes losses"])


def poison(path, name):
    """Writes 1e38 to every element of an f32 tensor of a safetensors file."""
    data = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    first, last = (start + at for at in json.loads(data[8:start])[name]["data_offsets"])
    data[first:last] = array.array("f", [1e38] * ((last - first) // 4)).tobytes()
    path.write_bytes(data)


def check_name(bench, folder):
    """Each stage names its own parameters: a large weight of the last layer is blamed."""
    name, weights = "model.layers.3.mlp.up_proj.weight", folder / "weights.safetensors"
    _, file = bench.compile("llama", e2e.Layout("pp2.1f1b.m4"))
    runs = Runs(bench, file, folder)
    runs.run("small", "--steps=1", f"--save-weights={weights}")
    poison(weights, name)
    try:
        runs.run("large", "--steps=1", f"--init-from={weights}", "--check-nans")
    except e2e.Failed as failed:
        return [] if f"1e+38 ({name})" in str(failed) else [f"blamed is {str(failed)[-300:]}"]
    return ["nobody is blamed"]


def check_close(runs, one):
    """The largest relative difference from one rank's losses."""
    options = ["--steps=5", f"--loss-scale={SCALE}"]
    pairs = zip(runs.run("fixed", *options), one.run("fixed", *options), strict=True)
    return max(abs(a["loss"] / b["loss"] - 1) for a, b in pairs)


def main():
    failed = 0
    cases = QUICK if "--quick" in sys.argv else CASES
    with tempfile.TemporaryDirectory(prefix="kerf-overflow-") as folder:
        bench = e2e.Bench(sys.argv[1], sys.argv[2], folder)
        ones = {}
        for family, name, *where in cases:
            layout = e2e.Layout(name)
            if family not in ones:
                bench.import_model(family, False)
                _, file = bench.compile(family, e2e.Layout("m1"), "--precision=f16")
                ones[family] = Runs(bench, file, Path(tempfile.mkdtemp(dir=folder)))
            own = Path(tempfile.mkdtemp(dir=folder))
            text = bench.programs(family, layout, "--precision=f16")
            (own / "planted.mlir").write_text(planted(text, *where))
            e2e.call(bench.bin / "kerfc", own / "planted.mlir", "--start-after=schedule",
                     "--max-threads=1", "-o", own / "planted.kerf")  # fmt: skip
            runs = Runs(bench, own / "planted.kerf", own)
            wrong = check_skip(runs) + check_nans(runs)
            error = check_close(runs, ones[family])
            wrong += [] if error <= CLOSE else ["not close"]
            failed += bool(wrong)
            print(f"{family:8} {name}: {', '.join(wrong)[:400] or 'skipped'}, loss {error:.1e}", flush=True)
        wrong = check_name(bench, Path(tempfile.mkdtemp(dir=folder)))
        failed += bool(wrong)
        print(f"llama    stages: {', '.join(wrong) or 'blame their own weights'}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
