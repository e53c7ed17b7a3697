#!/bin/sh
# row.sh ID - brings the binaries of one row up to date and leaves its MANIFEST line in build/kernels/line/ID.
# A binary is kept when both the hash of its preprocessed source and that of its bytes are the recorded ones.
set -u
. kernels_bin/tool/recipe.sh
load_row "$1"
old=$(grep "^$id$tab" $manifest 2>/dev/null | head -n 1)
field() { printf '%s\n' "$old" | cut -f "$1"; } # of the recorded line

give_up() { # why: the recorded line stays
    echo "kernels: $id: $1" >&2
    [ -z "$old" ] || printf '%s\n' "$old" >"$out/line/$id"
    exit 1
}

# Prints the fields of one target: hash of the source, hash of the binary, bytes, what it says about itself, compiler
target() { # target, first recorded field, number of fields
    if ! wanted "$1"; then
        printf -- '-%.0s\t' $(seq "$3") | sed "s/$tab\$//"
        return
    fi
    hash=$(preprocessed "$1" | $ktool source) || give_up "the preprocessor failed"
    binary=$(binary_of "$1" "$id")
    if [ "$hash" = "$(field "$2")" ] && [ -f "$binary" ] && [ "$($ktool hash "$binary")" = "$(field $(($2 + 1)))" ]; then
        field "$2-$(($2 + $3 - 1))"
        return
    fi
    compiler=$(compiler_of "$1")
    [ -n "$compiler" ] || give_up "no compiler for $1 (kernels_bin/tool/recipe.sh says which; matrix rows: tests/need-trixie.sh)"
    echo "  $1 $id" >&2
    compile "$1" "$out/$1/$id.bin" || give_up "does not compile for $1"
    said=$($ktool "$1" "$id" "$out/$1/$id.bin") || give_up "the $1 binary is not what the row says"
    mv "$out/$1/$id.bin" "$binary"
    printf '%s\t%s\t%s' "$hash" "$said" "$compiler"
}

rm -f "$out/line/$id"
[ -f "$source" ] || give_up "$source does not exist"
spirv=$(target spirv 6 5) || exit 1
gfx=$(target gfx1151 11 9) || exit 1
printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$id" "$source" "$defines" "$workgroup" "$args" "$spirv" "$gfx" >"$out/line/$id"
