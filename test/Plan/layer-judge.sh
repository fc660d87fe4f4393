#!/usr/bin/env bash
# The layer solver against an integer solver: every kind of layer of every tiny
# family, on a tensor axis of two ranks. layer-judge.sh BIN SOURCE_ROOT CBC
set -euo pipefail
bin=$1 root=$2 cbc=$3
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for family in gpt2 llama mistral mixtral; do
  "$bin/kerf-import" "$root/examples/models/tiny-$family/config.json" --batch 8 --seq 16 -o "$tmp/model.mlir"
  "$bin/kerfc" "$tmp/model.mlir" --stop-after=precision -o "$tmp/step.mlir"
  for kind in embedding layer head; do
    "$bin/kerf-layers" "$tmp/step.mlir" --cluster="$root/examples/clusters/this-machine.yaml" --tp=2 --kind=$kind \
      --kept-price=1e-9 --graph >"$tmp/$family-$kind.graph"
  done
done
"$root/test/Plan/FactorGraph/judge.sh" "$bin/kerf-graph" "$cbc" "$tmp"/*.graph
