#!/bin/bash
# long.sh HAYATE [short] - documents longer than the context, with the demo model: refused, both ends, parts and a summary of summaries.
# Run from the root of the repository. Most of it with a text of 4,000 tokens; unless short, one of 40,000 is summarised too.
. tests/check.sh

# answer NAME "CODES" ARGS... - leaves $dir/out, $dir/err
answer() {
    what=$1
    local codes=$2
    shift 2
    run "$@" </dev/null
    [[ " $codes " != *" $code "* ]] || codes=$code # one of them
    ends "$what" "$codes"
}
# says REGEX - some line of stderr
says() {
    grep -qE -- "$1" "$dir/err" || bad "$what: stderr does not match $1"
}
answers() { # N - this many answers of one line on stdout
    [ "$(grep -c . "$dir/out")" = "$1" ] || bad "$what: $(grep -c . "$dir/out") lines on stdout, expected $1"
}
json() { # FILTER - true for the object on stdout
    jq -e "$1" "$dir/out" >"$dir/jq" 2>&1 || bad "$what: $1 is not true of $(head -c 300 "$dir/out")"
}

# text FILE TOKENS - the sample page again and again, numbered, so that no two are alike; $tokens is what that makes
text() {
    for i in $(seq $(($2 / 370))); do
        printf '%d. ' "$i"
        sed "s/^\([A-Z]\)/\1$i /" tests/data/sample-page.txt
        echo
    done >"$1"
    tokens=$("$hayate" tokenize -q "$1" | wc -w)
    [ "$tokens" -ge $(($2 * 4 / 5)) ] || { echo "long: the text has $tokens tokens, expected about $2" && exit 1; }
}
text "$dir/long" 4000
ctx=992

# --- refused, with the size needed ---
answer refused 1 -q -c "$ctx" -n 64 "$dir/long"
answers 0
says "^hayate: $dir/long: a prompt of [0-9]+ tokens, expected at most $ctx \(-c\); -c [0-9]+ holds it"
need=$(sed -n 's/.*-c \([0-9]*\) holds.*/\1/p' "$dir/err")
[ "$need" -gt $((tokens + 64)) ] || bad "$what: needed $need, for $tokens tokens"
answer 'the default' 1 -q -c "$ctx" --long refuse -n 64 "$dir/long"
answer 'no such mode' 2 --long middle "$dir/long"
says "--long: found 'middle', expected refuse or head-tail or split"
answer 'no room' 1 -c 256 --long split "$dir/long"
says 'leaves 0 tokens for the document beside the instruction \([0-9]+\) and the answer \(-n 1024\), expected at least 64'

# --- both ends ---
answer 'head-tail' '0 4' -c "$ctx" -n 64 --long head-tail "$dir/long"
answers 1
says "$dir/long: [0-9,]+ tokens, -c $ctx: the first [0-9,]+ and the last [0-9,]+, [0-9,]+ left out"
answer 'head-tail, JSON' '0 4' -q -c "$ctx" -n 64 --long head-tail --json "$dir/long"
json ".long == \"head-tail\" and .prompt_tokens + 64 <= $ctx and .prompt_tokens > $ctx * 3 / 4 and .left_out_tokens > 0"
answer 'a document that fits' 0 -q -c 1024 -n 64 --long head-tail --json tests/data/sample-page.txt
json 'has("long") | not'

# --- parts ---
parts() { # FILE TOKENS
    answer "split of $2" '0 4' -c "$ctx" --long split -n 256 --json "$1"
    says "$1: [0-9,]+ tokens, -c $ctx: [0-9]+ parts of at most [0-9,]+, then one summary of them"
    says "$1: part 1 of [0-9]+, "
    json ".long == \"split\" and (.parts | length) >= 5 and (.parts | length) <= 14 and all(.parts[]; .tokens <= $ctx - 256)"
    json "(.parts | map(.tokens) | add) >= .document_tokens and .document_tokens > $2 * 4 / 5 and .prompt_tokens < $ctx"
}
parts "$dir/long" 4000
text=$(jq -r .text "$dir/out")
answer 'the same again' '0 4' -q -c "$ctx" --long split -n 256 "$dir/long"
answers 1
[ "$(cat "$dir/out")" = "$text" ] || bad "$what: '$(cat "$dir/out")', before it was '$text'"
[ -s "$dir/err" ] && ! grep -q 'cut by' "$dir/err" && bad "$what: stderr is not empty"
if [ "$size" != short ]; then
    text "$dir/very-long" 40000
    ctx=8192
    parts "$dir/very-long" 40000
fi

# --- summaries that do not fit either: more rounds; a document without a line end; Japanese ---
head -c 6000 "$dir/long" | tr '\n' ' ' >"$dir/line"
answer 'rounds' '0 4' -c 256 -n 32 --long split --ignore-eos --json "$dir/line"
says "$dir/line: summaries of [0-9,]+ tokens, -c 256: [0-9]+ parts"
json '(.parts | map(.level) | max) >= 2 and (.parts | map(.generated_tokens) | max) <= 32 and .generated_tokens == 32'
answer 'no line end, both ends' '0 4' -q -c 256 -n 32 --long head-tail "$dir/line"
answers 1
for _ in $(seq 60); do printf '次の文書は長いので、分けて要約します。'; done >"$dir/ja"
iconv -t CP932 "$dir/ja" >"$dir/sjis"
answer 'Japanese' '0 4' -c 300 -n 32 --long split "$dir/ja"
answers 1
cp "$dir/out" "$dir/utf8"
answer 'Japanese in Shift_JIS' '0 4' -c 300 -n 32 --long split "$dir/sjis"
says "$dir/sjis: read as Shift_JIS"
cmp -s "$dir/out" "$dir/utf8" || bad "$what: not the answer to the same text in UTF-8"
answer 'two documents, one of them long' '0 4' -q -c 300 -n 32 --long split --json tests/data/sample-page.txt "$dir/ja"
jq -se 'length == 2 and (.[0].path | endswith("page.txt"))' "$dir/out" >/dev/null || bad "$what: not two objects"

finish
