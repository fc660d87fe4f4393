#!/usr/bin/env python3
"""Edits a plan of tiny-gemma3: tensor ranks share the feed-forward layer of the third run,
which recomputes its gelu. The run is as the first, its ops have numbers higher by SHIFT."""
import json
import sys

SHIFT = 102
GATE, UP, GELU, MUL, DOWN = (SHIFT + number for number in (43, 45, 46, 47, 49))
CUTS = {GATE: "n", UP: "n", GELU: "f", MUL: "f", DOWN: "k"}

plan = json.load(open(sys.argv[1]))
kept = []
for rule in plan["assign"]:
    phase, number, order = rule["op"].split()
    if int(number) not in CUTS:
        kept.append(rule)
    elif phase == "forward" and int(number) in (GATE, UP, DOWN) and "linear" in rule["at"]:
        rule["factors"][CUTS[int(number)]] = ["tp"]
        kept.append(rule)
plan["assign"] = kept
plan["recompute"] = [GELU]
json.dump(plan, sys.stdout)
