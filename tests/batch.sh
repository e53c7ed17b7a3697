#!/bin/bash
# batch.sh HAYATE [short] - a pile of documents: resume, kills, full disks, odd names. Run from the root of the repository.
# Uses the demo model inside the binary. SEED=N repeats the instants of the kills.
. tests/check.sh
at_random
nobody=$(mktemp -d) # for another user: the folders above $dir may be closed to others, as /root is
mounted=
at_exit() {
    [ -z "$mounted" ] || umount "$mounted"
    chmod -R u+rwx "$dir" "$nobody"
    rm -rf "$nobody"
}
n_input=1000 n_kill=20 n_killed_inputs=300 longest=1 # seconds until a kill, rounded up
[ "$size" != short ] || n_input=60 n_kill=5 n_killed_inputs=30 longest=4
n_bad=10

batch() { run batch -n 3 -t 1 "$@"; }
ended() { # name, exit code, regex some line of stderr matches
    ends "$1" "$2"
    [ -z "$3" ] || check "$1: stderr" grep -qE -- "$3" "$dir/err"
    check "$1: nothing on stdout" [ ! -s "$dir/out" ]
}
refused() { # name, exit code, regex of the only line, arguments
    local name=$1 want=$2 line=$3
    shift 3
    batch -q "$@"
    ended "$name" "$want" "^hayate: $line"
    check "$name: lines" [ "$(wc -l <"$dir/err")" = 1 ]
}
answers() { find "$1" -name .hayate -prune -o -type f -printf x | wc -c; }
same() { diff -r -x .hayate "$1" "$2" >"$dir/diff" || ! head -5 "$dir/diff"; }
alone() { # file, output: the same bytes as one file given to run
    "$hayate" -q -n 3 "$1" 2>/dev/null | cmp -s - "$2"
}

# --- a pile with broken ones ---
mkdir "$dir/in"
for i in $(seq 0 $((n_input - 1))); do
    printf -v f '%s/in/%04d.md' "$dir" "$i"
    printf 'page%d - print the %d-th line of a file\n' "$i" $((i * 7919 % 1000)) >"$f"
done
for i in $(seq 1 $n_bad); do
    f=$dir/in/$(printf %04d $((i * (n_input / n_bad) - 1))).md
    case $((i % 4)) in
    0) : >"$f" ;;
    1) printf 'caf\351' >"$f" ;;
    2) printf 'a\0b' >"$f" ;;
    3) printf ' \n\t\n' >"$f" ;;
    esac
done
n_good=$((n_input - n_bad))
batch -o "$dir/all" --jsonl "$dir/all.jsonl" --report "$dir/report" "$dir/in"
ended 'pile' 3 "^$n_good of $n_input inputs answered, $n_bad failed"
check 'pile: answers' [ "$(answers "$dir/all")" = $n_good ]
check 'pile: report' [ "$(grep -c $'\tfailed\t' "$dir/report")" = $n_bad ]
check 'pile: lines on stderr' [ "$(grep -c '^hayate: .*/in/' "$dir/err")" = $n_bad ]
check 'pile: objects' [ "$(jq -r .path "$dir/all.jsonl" | wc -l)" = $n_good ]
check 'pile: order of objects' sh -c "jq -r .path '$dir/all.jsonl' | sort -c"
check 'pile: no part is left' [ ! -e "$dir/all.jsonl.part" ]
# the instruction goes through the model once
check 'prefix reuse' [ "$(jq -s '[.[1:][] | .reused_tokens] | unique | length == 1 and .[0] > 10' "$dir/all.jsonl")" = true ]
check 'prefix of the first' [ "$(jq -s '.[0].reused_tokens' "$dir/all.jsonl")" = 0 ]
jq -r .text "$dir/all.jsonl" >"$dir/texts"
cat "$dir/all"/*.txt >"$dir/files"
check 'pile: objects and files agree' cmp -s "$dir/texts" "$dir/files"
for i in 0000 0001 0007 0033 0050; do
    check "alone: $i" alone "$dir/in/$i.md" "$dir/all/$i.md.txt"
done
cp -a "$dir/all" "$dir/copy"
sum=$(cksum <"$dir/all.jsonl")
batch -o "$dir/all" --jsonl "$dir/all.jsonl" --report "$dir/report" "$dir/in"
ended 'again' 3 "^$n_good of $n_input inputs answered \($n_good of them before\), $n_bad failed"
check 'again: files are the same ones' [ -z "$(find "$dir/all" -name '*.txt' -newer "$dir/copy/.hayate/records")" ]
check 'again: objects' [ "$(cksum <"$dir/all.jsonl")" = "$sum" ]
check 'again: report' [ "$(wc -l <"$dir/report")" = $n_bad ]

# --- killed at random instants, started again, at last the same ---
mapfile -t some < <(find "$dir/in" -name '*.md' | sort | head -$n_killed_inputs)
mkdir "$dir/want"
for f in "${some[@]}"; do
    f=${f##*/}.txt
    [ ! -e "$dir/all/$f" ] || cp "$dir/all/$f" "$dir/want/$f"
done
whole() { # every answer there is is the one wanted
    [ ! -d "$1" ] || ! diff -rq -x .hayate "$dir/want" "$1" | grep -v "^Only in $dir/want: "
}
for k in $(seq $n_kill); do
    "$hayate" batch -q -n 3 -t 1 -o "$dir/killed" --jsonl "$dir/killed.jsonl" "${some[@]}" >/dev/null 2>&1 &
    pid=$!
    sleep "$((RANDOM % longest)).$((RANDOM % 80 + 10))"
    { kill -9 $pid && wait $pid; } 2>/dev/null
    check "kill $k: a file is not whole" whole "$dir/killed"
done
n_kept=$(answers "$dir/killed")
check 'kills: nothing was kept' [ "$n_kept" -gt 0 ]
printf 'torn' >>"$dir/killed/.hayate/records"
printf '{"path":"torn' >>"$dir/killed.jsonl.part"
printf 'half an ans' >"$dir/killed/.hayate/answer.tmp"
batch -o "$dir/killed" --jsonl "$dir/killed.jsonl" "${some[@]}"
ended 'after kills' 3 "inputs answered"
check 'after kills: files' same "$dir/want" "$dir/killed"
check 'after kills: objects' sh -c "jq -r .path '$dir/killed.jsonl' | sort -c"
check 'after kills: number of objects' [ "$(wc -l <"$dir/killed.jsonl")" = "$(answers "$dir/want")" ]
check 'after kills: texts' [ "$(jq -r .text "$dir/killed.jsonl" | cksum)" = "$(jq -r .text "$dir/all.jsonl" | head -"$(answers "$dir/want")" | cksum)" ]
check 'after kills: leftovers' [ "$(find "$dir/killed/.hayate" -type f | wc -l)$(find "$dir" -name 'killed.jsonl*' | wc -l)" = 11 ]

# --- interruption ---
for signal in INT:130 TERM:143; do
    rm -rf "$dir/stopped"
    "$hayate" batch -n 3 -t 1 -o "$dir/stopped" "${some[@]}" >"$dir/out" 2>"$dir/err" &
    pid=$!
    for _ in $(seq 200); do
        [ -e "$dir/stopped/0003.md.txt" ] && break
        sleep 0.05
    done
    kill -s "${signal%:*}" $pid
    wait $pid
    code=$?
    ended "SIG${signal%:*}" "${signal#*:}" "^hayate: stopped after [0-9]+ of $n_killed_inputs inputs; start again to continue"
    check "SIG${signal%:*}: a file is not whole" whole "$dir/stopped"
done
batch -q -o "$dir/stopped" "${some[@]}"
ended 'after SIGTERM' 3 ''
check 'after SIGTERM: files' same "$dir/want" "$dir/stopped"

# --- what is answered again ---
mkdir "$dir/few"
for i in 1 2 3 4; do
    echo "file$i - the $i. file" >"$dir/few/$i"
done
again() { # name, how many, arguments
    local name=$1 n=$2
    shift 2
    batch --progress -o "$dir/again" "$@" "$dir/few"
    ended "$name" 4 ''
    check "$name: answers" [ "$(grep -c ': prefill' "$dir/err")" = "$n" ]
}
again 'first' 4
again 'nothing to do' 0
echo 'file2 - changed' >"$dir/few/2"
again 'changed input' 1
echo x >>"$dir/again/3.txt"
again 'changed output' 1
rm "$dir/again/4.txt"
again 'missing output' 1
again 'force' 4 --force
again 'another -n' 4 -n 2
again 'another instruction' 4 -p 'Name it.'
again 'greedy: the seed does not matter' 0 -p 'Name it.' -s 9
sed -i '1s/./x/' "$dir/again/.hayate/records"
sed -i '$d' "$dir/again/.hayate/records"
again 'damaged record' 1 -p 'Name it.'
check 'alone after all that' sh -c "'$hayate' -q -n 3 -t 1 -p 'Name it.' '$dir/few/2' 2>/dev/null | cmp -s - '$dir/again/2.txt'"

# --- names ---
mkdir -p "$dir/odd/sub folder/deep" "$dir/odd/.hidden"
odd=$'line\nbreak' bytes=$'caf\351'
echo 'a page' >"$dir/odd/with space"
echo 'a page' >"$dir/odd/$odd"
echo 'a page' >"$dir/odd/$bytes"
echo 'a page' >"$dir/odd/sub folder/deep/@x"
echo 'a page' >"$dir/odd/sub folder/日本語.txt"
echo 'a page' >"$dir/odd/.hidden/y"
ln -s .. "$dir/odd/sub folder/loop"
ln -s "$dir/odd/sub folder" "$dir/odd/sub folder/deep/loop"
mkfifo "$dir/odd/fifo"
batch -o "$dir/oddout" --jsonl "$dir/odd.jsonl" --report "$dir/report" "$dir/odd"
ended 'odd names' 4 'fifo: left out: not a regular file'
check 'loops are named' [ "$(grep -c 'loop: left out: a link to a folder' "$dir/err")" = 2 ]
check 'hidden ones are named' grep -q 'odd: 1 name that begins with a dot left out' "$dir/err"
check 'odd names: empty report' [ ! -s "$dir/report" ]
for f in "with space" "$odd" "$bytes" "sub folder/deep/@x" "sub folder/日本語.txt"; do
    check "odd name $f" alone "$dir/odd/$f" "$dir/oddout/$f.txt"
done
check 'odd names: number' [ "$(answers "$dir/oddout")" = 5 ]
check 'odd names: hex of bytes' [ "$(jq -r 'select(.path_hex) | .path_hex' "$dir/odd.jsonl" | wc -l)" = 1 ]
batch -q -o "$dir/oddout" --jsonl "$dir/odd.jsonl" --notify-fd 3 "$dir/odd" 3>"$dir/events"
ended 'odd names again' 4 ''
check 'odd names again: skipped' [ "$(grep -c '"status":"skipped"' "$dir/events")" = 5 ]
(cd "$dir/odd" && find . -type f -print0) >"$dir/list0"
(cd "$dir/odd" && "$hayate" batch -q -n 3 -t 1 -o ../listout @../list0 2>"$dir/err")
code=$?
: >"$dir/out"
ended 'list with NUL' 4 ''
rm -r "$dir/listout/.hidden"
check 'list with NUL' same "$dir/oddout" "$dir/listout"
printf 'few/1\r\n\n../%s/few/2\nfew/../few/3\n' "${dir##*/}" >"$dir/list"
(cd "$dir" && "$hayate" batch -q -n 3 -t 1 -o list2 @- <"$dir/list" 2>"$dir/err")
code=$?
ended 'list' 4 ''
check 'list: names' [ "$(cd "$dir/list2" && find . -type f -name '*.txt' | sort | tr '\n' ' ')" = "./${dir##*/}/few/2.txt ./few/1.txt ./few/3.txt " ]

# --- what is refused at the start ---
mkdir -p "$dir/c/a" "$dir/c/b" "$dir/c/x.txt"
echo 1 >"$dir/c/a/same"
echo 2 >"$dir/c/b/same"
echo 3 >"$dir/c/x"
echo 4 >"$dir/c/x.txt/y"
echo 5 >"$dir/c/same.txt"
echo 6 >"$dir/c/same"
refused 'collision' 2 '.*/c/a/same and .*/c/b/same: the output of both would be .*/no/same.txt' -o "$dir/no" "$dir/c/a/same" "$dir/c/b/same"
refused 'file and folder' 2 '.*/c/x and .*/c/x.txt/y: .*/no/x.txt would be a file for one and a folder' -o "$dir/no" "$dir/c"
refused 'twice' 2 '.*/c/a/same: given twice' --jsonl "$dir/no.jsonl" "$dir/c/a/same" "$dir/c/a/same"
refused 'output is an input' 2 '.*/c/same: its output .*/c/same.txt would replace the input .*/c/same.txt' -o "$dir/c" "$dir/c/same" "$dir/c/same.txt"
refused 'folder is both' 2 '-o .*/few: is itself an input' -o "$dir/few" "$dir/few"
refused 'report is an input' 2 '.*/c/same: is an input, and this batch would write it' -o "$dir/no" --report "$dir/c/same" "$dir/c/same"
refused 'standard input' 2 '-: a batch reads files' -o "$dir/no" -
mkdir "$dir/empty"
refused 'nothing' 2 'no inputs' -o "$dir/no" "$dir/empty"
refused 'list that is missing' 1 '.*/none: No such file' -o "$dir/no" "@$dir/none"
refused 'output is a file' 1 ".*/few/1: cannot make the folder|.*/few/1: Not a directory" -o "$dir/few/1" "$dir/c/a"
refused 'not ours' 2 '.*/few/1: line 1 is not an answer of a batch' --jsonl "$dir/few/1" "$dir/c/a"
check 'nothing was written' [ ! -e "$dir/no" ]
refused 'no room' 1 '.*--mem-limit' -o "$dir/no" --mem-limit 1M "$dir/few"
check 'no room: no answers' [ "$(answers "$dir/no")" = 0 ]
batch --report "$dir/report" -o "$dir/missing" "$dir/few/1" "$dir/none" "$dir/few" "$dir/c/a/same/y"
check 'collision of an argument and a folder' [ "$code" = 2 ]
batch --report "$dir/report" -o "$dir/missing" "$dir/none" "$dir/few" "$dir/c/a/same/y"
ended 'missing inputs' 3 "^hayate: $dir/none: No such file"
check 'missing inputs: report' [ "$(cut -f 1,2 "$dir/report" | tr '\t\n' '  ')" = "$dir/none failed $dir/c/a/same/y failed " ]
check 'missing inputs: others' [ "$(answers "$dir/missing")" = 4 ]
batch -q -c 40 -o "$dir/long" "$dir/few" LICENSE
ended 'too long for -c' 3 'LICENSE: a prompt of [0-9]+ tokens, expected at most 40'
check 'too long: others' [ "$(answers "$dir/long")" = 4 ]

# --- the output folder inside the inputs; two batches at once ---
cp -r "$dir/few" "$dir/self"
for _ in 1 2; do
    batch -o "$dir/self/out" --report "$dir/self/report" "$dir/self"
    ended 'output below the input' 4 ''
    check 'output below the input' [ "$(answers "$dir/self/out")" = 4 ]
done
check 'said so' grep -q 'self/out: left out: the output folder' "$dir/err"
exec 9<"$dir/again/.hayate/records"
flock -n 9
refused 'locked' 1 '.*/again: another batch is writing here' -o "$dir/again" "$dir/few"
exec 9<&-

# --- objects only ---
batch -q --jsonl "$dir/j" "$dir/few"
ended 'jsonl' 4 ''
cp "$dir/j" "$dir/j1"
head -2 "$dir/j1" >"$dir/j.part"
printf '{"path":"' >>"$dir/j.part"
rm "$dir/j"
batch -q --jsonl "$dir/j" --notify-fd 3 "$dir/few" 3>"$dir/events"
ended 'jsonl resumed' 4 ''
check 'jsonl resumed: two again' [ "$(jq -r 'select(.event == "plan") | .to_do' "$dir/events")" = 2 ]
check 'jsonl resumed: whole' [ "$(jq -r .text "$dir/j" | cksum)" = "$(jq -r .text "$dir/j1" | cksum)" ]
check 'jsonl resumed: first lines as they were' [ "$(head -2 "$dir/j")" = "$(head -2 "$dir/j1")" ]
sed -n '4p;2p' "$dir/j1" >"$dir/j.part"
rm "$dir/j"
batch -q --jsonl "$dir/j" "$dir/few"
check 'jsonl out of order' [ "$(jq -r .path "$dir/j" | tr '\n' ' ')" = "$dir/few/1 $dir/few/2 $dir/few/3 $dir/few/4 " ]
refused 'answers would be lost' 2 ".*/j: holds 3 answers to inputs that are not in this batch" --jsonl "$dir/j" "$dir/few/1"
batch -q --jsonl "$dir/j" --force "$dir/few/1"
ended 'answers dropped' 4 ''
check 'answers dropped' [ "$(wc -l <"$dir/j")" = 1 ]

# --- events ---
check 'events: kinds' [ "$(jq -r .event "$dir/events" | uniq -c | tr -s ' \n' ' ')" = ' 1 start 2 done 1 plan 1 input 1 done 1 input 1 done 1 end ' ]
check 'events: end' jq -se '.[-1] | .inputs == 4 and .done == 2 and .skipped == 2 and .failed == 0 and .cut == 4 and .exit == 4' "$dir/events" >"$dir/null"
refused 'descriptor only for reading' 2 '--notify-fd 3: not open for writing' -o "$dir/no" --notify-fd 3 "$dir/few" 3</dev/null
{ "$hayate" batch --force -n 3 -t 1 -o "$dir/again" --notify-fd 3 "$dir/few" 3>&1 >"$dir/out" 2>"$dir/err"; echo $? >"$dir/code"; } | true
code=$(cat "$dir/code")
ended 'reader gone' 4 '--notify-fd 3: Broken pipe; no more events'

# --- disks ---
user=()
[ "$(id -u)" != 0 ] || user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
mkdir "$nobody/closed" "$nobody/in"
cp "$dir/few/1" "$dir/few/2" "$nobody/in"
mkdir "$nobody/in/z"
[ "$(id -u)" != 0 ] || chown -R 65534 "$nobody"
chmod 755 "$dir"
chmod 555 "$nobody/closed"
chmod 000 "$nobody/in/2" "$nobody/in/z"
if "${user[@]}" "$hayate" --version >"$dir/out" 2>&1; then
    "${user[@]}" "$hayate" batch -q -n 3 -o "$nobody/closed/out" "$nobody/in/1" >"$dir/out" 2>"$dir/err"
    code=$?
    ended 'read-only folder' 1 '/closed/out: cannot make the folder: Permission denied'
    "${user[@]}" "$hayate" batch -q -n 3 -o "$nobody/closed" "$nobody/in/1" >"$dir/out" 2>"$dir/err"
    code=$?
    ended 'read-only folder' 1 '/closed: Permission denied'
    "${user[@]}" "$hayate" batch -q -n 3 -o "$nobody/out" "$nobody/in" >"$dir/out" 2>"$dir/err"
    code=$?
    ended 'unreadable input' 3 '/in/2: Permission denied'
    ended 'unreadable folder' 3 '/in/z: Permission denied'
    check 'unreadable input: others' [ "$(answers "$nobody/out")" = 1 ]
else
    echo 'batch: skipped, no other user may run the program here: files without permission'
fi
mkdir "$dir/disk"
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=32k tmpfs "$dir/disk" 2>/dev/null; then
    mounted=$dir/disk
    batch -o "$dir/disk/out" "${some[@]}"
    ended 'full disk' 1 'disk/out/.*: No space left'
    check 'full disk: says how to go on' grep -qE 'stopped after [0-9]+ of .* start again to continue' "$dir/err"
    check 'full disk: a file is not whole' whole "$dir/disk/out"
    check 'full disk: some were kept' [ "$(answers "$dir/disk/out")" -gt 0 ]
    mount -o remount,size=8m "$dir/disk"
    batch -q -o "$dir/disk/out" "${some[@]}"
    ended 'room again' 3 ''
    check 'room again: files' same "$dir/want" "$dir/disk/out"
    mount -o remount,ro "$dir/disk"
    refused 'read-only disk' 1 '.*/disk/.*: Read-only file system' -o "$dir/disk/new" "$dir/few"
    refused 'read-only disk, old folder' 1 '.*/disk/out.*: Read-only file system' -o "$dir/disk/out" "$dir/few"
else
    echo 'batch: skipped without the right to mount: full and read-only disks'
fi

finish
