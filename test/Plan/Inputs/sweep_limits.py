"""Checks the marks of a sweep: sweep_limits.py SWEEP.json SECONDS PRICE"""

import json
import sys

points = json.load(open(sys.argv[1]))["points"]
seconds, price = map(float, sys.argv[2:])
fits = [p for p in points if p["fits"]]
for p in fits:
    margin = 1 + p["error_band"]
    meets = p["run"]["sec"] * margin <= seconds and p["run"]["price"] * margin <= price
    assert p["meets_limits"] == meets, p
chosen = [p for p in fits if p["cheapest"]]
least = min((p["run"]["price"] for p in fits if p["meets_limits"]), default=None)
assert [p["run"]["price"] for p in chosen] == ([] if least is None else [least]), chosen
print(f"{len(chosen)} cheapest")
