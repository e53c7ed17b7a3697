#!/bin/bash
# bench.sh HAYATE - measuring from the command line: what bench writes against its schema, a record checked again, the ledger against the profile, traces,
# perplexity and comparisons. Run from the root of the repository. Speeds themselves are not judged: the machine may be busy.
# shellcheck disable=SC2016 # $names in jq filters are jq's
. tests/check.sh
page=tests/data/sample-page.txt

# holds NAME FILTER - a jq expression over stdout that must be true
holds() {
    checks=$((checks + 1))
    jq -es "$2" "$dir/out" >"$dir/jq" 2>&1 || bad "$1: $2 does not hold: $(head -c 300 "$dir/jq")"
}

# --- results and their schema ---
valid() { /usr/bin/python3 tests/bench/validate.py tests/bench/bench.schema.json "$1" 2>"$dir/err"; }
run bench -q -p 16 -n 4 -d 0,9 -r 2 -o json
ends 'json' 0
holds 'one array' 'length == 1 and (.[0] | length == 4 and ([.[].test] == ["pp16", "tg4", "pp16 @ d9", "tg4 @ d9"]))'
checks=$((checks + 1))
valid "$dir/out" || bad 'json against its schema'
cp "$dir/out" "$dir/record.json"
run bench -q -p 16 -n 0 -r 2 -f "$page" -o jsonl
checks=$((checks + 1))
valid "$dir/out" || bad 'jsonl against its schema'
holds 'text' '.[0].record.input | .kind == "text" and (.xxh3 | length == 16) and .tokens > 100'
cp "$dir/out" "$dir/text.jsonl"
# the schema itself says no to what is spoilt
for spoil in '.[0].avg_ts = -1' 'del(.[0].record.build)' '.[0].record.sensors.before.cpu_mhz = "about 3000"' '.[0].samples_ts = []' '.[0].surprise = 1'; do
    checks=$((checks + 1))
    jq "$spoil" "$dir/record.json" >"$dir/spoilt"
    ! valid "$dir/spoilt" || bad "the schema takes $spoil"
done
# means and deviations are those of the samples
run bench -q -p 16 -n 0 -r 5 -o jsonl
holds 'statistics' '.[0] | (.samples_ts | add / 5) as $m | ((.samples_ts | map((. - $m) * (. - $m)) | add / 4) | sqrt) as $d |
    ((.avg_ts - $m) / $m | fabs) < 1e-9 and ((.stddev_ts - $d) | fabs) < 1e-6 * $m'
run bench -q -p 16 -n 4 -r 1 -o csv
ends 'csv' 0 '^"build_commit","cpu_info",' ',"pp16",' ',"tg4",'
checks=$((checks + 1))
[ "$(wc -l <"$dir/out")" = 3 ] || bad 'csv: a head and two lines'
run bench -q -p 64-256*2 -n 0 -r 1 -t 1,2 -ub 64,128 -ctk f16,f32 -o jsonl
ends 'lists' 0
holds 'lists' 'length == 24 and ([.[].n_prompt] | unique == [64, 128, 256]) and ([.[] | [.n_threads, .n_ubatch, .type_k]] | unique | length == 8)'
run bench -q -p 8-24+8 -n 0 -r 1 -o jsonl
holds 'range' '[.[].n_prompt] == [8, 16, 24]'
run bench -q -p 8 -n 4 --sweep 0:600:300 -r 1 -o jsonl
holds 'sweep' '[.[] | [.test, .n_depth]] == [["pp8", 0], ["tg4", 0], ["pp8 @ d300", 300], ["tg4 @ d300", 300], ["pp8 @ d600", 600], ["tg4 @ d600", 600]]'
run bench -q -p 16 -n 0 -r 3 --abba '--kv f32' -o jsonl
ends 'abba' 0
holds 'abba' '.[0] | (.samples_ts | length == 6) and (.abba | .switch == "--kv f32" and (.samples_ts | length == 6) and .ratio_low <= .ratio and .ratio <= .ratio_high) and
    ((.abba.ratio - (.abba.samples_ts | add) / (.samples_ts | add)) | fabs) < 1e-9'
checks=$((checks + 1))
valid "$dir/out" || bad 'abba against its schema'
run bench -q -p 16 -n 0 -r 1 --abba '-t 1'
ends 'abba, table' 0 '\| +pp16 A \|' '\| +pp16 B \|' '^pp16: with -t 1 [0-9.]+ times as fast, 95 % of draws within [0-9.]+ and [0-9.]+, 1 rounds'

# --- a depth written instead of evaluated; switches of attention and index ---
run bench -q --backend cpu -p 8 -n 4 -d 4000 -r 2 --fill random -s 7 -ctk q8_0 --no-gather --no-pooled-cache --no-union -o json
ends 'fill' 0
holds 'fill' 'all(.[0][]; .fill == "random" and .seed == "7" and .type_k == "q8_0" and .no_gather and .no_pooled_cache and .no_union and .pooled_max_tokens == 0)'
holds 'fill, its tests' '[.[0][].test] == ["pp8 @ d4000 random", "tg4 @ d4000 random"]'
checks=$((checks + 1))
valid "$dir/out" || bad 'fill against its schema'
jq '[.[] | .stddev_ts = .avg_ts * 100]' "$dir/out" >"$dir/filled.json"
run bench -q --check "$dir/filled.json"
ends 'check of a fill' 0 '^pp8 @ d4000 random +recorded .* repeats$' '^tg4 @ d4000 random +recorded .* repeats$'
jq '[.[] | .fill = "random" | .seed = "x"]' "$dir/filled.json" >"$dir/seed.json"
run bench -q --check "$dir/seed.json"
ends 'check of a seed that is none' 1 'result 1 lacks fields or has others'
run bench -q --backend cpu -p 64 -n 0 -r 1 -d 600 --fill random --abba '--no-union --pooled-max-tokens 32'
ends 'abba of switches' 0 '\| pp64 @ d600 random A \|' '\| pp64 @ d600 random B \|'
run bench -q --backend cpu -p 64 -n 0 -d 600 -r 1 --profile --abba '--no-union'
ends 'abba of attention' 0 'with --no-union [0-9.]+ times as fast'
run bench -q --backend cpu -p 0 -n 2 --sweep 100:900:400 --fill random -r 1 -o jsonl
holds 'fill in a sweep' '[.[].test] == ["tg2 @ d100 random", "tg2 @ d500 random", "tg2 @ d900 random"]'
run info -q --ledger --backend cpu --json -d 4000 --no-gather --no-pooled-cache
holds 'ledger of switches' '.[0] | [.decode, .prefill | [.rows[].row]] | all(.[]; index("qsa_attend_masked") and index("qsa_repool") and index("qsa_keep_raw"))'

# --- cold and warm: a model with a file ---
cp tests/models/tiny-man.gguf "$dir/model.gguf"
sync "$dir/model.gguf"
run bench -q -m "$dir/model.gguf" -p 16 -n 0 -r 1 --cold -o jsonl
if [ "$code" = 0 ] && [ "$(jq -r .record.page_cache.start "$dir/out")" != cold ]; then
    echo "bench.sh: the file system of $dir keeps its files in memory: cold starts not tested"
else
    ends 'cold' 0
    holds 'cold' '.[0] | .cold_ts > 0 and .record.page_cache.start == "cold" and .record.page_cache.share_before_load < 0.05'
fi
run bench -q -m "$dir/model.gguf" -p 16 -n 0 -r 1 -o jsonl
holds 'warm' '.[0] | (has("cold_ts") | not) and .record.page_cache.start != "cold"'

# a file system in memory keeps its files, and says so
if [ "$(stat -f -c %T /dev/shm)" = tmpfs ] && cp "$dir/model.gguf" "/dev/shm/bench.$$.gguf"; then
    run bench -m "/dev/shm/bench.$$.gguf" -p 16 -n 0 -r 1 --cold -o jsonl
    rm -f "/dev/shm/bench.$$.gguf"
    ends 'cold in memory' 0 '^hayate: --cold: 100 % of /dev/shm/bench.* is still in the page cache; '
    holds 'cold in memory' '.[0].record.page_cache.start == "warm"'
fi

# --- beside a peer: programs that print what they are told ---
for who in one two none; do
    printf '#!/bin/sh\ncat %s\n' "$dir/$who.jsonl" >"$dir/$who"
    chmod +x "$dir/$who"
done
printf '{"n_prompt":64,"n_gen":0,"avg_ts":30}\n{"n_gen":8,"n_prompt":0,"n_depth":512,"avg_ts":8,"more":[]}\n' >"$dir/one.jsonl"
printf '{"n_prompt":64,"n_gen":0,"n_depth":0,"avg_ts":20}\n{"n_gen":8,"n_depth":512,"avg_ts":10}\n' >"$dir/two.jsonl"
echo '{"error":"none"}' >"$dir/none.jsonl"
peer() {
    tests/bench/peer.sh "$@" >"$dir/out" 2>"$dir/err"
    code=$?
}
peer "$dir/model.gguf" "$dir/two -p 64" "$dir/one -p 64" 2
ends 'peer' 0 '^pp64 @ d0: hayate 30, peer 20, ratio 1.5 \(1.5 to 1.5, 2 rounds\)$' '^tg8 @ d512: hayate 8, peer 10, ratio 0.8 \(0.8 to 0.8, 2 rounds\)$'
peer "$dir/model.gguf" "$dir/none" "$dir/one" 1
ends 'peer without results' 1 '^peer.sh: .*/none: found no test with avg_ts in what it prints$'
peer "$dir/model.gguf" false "$dir/one" 1
ends 'peer that fails' 1 '^peer.sh: false: '
peer "$dir/model.gguf" "$dir/one" "$hayate bench -q -p 64 -n 0" 1
ends 'peer of this program' 0 '^pp64 @ d0: hayate [0-9.]+, peer 30, ratio [0-9.]+ ' '^tg8 @ d512: hayate -, peer 8, ratio - \('

# --- a record again ---
jq '[.[] | .stddev_ts = .avg_ts * 100]' "$dir/record.json" >"$dir/wide.json"
run bench -q --check "$dir/wide.json"
ends 'check' 0 '^pp16 +recorded .* repeats$' '^tg4 @ d9 +recorded .* repeats$'
run bench -q --check "$dir/wide.json" -o jsonl
holds 'check, json' 'length == 4 and all(.[]; .repeats and .avg_ts > 0)'
jq '[.[] | .avg_ts *= 1000]' "$dir/record.json" >"$dir/fast.json"
run bench -q --check "$dir/fast.json"
ends 'check of another speed' 1 '^pp16 +recorded .* DIFFERS$'
jq '[.[] | .record.model.identity_xxh3 = "0123456789abcdef"]' "$dir/wide.json" >"$dir/other.json"
run bench -q --check "$dir/other.json"
ends 'check of another model' 1 'a model with hash [0-9a-f]{16}, the record is of 0123456789abcdef'
run bench -q --check "$dir/text.jsonl"
ends 'check without its text' 1 'the record is of a text with hash .* give it with -f'
run bench -q --check "$page"
ends 'check of a text' 1 'found no results, expected what bench'

# --- ledger and profile ---
run info -q --ledger --backend cpu --json -d 40 -ub 64
ends 'ledger' 0
cp "$dir/out" "$dir/ledger"
calls=$(jq .decode.all.calls "$dir/out")
holds 'ledger adds up' '.[0] | all(.decode, .prefill; (.all.weights == ([.rows[].weights] | add)) and (.all.calls == ([.rows[].calls] | add)))'
holds 'ledger and the file' '.[0] | .decode.all.weights == .file_matrices and .least_bytes == .file_matrices + .file_vectors + .decode.all.state'
run bench -q --backend cpu -p 0 -n 1 -d 40 -r 1 --profile --trace "$dir/trace.json"
ends 'profile' 0 "^decode steps: $calls calls" '^all +qsa.attend ' '^outside of calls +host ' '^n-gram rows +host +16 ' '^profile: [0-9]+ looks at the clock, [0-9.]+ % of'
# a round with guesses (its calls and bytes against a profile: unit_ledger): the head is there, nothing is asked for, and copies are few
run info -q --ledger --backend cpu --json -d 40 -ub 64 --draft 3
holds 'ledger of a round' '.[0] | .round.rows_of_step == 4 and .round.all.calls == ([.round.rows[].calls] | add) and .round.all.state == ([.round.rows[].state] | add) and
    ([.round.rows[] | select(.row == "gdn_verify").calls] == [6]) and ([.round.rows[] | select(.part == "draft" and .row == "top").calls] | add) == 3'
holds 'decode beside a round' ".[0].decode.all.calls == $calls"
run info -q --ledger --backend cpu --json -d 400 -ub 64 --draft 3
holds 'copies of a round' '.[0] | .between.copies == 3 and .between.copied > 0 and .between.copied * 100 <= .between.state and .between.asked == 0 and
    .between.copied * 2 == ([.round.rows[] | select(.part == "draft.copy").activations] | add)'
run info -q --ledger --backend cpu -d 40 -ub 64 --draft 1 --roof 30e9:2e11
ends 'ledger of a round, text' 0 '^round of a step of 2 rows and 1 guess of the draft head at depth 40: ' '^between its lists: 1 copy of state, ' '^a round at best: .* decode steps; .* of 2$'
run info -q --ledger --draft 3
ends 'ledger of a round on a device' 0 '^round of a step of 4 rows and 3 guesses of the draft head at depth 0: ' '^between its lists: 3 copies of state, '
run bench -q --backend cpu -p 0 -n 16 -d 40 -r 1 --draft 2 --profile
ends 'profile of guesses' 0 '^copy +draft\.copy ' '^gdn_verify ' '^all +draft '
run bench -q --backend cpu -p 0 -n 1 -d 40 -r 1 --profile --trace "$dir/trace.json"
# rows and their calls, in the profile and in the ledger
checks=$((checks + 1))
awk '/^decode steps/ { on = 1; next } on && $1 != "row" && $1 != "all" && $1 != "outside" && NF == 8 { print $1, $2, $3 }' "$dir/err" | sort >"$dir/profiled"
jq -r '.decode.rows[] | "\(.row) \(.part) \(.calls)"' "$dir/ledger" | sort >"$dir/expected"
{ [ -s "$dir/expected" ] && cmp -s "$dir/profiled" "$dir/expected"; } || bad "the profile has other calls: $(diff "$dir/profiled" "$dir/expected" | head -3)"
cp "$dir/trace.json" "$dir/out"
holds 'trace' ".[0].traceEvents | map(select(.ph == \"X\")) | length == $calls and all(.[]; .dur >= 0 and .ts >= 0 and (.name | length > 0) and (.cat | length > 0))"
run run -q --backend cpu -n 4 --ignore-eos --profile --trace "$dir/trace.json" "$page"
ends 'profile of an answer' 4 '^prompt steps: [0-9]+ calls' '^decode steps: [0-9]+ calls' '^all +moe '
cp "$dir/out" "$dir/answer"
run run -q --backend cpu -n 4 --ignore-eos "$page"
checks=$((checks + 1))
cmp -s "$dir/out" "$dir/answer" || bad 'a profile changes the answer'
run run -q --trace "$dir/no/such/folder" "$page"
ends 'trace to nowhere' 1 'no/such/folder: No such file or directory'
run run -q -n 4 --trace /dev/full "$page"
ends 'trace to a full disk' 1 '/dev/full: cannot write'
checks=$((checks + 1))
[ -c /dev/full ] || bad 'trace: a device was removed'
run info -q --ledger --roof 215e9:30e12:3
ends 'device ledger' 0 '^decode step of 1 row at depth 0: [0-9]+ calls' '^hc_down_r1 ' '^moe_gemm_up_Q4_K ' '^the least a token needs: .* tokens/s, [0-9.]+ times as long$'
# twice the bandwidth, no launches, no limit of arithmetic: half the time
for roof in 1e9:1e30 2e9:1e30; do
    run info -q --ledger --json --roof $roof
    jq '.decode.all.predicted_s' "$dir/out"
done >"$dir/two"
cp "$dir/two" "$dir/out"
holds 'roof' '.[0] > 0 and ((.[0] / .[1] - 2) | fabs) < 1e-9'
run info -q --ledger --json --roof 1e9:1e30:7
cp "$dir/two" "$dir/one"
cat "$dir/one" >>"$dir/out"
holds 'launches' '((.[0].decode.all.predicted_s - .[1] - .[0].decode.all.calls * 7e-6) | fabs) < 1e-12'

# --- perplexity and comparison ---
for case in en48 en_page two_docs; do
    gold=tests/golden/q.$case.gold
    n=$(od -An -tu4 -j6 -N4 "$gold" | tr -d ' ')
    mean=$(od -An -v -w4 -tf4 -j$((18 + 4 * n)) -N$((4 * (n - 1))) "$gold" | awk '{ s += $1 } END { printf "%.9f", s / NR }')
    run eval -q --backend cpu --precise --ppl --ids "$gold" -c 65536 --json
    holds "nll of $case" ".[0] | .tokens_scored == $n - 1 and ((.mean_nll - $mean) | fabs) < 2e-5"
done
run eval -q --ids tests/golden/q.en_page.gold -c 128 --compare cpu --json
holds 'a model with itself' '.[0] | .kl_mean == 0 and .kl_max == 0 and .kl_99 == 0 and .top1_agreement == 1 and (.kl | length) == .tokens_scored and .mean_nll == .other_mean_nll'
run eval -q --ids tests/golden/q.en_page.gold -c 4096 --compare tests/models/tiny-man.gguf
ends 'the same by file' 0 '^kl mean 0.000e\+00 .* max 0.000e\+00 +top-1 agreement 100.00 % '
run eval -q --ids tests/golden/q.en_page.gold -c 128 --compare build/models/tiny-zoo.gguf --json
holds 'another model' '.[0] | .kl_mean > 0.001 and .kl_median <= .kl_99 and .kl_99 <= .kl_max and .kl_max == (.kl | max) and
    ((.kl_mean - (.kl | add / length)) | fabs) < 1e-12 and (.kl | min) > -1e-9 and .top1_agreement < 1 and .mean_nll != .other_mean_nll'
run eval -q --ids tests/golden/q.en_page.gold -c 128 --compare tests/data/sample-page.txt
ends 'compare with a text' 1 'sample-page.txt'
run eval -q --ids tests/golden/q.en_page.gold -c 128 --ppl-stride 32 --json
holds 'stride' '.[0] | .stride == 32 and .chunks == ((453 - 128 + 31) / 32 | floor) and .tokens_scored == .chunks * 32'
run eval -q --ids tests/golden/q.en_page.gold -c 128 --ppl-stride 128
ends 'stride as long as the chunk' 2 'expected less than the chunk of 128'

finish
