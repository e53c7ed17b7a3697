#!/bin/sh
# row.sh ID - makes the binaries of one row that are stale and leaves its new MANIFEST line in build/kernels/line/ID.
set -u
. kernels_bin/tool/recipe.sh
load_row "$1"
old=$(grep "^$id$tab" $manifest 2>/dev/null | head -n 1)

give_up() { # why: the recorded line stays
    echo "kernels: $id: $1" >&2
    exit 1
}

# Prints the fields of one target: hash of the source, hash of the binary, bytes, what it says about itself, compiler
target() { # target, state, hash, numbers of the recorded fields, the same fields of a row not built for it
    case $2 in
    ok) printf '%s\n' "$old" | cut -f "$4" && return ;;
    none) echo "$5" && return ;;
    missing) give_up "$source does not exist" ;;
    failed) give_up "the preprocessor failed" ;;
    esac
    compiler=$(compiler_of "$1")
    [ -n "$compiler" ] || give_up "no compiler for $1 (make kernels names the packages; rows with matrices: tests/need-trixie.sh)"
    echo "  $1 $id" >&2
    compile "$1" "$out/$1/$id" || give_up "does not compile for $1"
    said=$($ktool inspect "$1" "$id" "$out/$1/$id") || give_up "the $1 binary is not what the row says"
    mv "$out/$1/$id" "$(binary_of "$1")"
    printf '%s\t%s\t%s' "$3" "$said" "$compiler"
}

none5="-$tab-$tab-$tab-$tab-"
spirv=$(target spirv "$spirv_state" "$spirv_hash" 6-10 "$none5") || exit 1
gfx=$(target gfx1151 "$gfx_state" "$gfx_hash" 11-20 "$none5$tab$none5") || exit 1
printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$id" "$source" "$defines" "$workgroup" "$args" "$spirv" "$gfx" >"$out/line/$id"
