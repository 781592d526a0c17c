#!/bin/sh
# Builds the Collector that stands in front of data planes, once for each state of this folder, outside the checkout.
# Prints the path of the binary.
set -eu
cd "$(dirname "$0")"
state=$(find . -type f -name "*.go" -o -name "go.*" | LC_ALL=C sort | xargs cat | sha256sum | cut -c1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/jevmetrics/balancing-collector-v0.161.0/$state
if [ ! -x "$folder/collector" ]; then
    mkdir -p "$folder"
    # Under another name until it is complete: an interrupted build is never taken for one.
    CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$folder/collector.$$" . >&2
    mv "$folder/collector.$$" "$folder/collector"
fi
echo "$folder/collector"
