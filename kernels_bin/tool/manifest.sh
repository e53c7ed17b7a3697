#!/bin/sh
# manifest.sh - joins the lines of the rows to kernels_bin/MANIFEST.tsv and removes binaries that belong to no line.
set -eu
. kernels_bin/tool/recipe.sh
{
    printf 'id\tsource\tdefines\tworkgroup\targs\tspirv source\tspirv hash\tspirv bytes\tspirv shared\tspirv compiler'
    printf '\tgfx source\tgfx hash\tgfx bytes\tvgpr\tsgpr\tlds\tscratch\tspills\tgfx compiler\n'
    find $out/line -type f -exec cat {} + | LC_ALL=C sort
} >$out/manifest
cmp -s $out/manifest $manifest || cp $out/manifest $manifest
for f in kernels_bin/spirv/*.spv kernels_bin/gfx1151/*.co; do
    id=${f##*/}
    [ -f "$out/line/${id%.*}" ] || [ ! -f "$f" ] || {
        echo "kernels: $f belongs to no row, removed" >&2
        rm -f "$f"
    }
done
