#!/usr/bin/env bash
# Installs what is missing, builds, runs every test. The last line is the count.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build

"$root/.ci/setup.sh"
"$root/.ci/build.sh"

log=$build/check.log
status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error -j "$(nproc)" 2>&1 | tee "$log" || status=$?
grep -E '^[0-9]+% tests passed, ' "$log" | tail -n 1 || {
  echo "no test ran" >&2
  exit 1
}
exit "$status"
