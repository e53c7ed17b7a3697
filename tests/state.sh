#!/bin/bash
# state.sh HAYATE - --save-state and --load-state: the same answer to the byte, and a file that is not exactly that of this prompt is refused in one line.
# Run from the root of the repository. Uses the demo model inside the binary.
. tests/check.sh
page=tests/data/sample-page.txt
state=$dir/state

refused() { # name, exit code, regex of the only line, arguments
    run -q "${@:4}"
    check "$1: exit $code" [ "$code" = "$2" ]
    check "$1: stdout" [ ! -s "$dir/out" ]
    check "$1: expected $3" grep -qE "^hayate: $3" "$dir/err"
    check "$1: lines" [ "$(wc -l <"$dir/err")" = 1 ]
}

# --- uninterrupted, saved, loaded: the same bytes ---
kinds=('' '--temp 0.8 -s 7' '--kv q8_0' '--precise' '--no-pooled-cache' '--raw -p Once') others=('' '-c 3000' '-ub 64 -t 1') step=1
[ "$size" != short ] || kinds=('' '--kv q8_0' '--no-pooled-cache') others=('-c 3000 -ub 64 -t 1') step=3
for args in "${kinds[@]}"; do
    rm -f "$state"
    # shellcheck disable=SC2086
    run -q --ignore-eos -n 24 $args $page
    cp "$dir/out" "$dir/want"
    check "$args: there is an answer" [ -s "$dir/want" ]
    # shellcheck disable=SC2086
    run -q --ignore-eos -n 24 $args --save-state "$state" $page
    check "$args: saved, exit $code" [ "$code" = 4 ]
    check "$args: saved" diff "$dir/out" "$dir/want"
    for more in "${others[@]}"; do
        # shellcheck disable=SC2086
        run --json --ignore-eos -n 24 $args $more --load-state "$state" $page
        check "$args, $more: loaded" diff <(jq -r .text "$dir/out") "$dir/want"
        check "$args, $more: nothing was evaluated" [ "$(jq '.reused_tokens == .prompt_tokens' "$dir/out")" = true ]
    done
done
rm -f "$state"
run -q --save-state "$state" $page
cp "$dir/out" "$dir/want"
cp "$state" "$dir/good"
run -q --save-state "$state" --load-state "$dir/good" $page
check 'both' diff "$dir/out" "$dir/want"
check 'both: a copy' cmp -s "$state" "$dir/good"
run -q --load-state "$state" - <$page
check 'standard input' diff "$dir/out" "$dir/want"
check 'no other file' [ "$(find "$dir" -mindepth 1 -name 'state*' | wc -l)" = 1 ]

# --- what is of something else ---
refused 'another prompt' 1 "$state: found the state of another prompt, of [0-9]+ tokens, expected this one of [0-9]+" --load-state "$state" LICENSE
refused 'another instruction' 1 "$state: found the state of another prompt" --load-state "$state" -p 'Name it.' $page
for args in '--precise' '--kv q8_0' '--no-pooled-cache'; do
    # shellcheck disable=SC2086
    refused "$args" 1 "$state: found a state of another K/V type, --precise" --load-state "$state" $args $page
done
cp tests/models/tiny-man.gguf "$dir/model.gguf"
printf '\0\0\0\0' | dd of="$dir/model.gguf" bs=1 seek=$((5983360 + 20000)) conv=notrunc status=none # in the middle of blk.0.attn_gate
refused 'another model' 1 "$state: found the state of another model" --load-state "$state" -m "$dir/model.gguf" -p 'Summarize this manual page in one line.' $page
printf 'x' | cat "$hayate" - >"$dir/hayate"
chmod +x "$dir/hayate"
first=$hayate hayate=$dir/hayate
refused 'another build' 1 "$state: found the state of another build of this program" --load-state "$state" $page
hayate=$first

# --- damage ---
size_bytes=$(stat -c %s "$dir/good")
places=(0 8 12 16 24 32 40 48 56 64 72 79 80 1000 $((size_bytes / 2)) $((size_bytes - 1)))
for ((i = 0; i < ${#places[@]}; i += step)); do
    at=${places[i]}
    cp "$dir/good" "$state"
    byte=$(od -An -tu1 -j "$at" -N 1 "$state")
    # shellcheck disable=SC2059
    printf "$(printf '\\%03o' $((byte ^ 1 << at % 8)))" | dd of="$state" bs=1 seek="$at" conv=notrunc status=none
    refused "byte $at" 1 "$state: (its head is|damaged: its hash is another one)" --load-state "$state" $page
done
for n in 0 79 80 81 $((size_bytes - 1)); do
    head -c "$n" "$dir/good" >"$state"
    refused "cut to $n bytes" 1 "$state: $n bytes, expected $size_bytes" --load-state "$state" $page
done
(cat "$dir/good" && printf x) >"$state"
refused 'a byte too many' 1 "$state: $((size_bytes + 1)) bytes, expected $size_bytes" --load-state "$state" $page
rm "$state"
refused 'no file' 1 "$state: No such file" --load-state "$state" $page
mkfifo "$state"
refused 'a pipe' 1 "$state: not a regular file" --load-state "$state" $page
refused 'a pipe to save to' 1 "$state: found a folder or device" --save-state "$state" $page
rm "$state"
refused 'a folder' 1 "$dir: not a regular file" --load-state "$dir" $page
refused 'a folder to save to' 1 "$dir: found a folder or device" --save-state "$dir" $page
refused 'no such folder' 1 "$dir/no/state: cannot be written: No such file" --save-state "$dir/no/state" $page
refused 'two inputs' 2 '--save-state: holds one prompt, found 2 inputs' --save-state "$state" $page LICENSE
refused 'split' 2 '--load-state: holds one prompt, found --long split' --load-state "$state" --long split $page
refused 'no answer' 2 '--save-state: holds one prompt, found --print-prompt' --save-state "$state" --print-prompt $page
check 'nothing was left' [ ! -e "$state" ]

# --- no room: the answer comes all the same, and the exit code says that something is missing ---
(
    trap '' XFSZ
    ulimit -f 100
    run -q --save-state "$state" $page
    echo "$code" >"$dir/code"
)
check 'no room: exit' [ "$(cat "$dir/code")" = 1 ]
check 'no room: answer' diff "$dir/out" "$dir/want"
check 'no room: said' grep -q "^hayate: $state: File too large" "$dir/err"
check 'no room: nothing left' [ "$(find "$dir" -mindepth 1 -name 'state*' | wc -l)" = 0 ]

finish
