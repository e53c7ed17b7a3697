#!/bin/bash
# peer.sh MODEL "PEER COMMAND" "HAYATE COMMAND" [ROUNDS] - two programs on the same file, interleaved: hayate, peer, peer, hayate, in ROUNDS (3) rounds.
# Both are called with -m MODEL -r 1 -o jsonl behind what is given, and write avg_ts as llama-bench does:
#
#     tests/bench/peer.sh model.gguf "llama-bench -p 512 -n 128" "./hayate bench -p 512 -n 128"
#
# Prints for every test both means and the ratio hayate / peer. Runs one after the other heat the machine alike; close everything else first.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
model=$1 peer=$2 hayate=$3 rounds=${4:-3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# once SIDE COMMAND: one run of all its tests; only who and how fast is kept
once() {
    # shellcheck disable=SC2086
    $2 -m "$model" -r 1 -o jsonl 2>"$dir/err" >"$dir/out" || { echo "peer.sh: $2: $(tail -1 "$dir/err")" >&2; exit 1; }
    jq -c --arg s "$1" '{ side: $s, n_prompt, n_gen, n_depth: (.n_depth // 0), avg_ts }' "$dir/out" >>"$dir/all"
}
for ((i = 0; i < rounds; i++)); do
    once hayate "$hayate"
    once peer "$peer"
    once peer "$peer"
    once hayate "$hayate"
done
jq -rs 'def mean(s): map(select(.side == s).avg_ts) | if length > 0 then add / length else null end;
    group_by([.n_prompt, .n_gen, .n_depth])[] | . as $g | ($g | mean("hayate")) as $h | ($g | mean("peer")) as $p |
    "\(if $g[0].n_prompt > 0 then "pp\($g[0].n_prompt)" else "tg\($g[0].n_gen)" end) @ d\($g[0].n_depth): hayate \($h // "-"), peer \($p // "-"), ratio \(
        if $h and $p then $h / $p * 1000 | round / 1000 else "-" end)"' "$dir/all"
