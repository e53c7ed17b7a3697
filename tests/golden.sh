#!/bin/bash
# golden.sh HAYATE - every golden set that is here, on the float32 path and on the default path.
# Sets in tests/golden ship with the project; the bf16 set (50 MB) runs where ../shared holds it.
set -u
hayate=$1
fail=0
run() { # model, stem of the set
    "$hayate" eval -q -m "$1" --precise --golden "$2".*.gold "$2".*.layers || fail=1
    "$hayate" eval -q -m "$1" --golden "$2".*.gold || fail=1
}
run tests/models/tiny-man.gguf tests/golden/q
run build/models/tiny-zoo.gguf tests/golden/zoo
run build/models/tiny-lowbit.gguf tests/golden/lowbit
if [ -e ../shared/models/tiny-bf16-joined.gguf ]; then
    run ../shared/models/tiny-bf16-joined.gguf ../shared/golden/bf16
else
    echo "golden.sh: no ../shared, the bf16 sets are skipped"
fi
exit $fail
