#!/usr/bin/env bash
# Speed of generated kernels at the sizes of GPT-2 124M, 4 x 512 tokens.
#
#   test/Bench/kernels.sh [threads [cpu]]
#
# Prints, for each kernel, the median and the best time of 20 runs and the bytes
# of its inputs and results over that time. The first two lines are copies: what
# memory (309 MB there and back) and caches (6 MB) give at most. Kernels that read
# their input several times from a cache reach less, lookups seem to reach more
# (a table counts whole).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
"$root/build/bin/kerf-kernels" "$root/test/Bench/Inputs/kernels.mlir" --bench \
  --threads "${1:-$(nproc)}" --cpu "${2:-native}"
