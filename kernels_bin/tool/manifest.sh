#!/bin/sh
# manifest.sh - puts the new lines into kernels_bin/MANIFEST.tsv and removes binaries that belong to no line.
set -eu
. kernels_bin/tool/recipe.sh
$ktool manifest $out/line >$out/manifest
cmp -s $out/manifest $manifest || cp $out/manifest $manifest
for f in kernels_bin/spirv/*.spv kernels_bin/gfx1151/*.co; do
    case $f in
    *.spv) hash=7 ;;
    *) hash=12 ;;
    esac
    id=${f##*/}
    [ ! -f "$f" ] || awk -F '\t' -v id="${id%.*}" -v hash=$hash '$1 == id && $hash != "-" { found = 1 } END { exit !found }' $manifest || {
        echo "kernels: $f belongs to no row, removed" >&2
        rm -f "$f"
    }
done
