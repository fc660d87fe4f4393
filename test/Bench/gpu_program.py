"""Commands of a compiled program, as `kerf-inspect program` prints them: how often a step
runs each, and the bytes that it moves."""

import dataclasses
import re

ONCE = {"prologue", "update"}  # functions that a step calls once


@dataclasses.dataclass(frozen=True)
class Command:
    """`kind` is the opcode (launch, matmul, copy, ...), `name` what a kernel computes,
    `times` the runs in a step, `bytes` those of its operands, read and written."""

    function: str
    name: str
    kind: str
    times: int
    bytes: int


def bytes_of(command):
    """Bytes of a command's operands. Of a table only the rows that it hands on are read."""
    sizes = {"r": [], "w": []}
    for mode, first, end in re.findall(r"([rw]) \w+ \[(\d+), (\d+)\)", command):
        sizes[mode].append(int(end) - int(first))
    read, written = sum(sizes["r"]), sum(sizes["w"])
    return written + (min(read, written) if command.startswith("embedding =") else read)


def runs_of(function, command, loops, micro_batches):
    """Runs of a command in a step, which may be for one micro-batch alone, or for others."""
    if function in ONCE:
        return loops
    times = 1 if "if first" in command else micro_batches - ("unless first" in command)
    return loops * times


def commands_of(text, micro_batches=None):
    """Commands of a step, without those of the evaluation. Micro-batches are those that the
    text tells, unless they are given."""
    if micro_batches is None:
        micro_batches = int(re.search(r"(\d+) micro-batch", text)[1])
    function, loop, found = "", (0, 1), []
    for line in text.splitlines():
        if line.startswith("function "):
            function, loop = line.split()[1].rstrip(":"), (0, 1)
        parts = re.match(r" *\d+( +)((\S+) = (\S+).*)", line)
        if function in ("", "evaluate") or not parts:
            continue
        indent, command = len(parts[1]), parts[2]
        if indent <= loop[0]:
            loop = (0, 1)
        if counts := re.match(r"loop = loop i = (\d+) \.\. (\d+)", command):
            loop = (indent, int(counts[2]) - int(counts[1]) + 1)
            continue
        times = runs_of(function, command, loop[1], micro_batches)
        found.append(Command(function, parts[3], parts[4], times, bytes_of(command)))
    return found
