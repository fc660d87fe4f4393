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
#                KERF_RESTARTS     starts after a fault, from the newest state (default: 0): on the nodes that are
#                                  up, with the file for so many ranks, and with all when they are back. So that
#                                  the job outlives a lost node, give sbatch --no-kill
#                KERF_NODE_CHECK   seconds between looks at lost nodes (default: 60)
# Passed on:     KERF_SESSION      name of the job, which others must not guess (default: drawn)
#                KERF_PLUGIN_PATH  folders of device and transport libraries
#                KERF_CPU_ISA      most that kernels of the CPU library use: avx2, avx512, ...
# Set per rank:  RANK, WORLD_SIZE, LOCAL_RANK, KERF_LAUNCHED (srun tells who was killed), KERF_RESTARTED
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

restarts=${KERF_RESTARTS:-0}
[[ $restarts =~ ^[0-9]+$ ]] || stop "KERF_RESTARTS is '$restarts', expected a number"

# Neighbours in rank talk most: block distribution fills a machine before the next one starts.
options=(--mpi="${KERF_SLURM_MPI:-pmix}" --cpus-per-task="$cores" --distribution=block --kill-on-bad-exit=1)
# Run by the shell of each task, whose variables srun sets.
# shellcheck disable=SC2016
rank='export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID KERF_LAUNCHED=1; exec "$@"'
job=(bash -c "$rank" rank "$run" "$model" --data "$data" --transport=mpi --threads="$cores")
if ((restarts == 0)); then
  exec srun "${options[@]}" --ntasks="$SLURM_NTASKS" "${job[@]}" "$@"
fi

# From here on: a job that is started again.
command -v sinfo >/dev/null || stop "sinfo is missing, which tells the nodes that are up"
nodes=${SLURM_JOB_NUM_NODES:-1}
((SLURM_NTASKS % nodes == 0)) || stop "$SLURM_NTASKS tasks do not divide by $nodes nodes"
per_node=$((SLURM_NTASKS / nodes))

# The folder of states, and the other options but for --resume.
state='' kept=() resumed=()
while (($#)); do
  case $1 in
  --save-state | --resume) word=$1=${2-} && shift ;;
  *) word=$1 ;;
  esac
  case $word in
  --save-state=*) state=${word#*=} && kept+=("$word") ;;
  --resume=*) resumed=("$word") ;;
  *) kept+=("$word") ;;
  esac
  shift || true
done
[[ $state ]] || stop "KERF_RESTARTS goes on from states: give --save-state=DIR"

# Nodes of the job that Slurm reaches ('*': does not respond).
up_nodes() {
  sinfo --noheader --Node --nodes="${SLURM_JOB_NODELIST:-}" --format='%N %t' |
    awk '$2 !~ /down|fail|unk|boot|\*/ && !seen[$1]++ { print $1 }'
}

# The largest number of ranks, up to $1, that there is a file for; 0: none.
ranks_for() {
  local most=0 file number
  if (($1 >= SLURM_NTASKS)); then
    most=$SLURM_NTASKS
  fi
  for file in "${model%.kerf}"-*.kerf; do
    number=${file#"${model%.kerf}"-} number=${number%.kerf}
    if [[ -r $file && $number =~ ^[1-9][0-9]*$ ]] && ((number <= $1 && number > most)); then
      most=$number
    fi
  done
  echo "$most"
}

note() { printf 'slurm.sh: note: %s\n' "$@" >&2; }

# Sets `up` to the nodes that are up, and `ranks` to how many run on them.
look() {
  mapfile -t up < <(up_nodes)
  ranks=$(ranks_for $((${#up[@]} * per_node)))
}

# Asks the running job to save and end once more ranks could run.
watch_nodes() {
  while sleep "${KERF_NODE_CHECK:-60}"; do
    look
    if ((ranks > $2)); then
      note "nodes are back: goes on with $ranks ranks"
      touch "$moved" && kill -USR1 "$1"
      return
    fi
  done
}

moved=$(mktemp -u) made=0
trap '[[ -z ${step:-} ]] || kill -TERM "$step"' TERM
while true; do
  look
  while ((ranks == 0)); do
    note "no file is for the nodes that are up (kerfc --survive); waiting"
    sleep "${KERF_NODE_CHECK:-60}"
    look
  done
  ((ranks == SLURM_NTASKS)) || note "goes on with $ranks of $SLURM_NTASKS ranks"
  used=$(((ranks + per_node - 1) / per_node))
  list=$(IFS=, && echo "${up[*]:0:used}")
  srun "${options[@]}" --ntasks="$ranks" --nodes="$used" --nodelist="$list" "${job[@]}" "${kept[@]}" "${resumed[@]}" &
  step=$! watcher=''
  if ((ranks < SLURM_NTASKS)); then
    watch_nodes "$step" "$ranks" &
    watcher=$!
  fi
  status=0
  wait "$step" || status=$?
  while kill -0 "$step" 2>/dev/null; do # a signal ended the wait
    status=0 && wait "$step" || status=$?
  done
  [[ -z $watcher ]] || kill "$watcher" 2>/dev/null || true
  before=$ranks
  look
  if [[ -e $moved ]]; then
    rm -f "$moved"
  elif ((status < 128 && ranks >= before)) || ((status == 0 || status == 129 || status == 130 || status == 138 || status == 143)); then
    exit "$status" # it ended well, was asked to end, or would fail again
  elif ((made++ >= restarts)); then
    note "$restarts restarts: not started again"
    exit "$status"
  else
    note "ended with status $status; restart $made of $restarts"
  fi
  export KERF_RESTARTED=1
  # Before its own first state a job begins again from what it was given.
  if compgen -G "$state/step-*/manifest.json" >/dev/null; then
    resumed=(--resume="$state")
  fi
done
