#!/bin/bash
# Builds the Temporal server into the file $1 and says how far it is: from an
# empty build cache it takes about 10 minutes on 2 cores.
set -euo pipefail
cd "$(dirname "$0")"
go=${GO:-go}
total=$($go list -deps . | wc -l)
echo "building the Temporal server: up to $total packages, about 10 minutes on 2 cores the first time"
# -v names each package once it is compiled; all other lines are messages.
$go build -v -ldflags "-s -w" -o "$1" . 2>&1 | awk -v total="$total" '
	/^[A-Za-z0-9_.\/~-]+$/ { if (++n % 100 == 0) { print n " of at most " total " packages are built"; fflush() }; next }
	{ print; fflush() }'
