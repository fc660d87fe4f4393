"""Writes a kernel that takes too much of a GPU.

  many.py sums N      N sums of long rows: each takes shared memory
  many.py results N   N results
"""

import sys

WHAT, COUNT = sys.argv[1], int(sys.argv[2])
ROW = "tensor<2x16384xf64>"
SUM = "tensor<2xf64>"

if WHAT == "sums":
    print(f"exec.kernel @sums(%x: {ROW}) -> {SUM} {{")
    power, total = "%x", ""
    for i in range(COUNT):
        print(f"  %y{i} = kerf.mul {power}, %x : {ROW}")
        print(f"  %s{i} = kerf.reduce sum %y{i} dims [1] : {ROW}")
        if total:
            print(f"  %t{i} = kerf.add {total}, %s{i} : {SUM}")
        power, total = f"%y{i}", f"%t{i}" if total else f"%s{i}"
    print(f"  exec.yield {total} : {SUM}\n}}")
else:
    types = ", ".join([SUM] * COUNT)
    print(f"exec.kernel @results(%x: {SUM}) -> ({types}) {{")
    for i in range(COUNT):
        print(f"  %y{i} = kerf.exp %x : {SUM}")
    values = ", ".join(f"%y{i}" for i in range(COUNT))
    print(f"  exec.yield {values} : {types}\n}}")
