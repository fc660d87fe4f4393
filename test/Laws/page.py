"""The page docs/laws.md."""

import dataclasses
import sys

from cases import ENUMERATED
from judges import LAWS
from known import KNOWN

TEXT = """# Laws of the planner

Whoever changes a description, a batch or a pin expects some things of the answer without knowing the model of cost: a larger
machine is never slower, a pin never makes a plan faster. `test/Laws/laws.py` draws shipped models on shipped clusters, some of
them changed, and asks `kerf-import` and `kerfc --explain-json` for plans that belong together.

    test/Laws/laws.py build/bin . {options} --table docs/laws.md

writes this page: {planned} cases with a plan, {refused} without one, {commands:,} commands{builds}. A test runs a minute of it;
`--state test/Laws/state.json` and a larger `--count` go on from what was done. Every violation
is printed with the commands that show it; the status is 1 where its cause is not known.

*Largest* is the part by which the law is broken. A plan may be slower than another by as much as its certificate leaves open
(`gap` under `trust.certificate`); this is taken off. Times and bytes that must be equal may differ by 1e-6, those of a
plan that went through a file by 0.1 %. *inf* is a refusal where there must be a plan.
{enumerated}
{table}

## Examples

The largest violation of each kind. Commands are of bash, in the repository, with `build/bin` on the path.

{examples}
## Known causes

{causes}
"""


@dataclasses.dataclass
class Row:
    """What became of one kind of comparison."""

    checks: int = 0
    violations: int = 0
    largest: float = 0.0
    example: list = dataclasses.field(default_factory=list)
    said: str = ""


@dataclasses.dataclass(frozen=True)
class Run:
    arguments: object
    planned: int
    refused: int
    enumerated: int  # sets of pins
    commands: int = 0
    builds: int = 1  # of the planner

    def options(self):
        """Of the command that did the same."""
        sets = self.arguments.enumerate
        enumerate = f" --enumerate {sets}" if 0 < sets < sys.maxsize else " --enumerate" if sets else ""
        return f"--count {self.planned} --seed {self.arguments.seed}{' --quick' * self.arguments.quick}{enumerate}"


def percent(part):
    return "inf" if part == float("inf") else f"{100 * part:.3g} %"


def summary(rows):
    lines = ["| law | comparison | cases | violations | largest |", "|---|---|---|---|---|"]
    for (law, kind), row in sorted(rows.items()):
        largest = percent(row.largest) if row.violations else "-"
        lines.append(f"| {law} | {kind} | {row.checks:,} | {row.violations:,} | {largest} |")
    return lines


def examples(rows):
    for (law, kind), row in sorted(rows.items()):
        if row.violations:
            yield f"Law {law}, {kind}: {row.said}.\n\n" + "\n".join(f"    {command}" for command in row.example) + "\n"


def causes_of():
    """One line for each cause."""
    places = {}
    for (law, kind), (_, _, cause) in KNOWN.items():
        places.setdefault(cause, []).append(f"law {law}, {kind}")
    for cause, known in places.items():
        yield f"- {'; '.join(known)}: {cause}."


def text(rows, run):
    laws = "\n".join(f"{law}. {what}" for law, (what, _) in LAWS.items())
    enumerated = f"Of {len(ENUMERATED)} small cases {run.enumerated:,} combinations of pins were tried for law 9.\n" if run.enumerated else ""
    causes = "\n".join(causes_of()) or "None."
    return TEXT.format(options=run.options(),
                       planned=run.planned, refused=run.refused, commands=run.commands, builds=f" of {run.builds} builds" * (run.builds > 1),
                       enumerated=enumerated, table=f"{laws}\n\n" + "\n".join(summary(rows)),
                       examples="\n".join(examples(rows)), causes=causes)
