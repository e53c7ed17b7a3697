#!/bin/sh
# same.sh - whether the committed binaries are what their sources compile to, byte for byte, where the compilers that made them are at hand.
#     same.sh list         TARGET/ID of what has not been compared yet
#     same.sh TARGET/ID    compiles and compares one
set -u
. kernels_bin/tool/recipe.sh

list() { # Fields: 7 and 12 hash of the binary, 10 and 20 compiler
    mkdir -p $out/same
    matrix=0
    plain=$(compiler_of spirv)
    gfx=$(compiler_of gfx1151)
    matrix=1
    newer=$(compiler_of spirv)
    awk -F '\t' -v plain="$plain" -v newer="$newer" -v gfx="$gfx" 'NR > 1 {
        if ($7 != "-" && ($10 == plain || $10 == newer)) print "spirv/" $1, $7
        if ($12 != "-" && $20 == gfx) print "gfx1151/" $1, $12 }' $manifest |
        while read -r what hash; do
            [ -f "$out/same/${what%/*}-$hash" ] || echo "$what"
        done
}

compare() { # target, id
    load_row "$2"
    made=$out/same/$1-$2.bin
    compile "$1" "$made" || exit 1
    cmp "$made" "$(binary_of "$1")" || {
        echo "kernels: $2: the committed $1 binary is not what its source compiles to" >&2
        exit 1
    }
    hash=$(awk -F '\t' -v id="$2" -v f="$([ "$1" = spirv ] && echo 7 || echo 12)" '$1 == id { print $f }' $manifest)
    mv "$made" "$out/same/$1-$hash"
    rm -f "$made".*
}

if [ "$1" = list ]; then list; else compare "${1%/*}" "${1#*/}"; fi
