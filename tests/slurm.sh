#!/bin/bash
# slurm.sh HAYATE - a Slurm of one node, started here and stopped again, runs an array job of four tasks: its union is the plain run. Run from the root
# of the repository. Not a part of `make check`; `make check-machines` runs it. Needs the packages slurm-wlm and munge; its daemons are this user's own,
# with their files in one folder and ports of their own, beside a Slurm that may be on this machine.
set -u
hayate=$(realpath "$1")
dir=$(mktemp -d /tmp/hayate-slurm.XXXXXX) # short: a socket has its name in 108 bytes
pids=()
finish() {
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null
    wait 2>/dev/null
    rm -rf "$dir"
}
trap finish EXIT
unset HAYATE_MODEL
while read -r v; do unset "$v"; done < <(compgen -v SLURM_)
export VK_ICD_FILENAMES=/dev/null VK_DRIVER_FILES=/dev/null LC_ALL=C.UTF-8 PATH=$PATH:/usr/sbin
checks=0 failed=0
check() { # name, then a command that must succeed
    checks=$((checks + 1))
    local name=$1
    shift
    "$@" && return
    failed=$((failed + 1))
    echo "slurm: $name"
}
give_up() {
    echo "slurm: $1" >&2
    tail -n 5 "$dir"/*.log >&2
    exit 1
}

# --- the daemons ---
chmod 755 "$dir"
mkdir -m 755 "$dir/state" "$dir/spool" "$dir/munge"
(umask 077 && head -c 128 /dev/urandom >"$dir/munge/key")
munged --foreground --force --socket="$dir/munge/socket" --key-file="$dir/munge/key" --pid-file="$dir/munge/pid" --seed-file="$dir/munge/seed" \
    --log-file="$dir/munge.log" >"$dir/munged.log" 2>&1 &
pids+=($!)
host=$(hostname -s) user=$(id -un) port=$((20000 + $$ % 20000))
cat >"$dir/slurm.conf" <<EOF
ClusterName=hayate
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/linuxproc
SlurmdParameters=config_overrides # four CPUs also where there are fewer
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=5
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
EOF
export SLURM_CONF=$dir/slurm.conf
for ((i = 0; i < 100; i++)); do [ -S "$dir/munge/socket" ] && break; sleep 0.1; done
slurmctld -D -f "$SLURM_CONF" >"$dir/ctld.out.log" 2>&1 &
pids+=($!)
slurmd -D -f "$SLURM_CONF" -N "$host" >"$dir/slurmd.out.log" 2>&1 &
pids+=($!)
for ((i = 0; i < 60; i++)); do [ "$(sinfo -h -o %T 2>/dev/null)" = idle ] && break; sleep 0.2; done
[ "$(sinfo -h -o %T 2>/dev/null)" = idle ] || give_up 'the node does not come up'

# --- the pile and the plain run ---
cd "$dir" || exit 1
mkdir -m 755 bin reports && ln -s "$hayate" bin/hayate
export PATH=$dir/bin:$PATH
for i in $(seq 40); do
    printf 'page%d - print the %d-th line of a file\n' "$i" $((i * 7919 % 1000)) >"reports/$i.md"
done
hayate batch -q -n 200 -o plain reports
check 'the plain run' [ $? = 0 ]

job() { # name of the script, options of sbatch: waits for the end; leaves $code
    sbatch --wait --output="$dir/$1.%a.out" "${@:2}" "$dir/$1" >"$dir/said" 2>&1
    code=$?
}
same() { diff -r -x .hayate "$1" "$2" >difference || ! head -5 difference; }

# --- the recipe of README ---
cat >summaries.sh <<'EOF'
#!/bin/sh
#SBATCH --array=0-3
#SBATCH --requeue
exec hayate batch -t 1 -n 200 -o summaries reports/
EOF
job summaries.sh
check "the array ends with $code, expected 0" [ "$code" = 0 ]
check 'the array is the plain run' same plain summaries
for id in 0 1 2 3; do
    check "task $id did its part" grep -qE "^hayate: shard $((id + 1))/4, Slurm array task $id: [1-9][0-9]* of 40 inputs" summaries.sh.$id.out
    check "task $id has its records" [ -s summaries/.hayate/records.$((id + 1))-of-4 ]
done
job summaries.sh
check 'the same array again: nothing is left to do' [ "$(cat summaries.sh.*.out | grep -c 'of them before')" = 4 -a "$code" = 0 ]

# --- steps in the ids, and a task alone, as after a failure ---
sed 's/summaries/steps/; s/0-3/10-16:2/' summaries.sh >steps.sh
job steps.sh
check 'an array with steps is the plain run' same plain steps
sed 's/summaries/gaps/; s/0-3/1,2,9/' summaries.sh >gaps.sh
job gaps.sh
check "an array with gaps is refused ($code)" [ "$code" != 0 -a ! -e gaps ]
check 'and says what to do' grep -q 'expected --array=A-B, or --shard K/N' gaps.sh.9.out
cat >one.sh <<'EOF'
#!/bin/sh
exec hayate batch -t 1 -n 200 -o one --shard "$SLURM_ARRAY_TASK_ID/4" reports/
EOF
job one.sh --array=3
check 'one task of an array by its number' [ "$(find one -name '*.txt' | wc -l)" = "$(wc -l <summaries/.hayate/records.3-of-4)" ]

# --- a broken input: the task that has it fails, the others do not ---
printf 'bad \377\n' >reports/bad.md
job summaries.sh
check "a broken input: sbatch --wait gives $code, expected 3" [ "$code" = 3 ]
check 'a broken input: one task names it' [ "$(grep -l 'reports/bad.md: not UTF-8' summaries.sh.*.out | wc -l)" = 1 ]
rm reports/bad.md

# --- cancelled in the middle, and started again ---
sed 's/-n 200/-n 200 --ignore-eos/; s/summaries/cut/; s/0-3/1-2/' summaries.sh >cut.sh
sbatch --parsable --output="$dir/cut.%a.out" cut.sh >id 2>&1
for ((i = 0; i < 300; i++)); do [ "$(find cut -name '*.txt' 2>/dev/null | wc -l)" -ge 2 ] && break; sleep 0.1; done
scancel "$(cat id)"
for ((i = 0; i < 300; i++)); do [ -z "$(squeue -h)" ] && break; sleep 0.1; done
check 'cancelled: a task says how to go on' grep -qE 'stopped after [0-9]+ of [0-9]+ inputs; start again to continue' cut.1.out cut.2.out
before=$(find cut -name '*.txt' | wc -l)
check 'cancelled in the middle' [ "$before" -lt 40 ]
hayate batch -q -n 200 --ignore-eos -o uncut reports
job cut.sh
check 'started again: the plain run' same uncut cut
check 'started again: took what was there' grep -qE '\([1-9][0-9]* of them before\)' cut.sh.1.out cut.sh.2.out

scontrol shutdown >/dev/null 2>&1
echo "slurm.sh: $checks checks, $failed failed ($(slurmctld -V))"
[ "$failed" = 0 ]
