#!/usr/bin/env python3
"""Feeds mutated configs and IR to the tools and reports what they must not do.

A run is a finding when the tool
  - ends by a signal, or with another status than 0 and 1;
  - fails without a line `file:line:col: error: ...` or `error: ...`;
  - fails and leaves an output file, or touches the one that was there;
  - needs more time or memory than the limits.

    fuzz.py --tools build/bin --seconds 300 --seed 1 --keep finds

The same seed gives the same inputs. Finds are made smaller by deleting lines
and kept with the command that shows them; exit status 1 when there were any.
"""

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ERROR_LINE = re.compile(r"^(.+:\d+:\d+: |(kerf\S* ?: )?)error: ", re.MULTILINE)
OPTION_LINE = re.compile(r"^\S*(kerf-\w+|kerfc): ", re.MULTILINE)
OLD_OUTPUT = b"kept as it was\n"

TYPES = [
    "f32", "bf16", "f16", "f64", "i32", "i1", "i64", "index", "none", "f8E4M3FN",
    "tensor<f32>", "tensor<4xf32>", "tensor<*xf32>", "tensor<?xf32>",
    "tensor<0xf32>", "tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>",
    "tensor<9999999999999x9999999999999xf32>", "tensor<4xf32, 1 : i32>",
    "tensor<4294967296x4294967296xf32>", "tensor<4xindex>", "vector<4xf32>",
    "memref<4xf32>", "tuple<f32>", "complex<f32>", "tensor<4xcomplex<f32>>",
    "() -> ()", "!kerf.none", "tensor<2x16xi32>", "tensor<2x16x64xf32>",
]
NUMBERS = [
    "0", "-1", "1", "2", "3", "7", "16", "255", "65536", "2147483647",
    "2147483648", "-2147483648", "4294967296", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "18446744073709551616",
    "1e400", "1.0e400", "-0.0", "1.0e-320", "0x7FC00000", "1e22", "99999999999999999999999",
]
ATTRIBUTES = [
    "unit", "true", '"x"', "[]", "{}", "dense<0> : tensor<4xi32>",
    "dense<1.0> : tensor<4xf32>", 'dense<"0x00"> : tensor<4xf32>',
    "dense_resource<__elided__> : tensor<4xf32>",
    "sparse<[[0]], [1.0]> : tensor<4xf32>", "array<i64: 1, 2>", "array<i32>",
    "array<i32: -1, 5>", "#kerf.phase<forward 0>",
    "#kerf.phase<weight_gradient 3>", "#kerf.phase<input_gradient -1>",
    "#kerf.adamw<>", "#kerf.sgd<momentum = 0.5>", "#kerf.init<normal, -1.0>",
    "f32", "affine_map<(d0) -> (d0)>", "@symbol", "#kerf.rope_linear<factor = 2.0>",
    "3.0 : f64", "0x7FF0000000000000 : f64", "5 : i64", "-5 : i64",
]
LINES = [
    "%fuzz = kerf.constant dense<1.0> : tensor<4xf32>",
    "%fuzz = builtin.unrealized_conversion_cast to index",
    "%fuzz = builtin.unrealized_conversion_cast to tensor<4xf32>",
    'kerf.yield', "kerf.return", '"kerf.yield"() : () -> ()',
    'builtin.module {}', "builtin.module { builtin.module {} }",
    "kerf.model @inner() { %l = kerf.constant dense<0.0> : tensor<f32> "
    "kerf.return %l : tensor<f32> }",
    "#fuzz = [1, 2]", "!fuzz = tensor<4xf32>", "^bb1:", "}", "{",
    '"kerf.model"() ({}) : () -> ()', '"kerf.repeat"() ({}) : () -> ()',
    '"kerf.repeat"() <{start = 0, end = 3, operandSegmentSizes = '
    'array<i32: 0, 0>}> ({^bb0(%i: tensor<i32>):}) : () -> ()',
]
GARBAGE = ["\u00e9", "\u2028", "\ufeff", "\U0001f600", "\udc80", "\x00", "\x1b[31m",
           "\t", "//", '"', "%", "#", "!", "loc(\"a\":1:2)", "...", "\\"]
OPENERS = ["[", "{", "(", "<", '{"a":', "tensor<", "tuple<", '"a"({', "loc(", "[[{("]

IR_COMMANDS = [
    ["kerfc", "--stop-after=ingest"], ["kerfc", "--stop-after=differentiate"],
    ["kerfc", "--stop-after=precision", "--precision=bf16"],
    ["kerfc", "--start-after=differentiate", "--precision=bf16"],
    ["kerf-opt", "--kerf-differentiate"], ["kerf-opt", "--kerf-split-repeat=at=1,2"],
    ["kerf-opt", "--kerf-split-weight-gradient"], ["kerf-opt", "--kerf-unroll-repeat"],
    ["kerf-opt", "--kerf-decompose"], ["kerf-opt", "--kerf-precision=policy=bf16"],
    ["kerf-opt", "--kerf-interpret"], ["kerf-opt", "--canonicalize"],
    ["kerf-opt", "--kerf-dump-factors"], ["kerf-opt", "--mlir-print-op-generic"],
    ["kerf-opt", "--kerf-differentiate", "--kerf-split-repeat=at=1",
     "--kerf-split-weight-gradient", "--kerf-precision=policy=bf16"],
    ["kerf-opt", "--kerf-differentiate", "--kerf-decompose", "--canonicalize",
     "--kerf-dump-factors"],
    ["kerf-opt", "--kerf-precision=policy=bf16", "--kerf-differentiate"],
    ["kerfc", "--stop-after=codegen"], ["kerfc", "--stop-after=codegen", "--fuse=false"],
    ["kerfc", "--stop-after=codegen", "--precision=bf16", "--recompute=full"],
    ["kerfc", "--stop-after=memory", "--recompute=selective", "--max-threads=3"],
    ["kerfc", "--stop-after=memory", "--recompute=0,1,5"],
    ["kerf-inspect", "params"], ["kerf-inspect", "params", "--json"],
    ["kerf-inspect", "interpret"], ["kerf-inspect", "gradcheck", "--samples=1"],
]
# Stages whose output is made of other ops than a model's, resumed from there.
PROGRAM_STAGES = ["plan", "recompute", "partition", "schedule", "fuse", "memory"]
IMPORT_OPTIONS = ["--weight-decay", "--beta1", "--beta2", "--eps", "--clip-norm",
                  "--z-loss", "--capacity-factor", "--momentum", "--router-bias-rate"]


# ---- Running ----------------------------------------------------------------


class Runner:
    def __init__(self, tools, limits):
        self.tools, self.limits = tools, limits

    def check(self, command, data, folder):
        """What is wrong with a run on `data`, or None."""
        source, output = folder / "input", folder / "output"
        source.write_bytes(data)
        had_output = len(data) % 2 == 0
        output.unlink(missing_ok=True)
        if had_output:
            output.write_bytes(OLD_OUTPUT)
        arguments = [str(self.tools / command[0]), *command[1:], str(source)]
        writes = command[0] != "kerf-inspect"
        if writes:
            arguments += ["-o", str(output)]
        seconds, memory = self.limits

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        try:
            run = subprocess.run(arguments, capture_output=True, timeout=seconds,
                                 preexec_fn=limit, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return "time"
        errors = run.stderr.decode("utf-8", "replace")
        if run.returncode not in (0, 1):
            return f"status {run.returncode}: " + crash_reason(errors)
        if run.returncode == 0:
            return None
        if not ERROR_LINE.search(errors) and not OPTION_LINE.search(errors):
            return "no diagnostic"
        if writes and had_output and (not output.exists()
                                      or output.read_bytes() != OLD_OUTPUT):
            return "output was touched"
        if writes and not had_output and output.exists():
            return "output was left"
        leftovers = [p for p in folder.iterdir() if p not in (source, output)]
        return "temporary file was left" if leftovers else None


def crash_reason(errors):
    """The assertion, or the innermost frame of our code: tells finds apart."""
    for pattern in (r"Assertion [`'](.*?)' failed", r"LLVM ERROR: (.*)",
                    r"terminate called.*\n.*"):
        if match := re.search(pattern, errors):
            frame = re.search(r"(kerf::[\w:]+)", errors[match.end():])
            return match.group(0)[:150] + (" in " + frame.group(1) if frame else "")
    frame = re.search(r"(kerf::[\w:]+|mlir::[\w:]+)", errors)
    # No stack: what is said first, such as the loader's message.
    return frame.group(1) if frame else errors.strip().split("\n")[0][:150] or "silent"


def minimize(runner, command, data, reason, folder, seconds=40):
    """Deletes runs of lines, long ones first, while the finding stays."""
    end = time.time() + seconds
    lines = data.splitlines(keepends=True)
    size = max(1, len(lines) // 2)
    while time.time() < end:
        at = 0
        while at < len(lines) and time.time() < end:
            fewer = lines[:at] + lines[at + size:]
            if runner.check(command, b"".join(fewer), folder) == reason:
                lines = fewer
            else:
                at += size
        if size == 1:
            break
        size //= 2
    return b"".join(lines)


# ---- Mutations --------------------------------------------------------------

TOKEN = re.compile(r'"[^"\n]*"|[%#!@^]?[\w.$-]+|->|\S')
NUMBER = re.compile(r"(?<![\w.])-?\d+(\.\d+)?([eE][+-]?\d+)?|(?<=[<x ])\d+(?=x)")


def replace_match(rng, text, pattern, make):
    matches = list(re.finditer(pattern, text))
    if not matches:
        return text
    match = rng.choice(matches)
    return text[:match.start()] + make(match.group(0)) + text[match.end():]


def flip_bytes(rng, text, other):
    data = bytearray(text.encode("utf-8", "surrogateescape"))
    for _ in range(rng.randint(1, 4)):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data.decode("utf-8", "surrogateescape")


def swap_tokens(rng, text, other):
    tokens = [m.span() for m in TOKEN.finditer(text)]
    if len(tokens) < 2:
        return text
    at = rng.randrange(len(tokens))
    near = min(len(tokens) - 1, max(0, at + rng.choice([-3, -2, -1, 1, 2, 3, 40])))
    (a, b), (c, d) = sorted([tokens[at], tokens[near]])
    return text if b > c else text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]


def copy_token(rng, text, other):
    """A token of either input in the place of one of the same kind."""
    kind = rng.choice([r"%[\w#]+", r"kerf\.\w+", r"tensor<[^>]*>", r"\b\w+\b", r'"[^"\n]*"'])
    words = re.findall(kind, rng.choice([text, other]))
    return replace_match(rng, text, kind, lambda old: rng.choice(words)) if words else text


def edit_everywhere(rng, text, other):
    """One type or size in all its places, so that what it belongs to still fits."""
    kind = rng.choice([r"tensor<[^>]*>", r"(?:f32|bf16|f64|i32)(?=>)", r"(?<=[<x])\d+(?=x)"])
    words = re.findall(kind, text)
    if not words:
        return text
    old = rng.choice(words)
    new = rng.choice(words + ["0", "1", "3", "f64", "bf16", "tensor<f64>"])
    around = (r"(?<=[<x])", "(?=x)") if old.isdigit() else ("", "")
    return re.sub(around[0] + re.escape(old) + around[1], lambda match: new, text)


def edit_number(rng, text, other):
    return replace_match(rng, text, NUMBER, lambda old: rng.choice(NUMBERS))


def edit_dimension(rng, text, other):
    small = ["1", "2", "3", "4", "8", "16", "0", "?", "*", rng.choice(NUMBERS)]
    return replace_match(rng, text, r"(?<=[<x])\d+(?=x)", lambda old: rng.choice(small))


def drop_lines(rng, text, other):
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines) + 1)
    del lines[at:at + rng.choice([1, 1, 1, 2, 5])]
    return "".join(lines)


def repeat_lines(rng, text, other):
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines) + 1)
    some = lines[at:at + rng.choice([1, 1, 2, 5, 20])]
    to = rng.choice([at, rng.randrange(len(lines) + 1)])
    return "".join(lines[:to] + some * rng.choice([1, 1, 2, 100]) + lines[to:])


def insert_line(rng, text, other):
    lines = text.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(LINES) + "\n")
    return "".join(lines)


def edit_type(rng, text, other):
    pattern = rng.choice([r"tensor<[^>]*>", r"(?<=x)(f32|i32|bf16|f64|i1)\b", r"\b(f32|i32)\b"])
    return replace_match(rng, text, pattern, lambda old: rng.choice(TYPES))


def edit_element(rng, text, other):
    return replace_match(rng, text, r"(f32|i32|bf16|f64|i1)(?=>)",
                         lambda old: rng.choice(["f32", "bf16", "f16", "f64", "i32", "i1"]))


def edit_attribute(rng, text, other):
    pattern = rng.choice([r"(?<== )[^,}>\n]+", r"#kerf\.\w+<[^>]*>", r"dense<[^>]*>",
                          r"\[[^\]\n]*\]", r"array<[^>]*>"])
    return replace_match(rng, text, pattern, lambda old: rng.choice(ATTRIBUTES))


def add_attribute(rng, text, other):
    name = rng.choice(["k", "eps", "causal", "window", "kerf.phase", "kerf.x", "name",
                       "optimizer", "groups", "clip_norm", "start", "end", "x.y"])
    entry = f" {{{name} = {rng.choice(ATTRIBUTES)}}} :"
    return replace_match(rng, text, r" :", lambda old: entry)


def edit_segments(rng, text, other):
    pattern = r"(operandSegmentSizes|resultSegmentSizes) = array<i32[^>]*>"

    def make(old):
        values = ", ".join(str(rng.choice([0, 1, 2, 3, -1, 100, 2**31 - 1]))
                           for _ in range(rng.randint(1, 10)))
        return f"operandSegmentSizes = array<i32: {values}>"
    return replace_match(rng, text, pattern, make)


def drop_properties(rng, text, other):
    pattern = rng.choice([r"<\{[^\n]*?\}>", r"\w+ = [^,}\n]+, "])
    return replace_match(rng, text, pattern, lambda old: "")


def drop_terminator(rng, text, other):
    return replace_match(rng, text, r'[^\n]*"?kerf\.(yield|return)[^\n]*\n', lambda old: "")


def drop_region(rng, text, other):
    return replace_match(rng, text, r"\(\{[\s\S]*?\}\)", lambda old: rng.choice(["", "({})", "({^a:})"]))


def edit_text(rng, text, other):
    words = ["", "{i}", "h.{2*i+1}.w", "{e}", "{e}{e}", "{", "{i", "a,b->ab", "abc,cd->abd",
             "ij,jk->ik", ",->", "->", "zz,z->z", "\\00", "x" * 300, "\u00fc"]
    return replace_match(rng, text, r'"[^"\n]*"', lambda old: f'"{rng.choice(words)}"')


def splice(rng, text, other):
    mine, theirs = text.splitlines(keepends=True), other.splitlines(keepends=True)
    at, begin = rng.randrange(len(mine) + 1), rng.randrange(len(theirs) + 1)
    some = theirs[begin:begin + rng.choice([1, 2, 5, 1000])]
    return "".join(mine[:at] + some + mine[at + rng.choice([0, 1, 1000]):])


def truncate(rng, text, other):
    return text[:rng.randrange(len(text) + 1)]


def nest(rng, text, other):
    at, opener = rng.randrange(len(text) + 1), rng.choice(OPENERS)
    return text[:at] + opener * rng.choice([3, 100, 300, 100000]) + text[at:]


def insert_garbage(rng, text, other):
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(GARBAGE) * rng.choice([1, 1, 10]) + text[at:]


def edit_json(rng, text, other):
    """A member dropped, copied or given another value; the JSON stays valid."""
    try:
        config = json.loads(text)
        theirs = json.loads(other)
    except (ValueError, RecursionError):
        return text
    if not isinstance(config, dict) or not config:
        return text
    values = [0, -1, 1, 2, 3, 7, 2**31, 2**63, -2**63, 10**30, 0.5, -0.5, 1e300, 1e-300, True,
              False, None, "", "x", "silu", [], {}, [1], {"rope_type": "llama3", "factor": 8},
              {"rope_type": "linear", "factor": -1}, {"type": "yarn"}, 1 << 40, 65536]
    name = rng.choice(list(config))
    what = rng.randrange(4)
    if what == 0:
        del config[name]
    elif what == 1 and isinstance(theirs, dict) and theirs:
        key = rng.choice(list(theirs))
        config[key] = theirs[key]
    elif what == 2:
        config[name + rng.choice(["", "s", "_"])] = rng.choice(values)
    else:
        config[name] = rng.choice(values)
    return json.dumps(config, indent=2)


ANY = [flip_bytes, swap_tokens, copy_token, edit_number, drop_lines, repeat_lines, splice,
       truncate, nest, insert_garbage]
IR_MUTATIONS = ANY + 2 * [
    copy_token, edit_number, edit_dimension, edit_everywhere, edit_everywhere, drop_lines,
    repeat_lines, insert_line, edit_type,
    edit_element, edit_attribute, add_attribute, edit_segments, drop_properties,
    drop_terminator, drop_region, edit_text]
JSON_MUTATIONS = ANY + 20 * [edit_json]


def mutate(rng, text, other, mutations):
    limit = 2 * len(text) + 10000
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 6])):
        text = rng.choice(mutations)(rng, text, other)
        if len(text) > limit:  # patterns search it in quadratic time
            break
    return text.encode("utf-8", "surrogateescape")


# ---- Seeds ------------------------------------------------------------------


def read_text(path):
    return path.read_bytes().decode("utf-8", "surrogateescape")


def output_of(tools, arguments, text=None):
    run = subprocess.run([str(tools / arguments[0]), *arguments[1:]], capture_output=True,
                         input=text, encoding="utf-8", errors="surrogateescape", timeout=60)
    return run.stdout if run.returncode == 0 else ""


def small_models(text):
    """The cases of a test file: most are a few lines."""
    return [case for case in re.split(r"^// -----\n", text, flags=re.MULTILINE)
            if "kerf." in case and len(case) < 20000]


def gather_seeds(tools):
    configs = sorted((ROOT / "examples/models").glob("tiny-*/config.json"))
    configs += sorted((ROOT / "test/Reference/cases").glob("*/config.json"))
    jsons = [read_text(path) for path in configs]
    models = []
    for path in sorted((ROOT / "test").rglob("*.mlir")) + sorted((ROOT / "examples").glob("*.mlir")):
        models += small_models(read_text(path))
    for path in configs[:8]:
        model = output_of(tools, ["kerf-import", str(path), "--batch=2", "--seq=4"])
        step = output_of(tools, ["kerfc", "--stop-after=differentiate", "-"], model)
        models += [text for text in (model, step) if text]
    generic = [output_of(tools, ["kerf-opt", "--mlir-print-op-generic", "-"], text)
               for text in models]
    return jsons, models + [text for text in generic if text], program_seeds(tools, configs)


def program_seeds(tools, configs):
    """Stage and its output, of some configs."""
    found = []
    for path in configs[:4]:
        model = output_of(tools, ["kerf-import", str(path), "--batch=2", "--seq=4"])
        for stage in PROGRAM_STAGES:
            text = output_of(tools, ["kerfc", f"--stop-after={stage}", "-"], model)
            found += [(stage, text)] * bool(text)
    return found


def import_command(rng):
    batch, seq = rng.choice(["2"] * 5 + NUMBERS), rng.choice(["8"] * 5 + NUMBERS)
    command = ["kerf-import", f"--batch={batch}", f"--seq={seq}"]
    if rng.random() < 0.3:
        command += [f"{rng.choice(IMPORT_OPTIONS)}={rng.choice(NUMBERS)}"]
    for flag in ("--packed", "--optimizer=sgd", "--aux-loss=layer", "--locations"):
        command += [flag] * (rng.random() < 0.15)
    return command


def make_case(seed, number, jsons, models, programs):
    """Command and input number `number` of a seed."""
    rng = random.Random(seed * 1000003 + number)
    if rng.random() < 0.15:
        return import_command(rng), mutate(rng, rng.choice(jsons), rng.choice(jsons), JSON_MUTATIONS)
    if rng.random() < 0.25:
        stage, text = rng.choice(programs)
        last = rng.choice(["memory", "codegen"])
        data = mutate(rng, text, rng.choice(programs)[1], IR_MUTATIONS)
        return ["kerfc", f"--start-after={stage}", f"--stop-after={last}"], data
    data = mutate(rng, rng.choice(models), rng.choice(models), IR_MUTATIONS)
    return rng.choice(IR_COMMANDS), data


# ---- Main -------------------------------------------------------------------


class Finds:
    def __init__(self, keep):
        self.keep, self.seen = keep, {}

    def add(self, runner, number, command, data, reason, folder):
        name = re.sub(r"\d+", "N", reason)
        self.seen[name] = self.seen.get(name, 0) + 1
        if self.seen[name] > 1:
            return
        data = minimize(runner, command, data, reason, folder)
        print(f"find {len(self.seen)} (case {number}): {reason}\n  {' '.join(command)}", flush=True)
        if self.keep:
            self.keep.mkdir(parents=True, exist_ok=True)
            path = self.keep / f"find-{len(self.seen)}"
            path.with_suffix(".input").write_bytes(data)
            path.with_suffix(".txt").write_text(f"{' '.join(command)}\n{reason}\n")


def run_cases(runner, seeds, options, finds, worker):
    number, end = worker, time.time() + options.seconds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        while time.time() < end:
            command, data = make_case(options.seed, number, *seeds)
            reason = runner.check(command, data, folder)
            if reason:
                finds.add(runner, number, command, data, reason, folder)
            number += options.jobs
    return number // options.jobs


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=Path, default=ROOT / "build/bin")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for what was found")
    parser.add_argument("--max-seconds", type=float, default=10, help="of one run")
    parser.add_argument("--max-memory", type=int, default=2 << 30, help="of one run, in bytes")
    options = parser.parse_args()
    options.tools = options.tools.resolve()
    runner = Runner(options.tools, (options.max_seconds, options.max_memory))
    seeds = gather_seeds(options.tools)
    print(f"{len(seeds[0])} configs, {len(seeds[1])} models", flush=True)
    finds = Finds(options.keep)
    with ThreadPoolExecutor(options.jobs) as pool:
        counts = list(pool.map(lambda worker: run_cases(runner, seeds, options, finds, worker),
                               range(options.jobs)))
    print(f"{sum(counts)} runs, {len(finds.seen)} distinct finds", flush=True)
    return 1 if finds.seen else 0


if __name__ == "__main__":
    sys.exit(main())
