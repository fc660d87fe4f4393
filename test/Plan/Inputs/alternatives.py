"""Compares the alternatives of a screen with those of its JSON: alternatives.py SCREEN.txt EXPLAINED.json

Each value that was not evaluated stands in one row. A row's bound is the least of its values, its percentage that of
the bound over the step; a range of values has none that the search evaluated.
"""

import json
import re
import sys

screen = open(sys.argv[1]).read()
explained = json.load(open(sys.argv[2]))
step = explained["time"]["step_sec"]
rows = {row["what"]: row for row in explained["alternatives"]}
part = screen[screen.index("ALTERNATIVES") : screen.index("\nRUN")]
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1}


def values_of(text):
    """"pp=3,5,9-15" -> "pp=3", "pp=5", "pp=9", ..."""
    key, _, values = text.partition("=")
    for value in values.split(","):
        first, dash, last = value.partition("-")
        yield from (f"{key}={n}" for n in range(int(first), int(last if dash else first) + 1))


counts = {"open": 0, "slower": 0, "ranges": 0}
for what, why in re.findall(r"^  (\S+=[\d,-]+)  +(\S.*(?:\n {20,}\S.*)*)", part, re.M):
    why = " ".join(why.split())
    bound = re.search(r"lower bound ([\d.,]+) (us|ms|s)", why)
    if not bound:
        continue
    own = [rows[value] for value in values_of(what)]
    assert all("step_sec" not in row for row in own), f"{what} has a value that was evaluated"
    least = min(row["lower_bound_sec"] for row in own)
    assert abs(float(bound[1].replace(",", "")) * UNITS[bound[2]] / least - 1) < 6e-3, (what, why, least)
    said = float(re.search(r"([\d.]+) %", why)[1]) / 100
    is_open = why.startswith("open")
    true = 1 - least / step if is_open else least / step - 1
    assert abs(said - true) < 6e-4 and is_open == (least < step), (what, why, true)
    counts["open" if is_open else "slower"] += len(own)
    counts["ranges"] += len(own) if re.search(r"\d-\d", what) else 0
print(f"{counts['open']} values open, {counts['slower']} slower, {counts['ranges']} in ranges")
