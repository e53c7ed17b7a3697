#!/bin/bash
# lint.sh - include direction (main -> model -> qsa, gdn -> gpu -> kernels_bin), shell scripts, static analysis.
set -u
fail=0
back() { # folder, pattern of folders it must not include
    if grep -HnE "#include \"($2)/" "$1"/*.[chk] "$1"/*.def 2>/dev/null; then
        echo "lint: $1/ includes what stands above or beside it"
        fail=1
    fi
}
back gpu 'main|model|qsa|gdn'
back gpu/vulkan 'main|model|qsa|gdn'
back gpu/hip 'main|model|qsa|gdn'
back qsa 'main|model|gdn'
back gdn 'main|model|qsa'
back kernels_bin 'main|model|qsa|gdn|gpu'
# The one exception is a switch for tests, read when a device is opened
if grep -nE '\bgetenv\b' model/*.[ch] qsa/*.[ch] gdn/*.[ch] gpu/*.[ch] gpu/vulkan/*.[ch] gpu/hip/*.[ch] | grep -v HAYATE_VK_VALIDATE; then
    echo "lint: the environment is read in main.c only"
    fail=1
fi
shellcheck -x .ci/run .package/*.sh tests/*.sh tests/bench/*.sh kernels_bin/tool/*.sh || fail=1
# NAME_ref and NAME_moves are declared by one macro on one line, which cppcheck takes for one function (ctunullpointer)
cppcheck -q --std=c11 --inline-suppr -I. --enable=warning,portability --error-exitcode=1 \
    '--suppress=ctunullpointer:*_moves.c' --suppress=ctunullpointer:gpu/moves.h --suppress=missingIncludeSystem --suppress=nullPointerRedundantCheck:tests/* -DISA=base \
    main.c model gpu qsa gdn kernels_bin || fail=1
exit $fail
