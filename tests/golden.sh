#!/bin/bash
# golden.sh HAYATE [short | BACKEND [CASE...]] - golden sets on the float32 path and on the default path: all that are here on the cpu, one each (short), or some on a backend.
# Residuals (.layers) are held to the float32 rule, so only the float32 path is compared with them: the default path rounds activations, and has a rule
# for what comes out (mean nll, arg-max) but none for residuals.
# Sets in tests/golden ship with the project; the bf16 set (50 MB) runs where ../shared holds it.
set -u
hayate=$1 backend=${2:-cpu} short=
shift $(($# > 1 ? 2 : 1))
case $backend in short) short=1 backend=cpu ;; long) backend=cpu ;; esac
fail=0
run() { # model, stem of the set, cases
    local model=$1 stem=$2 files=("$2".*.gold) layers=("$2".*.layers) f
    for f in "$2".*.mtp; do # of the draft head
        [ ! -e "$f" ] || layers+=("$f")
    done
    shift 2
    [ -z "$short" ] || files=("$stem.en48.gold") layers=("$stem".en48.[lm]*)
    [ -e "${layers[0]}" ] || layers=()
    [ $# = 0 ] || files=("${@/%/.gold}") && [ $# = 0 ] || files=("${files[@]/#/$stem.}")
    [ $# = 0 ] || layers=()
    "$hayate" eval -q --backend "$backend" -m "$model" --precise --golden "${files[@]}" "${layers[@]}" || fail=1
    "$hayate" eval -q --backend "$backend" -m "$model" --golden "${files[@]}" || fail=1
}
run tests/models/tiny-man.gguf tests/golden/q "$@"
run build/models/tiny-zoo.gguf tests/golden/zoo "$@"
run build/models/tiny-lowbit.gguf tests/golden/lowbit "$@"
if [ $# -gt 0 ] || [ -n "$short" ]; then
    exit $fail
elif [ -e ../shared/models/tiny-bf16-joined.gguf ]; then
    run ../shared/models/tiny-bf16-joined.gguf ../shared/golden/bf16
else
    echo "golden.sh: no ../shared, the bf16 sets are skipped"
fi
exit $fail
