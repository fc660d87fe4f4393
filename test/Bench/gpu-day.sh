#!/usr/bin/env bash
# What is run on a machine with a GPU, from one folder: nothing is compiled there.
#
#   test/Bench/gpu-day.sh prepare FOLDER [OPTION...]   needs a build, no GPU; options: gpu.py's
#   test/Bench/gpu-day.sh first FOLDER                 what tells most, in nine steps
#   test/Bench/gpu-day.sh check FOLDER                 doctor, tests, layouts, sanitizers
#   test/Bench/gpu-day.sh bench FOLDER [OPTION...]     gpu.py with these options
#   test/Bench/gpu-day.sh kernels FOLDER               speed of the own kernels
#
# All but `prepare` need a GPU, end within 540 s (--limit=SECONDS) and print a line for
# each of their runs, whatever fails; all that they write is under FOLDER/out (--out=OUT):
# a record and an archive of logs (gpu_day.py). They exit with 1 where a run failed.
# Libraries are looked for as docs/cuda.md tells; the simulator in build/simulator can
# stand in for a GPU: `--tiny`, also of `prepare`, has models and layouts for it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
action=${1:?expected prepare, first, check, bench or kernels}
folder=${2:?expected a folder}
shift 2

# Name, model and batch: a plan of examples/plans, or one rank (one*); -bf16: in bf16,
# where attention is cuDNN's and matmuls of experts are on tensor cores.
layouts() {
  cat <<'TABLE'
one tiny-gpt2 4
one-bf16 tiny-llama 4
one-experts-bf16 tiny-mixtral 8
tiny-gpt2-tp2-sp tiny-gpt2 4
tiny-gpt2-dp2 tiny-gpt2 4
tiny-llama-pp2-dp2-zero3 tiny-llama 8
tiny-mixtral-ep2-dp2-micro2 tiny-mixtral 8
TABLE
}

# One layout: programs for the CPU on one rank and for GPUs, and the CPU's losses.
prepare_layout() {
  local name=$1 model=$2 batch=$3
  local to=$folder/layouts/$name
  "$bin/kerf-import" "$root/examples/models/$model/config.json" --batch "$batch" --seq 16 -o "$to.mlir"
  "$bin/kerfc" "$to.mlir" -o "$to-cpu.kerf"
  "$bin/kerf-run" "$to-cpu.kerf" --data "$folder/layouts/data.bin" --data-format=u16 --steps 3 > "$to.expected"
  local options=(--target=cuda --gpu=sm_90)
  if [ "${name%-bf16}" != "$name" ]; then options+=(--precision=bf16); fi
  if [[ $name != one* ]]; then options+=("--plan=$root/examples/plans/$name.json"); fi
  "$bin/kerfc" "$to.mlir" "${options[@]}" -o "$to.kerf"
  rm "$to.mlir" "$to-cpu.kerf"
}

prepare() {
  bin=${KERF_BIN:-$root/build/bin}
  mkdir -p "$folder"/{bin,lib,layouts,models}
  cp "$bin"/{kerf-run,kerf-cuda-test,kerf-cuda-kernels-test,kerf-cuda-kernels-bench} "$folder/bin/"
  cp "$bin"/../lib/{libkerf_runtime.so,libkerf_device_cuda.so,libkerf_device_cpu.so} "$folder/lib/"
  # Random tokens below 96, the smallest vocabulary of the tiny models.
  python3 - "$folder/layouts/data.bin" <<'TOKENS'
import array, random, sys
draw = random.Random(1)
array.array("H", (draw.randrange(96) for _ in range(4096))).tofile(open(sys.argv[1], "wb"))
TOKENS
  layouts | while read -r name model batch; do
    if [[ " $* " != *" --tiny "* || "$name" = one || "$name" = tiny-gpt2-dp2 ]]; then
      prepare_layout "$name" "$model" "$batch"
    fi
  done
  python3 -B "$here/gpu.py" --compile "$folder/models" "$@"
  du -sk "$folder" | awk '{ printf "%s: %.1f MiB\n", $2, $1 / 1024 }'
}

sanitize() {
  local program
  program=$(PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin command -v compute-sanitizer) || { echo "no compute-sanitizer on the PATH"; return 77; }
  # Calls that fail are Kerf's to look at: it asks for a parameter that must not be there.
  KERF_NO_GRAPH=1 "$program" --tool "$1" --report-api-errors no --error-exitcode 1 "$folder/bin/kerf-run" \
    "$folder/layouts/one.kerf" --data "$folder/layouts/data.bin" --data-format=u16 --steps 1
}

export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
case $action in
prepare) unset LD_LIBRARY_PATH && prepare "$@" ;;
sanitize) sanitize "$@" ;;
first | check | bench | kernels) KERF_BIN=$folder/bin exec python3 -B "$here/gpu_day.py" "$action" "$folder" "$@" ;;
*) echo "$0: unknown action '$action', expected prepare, first, check, bench or kernels" >&2 && exit 1 ;;
esac
