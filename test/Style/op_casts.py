"""Casts to ops by name, in the stages behind models: each is a place that a new op would have to edit.

An op says what a stage asks through interfaces (docs/adding-an-op.md). What is left is
listed in op_casts.txt with a reason; the numbers there hold both ways.
"""

import collections
import pathlib
import re

import common

# Those who define ops, who make models of them, and who say what they mean.
EXEMPT = {"Dialect", "Ingest", "Raise", "Stablehlo", "Differentiate", "Interpreter"}
MOST = 120
DEFINITION = re.compile(r"^def Kerf_(\w+Op)\b", re.MULTILINE)
# isa<A, B>(x), cast, dyn_cast and their kin; typed walks, cases and searches.
CAST = re.compile(
    r"\b(?:isa|cast|dyn_cast|\w+_and_nonnull|\w+_and_present|\w+_or_null|\w+_if_present"
    r"|getOps|getParentOfType|walk|getDefiningOp|Case|IsaPred)<([^;{}()<>]*)>"
)
LAMBDA = re.compile(r"\b(?:walk|Case)(?:<[^>]*>)?\(\s*\[[^\]]*\]\s*\((\w+) \w*\)")


def op_names(root):
    """Ops that compute; models, repeats and updates are the frame that stages walk."""
    names = set()
    for subject in ("Pointwise", "Tensor", "NN", "Gradient", "MoE"):
        path = pathlib.Path(root) / f"include/kerf/Dialect/Kerf/Kerf{subject}Ops.td"
        if path.exists():
            names |= set(DEFINITION.findall(path.read_text(encoding="utf-8")))
    return names


def casts_in(text, names):
    """Each op that a cast names, once per cast."""
    listed = [m.group(1).split(",") for m in CAST.finditer(text)] + [[m.group(1)] for m in LAMBDA.finditer(text)]
    ops = [op.split("::")[-1].strip() for one in listed for op in one]
    return [op for op in ops if op in names]


def count(root):
    """(component, op) -> number of casts in lib."""
    names, found = op_names(root), collections.Counter()
    for path in common.select(root, ("lib",), (".h", ".cpp")):
        component = path.parts[1]
        if component not in EXEMPT:
            found.update((component, op) for op in casts_in(common.read(root, path), names))
    return found


def table(path):
    """Rows 'COMPONENT NUMBER OP...: reason' -> [(component, number, ops)]; findings."""
    rows, findings = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        head, _, reason = line.partition(":")
        words = head.split()
        if len(words) < 3 or not words[1].isdigit() or not reason.strip():
            findings.append(f"{path.name}:{number}: expected 'COMPONENT NUMBER OP...: reason'")
        else:
            rows.append((words[0], int(words[1]), words[2:]))
    return rows, findings


def check(root, path=None):
    path = pathlib.Path(path) if path else pathlib.Path(__file__).with_name("op_casts.txt")
    rows, findings = table(path)
    found = count(root)
    for component, allowed, ops in rows:
        number = sum(found.pop((component, op), 0) for op in ops)
        if number != allowed:
            findings.append(f"lib/{component}: {number} casts to {', '.join(ops)}, {path.name} says {allowed}")
    for (component, op), number in sorted(found.items()):
        findings.append(f"lib/{component}: {number} casts to {op}: ask an interface, or give a reason in {path.name}")
    total = sum(allowed for _, allowed, _ in rows)
    if total > MOST:
        findings.append(f"{path.name}: {total} casts in all, at most {MOST}")
    return findings


if __name__ == "__main__":
    common.main(check)
