#!/usr/bin/env bash
# Writes docs/reference/*.md from the op, interface and pass definitions.
# Usage: docs/generate.sh [BUILD]      BUILD is a configured build folder (default: build)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${1:-$root/build}

cmake --build "$build" --target kerf-docs
mkdir -p "$root/docs/reference"
rm -f "$root"/docs/reference/*.md
cp "$build"/docs/reference/*.md "$root/docs/reference/"
echo "wrote $(ls "$root"/docs/reference/*.md | wc -l) pages to docs/reference"
