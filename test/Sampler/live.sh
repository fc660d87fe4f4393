#!/usr/bin/env bash
# Compares what kerf-run --sample makes, the likeliest token each time, with `generate` of the transformers library, of
# all families that ship.
#
#   PYTHON=python3 test/Sampler/live.sh     (packages: torch, transformers)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
PATH=$root/build/bin:$PATH "${PYTHON:-python3}" "$root/test/Sampler/live.py" "$root" "$folder"
