#!/usr/bin/env bash
# Installs the Debian packages of packages.txt that are missing; instant when none is.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mapfile -t packages < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$here/packages.txt")

stop() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || stop \
  "this script installs Debian packages, and this system has no apt-get" \
  "install what corresponds to .ci/packages.txt (LLVM and MLIR 22.1 with development files, clang, lld," \
  "cmake, ninja, fmt, googletest, python3), then build with: cmake -S . -B build -G Ninja && ninja -C build"

missing=()
installed=" $(dpkg-query -W -f '${db:Status-Status}=${Package} ' "${packages[@]}" 2>/dev/null || true)"
for package in "${packages[@]}"; do
  [[ $installed == *" installed=$package "* ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || stop \
    "these packages are missing: ${missing[*]}" \
    "installing them needs root: run this as root, install sudo, or ask an administrator for" \
    "apt-get install --no-install-recommends ${missing[*]}"
  as_root=(sudo)
fi

echo "setup: installing ${#missing[@]} of ${#packages[@]} Debian packages: ${missing[*]}"
"${as_root[@]}" apt-get -qq update || echo "setup: apt-get update failed; going on with the known package lists" >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null ||
  stop "apt-get could not install all of: ${missing[*]}" \
    "if it knows no LLVM 22, add a Debian archive that has it (bookworm's security archive does)"
echo "setup: done"
