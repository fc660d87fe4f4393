#!/usr/bin/env bash
# Runs every cut that is said to be tested, and drawn ones, on ops of tiny models:
#   cuts.sh BIN_DIR SOURCE_DIR [LIST]
set -euo pipefail
bin=$1 models=$2/examples/models
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
import() { # name model options...
  "$bin/kerf-import" "$models/$2/config.json" --batch 16 --seq 16 "${@:3}" -o "$tmp/$1.mlir" 2> "$tmp/warnings"
}
import gpt2 tiny-gpt2
import llama tiny-llama --packed
import dropless tiny-mixtral --aux-loss=layer
import latents tiny-deepseek-v3
import unlike tiny-qwen3-moe
# Blocks of 64 codes divide among ranks.
sed -E 's/"(hidden|intermediate)_size": [0-9]+/"\1_size": 128/' "$models/tiny-llama/config.json" > "$tmp/codes.json"
"$bin/kerf-import" "$tmp/codes.json" --batch 16 --seq 16 --lora-rank=4 --quantize-base=nf4 -o "$tmp/codes.mlir"
# One group of keys, whose readers are cut.
cp "$models/tiny-palm/model.mlir" "$tmp/one-group.mlir"
import capacity tiny-mixtral --packed --aux-loss=layer --z-loss=0.001 --capacity-factor=1.0
if [ $# -gt 2 ]; then
  "$bin/kerf-cuts" run "$3" "$tmp"/*.mlir
  exit
fi
"$bin/kerf-cuts" run "$2/test/Random/executed-cuts.txt" "$tmp"/*.mlir
"$bin/kerf-cuts" draw 200 1 "$tmp"/*.mlir
"$bin/kerf-cuts" break 60 1 "$tmp"/*.mlir
# A cut that fits no op is told, and fails.
echo "linear b 1 z 1" > "$tmp/none.txt"
if "$bin/kerf-cuts" run "$tmp/none.txt" "$tmp/gpt2.mlir" > "$tmp/none.out"; then
  echo "a cut that cannot run was accepted"
  exit 1
fi
grep -q "^not run: linear b 1 z 1: it has no such factor" "$tmp/none.out"
