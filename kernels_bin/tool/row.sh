#!/bin/sh
# row.sh ID - makes the binaries of one row that are stale and leaves its new MANIFEST line in build/kernels/line/ID.
set -u
. kernels_bin/tool/recipe.sh
load_row "$1"

give_up() { # why: the recorded line stays
    echo "kernels: $id: $1" >&2
    exit 1
}

# Prints the fields of one target, each after a tab: hash of the source, hash of the binary, bytes, what it says about itself, compiler
target() { # target, state, hash of the source
    case $2 in
    ok | none) $ktool recorded "$1" "$id" && return ;;
    missing) give_up "$source does not exist" ;;
    failed) give_up "the preprocessor failed" ;;
    esac
    compiler=$(compiler_of "$1")
    [ -n "$compiler" ] || give_up "no compiler for $1 (make kernels names the packages; rows with matrices: tests/need-trixie.sh)"
    echo "  $1 $id" >&2
    compile "$1" "$out/$1/$id" || give_up "does not compile for $1"
    said=$($ktool inspect "$1" "$id" "$out/$1/$id") || give_up "the $1 binary is not what the row says"
    chmod 644 "$out/$1/$id" # the linker makes it a program
    mv "$out/$1/$id" "$(binary_of "$1")"
    printf '\t%s\t%s\t%s' "$3" "$said" "$compiler"
}

spirv=$(target spirv "$spirv_state" "$spirv_hash") || exit 1
gfx=$(target gfx1151 "$gfx_state" "$gfx_hash") || exit 1
printf '%s\t%s\t%s\t%s\t%s%s%s\n' "$id" "$source" "$defines" "$workgroup" "$args" "$spirv" "$gfx" >"$out/line/$id"
