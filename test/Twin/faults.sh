#!/usr/bin/env bash
# Breaks the programs of twins: how many faults does the check before writing see?
#   faults.sh BIN REPO EACH SEED [quick]     EACH faults in each twin; quick: three twins
# Prints kerf-mutants' table; exit status 1 when it sees less than 98 %.
set -euo pipefail
bin=$1 repo=$2 each=$3 seed=$4 quick=${5:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# twin NAME MODEL BATCH SEQ DEVICES CLUSTER [kerfc option...]
twin() {
  local name=$1 model=$2 batch=$3 seq=$4 devices=$5 cluster=$6
  shift 6
  "$bin/kerf-import" "$repo/examples/models/$model/config.json" --batch="$batch" --seq="$seq" \
    -o "$folder/model.mlir" 2>"$folder/said" || { cat "$folder/said" >&2; exit 1; }
  "$bin/kerfc" "$folder/model.mlir" --precision=bf16 --cluster="$repo/examples/clusters/$cluster.yaml" \
    --devices="$devices" "$@" --emit=twin -o "$folder/$name.mlir"
}

twin chunks gpt-100b 1024 2048 64 hgx-h100 --pin tp=8,pp=8,schedule=interleaved,v=2,mb=1,recompute=full
twin context mixtral-8x7b 64 32768 128 hgx-h100 --pin cp=4,ep=4,tp=2
twin exchange mixtral-8x7b 64 32768 64 hgx-h100 --pin cp=2,ep=2,pp=4,moe=all_to_all
if [[ -z $quick ]]; then
  twin deferred llama-3-8b 512 8192 64 hgx-h100 --pin pp=4,tp=2,schedule=zb-h1,cp=2
  twin found-gpt gpt3-175b 1536 2048 1024 dgx-a100-80g
  twin found-llama llama-3-70b 512 8192 256 hgx-h100
  twin found-experts mixtral-8x7b 256 4096 64 hgx-h100
  twin found-buffer mixtral-8x7b 256 4096 64 hgx-h100 --moe-buffer=1.25
  twin found-long qwen3-30b-a3b 4 131072 256 hgx-h100
  twin found-longer qwen3-30b-a3b 2 131072 128 dgx-a100-80g
  twin found-many qwen3-235b-a22b 1024 4096 512 hgx-h100
fi
"$bin/kerf-mutants" --of "$each" "$seed" $(ls "$folder"/*.mlir | grep -v /model.mlir)
