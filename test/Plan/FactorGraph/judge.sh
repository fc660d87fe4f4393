#!/usr/bin/env bash
# Compares elimination with an integer solver: judge.sh KERF_GRAPH CBC GRAPH...
# One line per graph; fails if any optimum differs, or if the solver is not sure.
set -euo pipefail
kerf_graph=$1 cbc=$2
shift 2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
status=0
(($# > 0)) || status=1
for graph; do
  "$kerf_graph" "$graph" --lp="$tmp/lp.lp" >/dev/null
  "$cbc" "$tmp/lp.lp" ratioGap 0 allowableGap 0 solve solution "$tmp/solution" >"$tmp/log" 2>&1
  if "$kerf_graph" "$graph" --solution="$tmp/solution" >"$tmp/out"; then
    verdict=same
  else
    verdict=DIFFERENT status=1
  fi
  echo "$(basename "$graph"): $(grep '^optimum' "$tmp/out" || true), integer program the $verdict"
done
exit "$status"
