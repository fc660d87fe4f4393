"""Cluster descriptions as text, and changed copies of them."""

import dataclasses
import difflib
import re

LATENCIES = ("latency", "launch")
RESERVES = ("reserved", "context", "libraries", "connection")
# Another unit of the same quantity, and how many of it one is.
UNITS = {"TB/s": ("GB/s", 1000), "GB/s": ("Gb/s", 8), "Gb/s": ("Mb/s", 1000), "us": ("ns", 1000), "GB": ("MB", 1000),
         "GiB": ("MiB", 1024), "PFLOP/s": ("TFLOP/s", 1000), "TFLOP/s": ("GFLOP/s", 1000)}
NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"


@dataclasses.dataclass(frozen=True)
class Description:
    """A shipped description, by name, and the text that is used in its place."""

    name: str
    shipped: str
    text: str

    def changed(self, change, *arguments):
        """With all that is no comment changed by a function of lines."""
        bare = [line.split("#")[0].rstrip() if "#" in line else line for line in self.text.splitlines()]
        text = "\n".join(change(bare, *arguments)) + "\n"
        return dataclasses.replace(self, text=text)

    def arguments(self):
        """What follows `--cluster=` on a command line of bash."""
        if self.text == self.shipped:
            return self.name
        return f"<(sed {' '.join(sed(self.shipped, self.text))} examples/clusters/{self.name}.yaml)"


def read(path):
    text = path.read_text()
    # Comments say nothing here, and lines without them are shorter commands.
    return Description(path.stem, text, text)


def sed(before, after):
    """Expressions that make one text of the other; comments that are gone count as no change."""
    old = before.splitlines()
    bare = [line.split("#")[0].rstrip() if "#" in line else line for line in old]
    matcher = difflib.SequenceMatcher(None, bare, after.splitlines(), autojunk=False)
    for what, i, j, k, l in matcher.get_opcodes():
        new = after.splitlines()[k:l]
        if what == "equal":
            continue
        if what == "insert":
            yield from (f"-e '{i}a\\{line}'" for line in new)
            continue
        common = min(j - i, len(new))
        yield from (f"-e '{i + n + 1}c\\{new[n]}'" for n in range(common))
        yield from (f"-e '{j}a\\{line}'" for line in new[common:])
        if j - i > common:
            yield f"-e '{i + common + 1},{j}d'"


def scaled(lines, fields, factor):
    """The quantities of these fields times a factor; 'peak' are those of all types."""
    names = "|".join(field for field in fields if field != "peak")
    for line in lines:
        if names:
            line = re.sub(rf"\b((?:{names}): )({NUMBER})(?= [A-Za-z])", lambda m: f"{m[1]}{float(m[2]) * factor!r}", line)
        if "peak" in fields and line.startswith("  peak:"):
            line = re.sub(rf"(: )({NUMBER})", lambda m: f"{m[1]}{float(m[2]) * factor!r}", line)
        yield line


def in_other_units(lines):
    def change(match):
        unit, factor = UNITS.get(match[2], (match[2], 1))
        return f"{float(match[1]) * factor!r} {unit}"

    return [re.sub(rf"\b({NUMBER}) ([A-Za-z]+(?:/s)?)\b", change, line) for line in lines]


def in_other_order(lines):
    """Fields of tiers and of the device backwards, and the device last."""
    flow = lambda m: "{" + ", ".join(reversed(re.findall(r'\w+: (?:"[^"]*"|\[[^]]*\]|[^,{}]+)', m[1]))) + "}"
    lines = [re.sub(r"\{([^{}]*)\}", flow, line) for line in lines if line.strip()]
    start = lines.index("device:")
    end = next((n for n in range(start + 1, len(lines)) if not lines[n].startswith(" ")), len(lines))
    return lines[:start] + lines[end:] + [lines[start], *backwards(lines[start + 1:end])]


def backwards(lines):
    """Fields backwards, each with what is indented below it."""
    indent = len(lines[0]) - len(lines[0].lstrip())
    fields = []
    for line in lines:
        if line[indent] != " ":
            fields.append([line])
        else:
            fields[-1].append(line)
    return [line for field in reversed(fields) for line in [field[0], *(backwards(field[1:]) if field[1:] else [])]]


def with_other_names(lines):
    return [re.sub(r"\bname: ([\w-]+)", r"name: other-\1", line) for line in lines]


def tiers_of(lines):
    """(number of the line, size) of each tier."""
    return [(n, int(re.search(r"\bsize: (\d+)", line)[1])) for n, line in enumerate(lines) if line.startswith("  - {")]


def with_outer_tier(lines, devices):
    """A slow tier outside of what the devices need: the last one before holds them all."""
    tiers, inside = tiers_of(lines), 1
    for _, size in tiers[:-1]:
        inside *= size
    last, size = tiers[-1]
    lines = list(lines)
    needed = -(-devices // inside)
    if needed > size and "torus" not in lines[last]:
        lines[last] = lines[last].replace(f"size: {size}", f"size: {needed}")
    outer = "  - {name: unused, size: 1, bandwidth: 1 GB/s, latency: 1 ms}"
    return [*lines[:last + 1], outer, *lines[last + 1:]]
