"""The promise table as a page, docs/promises.md."""

import datetime
import re
from pathlib import Path

import measure
import table

HEAD = ("model", "sequences x tokens", "on", "precision", "options", "plan", "step s", "program s", "planned GiB", "placed GiB",
        "below %", "NCCL calls", "search s", "compile s", "check s", "checked on", "MiB", "file KiB",
        "date")
IDENTITY = 5
# More address space than this is not given to a tool.
MOST_GIB = 8
# Cells that are the same wherever a row runs.
STABLE = slice(0, 12)
TEXT = """# What is planned compiles

Each row is a shipped model on a described cluster. `kerf-import` and `kerfc` run as users type them, then the file is checked.

    test/Promises/promises.py build/bin . --table

writes this page (`--rows 'gpt-100b*'` renews some rows, `--quick` the few that a test runs); without `--table` it compares what it finds with
the page. The command ends with status 1 and the reasons where a row

- is refused, takes more than {seconds:.0f} s or {gib} GiB, or, where a refusal is expected, is not refused;
- has a stage whose placed arena is above what was planned, or more than 3 % below it;
- has programs that take more or less than the plan by more than {apart:.0f} % (`kerf-inspect time`), or by more than is said
  below, or is said below without need;
- has programs that send otherwise than is priced: of a kind of collective over some axes, of messages on a channel, other bytes
  by more than {sent:.0f} % of all that is sent, but for what is said below;
- makes a file that was not checked;
- has a plan that, given back, is refused or differs by a thousandth in step time or memory;
- would ask NCCL for something that hangs or finds no partner (`kerf-run --dry-nccl`).

It fails, too, where a shipped model or cluster, or a row of [the planner's figures](planner-figures.md), is missing here.

| column | is |
|---|---|
| options | of `kerf-import` and `kerfc`; `pin` is the layout that is given, all else is searched |
| plan | ranks of each kind (tp tensor, cp context, ep experts, dp data, pp stages); micro-batches x their sequences; schedule, v chunks per stage; ZeRO |
| step s | predicted seconds of a step |
| program s | the same, of the commands of the compiled programs, which are simulated on the same description |
| planned, placed GiB | the largest arena of a stage, as the plan expects it and as the program has it; the reserve of context and libraries is not in it |
| below % | how much less is placed than planned: least and most of all stages |
| NCCL calls | of all ranks in a training step and an evaluation, all of them matched; left out beyond {dry} ranks x micro-batches, where that takes minutes |
| search s | processor seconds until the plan is found, from the text of the model on |
| compile s | processor seconds from the plan to the file, without the check |
| check s | processor seconds of proving the file: compiling with and without, so expect an error of some tenths |
| checked on | ranks of the small step that stood for this one, and the largest error of its training in f64, rounded up to a power of ten |
| MiB | largest memory of `kerfc` |
| file KiB | size of the file |

{known}
Measured on one core of: {processor}.

{table}
"""


def program_cell(figures):
    """Seconds of the compiled programs; their difference where it is more than is promised."""
    seconds, planned = figures.get("program_sec"), figures.get("step_sec")
    if seconds is None:
        return "-"
    other = seconds / planned - 1
    return f"{seconds:.4g}" + (f" ({100 * other:+.1f} %)" if abs(other) > measure.MOST_OTHER else "")


def known_list(rows):
    """Rows whose programs are known to take another time than the plan, and why."""
    known = [f"- {row.name}: up to {100 * row.apart:.0f} %. {row.why_apart}" for row in rows if row.apart]
    apart = ["Where plan and program are known to be further apart:", "", *known, ""] if known else []
    return "\n".join([*apart, *otherwise_list(rows)])


def otherwise_list(rows):
    """Causes for which programs send otherwise than is priced, and in which rows."""
    lines = []
    for cause, why in table_causes(rows):
        lines.append(f"- {why}")
        for row in rows:
            if names := [name for name, own in row.otherwise.items() if own == cause]:
                lines.append(f"  - {row.name}: {', '.join(names)}")
    return ["Where programs are known to send otherwise than is priced:", "", *lines, ""] if lines else []


def table_causes(rows):
    """The causes that some row has, with their texts."""
    return [(cause, why) for cause, why in table.CAUSES.items() if any(cause in row.otherwise.values() for row in rows)]


def cells(row, figures):
    """The cells of one row; figures that it lacks are '-'."""

    def show(key, form, scale=1):
        return format(figures[key] / scale if scale != 1 else figures[key], form) if figures.get(key) is not None else "-"

    below = figures.get("below")
    plan = "; ".join(filter(None, [figures.get("plan"), row.expect if row.expect != "a file" else None,
                                   "FAILED" if figures.get("failures") else None]))
    return [*row.identity, plan or "-", show("step_sec", ".4g"), program_cell(figures), show("planned_bytes", ".2f", 2**30),
            show("placed_bytes", ".2f", 2**30), f"{100 * below[0]:.1f} .. {100 * below[1]:.1f}" if below else "-",
            show("nccl_calls", ",d"),
            show("search_sec", ".2f"), show("compile_sec", ".2f"), show("check_sec", ".2f"), figures.get("checked") or "-",
            show("mib", ".0f"),
            show("file_bytes", ".0f", 1024),
            datetime.date.today().isoformat() if figures else "-"]


def line(parts):
    return "| " + " | ".join(parts) + " |"


def lines_of(path):
    """Cells of the page's rows, by their identity."""
    found = {}
    for text in Path(path).read_text().splitlines() if Path(path).exists() else []:
        parts = [part.strip() for part in text.strip("|").split(" | ")]
        if len(parts) == len(HEAD) and tuple(parts) != HEAD:
            found[tuple(parts[:IDENTITY])] = parts
    return found


def differences(rows, measured, path):
    """What the page says otherwise than `rows` (all of them) and `measured` (cells by identity)."""
    page = lines_of(path)
    expected = [row.identity for row in rows]
    absent = [row.name for row in rows if page.get(row.identity, ["-"])[-1] == "-"]
    found = [f"{path}: {len(absent)} rows have no figures, such as '{absent[0]}'"] if absent else []
    found += [f"{path}: has a row that is not promised: {' '.join(key)}" for key in page if key not in expected]
    if not found and list(page) != expected:
        found = [f"{path}: rows are in another order"]
    for key, parts in measured.items():
        for name, old, new in zip(HEAD[STABLE], page.get(key, parts)[STABLE], parts[STABLE]):
            if old != new:
                found.append(f"{path}: {' '.join(key)}: {name}: the page says '{old}', found '{new}'")
    return found


def processor():
    names = re.findall(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.M)
    return names[0] if names else "unknown"


def write(rows, measured, path, seconds, dry_work):
    """The page with what was measured now, and of other rows what it had."""
    page = lines_of(path)
    body = [measured.get(row.identity) or page.get(row.identity) or cells(row, {}) for row in rows]
    lines = "\n".join([line(HEAD), "|" + "---|" * len(HEAD), *map(line, body)])
    known = known_list(rows)
    Path(path).write_text(TEXT.format(seconds=seconds, gib=MOST_GIB, apart=100 * measure.MOST_OTHER, dry=f"{dry_work:,}",
                                      processor=processor(), table=lines, known=known,
                                      sent=100 * measure.MOST_SENT))
