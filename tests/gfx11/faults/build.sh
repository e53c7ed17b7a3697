#!/bin/sh
# build.sh OUT [N...] - assembles tiny.s with fault N (all without N) to OUT/tiny_N.co, ops.s, and sink.hip with and without the flag that it is about.
set -eu
here=$(dirname "$0")
out=$1
shift
flags=$(cat "$here/../../../kernels_bin/tool/gfx1151.flags")
# shellcheck disable=SC2086
clang-19 -x hip $flags "$here/sink.hip" -o "$out/sink.co"
dropped=$(echo "$flags" | sed 's/-mllvm -disable-machine-sink//')
# shellcheck disable=SC2086
clang-19 -x hip $dropped "$here/sink.hip" -o "$out/sink_dropped.co"
clang-19 -target amdgcn-amd-amdhsa -mcpu=gfx1151 -x assembler "$here/ops.s" -Wl,-s -o "$out/ops.co"
[ $# -gt 0 ] || set -- $(seq 0 20)
for n; do
    clang-19 -target amdgcn-amd-amdhsa -mcpu=gfx1151 -x assembler -Wa,-defsym,FAULT="$n" "$here/tiny.s" -Wl,-s -o "$out/tiny_$n.co"
done
