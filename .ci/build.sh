#!/usr/bin/env bash
# Configures (the first time) and builds into build/. Quick when nothing changed. Says how far it is: on a terminal in
# place, elsewhere in a line a minute.
#   --programs   what users run, without tests, simulator and benchmarks
# All other arguments are handed to cmake and force a new configuration: .ci/build.sh -DKERF_PCH=ON
# The first configuration compiles sources together, for a short build; -DKERF_UNITY=OFF is for work on the code.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
targets=()
if [[ ${1:-} == --programs ]]; then
  targets=(kerf-programs)
  shift
fi

# Joined sources name their folder, so ccache would find none of another checkout.
[[ -f $build/CMakeCache.txt ]] || command -v ccache >/dev/null || set -- -DKERF_UNITY=ON "$@"
if [[ ! -f $build/build.ninja || $# -gt 0 ]]; then
  mkdir -p "$build"
  echo "configuring (log: build/configure.log)"
  cmake -S "$root" -B "$build" -G Ninja "$@" >"$build/configure.log" 2>&1 || {
    tail -n 30 "$build/configure.log" >&2
    exit 1
  }
fi
terminal=0
[[ -t 1 ]] && terminal=1
awk=(awk)
# mawk waits for a full buffer otherwise.
awk -W version 2>&1 </dev/null | grep -q mawk && awk+=(-W interactive)
NINJA_STATUS='@%f/%t %e ' ninja -C "$build" "${targets[@]}" |
  "${awk[@]}" -v terminal="$terminal" -f "$root/.ci/progress.awk"
