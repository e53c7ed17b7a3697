#!/bin/bash
# system.sh HAYATE [short] - the program as a part of a system: manual page, completions, install and uninstall, version. Run from the root of the repository.
. tests/check.sh # short: without install, which is about the release build
commands='run batch bench eval info tokenize split selftest'

is() { # name, found, expected
    check "$1" [ "$2" = "$3" ]
}

# --- the version names the kernels ---
version=$("$hayate" --version)
hash=$(sed -nE 's/.*kernels: [0-9]+ \(manifest ([0-9a-f]{16})\).*/\1/p' <<<"$version")
is 'hash of the manifest' "$hash" "$(xxhsum -H3 <kernels_bin/MANIFEST.tsv | grep -oE '[0-9a-f]{16}')"
is 'number of kernels' "$(sed -nE 's/.*kernels: ([0-9]+) .*/\1/p' <<<"$version")" "$(($(wc -l <kernels_bin/MANIFEST.tsv) - 1))"

# --- the manual page ---
"$hayate" help --man >"$dir/hayate.1"
lint=$(mandoc -T lint "$dir/hayate.1" 2>&1 | grep -v '^mandoc: outdated mandoc.db')
is 'mandoc -T lint' "$lint" ''
mandoc -T ascii "$dir/hayate.1" | col -b >"$dir/page"
options_of() { # what --help shows
    "$hayate" help "$1" | sed -nE 's/^  (-[^ ,]+(, -[^ ,]+)*).*/\1/p' | tr -d ' ' | tr , '\n' | sort -u
}
for c in $commands; do
    check "the page has $c" grep -qE "^ +$c +" "$dir/page"
    check "help $c shows options" [ "$(options_of "$c" | wc -l)" -ge 2 ]
    missing=$(options_of "$c" | while read -r o; do grep -qE -- "^ .*(^| |,)$o([ ,]|$)" "$dir/page" || echo "$o"; done)
    is "options of $c that the page lacks" "$missing" ''
done
for word in HAYATE_MODEL SLURM_ARRAY_TASK_ID 'EXIT STATUS' '130 and 143' EXAMPLES .hayate/records; do
    check "the page has $word" grep -qF "$word" "$dir/page"
done
check 'the date of the page' grep -qE '(January|February|March|April|May|June|July|August|September|October|November|December) [0-9]+, 20[0-9][0-9]' "$dir/page"
"$hayate" help --man more >/dev/null 2>"$dir/err"
is 'help --man takes nothing more' $? 2

# --- bash ---
"$hayate" help --bash >"$dir/hayate.bash"
check 'bash: syntax' bash -n "$dir/hayate.bash"
check 'bash: shellcheck' shellcheck -s bash "$dir/hayate.bash"
mkdir -p "$dir/files/folder" && touch "$dir/files/m.gguf" "$dir/files/two words.txt" "$dir/files/list"
in_bash() { # words, the last one is completed: the candidates, sorted, with | between
    (cd "$dir/files" && bash --norc -c '
        . ../hayate.bash
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _hayate
        printf "%s\n" "${COMPREPLY[@]}"' - "$@" | LC_ALL=C sort | paste -s -d '|')
}
is 'bash: a command' "$(in_bash hayate ba)" 'batch'
is 'bash: commands and files' "$(in_bash hayate '')" 'batch|bench|eval|folder|help|info|list|m.gguf|run|selftest|split|tokenize|two words.txt'
is 'bash: one option' "$(in_bash hayate batch --sha)" '--shard'
is 'bash: words' "$(in_bash hayate --long '')" 'head-tail|refuse|split'
is 'bash: words after =' "$(in_bash hayate bench --backend = v)" 'vulkan'
is 'bash: words of a list' "$(in_bash hayate bench --kv '')" 'f16|f32|q8_0'
is 'bash: a model' "$(in_bash hayate -m '')" 'folder|m.gguf'
is 'bash: a folder' "$(in_bash hayate batch -o '')" 'folder'
is 'bash: another -o' "$(in_bash hayate bench -o '')" 'csv|json|jsonl|md'
is 'bash: a list' "$(in_bash hayate batch @l)" '@list'
is 'bash: a value' "$(in_bash hayate -n '')" ''
is 'bash: a file' "$(in_bash hayate run tw)" 'two words.txt'
is 'bash: help' "$(in_bash hayate help --)" '--bash|--man|--zsh'
for c in $commands; do
    is "bash: options of $c" "$(in_bash hayate "$c" - | tr '|' '\n' | grep -vx -- --version | LC_ALL=C sort | paste -s -d ' ')" \
        "$(options_of "$c" | LC_ALL=C sort | paste -s -d ' ')"
done

# --- zsh, at a terminal of its own: keys in, the line after them out ---
mkdir "$dir/fpath" "$dir/zdot"
"$hayate" help --zsh >"$dir/fpath/_hayate"
check 'zsh: syntax' zsh -n "$dir/fpath/_hayate"
cat >"$dir/zsh-cases" <<'EOF'
hayate ba|hayate batch
hayate batch --sha|hayate batch --shard
hayate --long h|hayate --long head-tail
hayate -m m|hayate -m m.gguf
hayate batch -o f|hayate batch -o folder/
hayate bench -o m|hayate bench -o md
hayate run tw|hayate run two\ words.txt
hayate split --sha|hayate split --sha
EOF
# shellcheck disable=SC2016 # the script is zsh's
(cd "$dir/files" && TERM=dumb timeout 120 zsh -f -c '
    wait_for() { for ((i = 0; i < 600; i++)); do [[ -e $1 ]] && return; zpty -r -t shell x; sleep 0.05; done }
    zmodload zsh/zpty
    zpty shell "zsh -f -i"
    zpty -w shell "fpath=($1/fpath \$fpath); autoload -Uz compinit; compinit -u -d $1/zdot/dump"
    zpty -w shell "said() { print -r -- \$BUFFER >$1/line.new; mv $1/line.new $1/line; BUFFER= }; zle -N said; bindkey ^Xs said"
    zpty -w shell "setopt no_list_ambiguous no_auto_menu no_beep; : >$1/ready"
    wait_for $1/ready
    while IFS="|" read -r typed want; do
        zpty -n -w shell "$typed"$'\''\t\C-Xs'\''
        wait_for $1/line
        cat $1/line >>$1/lines
        rm $1/line
    done <$1/zsh-cases
    zpty -d shell' - "$dir" >/dev/null 2>&1)
sed -i 's/ *$//' "$dir/lines"
while IFS='|' read -r typed want <&3 && { IFS= read -r got <&4 || got=nothing; }; do
    is "zsh: $typed" "$got" "$want"
done 3<"$dir/zsh-cases" 4<"$dir/lines"
is 'zsh: lines' "$(wc -l <"$dir/lines")" "$(wc -l <"$dir/zsh-cases")"

# --- install and uninstall ---
if [ "$size" != short ]; then
    to="$dir/a root"
    check 'make install' make -s install DESTDIR="$to" PREFIX=/opt/h >"$dir/said" 2>&1
    files=$(cd "$to" && find . -type f -printf '%m %P\n' | LC_ALL=C sort)
    is 'what is installed' "$files" "644 opt/h/share/bash-completion/completions/hayate
644 opt/h/share/doc/hayate/LICENSE
644 opt/h/share/doc/hayate/README.md
644 opt/h/share/man/man1/hayate.1
644 opt/h/share/zsh/site-functions/_hayate
755 opt/h/bin/hayate"
    is 'the installed program' "$("$to/opt/h/bin/hayate" --version)" "$("$hayate" --version)"
    check 'the installed page' cmp -s "$dir/hayate.1" "$to/opt/h/share/man/man1/hayate.1"
    check 'the installed completion of zsh' cmp -s "$dir/fpath/_hayate" "$to/opt/h/share/zsh/site-functions/_hayate"
    # bash-completion finds the file by the name of the command
    is 'bash-completion loads it' "$(XDG_DATA_DIRS="$to/opt/h/share" bash --norc -c '. /usr/share/bash-completion/bash_completion; _completion_loader hayate; complete -p hayate' 2>&1)" \
        'complete -F _hayate hayate'
    touch "$to/opt/h/share/man/man1/other.1"
    check 'make uninstall' make -s uninstall DESTDIR="$to" PREFIX=/opt/h >"$dir/said" 2>&1
    is 'what uninstall leaves' "$(cd "$to" && find . -type f -o -name hayate)" './opt/h/share/man/man1/other.1'
    check 'make uninstall again' make -s uninstall DESTDIR="$to" PREFIX=/opt/h >"$dir/said" 2>&1
fi

finish
