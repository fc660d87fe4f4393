"""Tables of a record of gpu.py, and the pages that show them."""

import re
import sys

NOT_RUN = "not run"
# Page -> tables between its marks, by name.
PAGES = {"README.md": ["summary"], "docs/hardware.md": ["predictions", "speed", "kernels", "origin"]}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


# ---- Figures -----------------------------------------------------------------


def measured(row):
    return row["status"] == "measured"


def cell(row, key, show):
    """A figure of a program's row, or why there is none, in two words."""
    if not measured(row):
        return row["status"]
    return show(row[key]) if row.get(key) is not None else "-"


def per_sec(value):
    return f"{value:,.0f}"


def milliseconds(value):
    return f"{value * 1e3:.1f}"


def percent(value):
    return f"{100 * value:.1f} %"


def gibibytes(value):
    return f"{value / (1 << 30):.1f}"


def error_of(predicted, found):
    """" (+3.1 %)": how far a prediction is above what was measured."""
    return f" ({100 * (predicted / found - 1):+.1f} %)"


def against(row, key, predicted, show):
    """A measured figure with the error of its prediction."""
    text = cell(row, key, show)
    return text + error_of(predicted, row[key]) if measured(row) and row.get(key) else text


def ratio(row):
    kerf, torch = row["kerf"], row["torch"]
    if not measured(kerf) or not measured(torch):
        return NOT_RUN if NOT_RUN in (kerf["status"], torch["status"]) else "-"
    return f"{kerf['tokens_per_sec'] / torch['tokens_per_sec']:.2f}"


def title(row):
    return f"{row['name']}, {row['batch']} x {row['seq']:,}"


# ---- Tables ------------------------------------------------------------------


def summary(record):
    """README's: what was measured, on what, when."""
    gpu = record["gpu"]["name"] if record["gpu"] else "none"
    head = ["model, sequences x tokens", "GPU", "ranks", "date", "commit"]
    head += ["Kerf tokens/s", "MFU", "PyTorch tokens/s", "MFU", "Kerf / PyTorch"]
    rows = []
    for row in record["models"]:
        kerf, torch = row["kerf"], row["torch"]
        where = [gpu, str(record["ranks"]), record["date"], record["commit"]]
        if NOT_RUN == kerf["status"] == torch["status"]:
            where = ["-"] * 4
        figures = [cell(kerf, "tokens_per_sec", per_sec), cell(kerf, "mfu", percent)]
        peer = f" ({torch['variant']})" if measured(torch) else ""
        figures += [cell(torch, "tokens_per_sec", per_sec) + peer, cell(torch, "mfu", percent)]
        rows.append([title(row), *where, *figures, ratio(row)])
    return table(head, rows)


def predictions(record):
    """Predicted beside measured. The arena is the compiled program's, the reserve that of
    the cluster's description."""
    head = ["model, sequences x tokens", "parameters", "layout", "step ms", "measured", "tokens/s", "measured"]
    head += ["MFU", "measured", "memory of the plan, GiB", "arena + reserve, GiB", "measured"]
    rows = []
    for row in record["models"]:
        kerf, plan = row["kerf"], row["predicted"]
        if plan is None:
            rows.append([title(row), *["-"] * 2, "does not compile: " + kerf["reason"], *["-"] * 8])
            continue
        figures = [
            milliseconds(plan["step_sec"]), against(kerf, "step_sec", plan["step_sec"], milliseconds),
            per_sec(plan["tokens_per_sec"]), cell(kerf, "tokens_per_sec", per_sec),
            percent(plan["mfu"]), cell(kerf, "mfu", percent),
            gibibytes(plan["memory_bytes"]), gibibytes(own := row["arena_bytes"] + plan["reserved_bytes"]),
            against(kerf, "memory_bytes", own, gibibytes),
        ]  # fmt: skip
        rows.append([title(row), f"{row['parameters']:,}", plan["layout"], *figures])
    return table(head, rows)


def slowest_kernel(kerf, record):
    """The slowest kernel beyond the L2 cache, as a part of the copy bandwidth."""
    kernels = kerf.get("kernels")
    if not kernels:
        return "-"
    copy = record["gpu"]["copy_bytes_per_sec"]
    return f"{percent(kernels[0]['bytes_per_sec'] / copy)} ({kernels[0]['name']})"


def speed(record):
    """Programs in rows: losing ones stay, and so do failed ones."""
    head = ["model", "program", "tokens/s", "fastest - slowest step, ms", "MFU", "memory GiB"]
    head += ["outside matmuls", "gaps", "slowest kernel of copy"]
    rows = []
    for row in record["models"]:
        kerf, torch = row["kerf"], row["torch"]
        own = ["-"] * 3
        if measured(kerf):
            shares = [cell(kerf, key, percent) for key in ("outside_share", "gap_share")]
            own = [*shares, slowest_kernel(kerf, record)]
        rows.append([row["name"], "Kerf tuned" if "tuning_sec" in kerf else "Kerf", *rates(kerf, record), *own])
        for said in [kerf[key] for key in ("reason", "tuning_failed") if measured(kerf) and key in kerf]:
            rows.append([row["name"], "Kerf", said, *["-"] * 6])
        if "kerf_any_order" in row:
            other = "Kerf, attention's sums in any order"
            rows.append([row["name"], other, *rates(row["kerf_any_order"], record), *["-"] * 3])
        rows.append([row["name"], "PyTorch " + torch.get("variant", ""), *rates(torch, record), "-", "-", "-"])
        for variant, told in torch.get("variants", {}).items():
            if variant != torch.get("variant"):
                said = per_sec(told["tokens_per_sec"]) if "tokens_per_sec" in told else told["reason"]
                rows.append([row["name"], "PyTorch " + variant, said, *["-"] * 6])
    return table(head, [[part.strip() for part in row] for row in rows])


def rates(row, record):
    """Tokens per second, or why there are none; spread of the steps, MFU and memory."""
    if not measured(row):
        known = row["reason"] == record["missing"]
        return [row["status"] if known else f"{row['status']}: {row['reason']}", "-", "-", "-"]
    text = [cell(row, "tokens_per_sec", per_sec), milliseconds(row["fastest_sec"])]
    text[1] += " - " + milliseconds(row["slowest_sec"])
    return [*text, cell(row, "mfu", percent), cell(row, "memory_bytes", gibibytes)]


def kernels(record):
    """Every fused kernel whose operands are larger than twice the L2 cache."""
    head = ["model", "kernel", "calls a step", "MB a call", "GB/s", "of copy"]
    rows = []
    for row in record["models"]:
        kerf = row["kerf"]
        if not measured(kerf):
            rows.append([row["name"], kerf["status"], *["-"] * 4])
            continue
        for kernel in kerf.get("kernels", []):
            share = percent(kernel["bytes_per_sec"] / record["gpu"]["copy_bytes_per_sec"])
            speeds = [f"{kernel['bytes'] / 1e6:.1f}", f"{kernel['bytes_per_sec'] / 1e9:.1f}", share]
            rows.append([row["name"], kernel["name"], str(kernel["calls"]), *speeds])
    return table(head, rows)


def origin(record):
    """What the figures come from: machine, versions, flags."""
    gpu = record["gpu"]
    versions = record["versions"]
    when = f"{record['date']}, commit {record['commit']}, {versions['kerf']}"
    lines = [f"Predicted with `{record['cluster']}`, {when}."]
    if gpu:
        copy = f"{gpu['copy_bytes_per_sec'] / 1e12:.3f} TB/s" if "copy_bytes_per_sec" in gpu else "not measured"
        sizes = f"{gpu['arch']}, {gibibytes(gpu['memory_bytes'])} GiB, driver {gpu['driver']}"
        lines += [f"Measured on {gpu['name']} ({sizes}), {record['ranks']} rank; copies: {copy}."]
    else:
        lines += [f"Measured: nothing ({record['missing']})."]
    if "torch" in versions:
        said = (str(v) if key == "version" else f"{key} {v}" for key, v in versions["torch"].items())
        lines += ["PyTorch " + ", ".join(said) + "."]
    lines += [f"Flags: `{record['flags']}`. Median of {record['rounds']} rounds."]
    return "\n".join(lines)


TABLES = {"summary": summary, "predictions": predictions, "speed": speed, "kernels": kernels, "origin": origin}


def report(record):
    """Everything, for the terminal."""
    parts = [origin(record), *(make(record) for name, make in TABLES.items() if name != "origin")]
    return "\n\n".join(parts)


def line_of(row):
    """A model's outcome in a line."""
    text = [row["name"] + ":"]
    for program in ("kerf", "torch"):
        found = row[program]
        told = f"{found['status']}: {found.get('reason', '')}"
        if measured(found):
            told = per_sec(found["tokens_per_sec"]) + " tokens/s"
        text.append(f"{program} {told};")
    return " ".join(text).rstrip(";")


# ---- Pages -------------------------------------------------------------------


def marked(name, text):
    """A table, which ends with a line break or is empty, between its marks."""
    return f"<!-- test/Bench/gpu.py: {name} -->\n{text}<!-- end: {name} -->"


def update(root, record, is_check):
    """Puts the tables into the pages below `root`, or tells where they differ. Returns
    an exit status: 1 where a page has other tables, or no marks."""
    status = 0
    for page, names in PAGES.items():
        path = root / page
        text = new = path.read_text()
        for name in names:
            pattern = ".*?".join(re.escape(part) for part in marked(name, "\0").split("\0"))
            whole = marked(name, TABLES[name](record) + "\n")
            new, count = re.subn(pattern, lambda _: whole, new, flags=re.DOTALL)
            if count != 1:
                print(f"error: {page} has {count} tables marked '{name}', expected 1", file=sys.stderr)
                status = 1
        if new != text and is_check:
            told = "has other tables than the record; run test/Bench/gpu.py --write"
            print(f"error: {page} {told}", file=sys.stderr)
            status = 1
        elif new != text:
            path.write_text(new)
    return status
