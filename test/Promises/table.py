"""Rows of promises.json: how they are read, named, and what they must cover."""

import fnmatch
import json
import re
import shlex
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEYS = {"model", "batch", "seq", "devices", "cluster", "precision", "import", "options", "expect", "quick", "why",
        "apart", "why_apart", "otherwise"}
# Why programs send otherwise than is priced: what `otherwise` of a row may say of an exchange ("all_gather tp").
CAUSES = {
    "two axes": "Programs gather over two axes at once, or over the other one first, where keys go round a ring or a value is cut within "
                "the parts of another axis; the price takes one axis at a time.",
    "sum": "Sums are priced as all-reduce and sent as reduce-scatter and all-gather, or the other way round.",
    "joint": "A sum over tensor ranks that data ranks sum, too, is priced as one after the other; programs sum over both at once.",
    "slices": "A part of what is gathered for another reader is free in the price; programs exchange what both are made of where a larger "
              "op runs beside that gather.",
    "kept": "The backward pass is charged once more for a sum over tensor ranks that a view shows; programs keep the sum.",
    "decoded": "Programs gather weights that are decoded from 4 bits for the gradient of their input; the price has small gathers in their place.",
}
# What a row may end in, beside a file: the planner refuses, or nothing can be compiled for the devices.
ENDS = {"a file", "does not fit", "no backend"}


class Row:
    """One promise. `options` go to kerfc, `import_options` to kerf-import."""

    def __init__(self, entry):
        if unknown := set(entry) - KEYS:
            raise ValueError(f"unknown key '{sorted(unknown)[0]}'")
        self.model, self.cluster, self.precision = entry["model"], entry["cluster"], entry["precision"]
        self.batch, self.seq, self.devices = entry["batch"], entry["seq"], entry["devices"]
        self.import_options = shlex.split(entry.get("import", ""))
        self.options = shlex.split(entry.get("options", ""))
        self.expect, self.quick, self.why = entry.get("expect", "a file"), entry.get("quick", False), entry["why"]
        # How far plan and program are known to be apart, beyond what is promised, and the cause.
        self.apart, self.why_apart = entry.get("apart", 0.0), entry.get("why_apart", "")
        # Exchanges ("all_gather tp") that are sent otherwise than priced, and which of the causes it is.
        self.otherwise = entry.get("otherwise", {})
        if unknown := set(self.otherwise.values()) - set(CAUSES):
            raise ValueError(f"unknown cause '{sorted(unknown)[0]}', expected one of {sorted(CAUSES)}")
        if bool(self.apart) != bool(self.why_apart):
            raise ValueError("'apart' and 'why_apart' belong together")
        if self.expect not in ENDS:
            raise ValueError(f"'expect' is '{self.expect}', expected one of {sorted(ENDS)}")

    @property
    def identity(self):
        """Cells that tell one row from another."""
        given = " ".join([*self.import_options, *self.options]).replace("--pin=", "pin ").replace("--", "")
        return (self.model, f"{self.batch} x {self.seq}", f"{self.devices} x {self.cluster}", self.precision,
                given.replace("|", " or ") or "-")

    @property
    def name(self):
        model, shape, devices, precision, given = self.identity
        return " ".join([model, shape.replace(" ", ""), devices.replace(" ", ""), precision, given]).removesuffix(" -")


def read_rows(path=HERE / "promises.json"):
    rows = []
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        if line.strip() in ("[", "]"):
            continue
        try:
            rows.append(Row(json.loads(line.rstrip(","))))
        except (ValueError, KeyError) as error:
            raise ValueError(f"{path}:{number}: {error}") from error
    return rows


def select(rows, patterns, quick):
    """Those whose name matches a pattern, where there is one; with `quick`, the quick ones of them."""
    named = [r for r in rows if not patterns or any(fnmatch.fnmatch(r.name, p) for p in patterns)]
    return [r for r in named if r.quick] if quick else named


def backend(repo, cluster):
    """The target that the cluster's file names, or None."""
    text = (Path(repo) / f"examples/clusters/{cluster}.yaml").read_text()
    found = re.search(r"^\s*backend: \{target: (\w+)", text, re.M)
    return found[1] if found else None


def published(repo):
    """(model, batch, tokens, cluster, devices, pins) of each row of docs/planner-figures.md."""
    sys.path.insert(0, str(Path(repo) / "test/Bench"))
    import planner  # pylint: disable=import-outside-toplevel

    clusters = sorted(path.stem for path in (Path(repo) / "examples/clusters").glob("*.yaml"))
    searches = [*planner.SEARCHES, *[("gpt-100b", 1024, 2048, cluster, 64) for cluster in clusters]]
    for row in [*searches, *[row[:5] for row in planner.EXPERTS]]:
        yield (*row, "")
    yield from planner.EXPERTS


def gaps(rows, repo):
    """What no row promises: models, clusters, rows of the planner's figures; and rows that are there twice."""
    models = {path.name for path in (Path(repo) / "examples/models").iterdir() if not path.name.startswith("tiny-")}
    clusters = {path.stem for path in (Path(repo) / "examples/clusters").glob("*.yaml")}
    names = [row.name for row in rows]
    found = [f"no row has the model '{name}'" for name in sorted(models - {row.model for row in rows})]
    found += [f"no row has the cluster '{name}'" for name in sorted(clusters - {row.cluster for row in rows})]
    found += [f"two rows are '{name}'" for name in sorted({name for name in names if names.count(name) > 1})]
    have = {(r.model, r.batch, r.seq, r.cluster, r.devices, pins_of(r)) for r in rows if r.precision == "bf16"}
    found += [f"no row for {row} of the planner's figures" for row in sorted(set(published(repo)) - have)]
    return found


def pins_of(row):
    return ",".join(option[len("--pin="):] for option in row.options if option.startswith("--pin="))
