#!/bin/bash
# together.sh HAYATE [short|long] - --parallel: whatever is decoded together, every answer is the one that its input has alone; 24 mixed inputs (12, 200), and what happens when
# some are broken, too long, interrupted, killed. Run from the root of the repository; the demo model is inside the binary. SEED=N repeats the kills.
page=$PWD/tests/data/sample-page.txt schema=$PWD/tests/bench/bench.schema.json validate=$PWD/tests/bench/validate.py
. tests/check.sh
at_random
n_input=24 n_token=40 longest=1500
case $size in short) n_input=12 n_token=16 longest=600 ;; long) n_input=200 ;; esac
cd "$dir" || exit 1
batch() { run batch -q -t 1 "$@"; }
same() { diff -r -x .hayate "$1" "$2" >difference || ! head -5 difference; }
facts() { jq -c '[.path, .text, .prompt_tokens, .generated_tokens, .stop]' "$1"; } # of an answer, whatever else was in work

# --- mixed inputs: a line or pages, two that cannot be read, answers from nothing to the whole of -n ---
mkdir in
for ((i = 0; i < n_input; i++)); do
    printf -v f 'in/%04d.txt' "$i"
    case $((i % 6)) in
    0 | 3) printf 'page%d - print the %d-th line of a file\n' "$i" $((i * 7919 % 1000)) >"$f" ;;
    1) printf '%d\n' "$i" >"$f" ;;
    2) { echo "head$i - first part"; head -c $((RANDOM % longest + 200)) "$page"; } | iconv -c -t UTF-8 >"$f" ;;
    4) { echo "doc$i"; head -c $((RANDOM % 400 + 10)) "$page"; echo "## $i"; } >"$f" ;;
    5) for _ in 1 2 3; do printf '日本語の文書%d。\n\n' "$i"; done >"$f" ;;
    esac
done
printf 'caf\351\0' >in/0007.txt
: >in/0011.txt
n_good=$((n_input - 2))

compare() { # name, options: eight at once are what they are one by one
    local name=$1
    shift
    rm -rf one eight ./*.jsonl
    batch "$@" -o one --jsonl one.jsonl --report one.report in
    check "$name: exit $code of one by one" [ $code = 3 ]
    batch "$@" -np 8 -o eight --jsonl eight.jsonl --report eight.report in
    check "$name: exit $code" [ $code = 3 ]
    check "$name: answers" same one eight
    check "$name: how many" [ "$(find eight -name '*.txt' | wc -l)" = $n_good ]
    check "$name: objects, in the order of the inputs" cmp -s <(facts one.jsonl) <(facts eight.jsonl)
    check "$name: report" cmp -s <(sort one.report) <(sort eight.report)
    check "$name: what is said" [ "$(grep -c '^hayate: in/00[01][17].txt: ' err)" = 2 ]
}
compare greedy -n $n_token
cp -r eight greedy
compare sampled -n $n_token --temp 1 --seed 7
cp -r eight sampled
check 'sampled: not greedy' sh -c '! diff -r -x .hayate eight greedy >/dev/null'
compare 'end tokens ignored, prompts in pieces' -n 12 --ignore-eos -ub 64
compare precise -n 10 --precise --temp 0.8
compare 'all logits' -n 10 --repeat-penalty 1.1 --presence-penalty 0.3 --temp 1 --top-k 0
rm -rf two
batch -n $n_token -np 3 -t 2 -o two in
check 'three at once, two threads' same greedy two
batch -n $n_token -np 2 -o two in
check 'what is there is left alone' [ "$(grep -c ' decode ' err)$code" = 03 ]

# --- rows that are left carry guesses ---
for draft in auto 3 7; do
    rm -rf two
    batch -n $n_token -np 3 --draft $draft -o two in
    check "three at once, --draft $draft" same greedy two
    rm -rf two
    batch -n $n_token -np 4 --draft $draft --temp 1 --seed 7 -o two in
    check "four at once, sampled, --draft $draft" same sampled two
done
rm -rf one two
batch -n 60 --ignore-eos --draft off -o one in
batch -n 60 --ignore-eos --draft 7 -np 2 --jsonl two.jsonl -o two in
check 'two at once, guesses' same one two
guesses() { jq -s "map(.draft.$1) | add" two.jsonl; }
check 'two at once, guesses come true' [ "$(guesses accepted)" -gt 0 ]
check 'two at once, guesses fail' [ "$(guesses drafted)" -gt "$(guesses accepted)" ]

# --- the cache of the instruction, documents beyond the context ---
rm -rf two
batch -n $n_token -np 8 --prefix-cache cache -o two in
check 'prefix cache, new' same greedy two
rm -rf two
batch -n $n_token -np 8 --prefix-cache cache --jsonl two.jsonl -o two in
check 'prefix cache, known' same greedy two
check 'prefix cache: nobody evaluated it' [ "$(jq -s 'map(.reused_tokens) | min > 10' two.jsonl)" = true ]
for mode in head-tail split; do
    rm -rf one eight
    batch -n 8 --long $mode -c 160 -o one in
    serial=$code
    batch -n 8 --long $mode -c 160 -np 5 -o eight in
    check "long, $mode: exit $code as $serial" [ $code = $serial ]
    check "long, $mode" same one eight
done

# --- killed at random instants, interrupted, started again ---
for k in 1 2 3 4; do
    "$hayate" batch -q -t 1 -n $n_token -np 8 -o killed --jsonl killed.jsonl in >/dev/null 2>&1 &
    sleep "$((RANDOM % 2)).$((RANDOM % 80 + 10))"
    { kill -9 $! && wait $!; } 2>/dev/null
    check "kill $k: a file is not whole" sh -c '[ ! -d killed ] || ! diff -rq -x .hayate greedy killed | grep -v "^Only in greedy: "'
done
for signal in INT:130 TERM:143; do
    rm -rf stopped
    "$hayate" batch -q -t 1 -n 200 --ignore-eos -np 8 -o stopped in >out 2>err &
    for _ in $(seq 200); do
        [ -e stopped/0001.txt.txt ] && break
        sleep 0.05
    done
    kill -s "${signal%:*}" $!
    wait $!
    check "SIG${signal%:*}: exit" [ $? = "${signal#*:}" ]
    check "SIG${signal%:*}: says so" grep -qE "^hayate: stopped after [0-9]+ of $n_input inputs; start again to continue" err
done
batch -n $n_token -np 8 -o killed --jsonl killed.jsonl in
check 'after kills' same greedy killed
check 'after kills: objects' [ "$(facts killed.jsonl | wc -l)" = $n_good ]
check 'after kills: order' sh -c 'jq -r .path killed.jsonl | sort -c'

# --- run: what is printed and said has the order of the inputs ---
files=(in/0002.txt in/0001.txt in/0007.txt in/0000.txt in/0004.txt in/0011.txt in/0003.txt)
said() { sed -E 's/(, )?[0-9.]+ tok\/s//g; s/ \([0-9]+ reused\)//; s/ · draft acceptance [^,]*, [0-9.]+ tok a pass//' "$1"; }
"$hayate" -t 1 -n 20 --draft off "${files[@]}" >one.out 2>one.err
serial=$?
"$hayate" -t 1 -n 20 -np 4 "${files[@]}" >out 2>err
check "run: exit" [ $? = $serial ]
check 'run: stdout' cmp -s one.out out
check 'run: stderr' cmp -s <(said one.err) <(said err)
"$hayate" -q -t 1 -n 20 --json "${files[@]}" 2>/dev/null >one.out
"$hayate" -q -t 1 -n 20 -np 8 --json --reasoning off "${files[@]}" >out 2>err
check 'run: objects' cmp -s <(facts one.out) <(facts out)
"$hayate" -q -t 1 -n 20 --reasoning on "${files[@]}" 2>/dev/null >one.out
"$hayate" -q -t 1 -n 20 --reasoning on -np 3 "${files[@]}" >out 2>err
check 'run: with thoughts' cmp -s one.out out
"$hayate" -q -t 1 -n 20 -np 3 "${files[@]}" >/dev/full 2>err
check 'run: stdout is full' [ $? = 1 ]
check 'run: stdout is full, said once' [ "$(grep -vc '^hayate: in/' err)" = 1 ]

# --- memory is planned before the start, and refused ---
batch -n $n_token -np 8 --mem-limit 56M -o refused in
check "memory: exit $code" [ $code = 1 ]
check 'memory: why' grep -qE '^hayate: a context of [0-9]+ at 8 places \(--parallel\) needs .*, --mem-limit is .*would fit' err
check 'memory: one is enough' sh -c "\"$hayate\" batch -q -t 1 -n 2 -ub 64 --mem-limit 24M -o few in/0000.txt in/0001.txt 2>err; [ \$? = 4 ]"
for bad in 0 9 x; do
    batch -np $bad -o refused in
    check "-np $bad" [ $code = 2 ]
done
check 'nothing was made' [ -z "$(find refused -name '*.txt' 2>/dev/null)" ]
plan() { "$hayate" info -q --plan -c 1000 -np "$1" | awk '/session: K\/V/ { print $3 }'; }
check 'info --plan' [ "$(plan 8)" = $((8 * $(plan 1))) ]

# --- measuring ---
"$hayate" bench -p 16 -n 8 -d 20 -r 2 -t 1 -np 8 -o json >bench.json 2>err
check 'bench' /usr/bin/python3 "$validate" "$schema" bench.json
check 'bench: tests' [ "$(jq -r '.[] | "\(.test) \(.n_parallel)"' bench.json | tr '\n' ,)" = 'pp16 @ d20 1,tg8 x8 @ d20 8,' ]
check 'bench: all tokens count' [ "$(jq '.[1] | (.samples_ns[0] * .samples_ts[0] / 1e9 | round)' bench.json)" = 64 ]
"$hayate" bench --check bench.json >out 2>err
check 'bench --check' grep -q '^tg8 x8 @ d20 ' out
"$hayate" bench -p 0 -n 24 -r 2 -t 1 -np 3 --draft 3 -f "$page" -o json >bench.json 2>err
check 'bench, guesses' /usr/bin/python3 "$validate" "$schema" bench.json
check 'bench, guesses: all tokens count' [ "$(jq '.[0] | (.samples_ns[0] * .samples_ts[0] / 1e9 | round)' bench.json)" = 72 ]
check 'bench, guesses: all tokens are there' [ "$(jq '.[0].drafts | "\(.tokens) \(.passes + .accepted) \(.drafted > .accepted)"' bench.json)" = '"72 72 true"' ]
ledger() { "$hayate" info -q --ledger --backend cpu --json -d 300 -np "$1" | jq ".decode.all.$2"; }
check 'ledger: states of all rows' [ "$(ledger 4 state)" = $((4 * $(ledger 1 state))) ]
check 'ledger: weights of a product once' [ "$(ledger 4 weights)" -lt $((3 * $(ledger 1 weights))) ]
round() { "$hayate" info -q --ledger --json -d 300 -np "$2" --draft "$3" --backend "$1" | jq -c "$4"; }
states='[.round.rows[] | select(.row == "gdn_verify" or .row == "slide")] | map(.state) | add'
check 'ledger: a round of two places has twice the states' [ "$(round cpu 2 2 "$states")" = $((2 * $(round cpu 1 2 "$states"))) ]
check 'ledger: on a device too' [ "$(round auto 2 2 "$states")" = "$(round cpu 2 2 "$states")" ]
check 'ledger: one call for all rows on a device' [ "$(round auto 4 1 '[.round.rows[] | select(.row == "gdn_verify").calls]')" = '[6]' ]

finish
