#!/usr/bin/env python3
"""Every sort of broken promise is found: tools that lie, rows that are missing, a page that is old.

    test/Promises/selftest.py REPO
"""

import json
import sys
import tempfile
import unittest
from pathlib import Path

import measure
import page
import table

REPO = sys.argv.pop()
ROW = {"model": "m", "batch": 1, "seq": 2, "devices": 4, "cluster": "c", "precision": "bf16", "why": "test"}
CHOICE = {"tp": 2, "cp": 1, "ep": 1, "dp": 2, "pp": 1, "chunks": 1, "micro_batches": 3, "micro_batch": 1,
          "schedule": "1f1b", "zero": 1}
EXPLAINED = {"feasible": True, "plan": {"choice": CHOICE}, "time": {"step_sec": 0.5},
             "memory": {"stages_bytes": [{"total": 1100.0, "reserved": 100}]}}


def inspecting(arena=990, step_sec=0.51, sent=1e9):
    """A kerf-inspect that says so."""
    told = {"step_sec": step_sec, "exchanges": [
        {"kind": "all_gather", "axes": "tp", "planned_bytes": 1e9, "bytes": sent, "planned_calls": 3, "calls": 4},
        {"kind": "all_reduce", "axes": "dp", "planned_bytes": 1e9, "bytes": 1e9, "planned_calls": 1, "calls": 1},
    ]}  # fmt: skip
    checked = {"checked": {"twin": "4 ranks", "largest_error": 0}}
    return (f"case $1 in plan) echo '{json.dumps(checked)}';; time) echo '{json.dumps(told)}';; "
            f"*) echo 'arena: {arena} bytes (0.0 GiB)';; esac")


# Tools that keep the promise: what each runs, with $out and $json taken from its options.
KEPT = {
    "kerf-import": 'touch "$out"',
    "kerfc": f"echo '{json.dumps(EXPLAINED)}' > \"$json\"; touch \"$out\"",
    "kerf-inspect": inspecting(),
    "kerf-run": "echo 'checked: 4 ranks, 1 communicators, 9 calls: 9 collectives and 0 messages find their partners, nothing hangs'",
}
READ_OPTIONS = """#!/bin/bash
for o; do
  case $o in --explain-json=*) json=${o#*=};; esac
  if [ "$last" = -o ]; then out=$o; fi
  last=$o
done
"""


def failures(changes=(), seconds=60, target="cuda", checks=False, **row):
    """What is broken about a row, measured by tools of which some are changed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for sub in ("bin", "examples/clusters", "run"):
            (folder / sub).mkdir(parents=True)
        (folder / "examples/clusters/c.yaml").write_text(f"device:\n  backend: {{target: {target}}}\n")
        for tool, body in {**KEPT, **dict(changes)}.items():
            (folder / "bin" / tool).write_text(READ_OPTIONS + body + "\n")
            (folder / "bin" / tool).chmod(0o755)
        one = measure.Measurement(table.Row({**ROW, **row}), folder / "run", folder / "bin", folder, seconds, checks, checks, 12)
        one.measure()
        return " ".join(one.figures["failures"])


class Rows(unittest.TestCase):
    def test_kept(self):
        self.assertEqual(failures(), "")

    def test_compiler_fails(self):
        self.assertIn("kerfc ended with 1: bad", failures({"kerfc": "echo 'x: error: bad' >&2; exit 1"}))

    def test_compiler_is_killed(self):
        self.assertIn("kerfc ended with -6", failures({"kerfc": "kill -ABRT $$"}))

    def test_nothing_is_explained(self):
        self.assertIn("cannot be read: FileNotFoundError", failures({"kerfc": 'touch "$out"'}))

    def test_takes_too_long(self):
        self.assertIn("'kerfc' took more than its time", failures({"kerfc": "exec sleep 60"}, seconds=0.3))

    def test_arena_above(self):
        self.assertIn("(-0.10 % below)", failures({"kerf-inspect": inspecting(arena=1001)}))

    def test_arena_far_below(self):
        self.assertIn("(3.10 % below)", failures({"kerf-inspect": inspecting(arena=969)}))
        self.assertEqual(failures({"kerf-inspect": inspecting(arena=971)}), "")

    def test_programs_take_longer(self):
        self.assertEqual(failures({"kerf-inspect": inspecting(step_sec=0.514)}), "")
        self.assertEqual(failures({"kerf-inspect": inspecting(step_sec=0.516)}), "the plan takes 0.5 s, its programs 0.516 (+3.2 %)")
        self.assertIn("its programs 0.484 (-3.2 %)", failures({"kerf-inspect": inspecting(step_sec=0.484)}))

    def test_programs_send_otherwise(self):
        self.assertEqual(failures({"kerf-inspect": inspecting(sent=1.005e9)}), "")
        more = failures({"kerf-inspect": inspecting(sent=1.03e9)})
        self.assertEqual(more, "what is sent is not what is priced: "
                               "all_gather over tp: 1.000 GB in 3 calls are priced, 1.030 GB in 4 sent")
        self.assertIn("0.970 GB in 4 sent", failures({"kerf-inspect": inspecting(sent=0.97e9)}))
        known = {"otherwise": {"all_gather tp": "two axes"}}
        self.assertEqual(failures({"kerf-inspect": inspecting(sent=2e9)}, **known), "")
        self.assertIn("'otherwise' is not needed any more for all_gather tp", failures(**known))

    def test_known_to_take_longer(self):
        known = {"apart": 0.05, "why_apart": "a cause"}
        self.assertEqual(failures({"kerf-inspect": inspecting(step_sec=0.52)}, **known), "")
        self.assertIn("(+6.0 %)", failures({"kerf-inspect": inspecting(step_sec=0.53)}, **known))
        self.assertIn("'apart' is not needed any more", failures(**known))

    def test_not_checked(self):
        self.assertEqual(failures(checks=True), "")
        unchecked = KEPT["kerf-inspect"].replace("checked", "other")
        self.assertIn("does not say that it was checked", failures({"kerf-inspect": unchecked}, checks=True))

    def test_given_plan_costs_something_else(self):
        other = json.dumps({**EXPLAINED, "time": {"step_sec": 0.501}})
        body = f"case \"$*\" in *--plan=*) echo '{other}' > \"$json\"; touch \"$out\";; *) {KEPT['kerfc']};; esac"
        self.assertIn("0.5 seconds of a step when it is found, 0.501 when it is given", failures({"kerfc": body}, checks=True))

    def test_stage_is_missing(self):
        self.assertIn("1 stages are planned, 0 are placed", failures({"kerf-inspect": ""}))

    def test_job_hangs(self):
        self.assertIn("kerf-run --dry-nccl ended with 1: hangs", failures({"kerf-run": "echo 'error: hangs'; exit 1"}))

    def test_some_ranks_are_left_out(self):
        fewer = KEPT["kerf-run"].replace("4 ranks", "2 ranks")
        self.assertIn("does not say that 4 ranks", failures({"kerf-run": fewer}))
        self.assertEqual(failures({"kerf-run": fewer}, target="cpu"), "")

    def test_refusals(self):
        refuses = {"kerfc": "echo 'error: no plan of x fits 4 devices' >&2; exit 1"}
        self.assertEqual(failures(refuses, expect="does not fit"), "")
        self.assertIn("expected a refusal as 'does not fit', found exit 0", failures(expect="does not fit"))
        other = {"kerfc": "echo 'error: no such pin' >&2; exit 1"}
        self.assertIn("found exit 1: no such pin", failures(other, expect="does not fit"))

    def test_planned_without_backend(self):
        only_plans = 'case "$*" in *--emit=plan*) ' + KEPT["kerfc"] + ";; *) echo \"error: cluster 'c': none\" >&2; exit 1;; esac"
        self.assertEqual(failures({"kerfc": only_plans}, expect="no backend"), "")
        self.assertIn("found exit 0", failures(expect="no backend"))


class Table(unittest.TestCase):
    def test_nothing_is_missing(self):
        self.assertEqual(table.gaps(table.read_rows(), REPO), [])

    def test_missing_rows(self):
        rows = table.read_rows()
        without = [r for r in rows if r.model != "sc21-18b" and r.cluster != "hgx-h800"]
        text = "\n".join(table.gaps(without, REPO))
        self.assertIn("no row has the model 'sc21-18b'", text)
        self.assertIn("no row has the cluster 'hgx-h800'", text)
        self.assertIn("no row for ('sc21-18b', 1024, 2048, 'dgx-a100-80g', 256, '')", text)
        self.assertIn("two rows are", "\n".join(table.gaps([*rows, rows[0]], REPO)))

    def test_bad_rows(self):
        for entry, message in (({"speed": 1}, "unknown key 'speed'"), ({"expect": "magic"}, "'expect' is 'magic'"),
                               ({"apart": 0.1}, "'apart' and 'why_apart' belong together"),
                               ({"otherwise": {"all_gather tp": "magic"}}, "unknown cause 'magic'")):
            with self.assertRaisesRegex(ValueError, message):
                table.Row({**ROW, **entry})


class Page(unittest.TestCase):
    def setUp(self):
        with tempfile.NamedTemporaryFile(delete=False) as file:
            self.path = Path(file.name)
        self.addCleanup(self.path.unlink)
        self.rows = [table.Row({**ROW, "batch": batch}) for batch in (1, 2)]
        figures = {"plan": "dp 4", "step_sec": 0.5, "planned_bytes": 2**30, "placed_bytes": 2**30, "below": [0, 0],
                   "failures": [], "search_sec": 1.0, "mib": 100}
        self.measured = {row.identity: page.cells(row, figures) for row in self.rows}
        page.write(self.rows, self.measured, self.path, 300, 1024)

    def test_same(self):
        slower = {key: [*cells[:12], "9.99", *cells[13:]] for key, cells in self.measured.items()}
        self.assertEqual(page.differences(self.rows, slower, self.path), [])

    def test_another_step(self):
        changed = {key: ["0.6" if cell == "0.5" else cell for cell in cells] for key, cells in self.measured.items()}
        self.assertIn("step s: the page says '0.5', found '0.6'", page.differences(self.rows, changed, self.path)[0])

    def test_other_rows(self):
        more = [*self.rows, table.Row({**ROW, "seq": 8})]
        self.assertIn("1 rows have no figures, such as 'm 1x8 4xc bf16'", page.differences(more, {}, self.path)[0])
        self.assertIn("a row that is not promised", page.differences(self.rows[:1], {}, self.path)[0])
        self.assertIn("another order", page.differences(self.rows[::-1], {}, self.path)[0])

    def test_says_what_is_apart(self):
        rows = [table.Row({**ROW, "apart": 0.05, "why_apart": "A cause."}), *self.rows[1:]]
        page.write(rows, self.measured, self.path, 300, 1024)
        self.assertIn("- m 1x2 4xc bf16: up to 5 %. A cause.", self.path.read_text())
        self.assertEqual(page.program_cell({"step_sec": 1, "program_sec": 1.04}), "1.04 (+4.0 %)")
        self.assertEqual(page.program_cell({"step_sec": 1, "program_sec": 1.02}), "1.02")

    def test_says_what_is_sent_otherwise(self):
        rows = [table.Row({**ROW, "otherwise": {"all_gather tp": "sum", "message forward": "slices"}}), *self.rows[1:]]
        page.write(rows, self.measured, self.path, 300, 1024)
        self.assertIn(f"- {table.CAUSES['sum']}\n  - m 1x2 4xc bf16: all_gather tp\n", self.path.read_text())
        self.assertIn(f"- {table.CAUSES['slices']}\n  - m 1x2 4xc bf16: message forward\n", self.path.read_text())

    def test_renews_some(self):
        first, second = (row.identity for row in self.rows)
        page.write(self.rows, {first: [*self.measured[first][:5], "pp 4", *self.measured[first][6:]]}, self.path, 300, 1024)
        found = page.lines_of(self.path)
        self.assertEqual((found[first][5], found[second][5]), ("pp 4", "dp 4"))


if __name__ == "__main__":
    unittest.main()
