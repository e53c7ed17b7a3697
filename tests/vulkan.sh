#!/bin/bash
# vulkan.sh HAYATE [short|long] - the Vulkan backend from the command line, on the first device there is and under the validation layer, one message of
# which is an error: every kernel, golden values, the texts of the cpu, what names the device. long: needles too, which take half an hour
# in software. Run from the root of the repository.
set -u
hayate=$(realpath "$1") short=${2:-} long=
[ "$short" != long ] || short='' long=1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset HAYATE_MODEL
export LC_ALL=C.UTF-8
checks=0 failed=0

run() {
    "$hayate" "$@" >"$dir/out" 2>"$dir/err"
    code=$?
}
bad() {
    failed=$((failed + 1))
    echo "vulkan: $*"
    head -c 600 "$dir/err"
}
# check NAME CODE: exit code of the last run; then lines that must be there
check() {
    local name=$1 want=$2
    shift 2
    checks=$((checks + 1))
    [ "$code" = "$want" ] || bad "$name: exit $code, expected $want"
    for line in "$@"; do
        grep -qE -- "$line" "$dir/out" "$dir/err" || bad "$name: no line matches $line"
    done
    ! grep -qE 'AddressSanitizer|runtime error|LeakSanitizer' "$dir/err" || bad "$name: sanitizer"
}

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
rows=()
[ -z "$short" ] || rows=(embed_dev matvec_Q4_K_r4 matvec_IQ3_S_r1 gdn_step qsa_select qsa_attend_part moe_route moe_mix_NONE hc_down_r2 hc_up_r1)
run selftest --backend vulkan "${rows[@]}"
check 'selftest' 0 '^[0-9]+ passed, 0 failed, [0-9]+ not run$' # matrix units are not everywhere
grep -E 'FAIL|^    ' "$dir/out"

# --- golden values ---
if [ -n "$short" ]; then
    run eval -q --backend vulkan --precise --golden tests/golden/q.en48.gold tests/golden/q.en48.mtp
    check 'golden' 0 'draft head: max .* ok$' 'rule: gpu --precise' ' ok$'
else
    tests/golden.sh "$hayate" vulkan en48 || failed=$((failed + 1))
    run eval -q --backend vulkan --precise --golden tests/golden/q.en_page.gold
    check 'golden page' 0 'rule: gpu --precise' ' ok$'
    cat "$dir/out"
fi

# --- the float32 path writes what it writes on the cpu ---
texts=("$dir/ls" "$dir/ja")
echo 'ls - list directory contents. Information about the FILEs (the current directory by default).' >"$dir/ls"
echo 'grep は、各 FILE の中で PATTERN に一致する行を検索する。' >"$dir/ja"
[ -n "$short" ] || texts+=("$dir/cp") && echo 'cp - copy files and directories. Copy SOURCE to DEST, or multiple SOURCEs to DIRECTORY.' >"$dir/cp"
answers() { # backend, file, options
    "$hayate" -q --backend "$1" --precise -n "$n" --json "${@:3}" "${texts[@]}" 2>"$dir/err" | jq -r .text >"$2"
}
same_texts() { # options
    answers cpu "$dir/cpu" "$@"
    answers vulkan "$dir/vulkan" "$@"
    checks=$((checks + 1))
    if [ ! -s "$dir/cpu" ] || ! cmp -s "$dir/cpu" "$dir/vulkan"; then
        bad "$*: other texts than on the cpu: $(diff "$dir/cpu" "$dir/vulkan")"
    fi
}
n=16
[ -z "$short" ] || n=4
same_texts --ignore-eos     # the best of the logits and of the banned ones come back
texts=("${texts[@]:0:1}") n=5 # enough for what differs in the choice only
same_texts                  # the arg-max
same_texts --repeat-penalty 1.2
for seed in 1 2 3; do
    same_texts --ignore-eos --temp 0.9 --seed $seed
    [ -z "$short" ] || break
done
same_texts --ignore-eos --temp 0.9 --top-k 0 --top-p 1 # all logits
same_texts --ignore-eos --temp 2 --top-k 200 --top-p 1

# --- several inputs at once: what each writes alone ---
texts=("$dir/ja" "$dir/ls" "$dir/cpu") # the last is a text of some tokens
[ -z "$short" ] || texts=("${texts[@]:0:2}")
together() { # name, options
    run -q --backend vulkan -n $n "${@:2}" "${texts[@]}"
    check "$1, one by one" 4
    cp "$dir/out" "$dir/want"
    run -q --backend vulkan -n $n -np 8 "${@:2}" "${texts[@]}"
    check "$1" 4
    [ -s "$dir/want" ] || bad "$1: no text"
    cmp -s "$dir/want" "$dir/out" || bad "$1: other texts than one by one: $(diff "$dir/want" "$dir/out")"
}
n=4
together 'together, greedy'
together 'together, sampled' --ignore-eos --temp 0.9 --precise

# --- what is said ---
run info -q --backend vulkan
check 'info' 0 "^vulkan +${device%% (*}"
run info -q --backend auto
case $device in
llvmpipe*) check 'auto' 0 '^cpu +[0-9]+ threads' ;; # computes on the CPU: the cpu backend is what is meant
*) check 'auto' 0 '^vulkan +' ;;
esac
run info --devices
check 'devices' 0 "^0: ${device%% (*}"
run bench -q --backend vulkan -p 8 -n 0 -r 1
check 'bench' 0 '\| Vulkan  \| +pp8 \|' "^build: .*, ${device%% (*}"
! grep -q threads "$dir/out" || bad 'bench: threads of a device'
run bench -q --backend vulkan -p 0 -n 1 -r 1 -np 2 -o jsonl
check 'bench, json' 0
jq -e '.device_bytes_planned > 0 and .device_bytes_allocated == .device_bytes_planned and has("device_bytes_driver") and .load_seconds > 0 and
    .backends == "Vulkan" and .n_gpu_layers > 0 and (has("n_threads") | not) and (.gpu_info | length) > 3' "$dir/out" >/dev/null || bad "bench: $(cat "$dir/out")"
run info --plan -q --backend vulkan
check 'plan' 0 '^  of it on the device +[0-9]+ bytes' 'model: device weights +[0-9]+ bytes .* [0-9]+ of F32 as BF16'
for load in direct mmap; do
    run -q --backend vulkan -m tests/models/tiny-man.gguf --load $load -n 4 -p 'Go.' "$dir/ls"
    check "load $load" 4
    cp "$dir/out" "$dir/$load"
done
cmp -s "$dir/direct" "$dir/mmap" || bad 'load: other texts by direct and by mmap'
run --backend vulkan -m build/models/tiny-zoo.gguf -n 1 -p 'Go.' "$dir/ls"
check 'decoded types' 4 '^hayate: types without a kernel for this device, decoded while loading: .*Q5_0'
[ "$(grep -c 'without a kernel' "$dir/err")" = 1 ] || bad 'decoded types: not one line'
run -q --backend vulkan -m build/models/tiny-zoo.gguf -n 1 -p 'Go.' "$dir/ls"
check 'decoded types, quiet' 4
[ ! -s "$dir/err" ] || bad 'quiet: stderr is not empty'
run info -q --backend vulkan --device 99
check 'no such device' 1 '^hayate: vulkan: there is no device 99'

run bench -q --backend vulkan -p 0 -n 2 -d 600 --fill random -r 1
check 'bench, filled' 0 '\| +tg2 @ d600 random \|'
for args in --no-gather --no-pooled-cache '--pooled-max-tokens 32' '--kv q8_0'; do
    # shellcheck disable=SC2086
    run -q --backend vulkan $args -n 1 "$dir/ls"
    check "$args" 1 "^hayate: ${args% 32}: found backend vulkan, in this version only the cpu can do this"
done

# --- codes hidden in texts: found as often, and as surprising, as on the cpu ---
if [ -n "$long" ]; then
    run eval -q --backend cpu --needle 500 --json
    check 'needle, cpu' 0
    cp "$dir/out" "$dir/needle"
    run eval -q --backend vulkan --needle 500 --json
    check 'needle' 0
    jq -es '(.[0].code_nll - .[1].code_nll | fabs) <= 0.02 and (.[0].found - .[1].found | fabs) <= 1 and .[0].asked == 16' "$dir/needle" "$dir/out" >/dev/null ||
        bad "needle: $(cat "$dir/needle" "$dir/out")"
fi

# --- interruption, whatever the load is doing ---
for after in 0.1 0.2 0.3 0.5 0.8; do
    for args in "130 INT run --ignore-eos $dir/ls" "143 TERM bench -p 512 -r 100"; do
        read -r want signal args <<<"$args"
        # shellcheck disable=SC2086
        timeout --preserve-status -s "$signal" -k 60 $after "$hayate" $args -q --backend vulkan >"$dir/out" 2>"$dir/err"
        code=$?
        check "SIG$signal after $after s" "$want"
        [ ! -s "$dir/err" ] || bad "SIG$signal after $after s: stderr is not empty"
    done
    [ -z "$short" ] || break
done

echo "vulkan: $checks checks on $device, $failed failed"
[ "$failed" = 0 ]
