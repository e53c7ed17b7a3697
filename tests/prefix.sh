#!/bin/bash
# prefix.sh HAYATE [short] - --prefix-cache: the same answers with it and without, and no file that could make another one is ever believed.
# Run from the root of the repository. Uses the demo model inside the binary. SEED=N repeats the instants of the kills.
. tests/check.sh
at_random
nobody=$(mktemp -d) # for another user: the folders above $dir may be closed to others, as /root is
at_exit() {
    chmod -R u+rwx "$dir" "$nobody"
    rm -rf "$nobody"
}
page=$dir/page
echo 'head - print the first lines of a file' >"$page"
n_kill=20 step=2 # every second of the places where a file is damaged, the first one by chance
[ "$size" != short ] || n_kill=5 step=4
[ "$size" != long ] || n_kill=200 step=1

run() { # leaves $code, $dir/out, $dir/err and $reused, the ids of the first prompt that were not evaluated
    "$hayate" --json -n 5 "$@" >"$dir/json" 2>"$dir/err"
    code=$?
    jq -r .text "$dir/json" >"$dir/out"
    [[ $(<"$dir/json") =~ \"reused_tokens\":([0-9]+) ]] && reused=${BASH_REMATCH[1]} || reused=none
}
hits() { # name, arguments: answered from the cache, in silence, as without
    check "$1" answers "${@:2}"
    check "$1: reused" [ "$reused" -gt 0 ]
}
misses() { # the same, evaluated
    check "$1" answers "${@:2}"
    check "$1: reused" [ "$reused" = 0 ]
}
answers() {
    run "${@:3}" -q "$page"
    mv "$dir/out" "$dir/want"
    run "$@" "$page"
    [[ $code = 4 || $code = 0 ]] && ! grep -q '\.state' "$dir/err" && cmp -s "$dir/out" "$dir/want"
}
refused() { # name, regex of the only line, arguments
    "$hayate" -q "${@:3}" "$page" >"$dir/out" 2>"$dir/err"
    code=$?
    check "$1: exit $code" [ "$code" = 1 ]
    check "$1: stdout" [ ! -s "$dir/out" ]
    check "$1: expected $2" grep -qE "^hayate: $2" "$dir/err"
    check "$1: lines" [ "$(wc -l <"$dir/err")" = 1 ]
}
n_states() { find "$1" -name '*.state' -type f -printf x | wc -c; }
only() { echo "$1"/*.state; }

# --- first, second and no use ---
c=$dir/cache
misses 'cold' --prefix-cache "$c"
check 'one file' [ "$(n_states "$c")" = 1 ]
hits 'warm' --prefix-cache "$c"
state=$(only "$c")
cp "$state" "$dir/good"
for args in '-c 4096' '-ub 64' '-t 1' '--temp 0.8 -s 7' '--reasoning off' '--ignore-eos'; do
    # shellcheck disable=SC2086
    hits "$args does not matter" --prefix-cache "$c" $args
done
check 'still one file' [ "$(n_states "$c")" = 1 ]
for args in '--precise' '--kv f32' '-p Name.it.' '--system S' '-m tests/models/tiny-man.gguf -p Summarize.it.'; do
    # shellcheck disable=SC2086
    misses "$args matters" --prefix-cache "$c" $args
    # shellcheck disable=SC2086
    hits "$args, again" --prefix-cache "$c" $args
done
check 'six files' [ "$(n_states "$c")" = 6 ]
misses 'no prefix' --prefix-cache "$c" --raw
check 'no file for no prefix' [ "$(n_states "$c")" = 6 ]
run --prefix-cache "$dir/c2" -c 1000 -ub 64 -t 1 LICENSE
check 'the file does not show context, ubatch, threads and document' cmp "$(only "$dir/c2")" "$dir/good"
seq -f 'line %g of a long text, which is long' 300 >"$dir/long"
run -q -c 600 --long split "$dir/long"
cp "$dir/out" "$dir/want"
for i in 1 2; do
    run -q --prefix-cache "$dir/c3" -c 600 --long split "$dir/long"
    check "--long split, $i" diff "$dir/out" "$dir/want"
done
misses 'long instruction' --prefix-cache "$dir/c4" -p "$(yes word | head -1200)"
check 'long instruction: ids' [ "$(jq .prompt_tokens "$dir/json")" -gt 1200 ]
hits 'long instruction, again' --prefix-cache "$dir/c4" -p "$(yes word | head -1200)"
check "long instruction, again: $reused reused" [ "$reused" -gt 1200 ]
check 'rate without reused ids' grep -qE '^prefill [0-9]+ tok \([0-9]+ reused\), ' "$dir/err"

# --- batch ---
"$hayate" batch -q -n 5 -o "$dir/b1" "$page" LICENSE
for i in 1 2; do
    "$hayate" batch -q -n 5 -o "$dir/b2" --force --jsonl "$dir/b2.jsonl" --prefix-cache "$dir/c5" "$page" LICENSE
    check "batch $i" diff -r -x .hayate "$dir/b1" "$dir/b2"
    check "batch $i: reused" [ "$(jq -s 'map(.reused_tokens > 0) == [$i == 2, true]' --argjson i $i "$dir/b2.jsonl")" = true ]
done
mkdir "$dir/in"
cp "$page" "$dir/in"
for i in 1 2; do
    "$hayate" batch -n 5 -o "$dir/b3" --force --prefix-cache "$dir/in/cache" "$dir/in" 2>"$dir/err"
    check "cache below the inputs, $i" grep -q 'in/cache: left out: the folder of --prefix-cache' "$dir/err"
    check "cache below the inputs, $i: answers" [ "$(find "$dir/b3" -name '*.txt' | wc -l)" = 1 ]
done
"$hayate" batch -q -o "$dir/b3" --prefix-cache "$dir/in" "$dir/in" 2>"$dir/err"
check 'cache is the input' [ $? = 2 ]
check 'batch and run share a file' cmp "$(only "$dir/c5")" "$dir/good"

# --- what is not trusted ---
run -q "$page"
cp "$dir/out" "$dir/want"
rm -rf "$c"
mkdir "$c"
distrusted() { # name, regex of the note: evaluated, said in one line, replaced by the good file
    cp "$state" "$dir/bad" 2>/dev/null
    run --prefix-cache "$c" "$page"
    check "$1: answer" diff "$dir/out" "$dir/want"
    check "$1: reused" [ "$reused" = 0 ]
    check "$1: note" [ "$(grep -cE "^hayate: $state: .*$2.*; not used" "$dir/err")" = 1 ]
    check "$1: replaced" cmp -s "$state" "$dir/good"
    cp "$dir/bad" "$state"
    run -q --prefix-cache "$c" "$page"
    check "$1: quiet" [ ! -s "$dir/err" ]
    check "$1: quiet, answer" diff "$dir/out" "$dir/want"
}
size_bytes=$(stat -c %s "$dir/good")
head_bytes=80
places=(0 7 8 12 16 23 24 32 40 47 48 56 64 71 72 79 "$head_bytes" 81 1000 $((RANDOM * RANDOM % (size_bytes - head_bytes) + head_bytes)) $((size_bytes / 2)) $((size_bytes - 1)))
for ((i = RANDOM % step; i < ${#places[@]}; i += step)); do
    at=${places[i]}
    cp "$dir/good" "$state"
    byte=$(od -An -tu1 -j "$at" -N 1 "$state")
    # shellcheck disable=SC2059
    printf "$(printf '\\%03o' $((byte ^ (1 << RANDOM % 8))))" | dd of="$state" bs=1 seek="$at" conv=notrunc status=none
    if [ "$at" -lt $head_bytes ]; then
        distrusted "byte $at" 'its head is (damaged|not that of a saved state|of format)'
    else
        distrusted "byte $at" 'damaged: its hash is another one'
    fi
done
for n in 0 1 79 80 81 4096 $((size_bytes / 2)) $((size_bytes - 1)); do
    head -c "$n" "$dir/good" >"$state"
    distrusted "cut to $n bytes" "$n bytes, expected $size_bytes"
done
(cat "$dir/good" && printf x) >"$state"
distrusted 'a byte too many' "$((size_bytes + 1)) bytes, expected $size_bytes"
head -c "$size_bytes" /dev/zero >"$state"
distrusted 'zeros' 'head'
run -q --prefix-cache "$dir/c6" -p 'Summarize this manual page in two lines.' "$page"
cp "$(only "$dir/c6")" "$state"
distrusted 'state of another instruction' 'found the state of another prompt, of [0-9]+ tokens, expected this one of [0-9]+'
rm "$state"
ln -s "$dir/good" "$state"
run --prefix-cache "$c" "$page"
check 'a link' diff "$dir/out" "$dir/want"
check 'a link: not followed' [ "$reused" = 0 ]
check 'a link: replaced' [ ! -L "$state" ]
rm "$state"
mkfifo "$state"
run --prefix-cache "$c" "$page"
check 'a pipe' diff "$dir/out" "$dir/want"
check 'a pipe: replaced' cmp -s "$state" "$dir/good"
rm "$state"
mkdir "$state"
run --prefix-cache "$c" "$page"
check 'a folder' diff "$dir/out" "$dir/want"
check 'a folder: said' grep -qE "$state: .*; not kept" "$dir/err"
check 'a folder: nothing left' [ "$(find "$c" -type f | wc -l)" = 0 ]
rmdir "$state"

# --- another model, another program ---
cp tests/models/tiny-man.gguf "$dir/model.gguf"
misses 'a copy of the model' --prefix-cache "$dir/c7" -m "$dir/model.gguf"
hits 'a copy of the model, again' --prefix-cache "$dir/c7" -m "$dir/model.gguf"
printf '\0\0\0\0' | dd of="$dir/model.gguf" bs=1 seek=$((5983360 + 20000)) conv=notrunc status=none # in the middle of blk.0.attn_gate
misses 'a weight was edited' --prefix-cache "$dir/c7" -m "$dir/model.gguf"
printf 'x' | cat "$hayate" - >"$dir/hayate"
chmod +x "$dir/hayate"
cp "$dir/good" "$state"
first=$hayate hayate=$dir/hayate
misses 'another build' --prefix-cache "$c"
hayate=$first
check 'another build: two files' [ "$(n_states "$c")" = 2 ]

# --- at once ---
rm -rf "$c"
for i in 1 2 3 4; do
    "$hayate" -q -n 5 --prefix-cache "$c" "$page" >"$dir/at_once$i" 2>&1 &
done
wait
for i in 1 2 3 4; do
    check "at once: $i" cmp -s "$dir/at_once$i" "$dir/want"
done
check 'at once: one file' [ "$(find "$c" -mindepth 1 | wc -l)" = 1 ]
check 'at once: a good one' cmp -s "$state" "$dir/good"
for i in 1 2 3; do # each removes what the others keep
    "$hayate" -q -n 5 --prefix-cache "$c" --prefix-cache-max $((size_bytes * 3 / 2)) -p "Name it $i." "$page" "$page" >"$dir/at_once$i" 2>&1 &
done
wait
for i in 1 2 3; do
    "$hayate" -q -n 5 -p "Name it $i." "$page" "$page" >"$dir/out" 2>&1
    check "at once, evicting: $i" cmp -s "$dir/at_once$i" "$dir/out"
done

# --- the limit ---
rm -rf "$c"
mkdir -p "$c/0123456789abcdef.state" # a folder is not a file of ours
foreign=(notes.txt 0123456789abcdef.state.bak 0123456789ABCDEF.state 123456789abcdef.state 0123456789abcdefg.state .state
    0123456789abcdef.state.tmp- 0123456789abcdef.state.tmp-1x x123456789abcdef.state.tmp-1-1)
for f in "${foreign[@]}"; do
    head -c 100000 /dev/zero >"$c/$f"
    touch -d '3 days ago' "$c/$f"
done
touch -d '3 days ago' "$c/0123456789abcdef.state.tmp-77-1"
touch "$c/0123456789abcdef.state.tmp-77-2"
keep() { run --prefix-cache "$c" --prefix-cache-max $((3 * size_bytes + 100000)) -p "$1" "$page"; }
for i in 1 2 3; do
    keep "Name it $i."
    f=$(find "$c" -type f -name '*.state' -newermt '1 day ago' -printf '%f\n')
    mv "$c/$f" "$dir/state.$i"
    eval "name$i=$f"
done
for i in 1 2 3; do
    n=name$i
    mv "$dir/state.$i" "$c/${!n}"
    touch -d "$((9 - i)) hours ago" "$c/${!n}"
done
check 'three fit' [ "$(find "$c" -type f -newermt '1 day ago' -name '*.state' | wc -l)" = 3 ]
keep 'Name it 1.'
check 'the oldest is used' [ "$reused" -gt 0 ]
keep 'Name it 4.'
check 'a fourth: said nothing' sh -c "! grep -q state '$dir/err'"
check 'a fourth: the one not used for longest is gone' [ ! -e "$c/${name2:?}" ]
check 'a fourth: the one just used stays' [ -e "$c/${name1:?}" ]
check 'a fourth: the younger one stays' [ -e "$c/${name3:?}" ]
check 'a fourth: is there' [ "$(find "$c" -type f -newermt '1 day ago' -name '*.state' | wc -l)" = 3 ]
for f in "${foreign[@]}"; do
    check "foreign: $f" [ -f "$c/$f" ]
done
check 'foreign: folder' [ -d "$c/0123456789abcdef.state" ]
check 'old part is gone' [ ! -e "$c/0123456789abcdef.state.tmp-77-1" ]
check 'young part stays' [ -e "$c/0123456789abcdef.state.tmp-77-2" ]
run --prefix-cache "$dir/c8" --prefix-cache-max 1000 "$page"
check 'larger than the limit: answer' diff "$dir/out" "$dir/want"
check 'larger than the limit: said' grep -qE "the instruction takes $size_bytes bytes, --prefix-cache-max is 1000; not kept" "$dir/err"
check 'larger than the limit: nothing there' [ "$(n_states "$dir/c8")" = 0 ]

# --- a folder that is none ---
refused 'parent missing' "--prefix-cache $dir/no/such: cannot make the folder: No such file" --prefix-cache "$dir/no/such"
refused 'a file' "--prefix-cache $dir/good: Not a directory" --prefix-cache "$dir/good"
"$hayate" batch -q -o "$dir/none" --prefix-cache "$dir/no/such" "$page" 2>"$dir/err"
check 'batch: is refused' [ $? = 1 ]
check 'batch: nothing was begun' [ ! -e "$dir/none" ]
"$hayate" -q --prefix-cache-max 1M "$page" 2>"$dir/err"
check 'limit of nothing' [ $? = 2 ]
user=()
[ "$(id -u)" != 0 ] || user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
mkdir -m 555 "$nobody/closed"
cp "$page" "$nobody/page"
[ "$(id -u)" != 0 ] || chown -R 65534 "$nobody"
chmod 755 "$dir"
if "${user[@]}" "$hayate" --version >"$dir/out" 2>&1; then
    "${user[@]}" "$hayate" -q --prefix-cache "$nobody/closed" "$nobody/page" >"$dir/out" 2>"$dir/err"
    check 'read-only folder' [ "$? $(wc -c <"$dir/out") $(wc -l <"$dir/err")" = '1 0 1' ]
    check 'read-only folder' grep -q "^hayate: --prefix-cache $nobody/closed: Permission denied" "$dir/err"
else
    echo 'prefix: skipped, no other user may run the program here: a read-only folder'
fi

# --- no room: the answer comes all the same ---
rm -rf "$c"
(
    trap '' XFSZ
    ulimit -f 100
    run --prefix-cache "$c" "$page"
    echo "$code" >"$dir/code"
)
check 'no room' [ "$(cat "$dir/code")" = 4 ]
check 'no room: answer' diff "$dir/out" "$dir/want"
check 'no room: said' [ "$(grep -c "$state: File too large; not kept" "$dir/err")" = 1 ]
check 'no room: nothing left' [ "$(find "$c" -type f | wc -l)" = 0 ]

# --- killed while it writes ---
(
    ulimit -c 0
    ulimit -f 100 # the signal ends the program in the middle of the file
    "$hayate" -q -n 5 --prefix-cache "$c" "$page" >"$dir/out" 2>"$dir/err"
    echo $? >"$dir/code"
) 2>/dev/null
check 'killed in the middle' [ "$(cat "$dir/code")" = 153 ]
check 'killed in the middle: a part is left' [ "$(find "$c" -name '*.tmp-*' -size +1k | wc -l)" = 1 ]
check 'killed in the middle: no state' [ "$(n_states "$c")" = 0 ]
misses 'killed in the middle, again' --prefix-cache "$c"
hits 'killed in the middle, and again' --prefix-cache "$c"
for k in $(seq $n_kill); do
    rm -f "$state"
    "$hayate" -q -n 5 --prefix-cache "$c" "$page" >/dev/null 2>&1 &
    pid=$!
    sleep "0.0$((RANDOM % 90 + 10))"
    { kill -9 $pid && wait $pid; } 2>/dev/null
    wait
    check "kill $k: a state is not whole" sh -c "[ ! -e '$state' ] || cmp -s '$state' '$dir/good'"
done
run -q --prefix-cache "$c" "$page"
check 'after kills' diff "$dir/out" "$dir/want"

finish
