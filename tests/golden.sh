#!/bin/bash
# golden.sh HAYATE [BACKEND [CASE...]] - golden sets on the float32 path and on the default path: all that are here on the cpu, or some on a backend.
# Sets in tests/golden ship with the project; the bf16 set (50 MB) runs where ../shared holds it.
set -u
hayate=$1 backend=${2:-cpu}
shift $(($# > 1 ? 2 : 1))
fail=0
run() { # model, stem of the set, cases
    local model=$1 stem=$2 files=("$2".*.gold "$2".*.layers) f
    for f in "$2".*.mtp; do # of the draft head, which only the cpu runs
        [ ! -e "$f" ] || [ "$backend" != cpu ] || files+=("$f")
    done
    shift 2
    [ $# = 0 ] || files=("${@/%/.gold}") && [ $# = 0 ] || files=("${files[@]/#/$stem.}")
    "$hayate" eval -q --backend "$backend" -m "$model" --precise --golden "${files[@]}" || fail=1
    "$hayate" eval -q --backend "$backend" -m "$model" --golden "${files[@]}" || fail=1
}
run tests/models/tiny-man.gguf tests/golden/q "$@"
run build/models/tiny-zoo.gguf tests/golden/zoo "$@"
run build/models/tiny-lowbit.gguf tests/golden/lowbit "$@"
if [ $# -gt 0 ]; then
    exit $fail
elif [ -e ../shared/models/tiny-bf16-joined.gguf ]; then
    run ../shared/models/tiny-bf16-joined.gguf ../shared/golden/bf16
else
    echo "golden.sh: no ../shared, the bf16 sets are skipped"
fi
exit $fail
