"""second_algorithms.py IN OUT: a tuning file in which every matmul takes the stand-in's second
algorithm, whatever was faster. It finds them by their words: the bytes are spoiled."""

import json
import pathlib
import re
import sys

source, target = map(pathlib.Path, sys.argv[1:])
tuning = json.loads(source.read_text())
assert tuning["matmuls"], "no matmuls"
for matmul in tuning["matmuls"]:
    matmul["choice"] = re.sub(r"tile \d+", "tile 2", matmul["choice"])
    matmul["data"] = "0" * len(matmul["data"])
target.write_text(json.dumps(tuning, indent=1))
