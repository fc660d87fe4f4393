#!/usr/bin/env bash
# given.sh MODEL OUTPUT PINS OPTIONS...: a plan is found under the pins and given back
# without them: it is the same text, and takes the same time and memory. The plan stays
# at OUTPUT.json.
set -euo pipefail
model=$1 output=$2 pins=$3
shift 3
kerfc "$model" "$@" ${pins:+--pin="$pins"} --emit=plan -o "$output.json" --explain-json="$output.found"
kerfc "$model" "$@" --plan="$output.json" --emit=plan -o "$output.again.json" --explain-json="$output.given"
diff "$output.json" "$output.again.json"
cost='import json, sys
for path in sys.argv[1:]:
    explained = json.load(open(path))
    stages = explained["memory"]["stages_bytes"]
    print("%.9g" % explained["time"]["step_sec"], *["%.9g" % stage["total"] for stage in stages])'
[ "$("${PYTHON:-python3}" -c "$cost" "$output.found" "$output.given" | uniq | wc -l)" = 1 ]
