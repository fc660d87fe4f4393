#!/usr/bin/env bash
# again.sh MODEL PLAN OUTPUT OPTIONS...: the plan, completed, gives the IR and the
# text again that it was saved with. The saved plan stays at OUTPUT.json.
set -euo pipefail
model=$1 plan=$2 output=$3
shift 3
kerfc "$model" "$@" --plan="$plan" --stop-after=plan -o "$output.first.mlir"
kerfc "$model" "$@" --plan="$plan" --emit=plan -o "$output.json"
kerfc "$model" "$@" --plan="$output.json" --stop-after=plan -o "$output.again.mlir"
kerfc "$model" "$@" --plan="$output.json" --emit=plan -o "$output.again.json"
diff "$output.first.mlir" "$output.again.mlir"
diff "$output.json" "$output.again.json"
