#!/usr/bin/env bash
# Runs a file for two ranks over NCCL where there is one GPU.
#
#   test/Bench/nccl-pair.sh KERF_RUN FILE.kerf [OPTION...]    options: kerf-run's
#
# NCCL refuses two ranks of one machine on one GPU. Here each rank says that it is a
# machine of its own (NCCL_HOSTID, LOCAL_WORLD_SIZE), so that they talk by sockets of the
# loopback device: slow, but starting, splitting, recording and ending are NCCL's own.
# Prints what rank 0 prints; where a rank failed, also what rank 1 said. The exit status
# is that of rank 0, or else that of rank 1. The GPU holds both ranks' arenas. With
# KERF_PAIR_KILL=SECONDS rank 1 is killed so long after the first step: rank 0 must end, too.
set -euo pipefail
program=${1:?expected the program kerf-run}
file=${2:?expected a file for two ranks}
shift 2

export WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
export MASTER_ADDR=127.0.0.1 MASTER_PORT=${MASTER_PORT:-$((20000 + RANDOM % 10000))}
export KERF_TRANSPORT=nccl NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=${NCCL_DEBUG:-WARN}

said=$(mktemp) shown=$(mktemp)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -f "$said" "$shown"' EXIT
trap 'exit 143' TERM INT
RANK=1 NCCL_HOSTID=kerf-pair-1 "$program" "$file" "$@" > "$said" 2>&1 &
other=$!
RANK=0 NCCL_HOSTID=kerf-pair-0 "$program" "$file" "$@" > "$shown" 2>&1 &
first=$!
tail -n +1 -f -s 0.1 --pid="$first" "$shown" &
showing=$!
kill_second() {
  while kill -0 "$first" && ! grep -q iteration "$shown"; do sleep 0.1; done
  sleep "$KERF_PAIR_KILL"
  kill -KILL "$other"
}
if [ -n "${KERF_PAIR_KILL:-}" ]; then
  kill_second > /dev/null 2>&1 &
fi
status=0 second=0
wait "$first" || status=$?
wait "$other" || second=$?
wait "$showing" || true
if [ "$status$second" != 00 ]; then
  echo "rank 0 ended with $status, rank 1 with $second; rank 1 said:"
  cat "$said"
fi
[ "$status" != 0 ] || status=$second
exit "$status"
