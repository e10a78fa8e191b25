#!/usr/bin/env bash
# Install this project and what it needs into .venv:  scripts/install.sh [EXTRAS]   e.g. "dev,peers"
#
# Everything but torch is plain pip under constraints.txt. Torch comes first and apart, because on
# Linux the default build brings gigabytes of CUDA libraries. In order:
#   1. not Linux, or an NVIDIA card at work: what pip takes is right;
#   2. a CPU wheel in a folder that pip is configured to look in (find-links): that one;
#   3. otherwise uv, which knows where the CPU builds are (--torch-backend=cpu).
# TORCH=default skips the choice and lets pip take its default.
set -euo pipefail
cd "$(dirname "$0")/.."

python=.venv/bin/python
pip=("$python" -m pip --disable-pip-version-check)
extras=${1:-}
echo "Installing into .venv; the first time takes a few minutes."
torch=$(grep '^torch==' constraints.txt)

if "$python" -c 'import torch' 2>/dev/null && "${pip[@]}" freeze | grep -q "^$torch\(+\|$\)"; then
    echo "torch: $torch is installed"
elif [ "${TORCH:-}" = default ] || [ "$(uname -s)" != Linux ] || nvidia-smi >/dev/null 2>&1; then
    echo "torch: what pip takes by default"
elif "${pip[@]}" install --quiet --no-index --no-deps "$torch" 2>/dev/null; then
    echo "torch: the wheel in pip's find-links folder"
else
    echo "torch: the CPU build, by uv"
    "${pip[@]}" install --quiet --constraint constraints.txt uv
    "$python" -m uv pip install --quiet --python "$python" --torch-backend=cpu "$torch" || {
        echo "The CPU build of torch could not be fetched. Put a wheel of $torch in a folder, set" >&2
        echo "PIP_FIND_LINKS to it and try again; or take pip's default build: TORCH=default make …" >&2
        exit 1
    }
fi

"${pip[@]}" install --quiet --constraint constraints.txt --editable ".${extras:+[$extras]}"
