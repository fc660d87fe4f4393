"""Fails unless the losses of two runs agree within 3 percent, and are not the same."""

import re
import sys


def losses(path):
    with open(path, encoding="utf-8") as file:
        return [float(number) for number in re.findall(r"loss (\S+)", file.read())]


a, b = map(losses, sys.argv[1:])
if not a or len(a) != len(b) or a == b:
    sys.exit(f"expected two runs that differ, found {a} and {b}")
if not all(abs(x - y) <= 0.03 * max(1, abs(x)) for x, y in zip(a, b)):
    sys.exit(f"expected close losses, found {a} and {b}")
