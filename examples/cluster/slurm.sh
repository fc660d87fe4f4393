#!/usr/bin/env bash
# Trains a compiled model as a job of Slurm, which starts its ranks by srun with PMIx.
#
#   sbatch --nodes=4 --ntasks-per-node=8 --cpus-per-task=6 slurm.sh MODEL.kerf DATA [options of kerf-run]
#
# Tasks are ranks: as many as MODEL.kerf was compiled for, or a file that kerfc --survive made beside it; another
# number is refused. kerf-run, the model and the data lie under the same paths everywhere, --save-state in a
# folder that all machines see. Needs an MPI with PMIx, the one that kerf-run was built with.
#
# Read here:     KERF_RUN          path of kerf-run (default: the one on PATH)
#                KERF_SLURM_MPI    srun's way to start MPI (default: pmix; 'srun --mpi=list' has all)
# Passed on:     KERF_SESSION      name of the job, which others must not guess (default: drawn)
#                KERF_PLUGIN_PATH  folders of device and transport libraries
#                KERF_CPU_ISA      most that kernels of the CPU library use: avx2, avx512, ...
# Set per rank:  RANK, WORLD_SIZE, LOCAL_RANK, KERF_LAUNCHED (srun tells who was killed)
#
# Two minutes before its time is up the job is asked to save and end; resume with --resume.
#SBATCH --job-name=kerf
#SBATCH --signal=USR1@120
set -euo pipefail

stop() {
  printf 'slurm.sh: %s\n' "$@" >&2
  exit 1
}

(($# >= 2)) || stop "expected: MODEL.kerf DATA [options of kerf-run]"
model=$1 data=$2
shift 2
[[ -r $model ]] || stop "the model '$model' cannot be read"
[[ -r $data ]] || stop "the data '$data' cannot be read"
[[ -n ${SLURM_JOB_ID:-} && -n ${SLURM_NTASKS:-} ]] || stop "this is no job with tasks: start it with sbatch --ntasks=RANKS"
command -v srun >/dev/null || stop "srun is missing"
run=$(command -v -- "${KERF_RUN:-kerf-run}") || stop "'${KERF_RUN:-kerf-run}' is missing: set PATH or KERF_RUN"
cores=${SLURM_CPUS_PER_TASK:-1}
export KERF_SESSION=${KERF_SESSION:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}

# Neighbours in rank talk most: block distribution fills a machine before the next one starts.
options=(--mpi="${KERF_SLURM_MPI:-pmix}" --ntasks="$SLURM_NTASKS" --cpus-per-task="$cores")
options+=(--distribution=block --kill-on-bad-exit=1)
# Run by the shell of each task, whose variables srun sets.
# shellcheck disable=SC2016
rank='export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID KERF_LAUNCHED=1; exec "$@"'
exec srun "${options[@]}" bash -c "$rank" rank "$run" "$model" --data "$data" --transport=mpi --threads="$cores" "$@"
