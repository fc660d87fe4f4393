"""device_times.py TRACE: are the times those of a device? Commands of one stream do not overlap, lie
within their call and their step, and fill most of it. Times of a host that only enqueues would leave
the step, whose work the simulator does when it is waited for, all but empty."""

import json
import pathlib
import sys

SLACK_US = 1.0  # the clocks are compared to about that
events = [
    e
    for e in json.loads(pathlib.Path(sys.argv[1]).read_text())["traceEvents"]
    if e["ph"] == "X"
]


def ends(event):
    return event["ts"] + event["dur"]


steps = [e for e in events if e["cat"] == "step"]
calls = [e for e in events if e["tid"] == 3]
commands = sorted((e for e in events if e["tid"] == 0), key=lambda e: e["ts"])
assert steps and calls and len(commands) > 50, (len(steps), len(calls), len(commands))
busy, length = sum(e["dur"] for e in commands), sum(e["dur"] for e in steps)
assert busy > 0.5 * length, (busy, length)
for before, after in zip(commands, commands[1:]):
    assert after["ts"] >= ends(before) - SLACK_US, (before, after)
for event in calls + commands:
    inside = [s for s in steps if s["ts"] - 1000 <= event["ts"] and ends(event) <= ends(s) + 1000]
    assert inside, event
for command in commands:
    assert any(
        c["ts"] - SLACK_US <= command["ts"] and ends(command) <= ends(c) + SLACK_US for c in calls
    ), command
print("commands of one stream follow one another, within their calls")
