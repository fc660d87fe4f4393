#!/usr/bin/env python3
"""Looks at what compiled layouts ask of NCCL, without a GPU.

    dry.py BIN SOURCE [FAMILY:LAYOUT...]

Compiles layouts of tiny models (test/E2E/layouts.py) and reads what `kerf-run --dry-nccl` prints. The tool
checks the job itself, and fails when it would hang. This script checks the same by other means, from the text
alone: members of a communicator call the same, in order, with the same sizes; the sends from a rank to
another are what that one receives. Then it damages the text in several ways, which must be found.
"""

import collections
import re
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "E2E"))

import layouts as e2e

LAYOUTS = """llama:dp4.m2.early llama:tp2.sp.vocab.m2.selective llama:pp2.dp2.v2.m2.zero1 llama:cp2.dp2.m2.zero3
    llama:pp2.dp2.zb-h1.m4.zero2 gpt2:dp4.m2.zero3 gpt2:pp2.tp2.dp2.sp.1f1b.m4.zero1 gpt2:pp4.gpipe.m4
    mixtral:ep2.dp2.m2.zero1 mixtral:pp2.ep2.1f1b.m4 mixtral:ep4.dp2.room250""".split()

LINE = re.compile(
    r"rank (?P<rank>\d+) call (?P<call>\d+) (?P<command>'.*' \(.*\)|outside of a step) (?P<function>nccl\w+)"
    r"(?P<reduction> \w+)? comm (?P<comm>\d+) size (?P<size>\d+) (?P<type>\w+) count (?P<count>\d+)"
    r" stream (?P<stream>\d+)(?: peer (?P<peer>\d+))?"
)
MESSAGES = {"ncclSend": "ncclRecv", "ncclRecv": "ncclSend"}


def members_of(text):
    """The ranks of "0-3, 7, 2"."""
    ranks = []
    for part in text.split(", "):
        first, _, last = part.partition("-")
        ranks += range(int(first), int(last or first) + 1)
    return ranks


def read(text):
    """Members by communicator, and the calls of each rank."""
    comms, calls = {}, collections.defaultdict(list)
    for line in text.splitlines():
        if found := re.fullmatch(r"comm (\d+): ranks? (.*)", line):
            comms[found[1]] = members_of(found[2])
        elif found := LINE.fullmatch(line):
            calls[int(found["rank"])].append(found.groupdict())
        elif not line.startswith("checked: "):
            raise e2e.Failed(f"a line that is none: {line}")
    return comms, calls


def faults_of(text):
    """What does not fit together."""
    comms, calls = read(text)
    faults = []
    collectives = collections.defaultdict(list)
    messages = collections.defaultdict(list)
    for rank, own in calls.items():
        for number, call in enumerate(own):
            members = comms.get(call["comm"], [])
            what = (call["type"], call["count"])
            if int(call["call"]) != number or rank not in members or len(members) != int(call["size"]):
                faults.append(f"rank {rank} call {number}")
            elif call["function"] not in MESSAGES:
                collectives[call["comm"], rank].append((call["function"], call["reduction"], *what))
            else:
                peer = int(call["peer"])
                ends = (rank, peer) if call["function"] == "ncclSend" else (peer, rank)
                messages[call["comm"], ends, call["function"]].append(what)
    for (comm, rank), own in collectives.items():
        if any(collectives.get((comm, other)) != own for other in comms[comm]):
            faults.append(f"communicator {comm}")
    for (comm, ends, function), own in messages.items():
        if messages.get((comm, ends, MESSAGES[function])) != own:
            faults.append(f"messages from {ends[0]} to {ends[1]}")
    return faults


def damaged(text):
    """Texts in which one thing is wrong, by what that is."""
    lines = text.splitlines()
    calls = [n for n, line in enumerate(lines) if LINE.fullmatch(line) and " size 1 " not in line]
    middle = calls[len(calls) // 2]
    line = lines[middle]
    change = lambda new: "\n".join(lines[:middle] + new + lines[middle + 1 :])
    yield "a size", change([re.sub(r"count (\d+)", lambda m: f"count {int(m[1]) + 1}", line)])
    yield "a type", change([re.sub(r" (f32|bf16|i32|u8) count", " f64 count", line)])
    yield "a call less", change([])
    yield "a call more", change([line, line])
    yield "a communicator", change([re.sub(r"comm \d+", "comm 999", line)])


def check(bench, family, layout):
    _, file = bench.compile(family, layout)
    text = e2e.call(bench.bin / "kerf-run", "--dry-nccl", file)
    comms, calls = read(text)
    faults = faults_of(text)
    if sorted(calls) != list(range(layout.ranks)):
        faults.append(f"ranks {sorted(calls)} call")
    # The first one is the whole job, which is only split.
    if comms["0"] != list(range(layout.ranks)):
        faults.append("communicator 0 is not the job")
    faults += [f"{what} went unnoticed" for what, wrong in damaged(text) if not faults_of(wrong)]
    one = e2e.call(bench.bin / "kerf-run", "--dry-nccl", "--dry-rank=1", file).splitlines()
    own = [line for line in text.splitlines() if line.startswith("rank 1 ")]
    if [line for line in one if line.startswith("rank ")] != own:
        faults.append("--dry-rank shows something else")
    functions = collections.Counter(call["function"] for own in calls.values() for call in own)
    return text.splitlines()[-1], functions, faults


def main():
    bin, source, *names = sys.argv[1:]
    failed, functions = 0, collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        bench = e2e.Bench(bin, source, folder)
        imported = set()
        for name in names or LAYOUTS:
            family, _, words = name.partition(":")
            if family not in imported:
                bench.import_model(family, False)
                imported.add(family)
            try:
                line, own, faults = check(bench, family, e2e.Layout(words))
            except e2e.Failed as error:
                line, own, faults = "", {}, [str(error)]
            functions.update(own)
            failed += bool(faults)
            print(f"{name:36} {line}", *faults[:5], sep="\n  " if faults else "", flush=True)
    wanted = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclSend", "ncclRecv"}
    if not names and set(functions) != wanted:
        print(f"called: {sorted(functions)}")
        failed += 1
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
