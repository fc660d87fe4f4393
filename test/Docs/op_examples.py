"""Parses the example of every op description in the dialects' .td files.

    op_examples.py FOLDER KERF_OPT

Takes each ```mlir block of the *.td files below FOLDER. Ops alone are put into a model
with a constant loss, those of `spmd` into a function. Exit status 1 if one does not parse, or if an op has none that
shows it.
"""

import pathlib
import re
import subprocess
import sys
import textwrap

RECORD = re.compile(r"^(?:def|class)\s+(\w+)(?:[^\"{]*\"([\w.]+)\")?", re.MULTILINE)
# What stands in a module by itself.
TOP = re.compile(r"^(?:kerf\.model|spmd\.program|exec\.program|exec\.kernel)\b", re.MULTILINE)
BLOCK = re.compile(r"^[ \t]*```mlir\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)


def examples_of(text):
    """(record, text) of each example, in order; and the ops that none shows."""
    records = list(RECORD.finditer(text))
    found, unseen = [], []
    for record, following in zip(records, [*records[1:], None]):
        body = text[record.start() : following.start() if following else len(text)]
        blocks = [textwrap.dedent(b) for b in BLOCK.findall(body)]
        name = record.group(2) or record.group(1)
        found += [(name, block) for block in blocks]
        is_op = record.group(0).startswith("def") and record.group(1).endswith("Op")
        shown = f"{record.group(1).partition('_')[0].lower()}.{name}"
        if is_op and not any(re.search(rf"\b{re.escape(shown)}\b", b) for b in blocks):
            unseen.append(name)
    return found, unseen


def as_module(example):
    """The example as text that kerf-opt takes."""
    if TOP.search(example):
        return example
    body = textwrap.indent(example, "  ")
    if "spmd." in example:
        program = "spmd.program @p over <> micro_batches 1 slots 1 {\n"
        return f"{program}spmd.func @f() {{\n{body}  spmd.return\n}}\n}}\n"
    loss = "  %example_loss = kerf.constant dense<0.0> : tensor<f32>\n"
    end = "  kerf.return %example_loss : tensor<f32>\n"
    return f"kerf.model @example() {{\n{body}{loss}{end}}}\n"


def parse(example, kerf_opt):
    """What kerf-opt says against the example; empty when it is fine."""
    result = subprocess.run(
        [kerf_opt, "-", "-o", "-"],
        input=as_module(example),
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode == 0:
        return ""
    return result.stderr.strip() or f"exit status {result.returncode}"


def main():
    folder, kerf_opt = sys.argv[1:]
    count, findings = 0, []
    for path in sorted(pathlib.Path(folder).rglob("*.td")):
        examples, unseen = examples_of(path.read_text(encoding="utf-8"))
        findings += [f"{path.name}: {name}: no example shows it" for name in unseen]
        for name, example in examples:
            count += 1
            message = parse(example, kerf_opt)
            if message:
                findings.append(f"{path.name}: {name}: {message}")
    for finding in findings:
        print(finding)
    print(f"{count} examples, {len(findings)} findings")
    sys.exit(1 if findings or count == 0 else 0)


if __name__ == "__main__":
    main()
