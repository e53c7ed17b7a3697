#!/bin/bash
# table.sh FILE.jsonl... - results of `hayate bench -o jsonl` as a table for a README: a line per depth, a column per file and test.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: table.sh FILE.jsonl..." >&2; exit 2; }
for file in "$@"; do
    jq -c --arg f "$(basename "$file" .jsonl)" '{ column: "\($f) \(.test | split(" ")[0])", depth: .n_depth, cell: "\(.avg_ts * 100 | round / 100) ± \(.stddev_ts * 100 | round / 100)" }' "$file"
done | jq -rs '
    (reduce .[].column as $c ([]; if index($c) then . else . + [$c] end)) as $columns |
    (reduce .[] as $x ({}; .[$x.depth | tostring][$x.column] = $x.cell)) as $cell |
    "| depth | \($columns | join(" | ")) |", "| ---: |\($columns | map(" ---: |") | add)",
    ([.[].depth] | unique[] | tostring as $d | "| \($d) | \($columns | map($cell[$d][.] // "") | join(" | ")) |")'
