# shellcheck shell=bash disable=SC2034 # variables are for who reads this file
# check.sh - read by the tests of the command line, as `. tests/check.sh`, in the root of the repository with the arguments HAYATE [short|long]. Gives
#
#     $hayate, $size   the program and the size of the test
#     $dir             a folder of its own below build/, removed at the end
#     run check ends bad finish
#
# and sees to it that nothing of the user's is used: no model, no driver for Vulkan but where the test asks for it, no cache but that of all tests.
set -u
test=$(basename "$0" .sh)
hayate=$(realpath "$1") size=${2:-}
[[ $size =~ ^(short|long|)$ ]] || { echo "$test: found '$size', expected short or long or nothing" >&2 && exit 2; }
mkdir -p build
dir=$(mktemp -d "$PWD/build/$test.XXXXXX")
at_exit() { :; } # what else has to be undone; a test puts its own in this place
trap 'at_exit; rm -rf "$dir"' EXIT
unset HAYATE_MODEL
while read -r v; do unset "$v"; done < <(compgen -v SLURM_)
export LC_ALL=C.UTF-8 XDG_CACHE_HOME=$PWD/build/cache
export VK_ICD_FILENAMES=/dev/null VK_DRIVER_FILES=/dev/null # the cpu is what --backend auto takes; vulkan.sh and hip.sh have the rest
checks=0 failed=0 aside=
# at_random - for a test that does something at random instants; SEED=N repeats them
at_random() {
    RANDOM=${SEED:-$$}
    aside=" (SEED=${SEED:-$$})"
}

# run ARGUMENT... - leaves $code, $dir/out and $dir/err
run() {
    "$hayate" "$@" >"$dir/out" 2>"$dir/err"
    code=$?
}
# bad TEXT... - counts a failure and says it, with the beginning of what the program said last
bad() {
    failed=$((failed + 1))
    echo "$test: $*$aside"
    [ ! -s "$dir/err" ] || head -c 600 "$dir/err" | sed 's/^/  /'
}
# check NAME COMMAND... - the command must succeed. It is shown when it does not: of [ FOUND = EXPECTED ] that is all there is to say.
check() {
    local name=$1
    shift
    checks=$((checks + 1))
    "$@" && return
    local shown="$*"
    bad "$name: ${shown:0:500}"
}
# ends NAME CODE [REGEX...] - how the last run ended, and what matches some line on stdout or stderr
ends() {
    local name=$1 expected=$2 line
    shift 2
    checks=$((checks + 1))
    [ "$code" = "$expected" ] || bad "$name: exit $code, expected $expected"
    for line in "$@"; do
        grep -qE -- "$line" "$dir/out" "$dir/err" || bad "$name: no line matches $line"
    done
    ! grep -qE 'AddressSanitizer|runtime error|LeakSanitizer|fake_hip' "$dir/err" || bad "$name: a sanitizer or the fake of HIP speaks"
}
# finish - the last command: what was done, and the exit code
finish() {
    echo "$test.sh: $checks checks, $failed failed, $SECONDS s"
    [ "$failed" = 0 ] && [ "$checks" -gt 0 ]
}
