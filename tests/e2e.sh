#!/bin/bash
# e2e.sh HAYATE - the command line as a user meets it: streams, exit codes, messages. Run from the root of the repository.
# Uses the demo model inside the binary; each check says what stdout, stderr and the exit code must be.
. tests/check.sh
page=tests/data/sample-page.txt

# expect NAME CODE OUT ERR - of the last run; OUT and ERR: "" must be empty, "=TEXT" the exact text with its line end, "*" anything,
# otherwise an extended regular expression that some line matches
stream() { # which, expected
    case $2 in
    '') [ ! -s "$dir/$1" ] || bad "$what: $1 is not empty" ;;
    '*') ;;
    =*) printf '%s\n' "${2#=}" | cmp -s - "$dir/$1" || bad "$what: $1 is '$(head -c 200 "$dir/$1")', expected '${2#=}'" ;;
    *) grep -qE -- "$2" "$dir/$1" || bad "$what: $1 does not match $2" ;;
    esac
}
expect() {
    what=$1
    ends "$1" "$2"
    stream out "$3"
    stream err "$4"
}
# An error: one line, nothing on stdout
refuse() { # name, code, regex of the line, args...
    local name=$1 want=$2 line=$3
    shift 3
    run "$@" </dev/null
    expect "$name" "$want" '' "^hayate: $line"
    [ "$(wc -l <"$dir/err")" = 1 ] || bad "$what: $(wc -l <"$dir/err") lines on stderr, expected 1"
}

# --- misuse ---
refuse 'unknown option' 2 '--bogus: no such option' --bogus "$page"
refuse 'near miss' 2 '--tmp: .* did you mean --temp' --tmp 1 "$page"
refuse 'abbreviation' 2 '--thread: .* did you mean --threads' --thread 2 "$page"
refuse 'short abbreviation' 2 '-igno: ' -igno "$page"
refuse 'a round of more rows than a step' 2 '--draft: a step has 8 rows, found 4 for each of 4 sequences' info --ledger --draft 3 --parallel 4
refuse 'not a number' 2 "-n: 'abc' is not a number, expected 1\.\." -n abc "$page"
refuse 'trailing garbage' 2 "-n: '3x' is not a number" -n 3x "$page"
refuse 'zero' 2 '-n: found 0, expected 1' -n 0 "$page"
refuse 'negative' 2 '-c: found -5, expected 0' -c -5 "$page"
refuse 'fraction' 2 '-n: found 1.5, expected a whole number' -n 1.5 "$page"
refuse 'overflow' 2 '-s: found 99999999999999999999' -s 99999999999999999999 "$page"
refuse 'out of range' 2 '--top-p: found 2, expected 0\.\.1' --top-p 2 "$page"
refuse 'nan' 2 '--temp: found nan' --temp nan "$page"
refuse 'size' 2 "--mem-limit: '8Q' is not a size" --mem-limit 8Q "$page"
refuse 'missing argument' 2 '-n: expected an argument' "$page" -n
refuse 'argument of a flag' 2 '--json: takes no argument' --json=yes "$page"
refuse 'choice' 2 "--reasoning: found 'maybe', expected off or on" --reasoning maybe "$page"
refuse 'two models' 2 '-m: one model at a time' -m a -m b "$page"
refuse 'two cache types' 2 '-ctv f32: K and V have one type' -ctk f16 -ctv f32 "$page"
refuse 'precise with f16' 2 '--precise: ' --precise --kv f16 "$page"
refuse 'repeat-last-n' 2 '--repeat-last-n: found 32, expected 64' --repeat-last-n 32 "$page"
refuse 'raw with system' 2 '--raw: ' --raw --system S "$page"
refuse 'parse-special alone' 2 '--parse-special: only with --raw' --parse-special "$page"
refuse 'option of another command' 2 '--temp: not an option of info' info --temp 1
refuse 'batch to nowhere' 2 'batch: where to\? expected -o DIR or --jsonl FILE' batch "$page"
refuse 'batch of nothing' 2 'batch: expected FILE' batch -o "$dir/out"
refuse 'closed descriptor' 2 '--notify-fd 77: Bad file descriptor' batch -o "$dir/out" --notify-fd 77 "$page"
refuse 'argument of info' 2 "info: does not take the argument 'x.gguf'" info x.gguf
refuse 'eval of nothing' 2 'eval: expected one of' eval
refuse 'both directions' 2 'tokenize: --ids and --text' tokenize --ids --text "$page"
refuse 'list' 2 "-p: '12,x' is not a list" bench -p 12,x
refuse 'fill with what' 2 "--fill: found 'zeros', expected prompt or random" bench --fill zeros
refuse 'no batch' 2 '--pooled-max-tokens: found 0, expected 1\.\.65536' --pooled-max-tokens 0 "$page"
refuse 'precise with q8_0' 2 '--precise: keeps K and V in f32, found q8_0' --precise -ctk q8_0 "$page"
refuse 'short needle' 2 "--needle: found 100, expected at least 128" eval --needle 100
refuse 'two questions' 2 'eval: expected one of' eval --needle 200 --golden tests/golden/q.en48.gold
refuse 'state of a batch' 2 '--save-state: not an option of batch' batch -o "$dir/out" --save-state f "$page"
refuse 'range' 2 "-p: '12-8' is not a list" bench -p 12-8
refuse 'range that stands still' 2 "-p: '8-12\\+0' is not a list" bench -p 8-12+0
refuse 'range from nothing' 2 "-p: '0-12\\*2' is not a list" bench -p '0-12*2'
refuse 'long list' 2 '-d: more than 256 numbers' bench -d 0-1000
refuse 'cache types of bench' 2 '-ctv f16: K and V have one type' bench -ctk f16,f32 -ctv f16
refuse 'precise bench' 2 '--precise: ' bench --precise --kv f16,f32
refuse 'threads of bench' 2 '-t: found 0, expected at least 1' bench -t 1,0
refuse 'sweep' 2 '--sweep: found 5:1:1' bench --sweep 5:1:1
refuse 'half a sweep' 2 "--sweep: found '5:6', expected FIRST:LAST:STEP" bench --sweep 5:6
refuse 'sweep and depth' 2 '--sweep: takes the place of -d' bench --sweep 0:8:4 -d 4
refuse 'abba of nonsense' 2 '--bogus: no such option' bench -q --abba '--bogus'
refuse 'abba of nothing' 2 "' ': expected a switch" bench -q --abba ' '
refuse 'abba of other tests' 2 '--abba -p 8,9: changes which tests' bench -q -p 8 --abba '-p 8,9'
refuse 'abba and check' 2 'bench: --abba and --check' bench --check f --abba '-t 1'
refuse 'check in csv' 2 '--check: writes' bench --check f -o csv
refuse 'missing record' 1 'no-such-record: cannot open' bench -q --check no-such-record
refuse 'cold demo' 2 '--cold: the built-in model' bench -q --cold
refuse 'short text' 1 "$page: 297 tokens, expected at least 4096" bench -q -f "$page" -p 4096
refuse 'roof' 2 "--roof: found '5', expected B:F" info --ledger --roof 5
refuse 'flat roof' 2 '--roof: found 0:5' info --ledger --roof 0:5
refuse 'roof without ledger' 2 'info: --roof belongs to --ledger' info --roof 1e9:1e9
refuse 'json without ledger' 2 'info: --json belongs to --ledger' info --json
refuse 'compare with nothing' 2 'eval: --compare belongs to --ppl' eval --golden f --compare cpu
refuse 'compare with no file' 1 'no-such-model: ' eval -q --ids tests/golden/q.en48.gold --compare no-such-model
refuse 'split of one' 2 'split: found 1 files' split a.gguf
refuse 'too many guesses' 2 "--draft: found '8', expected off or auto or 1" --draft 8 "$page"
refuse 'no guesses' 2 "--draft: found '0'" --draft 0 "$page"
refuse 'no draft head file' 1 'nowhere.gguf: cannot open' -md nowhere.gguf "$page"
refuse 'a text as a draft head' 1 "$page: .*GGUF" --model-draft "$page" "$page"
refuse 'guesses in eval' 2 "--draft auto: not in this version" eval --draft auto --ppl f
refuse 'help of nothing' 2 "help: no command 'nothing'" help nothing
refuse 'empty argument' 2 '-m: found an empty name' -m '' "$page"

# --- known, but of a later version: refused by name, never ignored ---
while read -r words; do
    case $words in
    info* | eval* | bench* | batch*) name=${words#* } ;;
    *) name=$words ;;
    esac
    name=${name%%[ =]*}
    # shellcheck disable=SC2086
    refuse "later: $words" 2 "$name( [a-z0-9_]+)?: not in this version" $words "$page"
done <<'LATER'
-lm none
--no-block-topk
--no-fuse
batch --profile
--reasoning-budget 0
bench --kernels
bench -o sql
LATER

# --- help and version ---
run --version
expect 'version' 0 '^hayate [0-9]+\.[0-9]+\.[0-9]+ \(commit .*\), (gcc|clang) .*, backends: cpu, vulkan, hip, ' ''
for args in help --help -h 'help run' 'help batch' 'help bench' 'help eval' 'help info' 'help tokenize' 'help split' 'help selftest' 'bench --help' 'info -h'; do
    # shellcheck disable=SC2086
    run $args
    expect "$args" 0 'hayate' ''
    awk 'length($0) > 80 { exit 1 }' "$dir/out" || bad "$what: a line is wider than 80 columns"
done
run help
for word in --golden 'selftest ' 'batch ' 'bench ' 'tokenize ' 'split ' --temp '--top-k' 'default: 1024' --kv --json; do
    grep -qF -- "$word" "$dir/out" || bad "$what: help does not mention $word"
done

# --- inputs that cannot be answered ---
printf 'abc\377def' >"$dir/latin"
printf '\357\273\277ab\300' >"$dir/bom-latin"
printf 'abc\0def' >"$dir/nul"
printf ' \n\t\343\200\200\n' >"$dir/white"
: >"$dir/empty"
echo 'a - b' >"$dir/tiny"
refuse 'missing file' 1 "$dir/none: No such file" "$dir/none"
refuse 'directory' 1 "$dir: is a directory" "$dir"
refuse 'empty file' 2 "$dir/empty: empty" "$dir/empty"
refuse 'empty standard input' 2 'standard input: empty'
refuse 'white space' 2 "$dir/white: nothing but white space" "$dir/white"
refuse 'not UTF-8' 1 "$dir/latin: not UTF-8 at byte 3" "$dir/latin"
refuse 'not UTF-8 behind a mark' 1 "$dir/bom-latin: not UTF-8 at byte 5" "$dir/bom-latin"
refuse 'NUL' 1 "$dir/nul: NUL at byte 3" "$dir/nul"
refuse 'Latin-1 is not Shift_JIS' 1 "$dir/latin: not UTF-8 at byte 3 \(and not UTF-16, Shift_JIS, EUC-JP or ISO-2022-JP\)" "$dir/latin"
refuse 'unknown encoding' 2 "--encoding: no encoding 'klingon'" --encoding klingon "$page"
refuse 'forced encoding' 1 "$dir/latin: not euc-jp at byte 3" --encoding euc-jp "$dir/latin"
refuse 'too long for -c' 1 "$page: a prompt of [0-9]+ tokens, expected at most 20 \(-c\)" -q -c 20 "$page"
refuse 'missing model' 1 "$dir/none: cannot open" -m "$dir/none" "$page"
refuse 'not a model' 1 "$page: not a GGUF file" -m "$page" "$page"
refuse 'does not fit' 1 'a context of 1350 needs [0-9]+ MiB, --mem-limit is 1024 KiB; ' -q --mem-limit 1M "$page"
refuse 'a limit of a byte' 1 '.* needs [0-9]+ MiB, --mem-limit is 1 byte; ' -q --mem-limit 1 "$page"
refuse 'a limit of bytes' 1 '.* needs [0-9]+ MiB, --mem-limit is 10239 bytes; ' -q --mem-limit 10239 "$page"
refuse 'a small context in a small limit' 1 'a context of 32 needs [0-9]+ MiB, --mem-limit is 10 KiB; ' -q -c 32 -ub 64 --mem-limit 10K "$dir/tiny"
refuse 'damaged golden file' 1 "$page: found .* expected GOLD1" eval -q --golden "$page"
refuse 'not UTF-8 to tokenize' 1 "$dir/latin: not UTF-8 at byte 3" tokenize "$dir/latin"
refuse 'log that cannot be' 1 "$dir/no/log: " --log "$dir/no/log" "$page"
if [ "$(id -u)" != 0 ]; then
    cp "$page" "$dir/secret"
    chmod 000 "$dir/secret"
    refuse 'unreadable' 1 "$dir/secret: Permission denied" "$dir/secret"
fi

# --- answers ---
run "$page"
expect 'one file' 0 '^CURLOPT_TFTP_BLKSIZE - ' '^hayate: no -m and no .*demo model'
stream err '^prefill [0-9]+ tok, [0-9.]+ tok/s · decode [0-9]+ tok, [0-9.]+ tok/s( · draft acceptance [0-9]+ % \([0-9]+ of [0-9]+\), [0-9.]+ tok a pass)?$'
[ "$(wc -l <"$dir/out")" = 1 ] || bad "$what: not one line"
cp "$dir/out" "$dir/answer"
answer=$(cat "$dir/answer")
for guesses in off 1 7; do # the same text whatever is guessed, greedy and sampled
    run -q --draft "$guesses" "$page"
    expect "draft $guesses" 0 '^CURLOPT_TFTP_BLKSIZE - ' ''
    cmp -s "$dir/out" "$dir/answer" || bad "$what: another answer with --draft $guesses"
    run -q --draft "$guesses" --temp 1 --seed 3 -n 24 --ignore-eos "$page"
    [ "$guesses" != off ] || cp "$dir/out" "$dir/sampled"
    cmp -s "$dir/out" "$dir/sampled" || bad "$what: another sampled answer with --draft $guesses"
done
run -q --json --draft 3 -n 24 --ignore-eos "$page"
jq -e '.draft | .tokens == 23 and .passes + .accepted == .tokens and .drafted >= .accepted and (.drafted_at | add) == .drafted' "$dir/out" >/dev/null ||
    bad "$what: numbers of guesses"
run -q "$page"
expect 'the same again, quiet' 0 "=$answer" ''
run -q <"$page"
expect 'standard input' 0 "=$answer" ''
run -q - <"$page"
expect 'standard input by name' 0 "=$answer" ''
run -q -f "$page"
expect 'file by -f' 0 "=$answer" ''
run run -q -p 'Summarize this manual page in one line.' "$page"
expect 'instruction given' 0 "=$answer" ''
(printf '\357\273\277' && cat "$page") >"$dir/bom"
run -q "$dir/bom"
expect 'byte-order mark' 0 "=$answer" ''
run -q -t 1 -ub 64 -c 4096 --temp 0 "$page"
expect 'threads, ubatch and context do not show' 0 "=$answer" ''
run -q --load copy -t 3 "$page"
expect 'weights in large pages' 0 "=$answer" ''
refuse 'no room for a copy of the weights' 1 'a context of 512 needs [0-9]+ MiB, --mem-limit is 30 MiB; ' -q --load copy --mem-limit 30M -c 512 "$page"
run -q --mem-limit 30M -c 512 "$page"
expect 'room without it' 0 "=$answer" ''
run -q --temp 0.8 -s 7 "$page"
cp "$dir/out" "$dir/sampled"
run -q --temp 0.8 --seed 7 "$page"
expect 'same seed' 0 '*' ''
cmp -s "$dir/out" "$dir/sampled" || bad "$what: differs"
HAYATE_MODEL=tests/models/tiny-man.gguf "$hayate" -p 'Summarize this manual page in one line.' "$page" >"$dir/out" 2>"$dir/err"
code=$?
expect 'model from the environment' 0 "=$answer" '^prefill'
! grep -q demo "$dir/err" || bad "$what: speaks of the demo model"
run -ngl 99 -fa on --jinja -no-cnv -st -b 2048 --no-mmap -ctk f16 -ctv f16 --top-k 20 --reasoning off --backend cpu --draft off "$page"
expect 'spellings of llama.cpp' 0 "=$answer" '^hayate: accepted without effect here: -ngl, -fa, --jinja, -no-cnv, -st, -b, --no-mmap$'
run -q --log "$dir/log" "$page"
expect 'log' 0 "=$answer" ''
grep -q '^prefill' "$dir/log" || bad "$what: no timing in the log"
run -v "$page"
expect 'verbose' 0 "=$answer" 'total +[0-9]+ bytes'
run -n 3 "$page"
expect 'cut by -n' 4 '^CURL' 'answer cut by -n after 3 tokens'
run -c 330 "$page"
expect 'cut by the context' 4 '^CURL' 'answer cut by the context'
run -q --ignore-eos -n 40 --json "$page"
expect 'ignore-eos' 4 '"generated_tokens":40,.*"stop":"length"' ''
run --reasoning on -n 5 "$page"
expect 'thoughts go to stderr' 4 '=' '^CURL'
run -q --reasoning on -n 5 "$page"
expect 'thoughts, quiet' 4 '=' ''

# --- several files ---
run "$page" "$page"
expect 'the same file twice' 0 "^==> $page <==$" "^$page: prefill [0-9]+ tok, [0-9.]+ tok/s"
stream err "^$page: prefill [0-9]+ tok \([0-9]+ reused\), [0-9.]+ tok/s"
run --json "$page" "$page"
expect 'the same file twice, json' 0 '*' '*'
[ "$(jq -s '.[0].reused_tokens == 0 and .[1].reused_tokens > 10' "$dir/out")" = true ] || bad "$what: reused: $(jq .reused_tokens "$dir/out")"
speed=$(sed -nE 's/.* reused\), ([0-9.]+) tok.*/\1/p' "$dir/err") # counts what was evaluated
jq -se --argjson speed "$speed" '.[1] | .prefill_s * $speed / (.prompt_tokens - .reused_tokens) | . > 0.99 and . < 1.01' "$dir/out" >/dev/null ||
    bad "$what: $speed tok/s: $(cat "$dir/out")"
run -q "$page" LICENSE
expect 'two files' 0 "^==> $page <==$" ''
[ "$(head -4 "$dir/out")" = "$(printf '==> %s <==\n%s\n\n==> LICENSE <==' "$page" "$answer")" ] || bad "$what: headers and answers"
[ "$(wc -l <"$dir/out")" = 5 ] || bad "$what: number of lines"
run -q LICENSE "$page"
expect 'order does not matter' 0 '*' ''
[ "$(sed -n 5p "$dir/out")" = "$answer" ] || bad "$what: another answer after another file"
run -q "$page" "$dir/none" "$dir/latin" "$dir/empty"
expect 'one of four' 1 "^==> $page <==$" "^hayate: $dir/none: No such file"
stream err "^hayate: $dir/latin: not UTF-8"
stream err "^hayate: $dir/empty: empty"
[ "$(cat "$dir/out")" = "$(printf '==> %s <==\n%s' "$page" "$answer")" ] || bad "$what: answer of the good one"
run -q --json "$page" "$dir/empty" "$page"
expect 'json' 2 '*' "^hayate: $dir/empty: empty"
[ "$(jq -r '.text + "|" + .path + "|" + .stop' "$dir/out" | sort -u)" = "$answer|$page|end" ] || bad "$what: json: $(cat "$dir/out")"
[ "$(jq -r 'select((.prompt_tokens | type == "number") and (.prefill_s > 0) and (.decode_s > 0) and .generated_tokens > 0 and .seed == 0) | .model' \
    "$dir/out" | sort | uniq -c | tr -s ' ')" = ' 2 (demo model)' ] || bad "$what: json fields"

# --- the prompt ---
printf 'A page.\n\n' >"$dir/doc"
run --print-prompt -p 'Say it.' "$dir/doc"
printf '<|im_start|>user\nSay it.\n\nA page.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n' >"$dir/want"
expect 'print-prompt' 0 '*' ''
cmp -s "$dir/out" "$dir/want" || bad "$what: prompt"
run --print-prompt -sys 'Be brief.' --reasoning on --reasoning-effort medium -p 'Say it.' "$dir/doc"
printf '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nSay it.\n\nA page.<|im_end|>\n<|im_start|>assistant\n<think>\n' >"$dir/want"
expect 'print-prompt with system' 0 '*' ''
cmp -s "$dir/out" "$dir/want" || bad "$what: prompt"
run --print-prompt --raw "$dir/doc"
expect 'print-prompt raw' 0 '*' ''
printf 'A page.' | cmp -s - "$dir/out" || bad "$what: prompt"

refuse 'endless input' 1 '/dev/zero: more than 256 MiB, expected a document' /dev/zero

# --- answers that are empty or no numbers ---
run -q --json --reasoning on -n 1 "$page"
expect 'cut while thinking' 4 '"text":""' ''
cp tests/models/tiny-man.gguf "$dir/nan.gguf"
head -c 34 /dev/zero | tr '\0' '\377' | dd of="$dir/nan.gguf" bs=1 seek=5983360 conv=notrunc status=none # a block of blk.0.attn_gate
run -q -m "$dir/nan.gguf" "$page"
expect 'NaN in a weight' 1 '' 'nan.gguf: the model computed -?nan as its best logit, expected a number'
for args in 'bench -q -p 8 -n 0 -r 1' 'bench -q -p 0 -n 2 -r 1 -o jsonl' 'eval -q --golden tests/golden/q.en48.gold --json' 'eval -q --golden tests/golden/q.en48.gold' \
    'eval -q --precise --golden tests/golden/q.en48.gold --json' "eval -q --ppl $page --json"; do
    # shellcheck disable=SC2086
    run $args -m "$dir/nan.gguf"
    expect "NaN in a weight: $args" 1 '*' 'nan.gguf: the model computed .*nan.*, expected a number'
    [ "$(wc -l <"$dir/err")" = 1 ] || bad "$what: not one line"
    ! grep -v '^|' "$dir/out" || bad "$what: a result"
done
run eval -q --precise --golden tests/golden/q.en48.layers --json -m "$dir/nan.gguf"
expect 'NaN in a weight: layers' 1 '"max_residual_diff":null,"first_different_layer":0,"within":false' ''
rm "$dir/nan.gguf"
odd=$dir/$'odd\351'
cp tests/golden/q.en48.gold "$odd.gold"
run eval -q --json --golden "$odd.gold"
expect 'golden, json, a name that is not UTF-8' 0 '"golden":".*odd�\.gold"' ''
ln -s "$PWD/tests/models/tiny-man.gguf" "$odd.gguf"
run bench -q -p 8 -n 0 -r 1 -o jsonl -m "$odd.gguf"
expect 'bench, json, a name that is not UTF-8' 0 '"model_filename":".*odd�\.gguf"' ''
head -c $(($(stat -c %s "$odd.gold") - 2)) "$odd.gold" >"$dir/nan.gold"
printf '\300\177' >>"$dir/nan.gold" # its last logit
for args in --json -q; do
    run eval -q --golden "$dir/nan.gold" $args
    expect "a golden value that is no number: $args" 1 '' "^hayate: $dir/nan.gold: holds a value that is no number"
done
cp tests/models/tiny-man.gguf "$dir/conv.gguf"
printf '\200\2\0\0\0\0\0\0\4\0\0\0\0\0\0\0' | dd of="$dir/conv.gguf" bs=1 seek=321155 conv=notrunc status=none # the two dimensions of a convolution exchanged
refuse 'convolution the other way round' 1 '.*conv.gguf: blk.0.ssm_conv1d.weight is \[640, 4\], expected \[4, 640\]' -m "$dir/conv.gguf" "$page"
rm "$dir/conv.gguf"

# --- stdout that cannot be written ---
for args in "$page" "--json $page" info help --version "tokenize $page" 'bench -p 8 -n 0 -r 1' "--print-prompt $page"; do
    # shellcheck disable=SC2086
    "$hayate" $args >/dev/full 2>"$dir/err"
    code=$?
    : >"$dir/out"
    expect "full disk: $args" 1 '' 'standard output: No space left'
done
run -q --log /dev/full "$page"
expect 'full disk: log' 1 '*' '/dev/full: cannot write'
"$hayate" -q "$page" >&- 2>"$dir/err"
code=$?
expect 'closed stdout' 1 '*' 'standard output: Bad file descriptor'
"$hayate" -q "$page" 2>&- >"$dir/out"
code=$?
: >"$dir/err"
expect 'closed stderr' 0 "=$answer" ''
"$hayate" -q <&- 2>"$dir/err" >"$dir/out"
code=$?
expect 'closed stdin' 1 '' 'standard input: Bad file descriptor'
{ "$hayate" -q "$page" "$page" "$page" 2>"$dir/err" && echo 0 >"$dir/code" || echo $? >"$dir/code"; } | true
code=$(cat "$dir/code")
: >"$dir/out"
expect 'closed pipe' 1 '' 'standard output: Broken pipe'
seq -s ' ' 20000 >"$dir/numbers"
for args in 'info --tensors' "tokenize $dir/numbers" 'bench -q -p 8,8,8,8 -n 0 -r 1'; do # lists end as cat would
    # shellcheck disable=SC2086
    { "$hayate" $args -q 2>"$dir/err" || echo $? >"$dir/code"; } | true
    code=$(cat "$dir/code")
    expect "reader gone: $args" 141 '' ''
done

# --- interruption: a long instruction does not make the program deaf ---
timeout --preserve-status -s INT -k 60 1 "$hayate" -q -p "$(yes word | head -c 100000)" "$page" >"$dir/out" 2>"$dir/err"
code=$?
expect 'interrupted in the instruction' 130 '' ''

# --- interruption: while a model is opened, here one with 40 million empty strings in its metadata ---
printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0x\11\0\0\0\10\0\0\0\0\132\142\2\0\0\0\0' >"$dir/slow.gguf"
truncate -s $(($(stat -c %s "$dir/slow.gguf") + 8 * 40000000)) "$dir/slow.gguf"
for args in "130 INT run $page" "143 TERM run $page" "130 INT batch -o $dir/slow $page" '143 TERM bench' "143 TERM eval --ppl $page"; do
    read -r want signal args <<<"$args"
    # shellcheck disable=SC2086
    timeout --preserve-status -s "$signal" -k 60 0.1 "$hayate" $args -q -m "$dir/slow.gguf" >"$dir/out" 2>"$dir/err"
    code=$?
    expect "SIG$signal while a model is opened: $args" "$want" '' ''
done
refuse 'the same model, not interrupted' 1 "$dir/slow.gguf: key general.architecture missing" -q -m "$dir/slow.gguf" "$page"
rm "$dir/slow.gguf"

# --- a model that gets shorter while it is used ---
started() { # waits until the last command in the background has said word
    pid=$!
    for _ in $(seq 100); do
        grep -q "$1" "$dir/err" && break
        sleep 0.1
    done
}
cp tests/models/tiny-man.gguf "$dir/short.gguf"
"$hayate" -v --ignore-eos -n 100000 -m "$dir/short.gguf" "$page" >"$dir/out" 2>"$dir/err" &
started total
truncate -s 100000 "$dir/short.gguf"
wait "$pid"
code=$?
expect 'model got shorter' 1 '' "^hayate: $dir/short.gguf: the file got shorter while it was in use, expected $(stat -c %s tests/models/tiny-man.gguf) bytes"
[ "$(grep -c '^hayate' "$dir/err")" = 1 ] || bad "$what: not one line"
rm "$dir/short.gguf"

# --- interruption: what was finished is kept ---
for signal in INT:130 TERM:143; do
    "$hayate" -v --ignore-eos -n 100000 --json "$page" >"$dir/out" 2>"$dir/err" &
    pid=$!
    for _ in $(seq 100); do
        grep -q 'total' "$dir/err" && break
        sleep 0.1
    done
    sleep 1.5
    kill -s "${signal%:*}" "$pid"
    wait "$pid"
    code=$?
    expect "SIG${signal%:*}" "${signal#*:}" '*' 'total'
    # nothing when the signal came before the first token
    [ ! -s "$dir/out" ] || jq -e '.stop == "interrupted" and .generated_tokens > 0' "$dir/out" >/dev/null || bad "$what: the half answer"
done

# --- tokenize ---
run tokenize -q "$page"
expect 'ids' 0 '^[0-9 ]+$' ''
[ "$(wc -l <"$dir/out")" = 1 ] || bad "$what: not one line"
cp "$dir/out" "$dir/ids"
run tokenize -q --text "$dir/ids"
expect 'text' 0 '*' ''
cmp -s "$dir/out" "$page" || bad "$what: round trip"
printf 'x <|im_end|> \342\200\213\n\n  \343\201\202\360\237\216\211\001' >"$dir/odd"
for special in '' --special; do
    # shellcheck disable=SC2086
    "$hayate" tokenize -q $special "$dir/odd" >"$dir/ids"
    run tokenize -q --text <"$dir/ids"
    expect "round trip $special" 0 '*' ''
    cmp -s "$dir/out" "$dir/odd" || bad "$what: round trip"
done
run tokenize -q --special <<<'<|im_end|>'
expect 'special' 0 '^[0-9]+ [0-9]+$' ''
run tokenize -q <<<'<|im_end|>'
expect 'text is text' 0 '^[0-9]+ [0-9]+ [0-9]+ ' ''
refuse 'not an id' 1 "$page: '.*' is not a token id" tokenize --text -q "$page"
echo 8192 >"$dir/ids"
refuse 'id outside' 1 "$dir/ids: id 8192, expected 0..8191" tokenize --text -q "$dir/ids"
if zstd -q -d -f tests/models/vocab-qwen35.gguf.zst -o "$dir/vocab.gguf"; then
    run tokenize -m "$dir/vocab.gguf" "$page"
    expect 'vocabulary without tensors' 0 '^[0-9 ]+$' ''
    refuse 'vocabulary as a model' 1 "$dir/vocab.gguf: " -m "$dir/vocab.gguf" "$page"
fi

# --- info, eval, bench ---
run info -q --plan -c 1024 --tensors --keys
expect 'info' 0 '^architecture +qwen4exp: 8 layers' ''
sum=$(awk '/^plan/ { p = 1 } p && $1 != "total" { for (i = 2; i <= NF; i++) if ($i == "bytes" && $(i-1) ~ /^[0-9]+$/ && $1 ~ /:$/) s += $(i-1) } END { print s }' \
    "$dir/out")
[ "$sum" = "$(awk '$1 == "total" { print $2 }' "$dir/out")" ] || bad "$what: the plan adds up to $sum"
run info -q --plan -c 1024 --load copy
expect 'info with a copy' 0 '  model: copy of the weights +[0-9]+ bytes' ''
run info -q --plan -c 1024 --tensors --keys
grep -q '^token_embd.weight ' "$dir/out" || bad "$what: tensors"
grep -q '^tokenizer.ggml.pre .*qwen35' "$dir/out" || bad "$what: keys"
run eval --golden tests/golden/q.en48.gold
expect 'golden' 0 'q.en48.gold .* max .logit diff. .* ok$' '*'
expect 'golden rule' 0 'rule: default path' '*'
run eval -q --precise --golden tests/golden/q.en48.gold --json
expect 'golden, json' 0 '"within":true' ''
run eval -q --ppl "$page" -c 128
expect 'perplexity' 0 '^ppl [0-9.]+ ' ''
run eval -q --ppl --ids tests/golden/q.en_page.gold -c 128
expect 'perplexity of ids' 0 '^ppl [0-9.]+ ' ''
[ "$(wc -l <"$dir/out")" = 1 ] || bad "$what: printed more than once"
run bench -q -p 16,32 -n 4 -d 0,8 -r 2 -o jsonl
expect 'bench' 0 '*' ''
[ "$(jq -r '[.n_prompt, .n_gen, .n_depth, (.samples_ts | length)] | @csv' "$dir/out" | tr '\n' ' ')" = \
    '16,0,0,2 32,0,0,2 0,4,0,2 16,0,8,2 32,0,8,2 0,4,8,2 ' ] || bad "$what: tests: $(jq -c '[.n_prompt, .n_gen, .n_depth]' "$dir/out" | tr '\n' ' ')"
jq -e '.avg_ts > 0 and .stddev_ts >= 0 and .avg_ns > 0 and has("build_commit") and has("cpu_info") and has("model_size") and has("test_time")' \
    "$dir/out" >/dev/null || bad "$what: fields"
run bench -q -p 16 -n 4 -d 8 -r 1
expect 'bench table' 0 '\| +pp16 @ d8 \| +[0-9.]+ ± 0.00 \|' ''
stream out '\| +tg4 @ d8 \|'

for kv in f16 q8_0; do
    run bench -q -p 0 -n 2 -d 5000 --fill random -s 3 --kv $kv -r 1 -o jsonl
    expect "bench, filled, $kv" 0 '*' ''
    jq -e --arg kv $kv '.n_depth == 5000 and .fill == "random" and .type_k == $kv and .avg_ts > 0' "$dir/out" >/dev/null || bad "$what: filled: $(cat "$dir/out")"
done
run bench -q -p 0 -n 2 -d 300 --fill random -r 1
expect 'bench table, filled' 0 '\| +tg2 @ d300 random \|' ''
run eval -q --needle 128,200 --json
expect 'needle' 0 '*' ''
[ "$(jq -sc 'map([.needle, .asked, .found >= 8, .mean_prompt_tokens <= .needle])' "$dir/out")" = '[[128,16,true,true],[200,16,true,true]]' ] || bad "$what: needle: $(cat "$dir/out")"
mv "$dir/out" "$dir/needle"
run eval -q --needle 200 --json
[ "$(cat "$dir/out")" = "$(tail -1 "$dir/needle")" ] || bad "$what: needle: a length depends on the others"
run eval -q --needle 200 --json LICENSE
[ "$(cat "$dir/out")" != "$(tail -1 "$dir/needle")" ] || bad "$what: needle: the file is not used"
refuse 'needle of nothing' 2 '/dev/null: empty, expected text' eval -q --needle 200 /dev/null

# --- devices, kernels ---
run info --kernels
expect 'kernels' 0 '^hc_norm +256 +40 +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +0 model/hc_norm.k +-$' ''
run info --devices
expect 'devices' 0 '^cpu +[0-9]+ cores' ''
run selftest --backend cpu -t 2 embed_dev 'qsa_sc*'
expect 'selftest' 0 '^embed_dev +reference +[0-9]+ +[0-9]+ .* ok$' ''
stream out '^qsa_score +base +[0-9]+ +[0-9]+ .* ok$'
stream out '^[0-9]+ passed, 0 failed, 0 not run$'
run selftest -q --backend cpu -s 7 hc_mean
cp "$dir/out" "$dir/seven"
run selftest -q --backend cpu -s 7 hc_mean
cmp -s "$dir/out" "$dir/seven" || bad "$what: the same seed gives other cases"
refuse 'no such row' 2 "selftest: no row 'nope'" selftest hc_mean nope
refuse 'rows to measure' 2 "selftest: --machine runs no rows, found 'hc_mean'" selftest --machine hc_mean
refuse 'no such backend' 1 'hip: no ROCm is installed' selftest --backend hip
refuse 'no driver' 1 'vulkan: no driver is installed' -q --backend vulkan "$page"
refuse 'no driver for the device' 1 'vulkan: no driver is installed' -q --device 1 "$page"

finish
