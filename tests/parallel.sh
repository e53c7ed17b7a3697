#!/bin/bash
# parallel.sh HAYATE - GNU parallel spreads the shards of a batch over machines by ssh; the machines are this one twice, through an sshd that is started
# here on a port of its own and stopped again. Run from the root of the repository. Not a part of `make check`; `make check-machines` runs it.
# Needs the packages parallel, openssh-server and openssh-client. The daemon is this user's own, and lets in one key that is made here.
set -u
hayate=$(realpath "$1")
dir=$(mktemp -d /tmp/hayate-ssh.XXXXXX)
sshd=
trap '[ -z "$sshd" ] || kill "$sshd" 2>/dev/null; wait 2>/dev/null; [ -z "${made:-}" ] || rmdir /run/sshd 2>/dev/null; rm -rf "$dir"' EXIT
unset HAYATE_MODEL
while read -r v; do unset "$v"; done < <(compgen -v SLURM_)
export VK_ICD_FILENAMES=/dev/null VK_DRIVER_FILES=/dev/null LC_ALL=C.UTF-8 PARALLEL_HOME=$dir/parallel
mkdir "$PARALLEL_HOME" && touch "$PARALLEL_HOME/will-cite"
cd "$dir" || exit 1
checks=0 failed=0
check() { # name, then a command that must succeed
    checks=$((checks + 1))
    local name=$1
    shift
    "$@" && return
    failed=$((failed + 1))
    echo "parallel: $name"
    [ ! -s stderr ] || sed 's/^/  /' stderr | head -8
}
same() { diff -r -x .hayate "$1" "$2" >difference || ! head -5 difference; }

# --- the daemon ---
port=$((20000 + $$ % 20000))
ssh-keygen -q -t ed25519 -N '' -f host && ssh-keygen -q -t ed25519 -N '' -f key && cp key.pub authorized
if [ "$(id -u)" = 0 ] && [ ! -d /run/sshd ]; then mkdir /run/sshd && made=yes; fi # sshd of root wants it
cat >sshd_config <<EOF
ListenAddress 127.0.0.1:$port
HostKey $dir/host
AuthorizedKeysFile $dir/authorized
PidFile $dir/sshd.pid
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
SetEnv VK_DRIVER_FILES=/dev/null VK_ICD_FILENAMES=/dev/null PATH=$dir/bin:/usr/bin:/bin
EOF
/usr/sbin/sshd -D -f "$dir/sshd_config" -E "$dir/sshd.log" &
sshd=$!
export PARALLEL_SSH="ssh -p $port -i $dir/key -o UserKnownHostsFile=$dir/known -o StrictHostKeyChecking=no -o LogLevel=ERROR"
for ((i = 0; i < 100; i++)); do $PARALLEL_SSH 127.0.0.1 true 2>/dev/null && break; sleep 0.1; done
$PARALLEL_SSH 127.0.0.1 true || { echo 'parallel: no ssh to this machine'; cat "$dir/sshd.log"; exit 1; }

# --- the pile and the plain run ---
mkdir bin reports && ln -s "$hayate" bin/hayate
export PATH=$dir/bin:$PATH
for i in $(seq 40); do
    printf 'page%d - print the %d-th line of a file\n' "$i" $((i * 7919 % 1000)) >"reports/$i.md"
done
hayate batch -q -n 200 -o plain reports 2>stderr
check 'the plain run' [ $? = 0 ]

# --- the recipe of README: two machines, a folder that both see ---
seq 16 | parallel --sshlogin 1/127.0.0.1,1/localhost --workdir . --joblog jobs \
    hayate batch -q -t 1 -n 200 --shard {}/16 -o summaries reports/ 2>stderr
check 'over ssh: all is well' [ $? = 0 ]
check 'over ssh: the plain run' same plain summaries
check 'both machines worked' [ "$(awk 'NR > 1 { print $2 }' jobs | sort -u | wc -l)" = 2 ]
check 'through the daemon' [ "$(grep -c 'Accepted publickey' sshd.log)" -ge 2 ]
seq 16 | parallel --sshlogin 1/127.0.0.1,1/localhost --workdir . hayate batch -t 1 -n 200 --shard {}/16 -o summaries reports/ 2>stderr
check 'again: nothing is left to do' sh -c "! grep -q ' decode ' stderr && [ \$(grep -c 'of them before' stderr) -ge 10 ]"

# --- a broken input: parallel counts one failed job, and does that one again ---
printf 'bad \377\n' >reports/bad.md
seq 16 | parallel --sshlogin 1/127.0.0.1,1/localhost --workdir . --joblog failed hayate batch -q -t 1 -n 200 --shard {}/16 -o summaries reports/ 2>stderr
check 'a broken input: one failed job' [ $? = 1 ]
check 'a broken input: its exit code' [ "$(awk 'NR > 1 && $7 != 0 { print $7 }' failed)" = 3 ]
printf 'page41 - no longer broken\n' >reports/bad.md
parallel --retry-failed --joblog failed --sshlogin 1/127.0.0.1,1/localhost --workdir . 2>stderr
check 'mended and tried again' [ $? = 0 ]
check 'its answer is there' [ -s summaries/bad.md.txt ]

echo "parallel.sh: $checks checks, $failed failed ($(parallel --version | head -n 1))"
[ "$failed" = 0 ]
