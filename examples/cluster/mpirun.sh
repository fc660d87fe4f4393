#!/usr/bin/env bash
# Trains a compiled model on several machines, started by Open MPI's mpirun.
#
#   mpirun.sh RANKS HOSTFILE MODEL.kerf DATA [options of kerf-run]
#
# RANKS is what MODEL.kerf was compiled for, or a file that kerfc --survive made beside it; another number is
# refused. HOSTFILE has a line per machine, 'NAME slots=RANKS-OF-IT'; '-' is this machine alone. kerf-run, the
# model and the data lie under the same paths everywhere, --save-state in a folder that all machines see.
#
# Read here:      KERF_RUN          path of kerf-run (default: the one on PATH)
# Passed on:      KERF_SESSION      name of the job, which others must not guess (default: drawn)
#                 KERF_PLUGIN_PATH  folders of device and transport libraries
#                 KERF_CPU_ISA      most that kernels of the CPU library use: avx2, avx512, ...
# Set by mpirun:  OMPI_COMM_WORLD_* rank and size, which kerf-run takes instead of RANK and WORLD_SIZE
#
# To save and end: kill -USR1 the mpirun that this becomes (SIGTERM kills at once).
set -euo pipefail

stop() {
  printf 'mpirun.sh: %s\n' "$@" >&2
  exit 1
}

(($# >= 4)) || stop "expected: RANKS HOSTFILE MODEL.kerf DATA [options of kerf-run]"
ranks=$1 hosts=$2 model=$3 data=$4
shift 4
[[ $ranks =~ ^[1-9][0-9]*$ ]] || stop "RANKS is '$ranks', expected a number"
[[ $hosts == - || -r $hosts ]] || stop "the host file '$hosts' cannot be read; '-' is this machine"
[[ -r $model ]] || stop "the model '$model' cannot be read"
[[ -r $data ]] || stop "the data '$data' cannot be read"
command -v mpirun >/dev/null || stop "mpirun is missing (Debian: openmpi-bin)"
run=$(command -v -- "${KERF_RUN:-kerf-run}") || stop "'${KERF_RUN:-kerf-run}' is missing: set PATH or KERF_RUN"

# Neighbours in rank talk most: they fill a machine before the next one starts. kerf-run shares the cores of
# a machine among its ranks, so mpirun must not bind a rank to one core.
options=(-n "$ranks" --map-by slot --bind-to none)
if [[ $hosts == - ]]; then
  options+=(--oversubscribe)
else
  options+=(--hostfile "$hosts")
fi
export KERF_SESSION=${KERF_SESSION:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}
for name in KERF_SESSION KERF_PLUGIN_PATH KERF_CPU_ISA; do
  [[ -z ${!name:-} ]] || options+=(-x "$name")
done
exec mpirun "${options[@]}" "$(realpath -- "$run")" "$(realpath -- "$model")" --data "$(realpath -- "$data")" \
  --transport=mpi "$@"
