#!/bin/sh
# embed.sh - prints the assembler file that puts the binaries of kernels_bin into the program: a table sorted by id, see kernels_bin.h.
# A row without a binary for a target has none there.
#     embed.sh [CUBINS]    a folder with ID.cubin: for the test build that runs on CUDA, which has nothing else
set -eu
cubins=${1:-/nowhere} spirv=spirv gfx1151=gfx1151
cd kernels_bin
ids=$(for f in spirv/*.spv gfx1151/*.co; do [ ! -f "$f" ] || { f=${f##*/} && echo "${f%.*}"; }; done | LC_ALL=C sort -u)
[ "$cubins" = /nowhere ] || spirv=/nowhere gfx1151=/nowhere
cubins_from_top=$(realpath -m --relative-to=.. "$cubins")
blob() { # label, file, the same seen from the top folder
    [ ! -f "$2" ] || printf '\t.balign 64\n%s:\t.incbin "%s"\n%s_end:\n' "$1" "$3" "$1"
}
entry() { # label, file: address and size
    if [ -f "$2" ]; then printf '\t.quad %s, %s_end - %s\n' "$1" "$1" "$1"; else printf '\t.quad 0, 0\n'; fi
}
printf '\t.section .rodata\n'
for id in $ids; do
    blob "spirv_$id" "$spirv/$id.spv" "kernels_bin/$spirv/$id.spv"
    blob "gfx1151_$id" "$gfx1151/$id.co" "kernels_bin/$gfx1151/$id.co"
    blob "sm_90_$id" "$cubins/$id.cubin" "$cubins_from_top/$id.cubin"
    printf 'name_%s:\t.asciz "%s"\n' "$id" "$id"
done
printf '\t.globl kernel_manifest, kernel_manifest_end\nkernel_manifest:\n'
[ ! -f MANIFEST.tsv ] || printf '\t.incbin "kernels_bin/MANIFEST.tsv"\n'
printf 'kernel_manifest_end:\t.byte 0\n'
printf '\t.section .data.rel.ro, "aw"\n\t.balign 8\n\t.globl kernel_bin_table, kernel_bin_table_end\nkernel_bin_table:\n'
for id in $ids; do
    printf '\t.quad name_%s\n' "$id"
    entry "spirv_$id" "$spirv/$id.spv"
    entry "gfx1151_$id" "$gfx1151/$id.co"
    entry "sm_90_$id" "$cubins/$id.cubin"
done
printf 'kernel_bin_table_end:\n\t.section .note.GNU-stack, ""\n'
