#!/usr/bin/env bash
# Compares Kerf with the transformers library live: runs the library again,
# checks the stored files against it, then Kerf against the files.
#
#   PYTHON=python3 test/Reference/live.sh     (packages: requirements.txt)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
"${PYTHON:-python3}" "$root/test/Reference/generate.py" --check
"$root/build/bin/kerf-reference" "$root"/test/Reference/cases/*
