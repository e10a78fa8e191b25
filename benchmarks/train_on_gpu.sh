#!/bin/sh
# Train a base-sized model on a GPU within the minutes given, and leave a checkpoint to ship.
#
#   benchmarks/train_on_gpu.sh DATA OUTPUT [CONFIG] [MINUTES]
#
# DATA holds train.tsv.gz (or train.tsv) and dev.tsv. Several GPUs are used through torchrun. The run is
# stopped, its state saved, when the minutes are over; running the command again goes on with it. The
# model lands in OUTPUT/model, the run in OUTPUT/run. Without a GPU the same path runs on the CPU.
set -eu

if [ $# -lt 2 ]; then
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
data=$1
output=$2
config=${3:-benchmarks/base_on_gpu.toml}
minutes=${4:-9}
python=${PYTHON:-python}

processes=$("$python" -c 'import torch; print(max(torch.cuda.device_count(), 1))')
mkdir -p "$output"

# SIGTERM ends the run after the step at hand; SIGKILL, half a minute later, what did not listen
set +e
if [ "$processes" -gt 1 ]; then
    timeout -k 30 "${minutes}m" "$python" -m torch.distributed.run --standalone \
        --nproc_per_node="$processes" -m app.training "$config" --data "$data" --output "$output/run"
else
    timeout -k 30 "${minutes}m" "$python" -m app.training "$config" --data "$data" --output "$output/run"
fi
status=$?
set -e
if [ "$status" -ne 0 ] && [ "$status" -ne 124 ]; then
    exit "$status"
fi

"$python" -m app.cli average "$output/run" "$output/model" --last 5
if [ -f "$data/dev.tsv" ]; then
    device=$("$python" -c 'import torch; print("cuda" if torch.cuda.is_available() else "cpu")')
    "$python" -m app.cli evaluate "$output/model" "$data/dev.tsv" --device "$device"
fi
