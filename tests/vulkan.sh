#!/bin/bash
# vulkan.sh HAYATE [short|long] - the Vulkan backend from the command line, on the first device there is and under the validation layer, one message of
# which is an error: every kernel, golden values, the texts of the cpu, what names the device. long: needles too, which take half an hour
# in software. Run from the root of the repository.
. tests/check.sh
unset VK_ICD_FILENAMES VK_DRIVER_FILES
short=
if [ "$size" = short ]; then
    short=1
    # The driver's compiler takes and frees small pieces by the million
    export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}malloc_context_size=2:quarantine_size_mb=8
fi

export HAYATE_VK_VALIDATE=1
run selftest --backend vulkan hc_mean
if [ "$code" != 0 ] && grep -q layer "$dir/err"; then
    echo "vulkan.sh: without validation: $(cat "$dir/err")"
    export HAYATE_VK_VALIDATE=0
    run selftest --backend vulkan hc_mean
fi
if [ "$code" != 0 ] && ! grep -q hc_mean "$dir/out"; then
    echo "vulkan.sh: skipped, no device: $(cat "$dir/err")"
    exit 0
fi
device=$(sed -n 's/^device  \(.*\), seed .*/\1/p' "$dir/out")

# --- kernels ---
rows=() rounds=12 # sizes repeat after 6
[ -z "$short" ] || rows=(embed_dev matvec_Q4_K_r4 qsa_select) rounds=2
[ "$size" != long ] || rounds=42
run selftest --backend vulkan --rounds $rounds "${rows[@]}"
ends 'selftest' 0 '^[0-9]+ passed, 0 failed, [0-9]+ not run$' # matrix units are not everywhere
grep -E 'FAIL|^    ' "$dir/out"

# --- golden values; with sanitizers the prompts and steps below are enough, which take the same way ---
if [ "$size" = long ]; then
    tests/golden.sh "$hayate" vulkan en48 || bad 'golden sets'
    run eval -q --backend vulkan --precise --golden tests/golden/q.en_page.gold
    ends 'golden page' 0 'rule: gpu --precise' ' ok$'
elif [ -z "$short" ]; then
    run eval -q --backend vulkan --precise --golden tests/golden/q.en48.gold tests/golden/q.en48.mtp
    ends 'golden, precise' 0 'draft head: max .* ok$' 'rule: gpu --precise' ' ok$'
    for set in tests/models/tiny-man:q build/models/tiny-zoo:zoo build/models/tiny-lowbit:lowbit; do
        run eval -q --backend vulkan -m "${set%:*}.gguf" --golden "tests/golden/${set#*:}.en48.gold"
        ends "golden ${set#*:}" 0 'rule: default path' ' ok$'
    done
fi

# --- the float32 path writes what it writes on the cpu ---
texts=("$dir/ls" "$dir/ja" "$dir/cp")
echo 'ls - list directory contents. Information about the FILEs.' >"$dir/ls"
echo 'grep は、各 FILE の中で PATTERN に一致する行を検索する。' >"$dir/ja"
echo 'cp - copy files and directories. Copy SOURCE to DEST, or multiple SOURCEs to DIRECTORY.' >"$dir/cp"
answers() { # backend, file, options
    "$hayate" -q --backend "$1" --precise -n "$n" --json "${@:3}" "${texts[@]}" 2>"$dir/err" | jq -r .text >"$2"
}
same_texts() { # options
    answers cpu "$dir/cpu" "$@"
    answers vulkan "$dir/vulkan" "$@"
    check "$*: a text on the cpu" [ -s "$dir/cpu" ]
    check "$*: the text of the cpu" diff "$dir/cpu" "$dir/vulkan"
}
echo 'List the FILEs.' >"$dir/ls_"
echo '検索する。' >"$dir/ja_"
echo 'Copy.' >"$dir/cp_"
n=16 small=()
if [ "$size" != long ]; then # what a step computes does not depend on how many there are; short prompts, without a template, cost least
    n=6 texts=("$dir/ls" "$dir/ja") small=(--raw)
fi
# With sanitizers the driver's threads take and give back their memory piece by piece, a minute for each text, and see nothing that prompts, steps and rounds
# of several below do not show
[ -n "$short" ] || same_texts --ignore-eos # the best of the logits and of the banned ones come back
[ -z "${small[*]}" ] || texts=("$dir/ls_" "$dir/ja_" "$dir/cp_") n=4
together_texts=("${texts[@]}")
texts=("${texts[@]:0:1}") # enough for what differs in the choice only
if [ -z "$short" ]; then
    same_texts "${small[@]}" # the arg-max
    same_texts "${small[@]}" --repeat-penalty 1.2
    same_texts "${small[@]}" --ignore-eos --temp 0.9 --seed 1
    same_texts "${small[@]}" --ignore-eos --temp 0.9 --top-k 0 --top-p 1 # all logits
fi
if [ "$size" = long ]; then
    same_texts --ignore-eos --temp 0.9 --seed 2
    same_texts --ignore-eos --temp 0.9 --seed 3
    same_texts --ignore-eos --temp 2 --top-k 200 --top-p 1
fi

# --- several inputs at once: what each writes alone ---
texts=("${together_texts[@]}")
together() { # name, options
    run -q --backend vulkan -n $n "${small[@]}" "${@:2}" "${texts[@]}"
    ends "$1, one by one" 4
    cp "$dir/out" "$dir/want"
    run -q --backend vulkan -n $n -np 8 "${small[@]}" "${@:2}" "${texts[@]}"
    ends "$1" 4
    check "$1: a text one by one" [ -s "$dir/want" ]
    check "$1: the texts one by one" diff "$dir/want" "$dir/out"
}
if [ -z "$short" ]; then
    together 'together, greedy' --ignore-eos
    texts=("${texts[@]:1}")
    together 'together, sampled' --ignore-eos --temp 0.9 --precise
    together 'together, forms' --ignore-eos --no-gather --no-pooled-cache
fi

# --- what is said ---
run info -q --backend vulkan
ends 'info' 0 "^vulkan +${device%% (*}"
run info -q --backend auto
case $device in
llvmpipe*) ends 'auto' 0 '^cpu +[0-9]+ threads' ;; # computes on the CPU: the cpu backend is what is meant
*) ends 'auto' 0 '^vulkan +' ;;
esac
run info --devices
ends 'devices' 0 "^0: ${device%% (*}"
if [ -z "$short" ]; then
    run bench -q --backend vulkan -p 2 -n 0 -r 1
    ends 'bench' 0 '\| Vulkan  \| +pp2 \|' "^build: .*, ${device%% (*}"
    ! grep -q threads "$dir/out" || bad 'bench: threads of a device'
fi
run bench -q --backend vulkan -p 0 -n 1 -r 1 -np 2 -o jsonl
ends 'bench, json' 0
jq -e '.device_bytes_planned > 0 and .device_bytes_allocated == .device_bytes_planned and has("device_bytes_driver") and .load_seconds > 0 and
    .backends == "Vulkan" and .n_gpu_layers > 0 and (has("n_threads") | not) and (.gpu_info | length) > 3' "$dir/out" >/dev/null || bad "bench: $(cat "$dir/out")"
run info --plan -q --backend vulkan
ends 'plan' 0 '^  of it on the device +[0-9]+ bytes' 'model: device weights +[0-9]+ bytes .* [0-9]+ of F32 as BF16'
loads=(direct mmap)
[ -z "$short" ] || loads=(direct) # unit_upload has both
for load in "${loads[@]}"; do
    run -q --backend vulkan -m tests/models/tiny-man.gguf --load "$load" -n 2 --raw "$dir/ls_"
    ends "load $load" 4
    cp "$dir/out" "$dir/$load"
done
[ -n "$short" ] || cmp -s "$dir/direct" "$dir/mmap" || bad 'load: other texts by direct and by mmap'
if [ -z "$short" ]; then
    run --backend vulkan -m build/models/tiny-zoo.gguf -n 1 --raw "$dir/ls_"
    ends 'decoded types' 4 '^hayate: types without a kernel for this device, decoded while loading: .*Q5_0'
    check 'decoded types: lines' [ "$(grep -c 'without a kernel' "$dir/err")" = 1 ]
    run -q --backend vulkan -m build/models/tiny-zoo.gguf -n 1 --raw "$dir/ls_"
    ends 'decoded types, quiet' 4
    check 'quiet: nothing on stderr' [ ! -s "$dir/err" ]
fi
run info -q --backend vulkan --device 99
ends 'no such device' 1 '^hayate: vulkan: there is no device 99'

if [ -z "$short" ]; then
    run bench -q --backend vulkan -p 0 -n 2 -d 600 --fill random -r 1
    ends 'bench, filled' 0 '\| +tg2 @ d600 random \|'
fi
run -q --backend vulkan --kv q8_0 -n 1 "$dir/ls"
ends '--kv q8_0' 1 '^hayate: --kv q8_0: found backend vulkan, in this version only the cpu can do this'

# --- forms for comparison: a line of the plan, the ledger of their rows, a state with raw keys ---
run info --plan -q --backend vulkan --no-pooled-cache -c 4096
ends 'plan of raw keys' 0 'session: raw index keys +1048576 bytes .* 2 layers x 4096 positions x 32' 'session: rope of blocks +65536 bytes .* 1024 blocks x 16'
run info --ledger -q --backend vulkan --json -d 4000 --no-gather --no-pooled-cache
ends 'ledger of forms' 0
jq -e '[.decode, .prefill | [.rows[].row]] | all(.[]; index("qsa_attend_masked") and index("qsa_repool") and index("qsa_keep_raw"))' "$dir/out" >/dev/null || bad 'ledger of forms'
if [ -z "$short" ]; then
    run bench -q --backend vulkan -p 0 -n 1 -d 16384 --fill random -r 1 --no-gather --no-pooled-cache -o jsonl
    ends 'a step with forms at 16,384' 0
    jq -e '.device_bytes_allocated == .device_bytes_planned and .no_gather and .no_pooled_cache' "$dir/out" >/dev/null || bad "forms at 16,384: $(cat "$dir/out")"
    form=(-q --backend vulkan -n 2 --raw --ignore-eos --no-pooled-cache "$dir/ls_")
    run "${form[@]}" --save-state "$dir/state"
    ends 'raw keys: a state is saved' 4
    cp "$dir/out" "$dir/want"
    run "${form[@]}" --load-state "$dir/state"
    ends 'raw keys: it is loaded' 4
    check 'raw keys: the text with a loaded state' cmp -s "$dir/want" "$dir/out"
    run -q --backend vulkan -n 2 --raw --ignore-eos "$dir/ls_" --load-state "$dir/state"
    ends 'raw keys: a state of another form' 1 'no-pooled-cache'
fi

# --- codes hidden in texts: found as often, and as surprising, as on the cpu ---
if [ "$size" = long ]; then
    run eval -q --backend cpu --needle 500 --json
    ends 'needle, cpu' 0
    cp "$dir/out" "$dir/needle"
    run eval -q --backend vulkan --needle 500 --json
    ends 'needle' 0
    jq -es '(.[0].code_nll - .[1].code_nll | fabs) <= 0.02 and (.[0].found - .[1].found | fabs) <= 1 and .[0].asked == 16' "$dir/needle" "$dir/out" >/dev/null ||
        bad "needle: $(cat "$dir/needle" "$dir/out")"
fi

# --- interruption, whatever the load is doing ---
instants=(0.1 0.3 0.8)
[ -z "$short" ] || instants=(0.3)
[ "$size" != long ] || instants=(0.1 0.2 0.3 0.5 0.8)
for after in "${instants[@]}"; do
    for args in "130 INT run --ignore-eos $dir/ls" "143 TERM bench -p 512 -r 100"; do
        read -r want signal args <<<"$args"
        # shellcheck disable=SC2086
        timeout --preserve-status -s "$signal" -k 60 $after "$hayate" $args -q --backend vulkan >"$dir/out" 2>"$dir/err"
        code=$?
        ends "SIG$signal after $after s" "$want"
        check "SIG$signal after $after s: nothing on stderr" [ ! -s "$dir/err" ]
    done
done

echo "vulkan.sh: on $device"
finish
