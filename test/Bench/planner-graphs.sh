#!/usr/bin/env bash
# Time of eliminating factor graphs of the planner.
#
#   test/Bench/planner-graphs.sh [runs [graph...]]
#
# Prints, for each graph, its size, the width and the largest table of the chosen
# order, the entries computed, and milliseconds of processor time, the best of the
# runs: of `eliminate` as it is called; of finding dominated states; of choosing an
# order and of eliminating when no state is left out, with the sizes for that.
# Without graphs: those stored with the tests, random ones of the shape of one and of
# four differentiated Llama layers, and the layers of example models on four ranks,
# with and without recomputation.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
runs=${1:-20}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

layer_graph() { # model options...: the graph of its layers
  "$root/build/bin/kerf-layers" "$tmp/$1.mlir" --cluster="$root/examples/clusters/hgx-h100.yaml" \
    --tp=4 --free --rest-free --graph "${@:2}"
}
graphs=("${@:2}")
if ((${#graphs[@]} == 0)); then
  for layers in 1 4; do
    python3 "$root/test/Bench/Inputs/layer_graph.py" "$layers" >"$tmp/llama-like-$layers.graph"
  done
  for model in gpt2-124m llama-3-8b mixtral-8x7b; do
    "$root/build/bin/kerf-import" "$root/examples/models/$model/config.json" --batch 64 --seq 1024 |
      "$root/build/bin/kerfc" - --precision=bf16 --stop-after=precision -o "$tmp/$model.mlir"
    layer_graph $model >"$tmp/$model.graph"
    layer_graph $model --recompute --kept-price=1e-12 --state-price=1e-13 >"$tmp/$model-recompute.graph"
  done
  graphs=("$root"/test/Plan/FactorGraph/Inputs/*.graph "$tmp"/*.graph)
fi
for graph in "${graphs[@]}"; do
  echo "== $(basename "$graph")"
  "$root/build/bin/kerf-graph" "$graph" --repeat="$runs" | grep -v '^states'
done
