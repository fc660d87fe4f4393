#!/usr/bin/env bash
# Builds the wheel, and with what it installs runs the examples in PyTorch and JAX, from a definition to trained weights,
# and the round trip of checkpoint folders.
#
#   PYTHON=python3 test/Python/live.sh     (packages: setuptools, torch, transformers, jax, safetensors)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cp -r "$root/tools/python" source
"${PYTHON:-python3}" -m pip wheel -q --no-deps --no-build-isolation -w wheels ./source
"${PYTHON:-python3}" -m pip install -q --no-deps --target installed wheels/kerf-*.whl
export KERF_BIN=${KERF_BIN:-$root/build/bin} PYTHONPATH=$folder/installed PYTHONDONTWRITEBYTECODE=1
for example in torch jax; do
  said=$("${PYTHON:-python3}" "$root/examples/python/gpt_$example.py" "$root/README.md")
  tail -n 2 <<< "$said"
  # Both lines end in `before -> after`: after 50 steps a fifth of the loss is gone.
  tail -n 2 <<< "$said" | awk '{ if (!($NF < 0.8 * $(NF - 2))) exit 1 }'
done
"${PYTHON:-python3}" "$root/test/Python/folders.py"
"${PYTHON:-python3}" "$root/test/Python/dcp.py" "$root/examples/python/dcp.py"
"${PYTHON:-python3}" "$root/test/Python/gradients.py"
