#!/bin/bash
# golden.sh HAYATE - every golden set that is here, on the float32 path and on the default path.
# Sets in tests/golden ship with the project; the bf16 set (50 MB) runs where ../shared holds it.
set -u
hayate=$1
fail=0
run() { # model, golden files...
    local model=$1
    shift
    "$hayate" eval -q -m "$model" --precise --golden "$@" || fail=1
    "$hayate" eval -q -m "$model" --golden "$@" || fail=1
}
run tests/models/tiny-man.gguf tests/golden/q.*.gold
run build/models/tiny-zoo.gguf tests/golden/zoo.*.gold
run build/models/tiny-lowbit.gguf tests/golden/lowbit.*.gold
if [ -e ../shared/models/tiny-bf16-joined.gguf ]; then
    run ../shared/models/tiny-bf16-joined.gguf ../shared/golden/bf16.*.gold
    "$hayate" eval -q -m ../shared/models/tiny-bf16-joined.gguf --precise --golden ../shared/golden/bf16.*.layers || fail=1
else
    echo "golden.sh: no ../shared, the bf16 sets are skipped"
fi
exit $fail
