#!/usr/bin/env bash
# What is run on a machine with a GPU, from one folder: nothing is compiled there.
#
#   test/Bench/gpu-day.sh prepare FOLDER [OPTION...]   needs a build, no GPU; options: gpu.py's
#   test/Bench/gpu-day.sh check FOLDER                 needs a GPU: doctor, tests, layouts
#   test/Bench/gpu-day.sh bench FOLDER [OPTION...]     needs a GPU: gpu.py with these options
#   test/Bench/gpu-day.sh kernels FOLDER               needs a GPU: speed of the own kernels
#
# `check` prints a line for each of its runs and exits with 1 where one failed; what they
# wrote is in FOLDER/logs. Libraries are looked for as docs/cuda.md tells; the
# simulator in build/simulator can stand in for a GPU.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
action=${1:?expected prepare, check, bench or kernels}
folder=${2:?expected a folder}
shift 2

# Name, model and batch: a plan of examples/plans, or one rank (one*); -bf16: in bf16,
# where attention is cuDNN's and products of experts are on tensor cores.
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
    prepare_layout "$name" "$model" "$batch"
  done
  python3 -B "$here/gpu.py" --compile "$folder/models" "$@"
  du -sk "$folder" | awk '{ printf "%s: %.1f MiB\n", $2, $1 / 1024 }'
}

# run NAME SECONDS COMMAND...: a line for it; exit status 77 is a skip.
run() {
  local name=$1 limit=$2 start=$SECONDS status=0
  shift 2
  timeout "$limit" "$@" > "$folder/logs/$name" 2>&1 || status=$?
  case $status in
  0) echo "ok $name, $((SECONDS - start)) s" ;;
  77) echo "skipped $name: $(tail -n 1 "$folder/logs/$name")" ;;
  *)
    echo "FAILED $name ($status): $(tail -n 1 "$folder/logs/$name")"
    failures=$((failures + 1))
    ;;
  esac
}

train() {
  "$folder/bin/kerf-run" "$folder/layouts/$1.kerf" --data "$folder/layouts/data.bin" --data-format=u16 --steps 3
}

# Trains a layout on this machine's GPUs and compares with the CPU's losses. Ranks that
# share a GPU talk through host memory: NCCL refuses them.
check_layout() {
  KERF_TRANSPORT=shm train "$1" > "$folder/logs/$1.run"
  local part=1e-5
  # Against the CPU's f32: its own bf16 is up to 7.7e-5 off in three steps (eight tiny
  # families, five seeds each). Another order of sums rounds otherwise, not more: 6 times that.
  if [ "${1%-bf16}" != "$1" ]; then part=5e-4; fi
  python3 -B "$root/test/Simulator/Inputs/same_losses.py" "$folder/layouts/$1.expected" "$folder/logs/$1.run" "$part"
}

sanitize() {
  local program
  program=$(PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin command -v compute-sanitizer) || { echo "no compute-sanitizer on the PATH"; return 77; }
  KERF_NO_GRAPH=1 "$program" --tool "$1" --error-exitcode 1 "$folder/bin/kerf-run" \
    "$folder/layouts/one.kerf" --data "$folder/layouts/data.bin" --data-format=u16 --steps 1
}

check() {
  failures=0
  mkdir -p "$folder/logs"
  # `timeout` runs programs, so the functions above are called by this script again.
  run doctor 30 "$folder/bin/kerf-run" "$folder/layouts/one.kerf" --doctor
  cat "$folder/logs/doctor"
  run cuda-test 90 "$folder/bin/kerf-cuda-test"
  run cuda-fault 30 "$folder/bin/kerf-cuda-test" fault
  run cuda-kernels-test 120 "$folder/bin/kerf-cuda-kernels-test"
  run cudnn-test 120 "$folder/bin/kerf-cuda-kernels-test" fused
  while read -r name _; do
    run "$name" 30 "$0" layout "$folder" "$name" < /dev/null
  done < <(layouts)
  for tool in memcheck racecheck; do
    run "sanitizer-$tool" 60 "$0" sanitize "$folder" "$tool"
  done
  echo "$failures failed"
  [ "$failures" = 0 ]
}

export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
case $action in
prepare) unset LD_LIBRARY_PATH && prepare "$@" ;;
check) check ;;
layout) check_layout "$@" ;;
sanitize) sanitize "$@" ;;
kernels) "$folder/bin/kerf-cuda-kernels-bench" "$@" ;;
bench) KERF_BIN=$folder/bin python3 -B "$here/gpu.py" --compiled "$folder/models" "$@" ;;
*) echo "$0: unknown action '$action', expected prepare, check, bench or kernels" >&2 && exit 1 ;;
esac
