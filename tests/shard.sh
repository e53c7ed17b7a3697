#!/bin/bash
# shard.sh HAYATE [short] - several processes share a pile: the union is the plain run, nothing clashes, and xargs, GNU parallel and the variables of a Slurm
# array drive it. Run from the root of the repository; the demo model is inside the binary. (parallel.sh, slurm.sh: over ssh, and with a real Slurm)
. tests/check.sh
export PARALLEL_HOME=$dir/parallel
mkdir -p "$PARALLEL_HOME" && touch "$PARALLEL_HOME/will-cite"
cd "$dir" || exit 1

ended() { # name, exit code, regex some line of stderr matches
    ends "$1" "$2"
    [ -z "$3" ] || check "$1: stderr" grep -qE -- "$3" err
}
batch() { run batch -n 4 -t 1 --ignore-eos "$@"; }
same() { diff -r -x .hayate "$1" "$2" >difference || ! head -5 difference; }
answers() { find "$1" -name .hayate -prune -o -type f -printf x 2>/dev/null | wc -c; }
names() { (cd "$1" && find . -name .hayate -prune -o -type f -print | LC_ALL=C sort); }
all_at_once() { # output folder, N, further arguments: the N shards side by side, $codes afterwards
    local out=$1 n=$2 k pids=()
    shift 2
    for k in $(seq "$n"); do
        "$hayate" batch -n 4 -t 1 --ignore-eos -o "$out" --shard "$k/$n" "$@" >"out.$k" 2>"err.$k" &
        pids+=($!)
    done
    codes=
    for k in "${pids[@]}"; do
        wait "$k"
        codes="$codes $?"
    done
    cat err.* >err
    rm err.*
}

# --- a pile ---
mkdir -p in/sub
n=30 # and two more
for i in $(seq $n); do
    printf 'page%d - print the %d-th line of a file\n' "$i" $((i * 7919 % 1000)) >"in/$i.md"
done
cp in/7.md in/sub/ # the same text, another name
cp in/7.md "in/two words.md"
batch -o plain in
ended 'plain' 4 "^$((n + 2)) of $((n + 2)) inputs answered"
all_at_once four 4 --jsonl a.jsonl --report a.tsv --log a.log in
check 'four at once: exit codes' [ "$codes" = ' 4 4 4 4' ]
check 'four at once are the plain run' same plain four
check 'the parts are no more than the whole' [ "$(grep -oE "shard ./4: [0-9]+ of $((n + 2))" err | awk '{ n += $3 } END { print n }')" = $((n + 2)) ]
for k in 1 2 3 4; do
    check "shard $k has work" grep -qE "shard $k/4: ([2-9]|1[0-9]) of $((n + 2))" err
    check "shard $k: files of its own" [ -f "a.$k-of-4.jsonl" -a -f "a.$k-of-4.tsv" -a -s "a.$k-of-4.log" ]
done
check 'no file is shared' [ ! -e a.jsonl -a ! -e a.tsv -a ! -e a.log ]
batch --jsonl p.jsonl in
check 'the union of the JSON lines' cmp -s <(jq -r '[.path, .text] | @tsv' p.jsonl | sort) <(jq -r '[.path, .text] | @tsv' a.*-of-4.jsonl | sort)
check 'nothing is left over' [ "$(find four/.hayate -name 'answer*' | wc -l)" = 0 ]

# --- what was done is known to all ---
batch -o four in
ended 'plain after shards' 4 "^$((n + 2)) of $((n + 2)) inputs answered \($((n + 2)) of them before\)"
batch -o four --shard 2/3 in
ended 'another number of shards' 4 '\(([0-9]+) of them before\)'
check 'another number of shards does nothing again' sh -c "! grep -q 'prefill' err"
batch -o plain --shard 1/2 in
ended 'a shard after the plain run' 4 'of them before'
check 'a shard after the plain run does nothing again' sh -c "! grep -q 'prefill' err"

# --- whose an input is does not follow from the others, their order, or the text ---
batch -o k2 --shard 2/3 in
mapfile -t files < <(seq -f 'in/%g.md' $n -1 1)
batch -o turned --shard 2/3 "${files[@]}"
mapfile -t files < <(seq -f 'in/%g.md' 1 2 $n)
batch -o half --shard 2/3 "${files[@]}"
check 'order' cmp -s <(names turned) <(names k2 | grep -vE 'sub|two')
check 'other inputs' cmp -s <(names half) <(names k2 | grep -E '/[0-9]*[13579]\.md')
check 'both have inputs' [ "$(answers half)" -ge 3 -a "$(answers turned)" -gt "$(answers half)" ]
cp -r in changed
for f in changed/*.md; do echo 'one more line' >>"$f"; done
batch -o changed-out --shard 2/3 changed
check 'text' cmp -s <(names changed-out) <(names k2)

# --- one that cannot be answered is named once ---
cp -r in broken
printf 'bad \377\n' >broken/bad.md
all_at_once b 4 --report b.tsv broken
check 'a broken input: one shard says 3' [ "$(tr ' ' '\n' <<<"$codes" | sort | tr '\n' ' ')" = ' 3 4 4 4 ' ]
check 'a broken input: one line in one report' [ "$(cat b.*-of-4.tsv | grep -c 'broken/bad.md.failed')" = 1 -a "$(cat b.*-of-4.tsv | wc -l)" = 1 ]
check 'a broken input: the others are there' same plain b

# --- two that would clash ---
lock() { # kind, file, output folder, arguments: a batch while another process holds a lock
    flock "$1" "$2" sleep 60 &
    local holder=$!
    until [ -n "$(pgrep -P $holder sleep)" ]; do sleep 0.05; done
    batch -o "$3" "${@:4}"
    kill "$(pgrep -P $holder sleep)"
    wait $holder 2>/dev/null
}
lock -x four/.hayate/records.2-of-4 four --shard 2/4 in
ended 'a shard twice' 1 '^hayate: four: another batch is writing shard 2/4 here$'
lock -x four/.hayate/records.2-of-4 four --shard 1/4 in
ended 'another shard beside it' 4 'of them before'
lock -s four/.hayate/records four in
ended 'a plain run beside shards' 1 '^hayate: four: another batch is writing here$'
lock -x four/.hayate/records four --shard 1/4 in
ended 'a shard beside a plain run' 1 '^hayate: four: another batch is writing here, and not as a shard$'

# --- kills ---
pids=()
for k in 1 2 3 4; do
    "$hayate" batch -q -n 4 -t 1 --ignore-eos -o killed --shard "$k/4" in 2>/dev/null &
    pids+=($!)
done
for ((i = 0; i < 3000 && $(answers killed) < 8; i++)); do sleep 0.01; done
kill -9 "${pids[@]}"
wait 2>/dev/null
printf 'torn' >>killed/.hayate/records.3-of-4
: >killed/.hayate/answer.1-of-4.tmp
before=$(answers killed)
check 'the kills came in the middle' [ "$before" -ge 8 -a "$before" -lt $((n + 2)) ]
batch -o killed --shard 1/4 in
check 'a shard leaves the torn line of another alone' [ "$(tail -c 4 killed/.hayate/records.3-of-4)" = torn ]
check 'its own temporary file is gone' [ ! -e killed/.hayate/answer.1-of-4.tmp ]
: >killed/.hayate/answer.1-of-4.tmp
batch -o killed in
ended 'a plain run after kills' 4 "^$((n + 2)) of $((n + 2)) inputs answered"
check 'a plain run after kills gives the plain result' same plain killed
check 'what killed shards left is gone' [ ! -e killed/.hayate/answer.1-of-4.tmp ]
rm -rf killed/.hayate/records # the shards' own ones still say what they did
batch -o killed --shard 3/4 in
check 'after a torn line the shard goes on' [ "$(tail -c 1 killed/.hayate/records.3-of-4 | od -An -tx1 | tr -d ' ')" = 0a ]

# --- files of other shards in a folder of inputs are no inputs ---
cp -r in mixed
all_at_once m 4 --jsonl mixed/j.json --report mixed/r.md mixed
all_at_once m 4 --jsonl mixed/j.json --report mixed/r.md mixed
check 'files of other shards: exit codes' [ "$codes" = ' 4 4 4 4' ]
check 'files of other shards: said' grep -qE 'mixed/(j|r)\.[1-4]-of-4\.(json|md): left out: written by this batch' err
check 'files of other shards are no inputs' same plain m

# --- a part without inputs ---
batch -o none --jsonl none.jsonl --shard "$(($("$hayate" batch -o none0 --shard 1/2 -n 1 in/1.md 2>&1 | grep -c 'shard 1/2: 1 of') + 1))/2" in/1.md
ended 'nothing in a part' 0 ': 0 of 1 inputs'
check 'nothing in a part: an empty result' [ ! -s none.jsonl ] && check 'nothing in a part: a file' [ "$(cat none.*.jsonl | wc -c)" = 0 ]

# --- Slurm's variables; slurm.sh has the real thing ---
array() { # first, last, step, output folder: every task of an array, one after the other
    local id count=$((($2 - $1) / $3 + 1))
    for id in $(seq "$1" "$3" "$2"); do
        SLURM_ARRAY_TASK_ID=$id SLURM_ARRAY_TASK_COUNT=$count SLURM_ARRAY_TASK_MIN=$1 SLURM_ARRAY_TASK_MAX=$2 SLURM_ARRAY_TASK_STEP=$3 batch -o "$4" in
        ended "array $1-$2:$3, task $id" 4 "^hayate: shard $(((id - $1) / $3 + 1))/$count, Slurm array task $id: "
    done
    check "array $1-$2:$3 is the plain run" same plain "$4"
}
array 0 3 1 s0
[ "$size" = short ] || array 5 11 3 s5
SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_TASK_COUNT=4 batch -o s1 --shard 3/4 in
ended 'the option wins' 4 '^hayate: shard 3/4: '
SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_TASK_COUNT=4 batch -o s2 --shard 1/1 in
check '1/1 is everything' same plain s2
SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_STEP=1 batch -o s3 in
ended 'an array with gaps' 2 'expected --array=A-B, or --shard K/N$'
SLURM_ARRAY_TASK_ID=3 batch -o s3 in
ended 'an array without a count' 2 '^hayate: SLURM_ARRAY_TASK_COUNT: found .nothing., expected a number'
check 'nothing was written' [ ! -e s3 ]
SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_COUNT=x "$hayate" -q -n 1 in/1.md >out 2>err
code=$?
ended 'run does not look at it' 4 ''
for bad in 0/4 5/4 4 x/4 1/4/2; do
    batch -o s3 --shard $bad in
    ended "--shard $bad" 2 "^hayate: --shard: found '$bad', expected K/N"
done

# --- the recipes of README; with sanitizers the shards above are enough, which are the same processes ---
if [ "$size" != short ]; then
    export PATH=$dir/bin:$PATH
    mkdir bin && ln -s "$hayate" bin/hayate
    seq 4 | xargs -P 4 -I K hayate batch -q -n 4 --ignore-eos -t 1 --shard K/4 -o x in 2>err
    code=$?
    ended 'xargs: some part was cut' 123 ''
    check 'xargs is the plain run' same plain x
    seq 8 | parallel -j 4 hayate batch -q -n 4 --ignore-eos -t 1 --shard {}/8 -o y in 2>err
    code=$?
    ended 'parallel: how many parts were cut' 8 ''
    check 'parallel is the plain run' same plain y
    # answers that end by themselves: 0
    mkdir some && cp in/1*.md some
    hayate batch -q -n 200 -t 1 -o long-plain some 2>err
    seq 4 | xargs -P 4 -I K hayate batch -q -n 200 -t 1 --shard K/4 -o long some 2>err
    code=$?
    ended 'xargs: all is well' 0 ''
    check 'xargs with -n 200' same long-plain long
    seq 16 | parallel -j 4 --joblog joblog hayate batch -q -n 200 -t 1 --shard {}/16 -o z some 2>err
    code=$?
    ended 'parallel: all is well' 0 ''
    check 'parallel with -n 200' same long-plain z
    check 'parallel: its log' [ "$(awk 'NR > 1 && $7 == 0' joblog | wc -l)" = 16 ]
fi

finish
