#!/usr/bin/env bash
# Tests the factors of every op in the tiny models: factors.sh BIN_DIR SOURCE_DIR
set -euo pipefail
bin=$1 models=$2/examples/models
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
import() { # name model options...
  "$bin/kerf-import" "$models/$2/config.json" --batch 2 --seq 6 "${@:3}" -o "$tmp/$1.mlir"
}
import gpt2 tiny-gpt2
import llama tiny-llama --packed
import mistral tiny-mistral
import dropless tiny-mixtral --aux-loss=global
import latents tiny-deepseek-v3
import yarn tiny-qwen3
import unlike tiny-qwen3-moe --aux-loss=global
import capacity tiny-mixtral --packed --aux-loss=layer --z-loss=0.001 --capacity-factor=1.0
"$bin/kerf-factors" "$tmp"/*.mlir
