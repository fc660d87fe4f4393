"""same_losses.py LOG LOG [PART]: both logs of kerf-run have the same losses, to
PART (1e-5) of them, and at least two. Prints "N losses agree"."""

import re
import sys


def losses(path):
    with open(path, encoding="utf-8") as file:
        return [float(x) for x in re.findall(r"\| loss: (\S+) \|", file.read())]


part = float(sys.argv[3]) if len(sys.argv) > 3 else 1e-5
first, second = (losses(path) for path in sys.argv[1:3])
if len(first) < 2 or len(first) != len(second):
    sys.exit(f"found {len(first)} and {len(second)} losses, expected as many, 2 or more")
for a, b in zip(first, second):
    if not abs(a - b) <= part * abs(a):
        sys.exit(f"losses {a} and {b} differ by more than {part:g} of them")
print(f"{len(first)} losses agree")
