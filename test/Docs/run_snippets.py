"""Runs what the pages of the documentation show, and compares.

    run_snippets.py ROOT SCRATCH [PAGE...]

Without pages: README.md and everything below docs except docs/reference. The word
behind ``` says what becomes of a block:

  console           Lines `$ command` are run with bash in a folder of the page's own,
                    where examples/ and build/bin/ are as in the checkout; they must
                    succeed. The lines below a command are its whole output; a line
                    `...` stands for any lines, `...` in a line for any text.
  mlir              kerf-opt parses it; ops alone are put into a model.
  ... write=NAME    The block is a file for the commands of the page.
  ... file=PATH     The block quotes a file of the repository: its lines, in order,
                    with `...` where lines are left out.
  sh                Not run; paths of the repository in it must exist.
  text              Anything else.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pages
from op_examples import parse

REPOSITORY = ("docs/", "examples/", "include/", "lib/", "test/", "tools/", ".ci/")


def line_pattern(line):
    return re.compile(".*".join(re.escape(part) for part in line.split("...")) + r"\Z")


def compare(expected, found):
    """None when the lines match, else what is wrong."""
    rows = [set() for _ in range(len(expected) + 1)]
    rows[0] = {0}
    for i, line in enumerate(expected):
        if line.strip() == "...":
            first = min(rows[i], default=len(found) + 1)
            rows[i + 1] = set(range(first, len(found) + 1))
            continue
        pattern = line_pattern(line)
        rows[i + 1] = {j + 1 for j in rows[i] if j < len(found) and pattern.match(found[j])}
    if len(found) in rows[-1]:
        return None
    matched = max(i for i, row in enumerate(rows) if row)
    if matched == len(expected):
        extra = found[max(rows[-1])]
        return f"expected the end, found:\n    {extra}"
    rest = found[min(rows[matched]) :][:5] or ["the end"]
    return "expected:\n    {}\n  found:\n    {}".format(expected[matched], "\n    ".join(rest))


def stripped(lines):
    lines = [line.rstrip() for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def commands_of(block):
    """(line number, command, expected output) of a console block."""
    commands = []
    for number, line in enumerate(block.lines, block.line):
        if line.startswith("$ "):
            commands.append((number, [line[2:]], []))
        elif not commands:
            raise ValueError(f"line {number}: a console block opens with '$ command'")
        elif commands[-1][1][-1].endswith("\\") and not commands[-1][2]:
            commands[-1][1].append(line)
        else:
            commands[-1][2].append(line)
    return [(n, "\n".join(command), stripped(out)) for n, command, out in commands]


def run_console(block, folder):
    for number, command, expected in commands_of(block):
        result = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        found = stripped(result.stdout.splitlines())
        if result.returncode != 0:
            last = "\n    ".join(found[-5:])
            yield number, f"`{command}` ended with {result.returncode}:\n    {last}"
            continue
        difference = compare(expected, found)
        if difference:
            yield number, f"`{command}` printed something else:\n  {difference}"


def check_quote(block, root):
    path = root / block.attributes["file"]
    if not path.is_file():
        yield block.line, f"{block.attributes['file']} does not exist"
        return
    quote = stripped(textwrap.dedent("\n".join(block.lines)).splitlines())
    found = path.read_text(encoding="utf-8").splitlines()
    # The quote may stand anywhere and deeper than in the page.
    quote = [line.strip() for line in quote]
    difference = compare(["...", *quote, "..."], [line.strip() for line in found])
    if difference:
        yield block.line, f"{block.attributes['file']} does not hold this:\n  {difference}"


def check_shell(block, root):
    for number, line in enumerate(block.lines, block.line):
        for word in line.split("#")[0].split():
            if word.startswith(REPOSITORY) and not (root / word).exists():
                yield number, f"{word} does not exist"


def check_block(block, root, folder):
    if "write" in block.attributes:
        text = "\n".join(block.lines) + "\n"
        (folder / block.attributes["write"]).write_text(text, encoding="utf-8")
    if "file" in block.attributes:
        yield from check_quote(block, root)
    elif block.language == "console":
        yield from run_console(block, folder)
    elif block.language == "mlir":
        message = parse("\n".join(block.lines) + "\n", "kerf-opt")
        if message:
            yield block.line, message
    elif block.language == "sh":
        yield from check_shell(block, root)
    elif block.language != "text" and "write" not in block.attributes:
        yield block.line, f"nothing checks a block of '{block.language}'"


def make_folder(root, scratch, page):
    """An empty folder that looks like the checkout to the page's commands."""
    folder = scratch / "-".join(page.with_suffix("").parts[-3:]).strip("/-")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "build").mkdir(parents=True)
    tools = pathlib.Path(shutil.which("kerf-opt") or "kerf-opt").resolve().parent
    (folder / "build" / "bin").symlink_to(tools)
    (folder / "examples").symlink_to(root / "examples")
    return folder


def main():
    root, scratch = (pathlib.Path(os.path.abspath(a)) for a in sys.argv[1:3])
    chosen = [pathlib.Path(a) for a in sys.argv[3:]] or pages.pages_of(root)
    count, findings = 0, 0
    for page in chosen:
        folder = make_folder(root, scratch, page.resolve())
        shown = page.name
        try:
            blocks = pages.blocks_of(page.read_text(encoding="utf-8"))
            for block in blocks:
                count += block.language != "text"
                for line, finding in check_block(block, root, folder):
                    findings += 1
                    print(f"{shown}:{line}: {finding}")
        except ValueError as error:
            findings += 1
            print(f"{shown}: {error}")
    print(f"{len(chosen)} pages, {count} blocks, {findings} findings")
    sys.exit(1 if findings or count == 0 else 0)


if __name__ == "__main__":
    main()
