#!/usr/bin/env bash
# Configures (the first time) and builds into build/. Quick when nothing changed.
# Arguments are handed to cmake and force a new configuration: .ci/build.sh -DKERF_PCH=ON
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build

if [[ ! -f $build/build.ninja || $# -gt 0 ]]; then
  mkdir -p "$build"
  echo "configuring (log: build/configure.log)"
  cmake -S "$root" -B "$build" -G Ninja "$@" >"$build/configure.log" 2>&1 || {
    tail -n 30 "$build/configure.log" >&2
    exit 1
  }
fi
ninja --quiet -C "$build"
