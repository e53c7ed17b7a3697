#!/bin/bash
# peer.sh MODEL "PEER COMMAND" "HAYATE COMMAND" [ROUNDS] - two programs on the same file, interleaved: hayate, peer, peer, hayate, in ROUNDS (3) rounds.
# Both are called with -m MODEL -r 1 -o jsonl behind what is given, and write a line per test with n_prompt, n_gen, n_depth (0) and avg_ts, as llama-bench does:
#
#     tests/bench/peer.sh model.gguf "llama-bench -p 512 -n 128" "./hayate bench -p 512 -n 128"
#
# Prints for every test the median of each side and the ratio hayate / peer: the median of the rounds' ratios, and the lowest and highest of them. A round's runs
# are neighbours in time, so a machine that slows down does not decide; close everything else first all the same.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
model=$1 peer=$2 hayate=$3 rounds=${4:-3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# once SIDE ROUND COMMAND: one run of all its tests; only who and how fast is kept
once() {
    # shellcheck disable=SC2086
    $3 -m "$model" -r 1 -o jsonl 2>"$dir/err" >"$dir/out" || { echo "peer.sh: $3: $(tail -1 "$dir/err")" >&2; exit 1; }
    jq -ce --arg s "$1" --argjson r "$2" 'if (.avg_ts | type) == "number" and .avg_ts > 0 then { side: $s, round: $r, n_prompt: (.n_prompt // 0), n_gen: (.n_gen // 0),
        n_depth: (.n_depth // 0), avg_ts } else empty end' "$dir/out" >>"$dir/all" || { echo "peer.sh: $3: found no test with avg_ts in what it prints" >&2; exit 1; }
}
for ((i = 0; i < rounds; i++)); do
    once hayate $i "$hayate"
    once peer $i "$peer"
    once peer $i "$peer"
    once hayate $i "$hayate"
done
jq -rs 'def median: sort | if length == 0 then null elif length % 2 == 1 then .[length / 2 | floor] else (.[length / 2] + .[length / 2 - 1]) / 2 end;
    def of(s): map(select(.side == s).avg_ts);
    def short: if . == null then "-" else . * 1000 | round / 1000 end;
    group_by([.n_prompt, .n_gen, .n_depth])[] | . as $g |
    [group_by(.round)[] | { h: of("hayate"), p: of("peer") } | select((.h | length) > 0 and (.p | length) > 0) | (.h | add / length) / (.p | add / length)] as $ratios |
    "\(if $g[0].n_prompt > 0 then "pp\($g[0].n_prompt)" else "tg\($g[0].n_gen)" end) @ d\($g[0].n_depth): hayate \($g | of("hayate") | median | short), peer \(
        $g | of("peer") | median | short), ratio \($ratios | median | short) (\($ratios | min | short) to \($ratios | max | short), \($ratios | length) rounds)"' "$dir/all"
