#!/bin/bash
# cuda-twin.sh BINARY [STAGE...] - the test build of `make cuda-twin` on an NVIDIA GPU: one line per check, and what failed. Run from the root of the
# repository, or of a folder with its tests/. Stages, all without any:
#
#     devices selftest golden texts bench            seconds each
#     memcheck racecheck initcheck synccheck         compute-sanitizer on few cases per row, and memcheck on a model; minutes
#
# ROUNDS=n: cases per row under a sanitizer (7; every size comes once in 6). LIMIT=n: seconds for one check (540). Exit: 0 all passed, 1 something failed,
# 2 nothing failed, but something could not be run.
set -u
binary=$(realpath "$1")
shift
stages=("$@")
[ $# -gt 0 ] || stages=(devices selftest golden texts bench memcheck racecheck initcheck synccheck)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset HAYATE_MODEL
export LC_ALL=C.UTF-8
export PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer:/usr/local/cuda/extras/compute-sanitizer
passed=0 failed=0 not_run=0

# try NAME COMMAND...: the output is in $dir/out
try() {
    local name=$1 start=$SECONDS code
    shift
    timeout -k 5 "${LIMIT:-540}" "$@" >"$dir/out" 2>&1
    code=$?
    took=$((SECONDS - start))
    if grep -q 'Device not supported' "$dir/out"; then
        not_run=$((not_run + 1))
        echo "cuda-twin: $name: not run, compute-sanitizer does not support this device"
        return 1
    elif [ $code = 0 ]; then
        passed=$((passed + 1))
        echo "cuda-twin: $name: ok, $took s"
        return 0
    fi
    failed=$((failed + 1))
    echo "cuda-twin: $name: FAILED, exit $code after $took s"
    grep -E 'FAIL|ERROR SUMMARY|RACECHECK SUMMARY|hazard|Invalid|Uninitialized|Barrier|hayate:|at .*\+0x|^    ' "$dir/out" | head -n 40
    echo "..."
    tail -n 5 "$dir/out"
    return 1
}

# Models that are shipped as a difference against another one
unpack() { # name, name of the other
    local from=tests/models/$2.gguf
    [ -e "$from" ] || from=build/models/$2.gguf
    [ -e "build/models/$1.gguf" ] && return
    command -v zstd >/dev/null && mkdir -p build/models &&
        zstd -q -d -f --long=27 --patch-from="$from" "tests/models/$1.gguf.zst" -o "build/models/$1.gguf"
}

golden() { # model, stem of its sets
    if [ ! -e "$1" ]; then
        not_run=$((not_run + 1))
        echo "cuda-twin: golden ${2##*/}: not run, no $1 and no zstd to unpack it"
        return
    fi
    for how in --precise ''; do
        # shellcheck disable=SC2086
        if try "golden ${2##*/} $how" "$binary" eval -q --backend cuda -m "$1" $how --golden "$2".*.gold; then grep -E 'logit diff' "$dir/out"; fi
    done
}

same() { # NAME, two files of answers
    if [ -s "$2" ] && cmp -s "$2" "$3"; then
        passed=$((passed + 1))
        echo "cuda-twin: $1: ok"
    else
        failed=$((failed + 1))
        echo "cuda-twin: $1: FAILED"
        diff "$2" "$3" | head -n 10
    fi
}

answer() { # file, options
    local to=$1
    shift
    "$binary" -q -m tests/models/tiny-man.gguf -p 'Summarize this manual page in one line.' --ignore-eos "$@" tests/data/sample-page.txt >"$to" 2>&1 ||
        [ $? = 4 ] || echo "exit code" >>"$to"
}

sanitize() { # tool, options
    local tool=$1 n=${ROUNDS:-7}
    shift
    if ! command -v compute-sanitizer >/dev/null; then
        not_run=$((not_run + 1))
        echo "cuda-twin: $tool: not run, no compute-sanitizer"
        return
    fi
    try "$tool, selftest of $n cases a row" compute-sanitizer --tool "$tool" --error-exitcode 9 "$@" "$binary" selftest --backend cuda --rounds "$n" &&
        grep -E 'passed,|SUMMARY' "$dir/out"
    [ "$tool" = racecheck ] || [ "$tool" = memcheck ] || return
    for how in --precise ''; do
        # shellcheck disable=SC2086
        try "$tool, a model $how" compute-sanitizer --tool "$tool" --error-exitcode 9 "$@" "$binary" eval -q --backend cuda \
            -m tests/models/tiny-man.gguf $how --golden tests/golden/q.en48.gold
    done
}

for stage in "${stages[@]}"; do
    case $stage in
    devices) try devices "$binary" info --devices && grep -A3 '^cuda' "$dir/out" ;;
    selftest) try selftest "$binary" selftest --backend cuda && tail -n 1 "$dir/out" ;;
    golden)
        unpack tiny-zoo tiny-man
        unpack tiny-lowbit tiny-zoo
        golden tests/models/tiny-man.gguf tests/golden/q
        golden build/models/tiny-zoo.gguf tests/golden/zoo
        golden build/models/tiny-lowbit.gguf tests/golden/lowbit
        ;;
    texts)
        answer "$dir/cpu" -n 16 --backend cpu --precise
        answer "$dir/precise" -n 16 --backend cuda --precise
        answer "$dir/graph" -n 64 --backend cuda
        answer "$dir/again" -n 64 --backend cuda
        answer "$dir/single" -n 64 --backend cuda --no-graph
        same 'the float32 path writes what the cpu writes' "$dir/cpu" "$dir/precise"
        same 'two runs, one text' "$dir/graph" "$dir/again"
        same 'graphs and single launches, one text' "$dir/graph" "$dir/single"
        ;;
    bench)
        for how in '' --no-graph; do
            # shellcheck disable=SC2086
            try "bench $how" "$binary" bench -q --backend cuda -m tests/models/tiny-man.gguf -p 512 -n 64 -r 3 $how && grep '^| qwen' "$dir/out"
        done
        ;;
    memcheck) sanitize memcheck --leak-check full ;;
    racecheck) sanitize racecheck ;;
    initcheck | synccheck) sanitize "$stage" ;;
    *)
        echo "cuda-twin: no stage $stage" >&2
        exit 1
        ;;
    esac
done
echo "cuda-twin: $passed passed, $failed failed, $not_run not run"
[ "$failed" = 0 ] || exit 1
[ "$not_run" = 0 ] || exit 2
