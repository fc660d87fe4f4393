#!/usr/bin/env bash
# Time and memory of reading and differentiating the largest example models.
#
#   test/Bench/frontend.sh [runs]
#
# Prints, for each model, the median over the runs of the whole pipe
# kerf-import | kerfc --stop-after=differentiate (seconds, two processes), the
# same for kerf-import alone, its peak memory, and the size of the text. Nothing
# may grow with the number of parameters or layers.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$root/build/bin
runs=${1:-7}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

median() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
seconds() { # command...: wall seconds of one run
  local start end
  start=$(date +%s.%N)
  "$@" >/dev/null
  end=$(date +%s.%N)
  awk -v a="$start" -v b="$end" 'BEGIN {printf "%.3f\n", b - a}'
}
import() { "$bin/kerf-import" "$root/examples/models/$1/config.json" --batch "$2" --seq "$3"; }
pipe() { import "$@" | "$bin/kerfc" - --stop-after=differentiate -o "$tmp/step.mlir"; }
repeat() { for _ in $(seq "$runs"); do seconds "$@"; done | median; }
peak() { # command...: peak memory in KiB, as the kernel accounts for it
  python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' "$@"
}

printf '%-18s %10s %12s %10s %12s\n' model 'import s' 'with step s' 'peak MiB' 'step KiB'
while read -r model batch seq; do
  one=$(repeat import "$model" "$batch" "$seq")
  both=$(repeat pipe "$model" "$batch" "$seq")
  kib=$(peak "$bin/kerf-import" "$root/examples/models/$model/config.json" --batch "$batch" --seq "$seq")
  printf '%-18s %10s %12s %10d %12d\n' "$model" "$one" "$both" $((kib / 1024)) \
    $(($(stat -c %s "$tmp/step.mlir") / 1024))
done <<'MODELS'
gpt2-124m 512 1024
llama-3-8b 2048 8192
llama-3.1-405b 2048 8192
mixtral-8x7b 1024 4096
sc21-1t 3072 2048
MODELS
