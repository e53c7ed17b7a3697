#!/bin/bash
# plot.sh OUT.svg FILE.jsonl... - speed of prompts and of generating against depth, from what `hayate bench --sweep ... -o jsonl` wrote: a line per file
# and test, with the spread of its runs. A file's name without .jsonl is its name in the plot.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: plot.sh OUT.svg FILE.jsonl..." >&2; exit 2; }
out=$1
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
prompt='' decode='' n=0
for file in "$@"; do
    name=$(basename "$file" .jsonl)
    while read -r test; do
        n=$((n + 1))
        jq -r --arg t "$test" 'select((.test | split(" ")[0]) == $t) | "\(.n_depth) \(.avg_ts) \(.stddev_ts)"' "$file" | sort -n >"$dir/$n"
        line="'$dir/$n' using 1:2:3 with yerrorlines pointtype 7 pointsize 0.4 title '$name $test' noenhanced"
        case $test in
        pp*) prompt="$prompt${prompt:+, }$line" ;;
        *) decode="$decode${decode:+, }$line" ;;
        esac
    done < <(jq -r '.test | split(" ")[0]' "$file" | sort -u)
done
[ "$n" -gt 0 ] || { echo "plot.sh: no results in $*" >&2; exit 1; }
{
    cat <<GNUPLOT
set terminal svg size 900,360 dynamic font 'sans-serif,12' background '#ffffff'
set output '$dir/svg'
set multiplot layout 1,2
set xlabel 'depth, tokens'
set ylabel 'tokens/s'
set yrange [0:*]
set grid lc rgb '#dddddd'
set key bottom left
GNUPLOT
    [ -z "$prompt" ] || printf "set title 'prompt'\nplot %s\n" "$prompt"
    [ -z "$decode" ] || printf "set title 'generating'\nplot %s\n" "$decode"
    echo 'unset multiplot'
} >"$dir/gp"
gnuplot "$dir/gp"
# Which gnuplot it was is no part of the picture
sed '/^<desc>/d' "$dir/svg" >"$out"
