#!/usr/bin/env bash
# The layer solver against an integer solver: every kind of layer of every tiny
# family, on a tensor axis of two ranks. Then against the best layout on two axes
# of two ranks at once, which must be proven for all but Mixtral's layer: one axis
# after the other is at most 0.1 % slower, embeddings 1 %. layer-judge.sh BIN
# SOURCE_ROOT CBC
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
    for axes in "--tp=2 --cp=2" "--tp=2 --ep=2" "--cp=2 --ep=2"; do
      # shellcheck disable=SC2086
      found=$("$bin/kerf-layers" "$tmp/step.mlir" --cluster="$root/examples/clusters/this-machine.yaml" $axes --kind=$kind \
        --kept-price=1e-9 --state-price=1e-9 --pair 2>/dev/null)
      awk -v what="$family $kind $axes: $found" -v kind="$family$kind" '{
        if (kind != "mixtrallayer" && $0 !~ /proven/) { print what " (not proven)"; exit 1 }
        if ($(NF - 1) + 0 > (kind ~ /embedding/ ? 1 : 0.1)) { print what " (worse than both at once)"; exit 1 }
      }' <<<"$found"
    done
  done
done
"$root/test/Plan/FactorGraph/judge.sh" "$bin/kerf-graph" "$cbc" "$tmp"/*.graph
