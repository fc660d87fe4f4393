#!/usr/bin/env bash
# From a fresh checkout to a checked model and a few training steps. Writes to build/quickstart/.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
out=build/quickstart
models=examples/models
export PATH=$root/build/bin:$PATH

say() { printf '\n== %s\n' "$*"; }
show() {
  printf '$ %s\n' "$*"
  "$@"
}

say "1. Packages and build"
.ci/setup.sh
.ci/build.sh
mkdir -p "$out"
echo "built: build/bin"

say "2. GPT-2 (124M), from its Hugging Face configuration"
show kerf-import $models/gpt2-124m/config.json --batch 8 --seq 1024 -o $out/gpt2.mlir
show kerfc $out/gpt2.mlir --stop-after=ingest -o $out/gpt2.ingest.mlir
show kerf-inspect params $out/gpt2.ingest.mlir

say "3. A tiny GPT-2: derive its training step and run three steps of it"
show kerf-import $models/tiny-gpt2/config.json --batch 2 --seq 16 -o $out/tiny.mlir
show kerfc $out/tiny.mlir --stop-after=differentiate -o $out/tiny.step.mlir
show kerf-inspect interpret $out/tiny.step.mlir --steps 3 --seed 1

cat <<END

Done. Next, try:
  less $out/gpt2.mlir                                                      # the model, as Kerf reads it
  build/bin/kerfc $out/gpt2.mlir --stop-after=differentiate -o - | less    # its whole training step
  build/bin/kerf-inspect interpret $out/tiny.step.mlir --steps 10 --seed 2   # other weights, more steps
END
