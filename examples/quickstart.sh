#!/usr/bin/env bash
# From a fresh checkout to a small GPT, planned for four ranks and trained for about a minute on the license texts of
# this machine, or on a text file of yours: quickstart.sh [TEXT]. Writes to build/quickstart/.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
text=${1:+$(realpath -- "$1")}
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
.ci/build.sh --programs
mkdir -p "$out"
echo "built: build/bin"

say "2. GPT-2 (124M), from its Hugging Face configuration"
show kerf-import $models/gpt2-124m/config.json --batch 8 --seq 1024 -o $out/gpt2.mlir
show kerfc $out/gpt2.mlir --stop-after=ingest -o $out/gpt2.ingest.mlir
show kerf-inspect params $out/gpt2.ingest.mlir

say "3. A small GPT of 0.9 million parameters on bytes"
cat >$out/config.json <<END
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 256, "n_positions": 128,
 "n_embd": 128, "n_layer": 4, "n_head": 4, "activation_function": "gelu_new",
 "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0}
END
if [[ -z $text ]]; then
  text=$out/licenses.txt
  find /usr/share/common-licenses -type f -print0 | sort -z | xargs -0 cat >$text
fi
show kerf-import $out/config.json --batch 16 --seq 128 -o $out/small.mlir

say "4. Four ranks on this machine: the layout that the planner finds, and why"
cluster="--cluster=examples/clusters/this-machine.yaml --devices=4 --pin=devices=4"
show kerfc $out/small.mlir $cluster --explain
show kerfc $out/small.mlir $cluster -o $out/small.kerf

say "5. Is it the same training? Tried with a small batch, on virtual ranks in f64"
kerf-import $out/config.json --batch 4 --seq 16 -o $out/little.mlir
show kerfc $out/little.mlir $cluster --emit=verify -o $out/check.mlir
show kerf-inspect verify $out/check.mlir

say "6. Ten steps on one rank and on four"
kerfc $out/small.mlir -o $out/one.kerf
for model in one small; do
  show kerf-run $out/$model.kerf --data "$text" --steps 10 --lr 3e-3 --log-every 10 --threads 1 |
    grep -E "model | iteration"
done

say "7. Train it on four ranks"
show kerf-run $out/small.kerf --data "$text" --steps 600 --lr 3e-3 --heldout 0.05 --eval-every 50 \
  --log-every 20 --threads 1 --plot $out/loss.svg --log-json $out/loss.json --save-weights $out/small

cat <<END

Done: the loss is plotted in $out/loss.svg; the weights in $out/small/ have Hugging Face names. Next, try:
  build/bin/kerf-run $out/small.kerf --data "$text" --init-from $out/small --steps 400    # go on
  build/bin/kerf-run --help                                    # resume, held-out data, schedules, formats
  build/bin/kerf-inspect program $out/small.kerf               # what the compiled step does
  build/bin/kerfc $out/gpt2.mlir --stop-after=differentiate -o - | less    # GPT-2's whole training step
  examples/tokenize.py gpt2 corpus.txt -o corpus.bin           # tokens for models with larger vocabularies
END
