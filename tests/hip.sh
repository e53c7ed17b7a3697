#!/bin/bash
# hip.sh HAYATE [short] - the HIP backend from the command line: on a machine without ROCm, and on the runtime of tests/fake_hip.c, which computes with the
# host builds of the kernels: rows, golden values, the texts of the cpu, graphs against single launches, errors. Run from the root of the repository.
. tests/check.sh
unset LD_LIBRARY_PATH
fake=$(dirname "$hayate")/tests/fake

# one_line NAME: the last run wrote one line on stderr and nothing on stdout
one_line() {
    check "$1: lines on stderr" [ "$(wc -l <"$dir/err")" = 1 ]
    check "$1: nothing on stdout" [ ! -s "$dir/out" ]
}
page="$dir/page"
echo 'ls - list directory contents. Information about the FILEs (the current directory by default).' >"$page"

# --- without ROCm ---
if ldconfig -p 2>/dev/null | grep -q libamdhip64 || compgen -G '/opt/rocm*/lib/libamdhip64*' >/dev/null; then
    echo "hip.sh: ROCm is installed: what happens without it is not tested"
else
    for args in "-q $page" selftest "eval -q --golden tests/golden/q.en48.gold" "info -q" "bench -q -p 8"; do
        # shellcheck disable=SC2086
        run $args --backend hip
        ends "no ROCm: $args" 1 '^hayate: (\(demo model\): )?hip: no ROCm is installed \(libamdhip64.so\)$'
        one_line "no ROCm: $args"
    done
    run info -q
    ends 'no ROCm: auto' 0 '^cpu +[0-9]+ threads'
    run selftest argmax
    ends 'no ROCm: the reasons' 0 'vulkan: .*; hip: no ROCm is installed .*; taking the cpu'
    run info --devices
    ends 'no ROCm: devices' 0 '^hip: no ROCm is installed' '^cpu '
fi

# --- with the fake ---
export LD_LIBRARY_PATH=$fake
run info --devices
ends 'devices' 0 '^hip 0: Fake Radeon 0 \(gfx1151:xnack-, HIP 6\.4\.43484\)' '^  memory       4\.0 GiB' '64 KiB shared'
LD_LIBRARY_PATH=${fake}5 run info --devices
ends 'devices, ROCm 5' 0 '^hip 0: Fake Radeon 0 \(gfx1151:xnack-'
FAKE_HIP_DEVICES=2 FAKE_HIP_ARCH=gfx1100 run info --devices
ends 'devices that are others' 0 '^hip 1: Fake Radeon 1 \(gfx1100' 'not usable +its architecture is gfx1100, this program has code for gfx1151'
FAKE_HIP_ARCH=gfx1100 run -q --backend hip "$page"
ends 'another architecture' 1 'hip: Fake Radeon 0 cannot be used: its architecture is gfx1100, this program has code for gfx1151'
one_line 'another architecture'
FAKE_HIP_ARCH=gfx1100 run info -q
ends 'another architecture, auto' 0 '^cpu +[0-9]+ threads'
FAKE_HIP_DEVICES=0 run -q --backend hip "$page"
ends 'no device' 1 'hip: libamdhip64.so.7 finds no device: hipErrorNoDevice'
one_line 'no device'
run -q --backend hip --device 3 "$page"
ends 'no such device' 1 'hip: there is no device 3, the last one is 0'
run info -q
ends 'auto' 0 '^hip +Fake Radeon 0'
FAKE_HIP_MEMORY=8 run -q --backend hip "$page"
ends 'too small for the weights' 1 'weights: 7 MiB do not fit on Fake Radeon 0: it has 8 MiB, 7 MiB of them are taken \(hipErrorOutOfMemory\)$'
one_line 'too small for the weights'
FAKE_HIP_MEMORY=24 run -q --backend hip "$page"
ends 'too small for a session' 1 '^hayate: .* free on the device are [0-9]+ KiB'
one_line 'too small for a session'

rows=(embed_dev matvec_Q4_K_r4 matvec_IQ3_S_r1 gdn_step qsa_select qsa_attend_part moe_route moe_mix_NONE hc_down_r2 hc_up_r1) rounds=12
if [ "$size" = short ]; then rounds=2; else rows+=('matvec_*_r1' 'moe_up_*' 'gdn_*' 'hc_*' argmax argmax_part copy); fi
[ "$size" != long ] || rounds=42
run selftest --backend hip --rounds $rounds "${rows[@]}"
ends 'selftest' 0 '^[0-9]+ passed, 0 failed, 0 not run$' '^device  Fake Radeon 0'
grep -E 'FAIL|^    ' "$dir/out"

if [ "$size" = short ]; then # the host builds have matrix rows in this mode only
    run eval -q --backend hip --golden tests/golden/q.en48.gold
    ends 'golden, matrix units' 0 ' ok$'
else
    run eval -q --backend hip --precise --golden tests/golden/q.en48.gold tests/golden/q.en48.mtp
    ends 'golden' 0 'draft head: max .* ok$' 'rule: gpu --precise' ' ok$'
fi

few=(--precise --ignore-eos -n 5) # more tokens than the first and second start of a list
if [ "$size" != long ]; then # a template is most of a short prompt
    few+=(--raw)
    echo 'List the FILEs.' >"$page"
fi
answers() { # file, options
    local to=$1
    shift
    "$hayate" -q "$@" "${few[@]}" "$page" >"$to" 2>"$dir/err"
}
answers "$dir/cpu" --backend cpu
answers "$dir/hip" --backend hip
answers "$dir/single" --backend hip --no-graph
check 'a text on the cpu' [ -s "$dir/cpu" ]
check 'the text of the cpu' diff "$dir/cpu" "$dir/hip"
check 'the text of the cpu, without graphs' diff "$dir/cpu" "$dir/single"
if [ "$size" != short ]; then
    run bench --backend hip --precise -p 8 -n 2 -r 1 --profile
    ends 'bench' 0 '\| ROCm    \| +f32 \| +pp8 \|' '^build: .*, Fake Radeon 0' 'hc_down_r1'
fi

# --- several at once, with guesses ---
[ "$size" = short ] || check 'several at once, with guesses' "$(dirname "$hayate")/tests/prop_together" hip 1

# --- an error on the way: one line with its name, and no half of an answer ---
plans=(hipSetDevice:1:101 hipSetDevice:2:101 hipMalloc:1:2 hipModuleLaunchKernel:100:719 hipGraphInstantiateWithFlags:1:2)
[ "$size" = short ] || plans+=(hipInit:1:100 hipHostMalloc:2:2 hipMemcpyHtoDAsync:7:719 hipModuleLoadData:5:209 hipModuleGetFunction:2:500 hipStreamQuery:20:719
    hipStreamBeginCapture:1:900 hipGraphLaunch:2:719)
for plan in "${plans[@]}"; do
    FAKE_HIP_FAIL=$plan run -q --backend hip "${few[@]}" "$page"
    ends "planted $plan" 1 'hip: .*: hipError[A-Za-z]+$|do not fit on Fake Radeon 0.*hipErrorOutOfMemory\)$'
    one_line "planted $plan"
done

finish
