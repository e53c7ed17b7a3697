#!/bin/sh
# gfx11_sheet.sh - the resource sheet of the gfx1151 kernels in README.md, between markers.
#     gfx11_sheet.sh check [PROGRAM]  README's tables are what MANIFEST.tsv and the program say; no kernel spills or uses scratch memory
#     gfx11_sheet.sh write PROGRAM    writes them; PROGRAM is gfx11_sheet, which counts the inner loops
set -eu
readme=README.md manifest=kernels_bin/MANIFEST.tsv

# Kernels of one file with the same size of group are one line, builds by weight type or rows as a range. Waves per SIMD: 16 at most; of the 1,536 registers a
# lane has in a SIMD a wave takes its own, rounded up to 24; a CU has two SIMDs and 64 KiB of LDS, given out by the KiB.
resources() {
    echo '| kernels | builds | items | VGPR | SGPR | LDS bytes | scratch | VGPR spills | SGPR spills | waves per SIMD | limited by |'
    echo '|---|---|---|---|---|---|---|---|---|---|---|'
    awk -F '\t' '
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
    function field(name) { if (!(name in column)) { print "gfx11_sheet: the MANIFEST has no field " name > "/dev/stderr"; exit 1 } return $column[name] }
    function ceil(x, y) { return int((x + y - 1) / y) * y }
    function span(key, what,   a, b) { a = least[key, what]; b = most[key, what]; return a == b ? a : a "-" b }
    function note(key, what, x) {
        x += 0
        if (!((key, what) in least) || x < least[key, what]) least[key, what] = x
        if (!((key, what) in most) || x > most[key, what]) most[key, what] = x
    }
    function limit(key, name) { if (index(", " limits[key] ",", ", " name ",") == 0) limits[key] = limits[key] (limits[key] == "" ? "" : ", ") name }
    field("gfx hash") != "-" {
        id = field("id"); v = field("vgpr"); n = field("workgroup"); lds = field("lds")
        family = id
        sub(/_(NONE|F32|Q[0-9]_[0-9K]|IQ[0-9]_[A-Z]+)/, "_*", family)
        sub(/_r[0-9]+$/, "_r*", family)
        key = family SUBSEP n
        if (!(key in builds)) order[++families] = key
        builds[key]++
        names[key] = family; items[key] = n
        waves = ceil(n, 32) / 32
        by_registers = v > 0 ? int(1536 / ceil(v, 24)) : 16
        slots = by_registers < 16 ? by_registers : 16
        groups = int(2 * slots / waves); why = by_registers < 16 ? "VGPR" : "waves"
        if (lds > 0 && int(65536 / ceil(lds, 1024)) < groups) { groups = int(65536 / ceil(lds, 1024)); why = "LDS" }
        limit(key, why)
        note(key, "v", v); note(key, "s", field("sgpr")); note(key, "lds", lds); note(key, "scratch", field("scratch"))
        note(key, "vspill", field("vgpr spills")); note(key, "sspill", field("sgpr spills")); note(key, "waves", groups * waves / 2)
    }
    END {
        for (i = 1; i <= families; i++) {
            k = order[i]
            print "| `" names[k] "` | " builds[k] " | " items[k] " | " span(k, "v") " | " span(k, "s") " | " span(k, "lds") " | " span(k, "scratch") " | " \
                span(k, "vspill") " | " span(k, "sspill") " | " span(k, "waves") " | " limits[k] " |"
        }
    }' "$manifest"
}

loops() { # program
    echo '| kernel (weights) | instructions | of the launch | 16-byte loads | LDS | vector | with fma | dual | WMMA | vector per weight, launch | vector per weight or WMMA, loop | budget |'
    echo '|---|---|---|---|---|---|---|---|---|---|---|---|'
    "$1"
}

between() { # marker: what README has between its two lines
    awk -v from="<!-- $1 -->" -v to="<!-- end of $1 -->" '$0 == to { found = 1; exit } on { print } $0 == from { on = 1 } END { exit !(on && found) }' "$readme" || {
        echo "gfx11_sheet: $readme: no lines <!-- $1 --> and <!-- end of $1 -->" >&2
        exit 1
    }
}

compare() { # marker, file with what must be there
    between "$1" >"$tmp/there"
    diff -u "$tmp/there" "$2" >&2 || {
        echo "gfx11_sheet: $readme: $1: out of date; make gfx11-sheet" >&2
        exit 1
    }
}

replace() { # marker, file with what belongs there
    between "$1" >/dev/null
    awk -v from="<!-- $1 -->" -v to="<!-- end of $1 -->" -v file="$2" '$0 == to { on = 0 } !on { print } $0 == from { on = 1; while ((getline line < file) > 0) print line }' \
        "$readme" >"$tmp/readme"
    cmp -s "$tmp/readme" "$readme" || cat "$tmp/readme" >"$readme"
}

no_spills() {
    awk -F '\t' '
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
    $column["gfx hash"] == "-" { next }
    { n++ }
    $column["scratch"] != 0 || $column["vgpr spills"] != 0 || $column["sgpr spills"] != 0 {
        print "gfx11_sheet: " $1 ": " $column["scratch"] " bytes of scratch memory, " $column["vgpr spills"] " and " $column["sgpr spills"] " spilled registers, wanted none" > "/dev/stderr"
        bad = 1
    }
    END { if (!n) print "gfx11_sheet: no gfx1151 kernels in the MANIFEST" > "/dev/stderr"; exit bad || !n }' "$manifest"
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
resources >"$tmp/resources"
case ${1:-} in
check)
    compare 'resources of gfx1151 kernels' "$tmp/resources"
    [ $# = 1 ] || {
        loops "$2" >"$tmp/loops"
        compare 'inner loops of gfx1151 kernels' "$tmp/loops"
    }
    no_spills
    echo "gfx11_sheet: $(($(wc -l <"$tmp/resources") - 2)) lines, as in $manifest"
    ;;
write)
    loops "$2" >"$tmp/loops"
    replace 'resources of gfx1151 kernels' "$tmp/resources"
    replace 'inner loops of gfx1151 kernels' "$tmp/loops"
    ;;
*)
    echo "usage: gfx11_sheet.sh check [PROGRAM] | write PROGRAM" >&2
    exit 2
    ;;
esac
