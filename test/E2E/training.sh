#!/usr/bin/env bash
# Compiles a tiny model and compares its training with the interpreter.
# Usage: training.sh BIN SOURCE FAMILY|FOLDER STEPS TOLERANCE BATCH THREADS [options]
# Options are kerfc's; with + in the place of -- they are kerf-import's.
set -euo pipefail
bin=$1 source=$2 family=$3 steps=$4 tolerance=$5 batch=$6 threads=$7
shift 7
import=() compile=()
for word in "$@"; do
  if [[ $word == +* ]]; then import+=("--${word#+}"); else compile+=("$word"); fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

folder=$source/examples/models/tiny-$family
[[ -d $family ]] && folder=$family # a model of the tests' own
if [[ -f $folder/model.mlir ]]; then
  cp "$folder/model.mlir" "$work/model.mlir" # by hand, of its own batch
else
  "$bin/kerf-import" "$folder/config.json" --batch "$batch" --seq 16 "${import[@]}" \
    -o "$work/model.mlir"
fi
"$bin/kerfc" "$work/model.mlir" --stop-after=differentiate -o "$work/step.mlir"
"$bin/kerfc" "$work/model.mlir" "${compile[@]}" -o "$work/model.kerf"
"$bin/kerf-compiled" "$work/step.mlir" "$work/model.kerf" \
  --steps "$steps" --tolerance "$tolerance" --threads "$threads" --ignored 60
