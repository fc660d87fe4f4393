"""Says how many labels of points a chart of kerfc --sweep has, and how many of them its lines run through.

chart_labels.py CHART.svg
"""

import itertools
import pathlib
import re
import sys

svg = pathlib.Path(sys.argv[1]).read_text()
lines = []
for points, rest in re.findall(r'<polyline [^>]*points="([^"]*)"([^>]*)', svg):
    if "dasharray" not in rest:
        lines.append([tuple(map(float, point.split(","))) for point in points.split()])
labels = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*paint-order[^>]*>([^<]*)', svg)


def crosses(line, left, top, right, bottom):
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        for step in range(101):
            x, y = x0 + (x1 - x0) * step / 100, y0 + (y1 - y0) * step / 100
            if left < x < right and top < y < bottom:
                return True
    return False


crossed = sum(any(crosses(line, x, y - 7, x + 5.5 * len(text), y) for line in lines)
              for x, y, text in ((float(x), float(y), text) for x, y, text in labels))  # fmt: skip
print(f"{len(lines)} lines, {len(labels)} labels, {crossed} crossed")
