#!/bin/bash
# package.sh - the tarball builds without a network, and the Debian package runs the demo in a clean Debian. Run from the root of the repository, as
# root; needs the Debian mirror of this machine and some minutes. `make check-package` runs it. KEEP=1 keeps the clean root.
set -u
[ "$(id -u)" = 0 ] || { echo "package: a clean root needs root" >&2; exit 1; }
mkdir -p build
dir=$(mktemp -d "$PWD/build/package.XXXXXX")
trap '[ -n "${KEEP:-}" ] || rm -rf --one-file-system "$dir"' EXIT
unset HAYATE_MODEL
export LC_ALL=C.UTF-8 VK_ICD_FILENAMES=/dev/null VK_DRIVER_FILES=/dev/null
checks=0 failed=0
check() { # name, then a command that must succeed
    checks=$((checks + 1))
    local name=$1
    shift
    "$@" && return
    failed=$((failed + 1))
    echo "package: $name"
}
is() { check "$1: found '$2', expected '$3'" [ "$2" = "$3" ]; }

make -s hayate || exit 1
want=$(./hayate -q tests/data/sample-page.txt)
check 'the demo answers' [ -n "$want" ]

# --- the tarball: unpacked elsewhere, built where there is no network and no git ---
if [ -e .git ]; then
    tarball=$(.package/dist.sh)
    [ -n "$(git status --porcelain -uno)" ] || check 'the tarball is the same again' sh -c "cp '$tarball' '$dir/first.tar.gz' && .package/dist.sh >/dev/null && cmp '$tarball' '$dir/first.tar.gz'"
    tar -xzf "$tarball" -C "$dir"
    source=$dir/$(basename "$tarball" .tar.gz)
    check 'no .git in it' [ -d "$source" -a ! -e "$source/.git" ]
    check 'it builds offline' unshare -n make -s -C "$source" -j2 hayate >"$dir/built" 2>&1
    is 'its answer' "$("$source/hayate" -q tests/data/sample-page.txt)" "$want"
    is 'its version' "$("$source/hayate" --version)" "$(./hayate --version)"
    is 'its package version' "$("$source/.package/version.sh" full)" "$(.package/version.sh full)"
    rm -rf "$source"
fi

# --- the package ---
deb=$(.package/deb.sh)
lintian --allow-root "$deb" >"$dir/lintian" 2>&1
is 'lintian' "$?" 0
is 'errors of lintian' "$(grep -c '^E:' "$dir/lintian")" 0
cat "$dir/lintian"
cp "$deb" "$dir/first.deb"
.package/deb.sh >/dev/null
check 'the package is the same again' cmp "$deb" "$dir/first.deb"
check 'what it depends on was found' sh -c "dpkg-deb -f '$deb' Depends | grep -q libjansson4"

# --- a clean root: nothing but what debootstrap makes of the release of this machine ---
. /etc/os-release
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | sed -nE 's/^(URIs:|deb) +(\[[^]]*\] +)?(https?:[^ ]+).*/\3/p' | grep -v security | head -n 1)
root=$dir/root
debootstrap --variant=minbase "$VERSION_CODENAME" "$root" "${mirror:-http://deb.debian.org/debian}" >"$dir/debootstrap" 2>&1 ||
    { tail -5 "$dir/debootstrap"; echo 'package: no clean root'; exit 1; }
if [ -d /etc/apt/apt.conf.d ]; then grep -rhi 'proxy' /etc/apt/apt.conf.d >"$root/etc/apt/apt.conf.d/90proxy"; fi
cp "$deb" "$root/tmp/hayate.deb"
cp tests/data/sample-page.txt "$root/tmp/"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 "$@"; }
inside sh -c 'find /usr /etc /opt -path /usr/share/doc -prune -o -type f -print' | sort >"$dir/before"
check 'nothing of hayate is there' sh -c "! grep -q hayate '$dir/before'"
check 'apt installs it' inside apt-get install -y --no-install-recommends /tmp/hayate.deb >"$dir/apt" 2>&1
is 'the demo in the clean root' "$(inside setpriv --reuid=65534 --regid=65534 --clear-groups hayate -q /tmp/sample-page.txt)" "$want"
is 'its version' "$(inside hayate --version)" "$(./hayate --version)"
is 'backends without any driver' "$(inside hayate info --devices | grep -c '^cpu ')" 1
inside sh -c 'mkdir /tmp/in && cp /tmp/sample-page.txt /tmp/in/a.txt && cp /tmp/sample-page.txt /tmp/in/b.txt && cd /tmp && hayate batch -q -o out in'
is 'batch in the clean root' "$(cat "$root/tmp/out/a.txt.txt")" "$want"
check 'its files are whole' inside dpkg --verify hayate
check 'apt removes it' inside apt-get purge -y hayate >"$dir/apt" 2>&1
check 'nothing of it is left' sh -c "! find '$root/usr' '$root/etc' '$root/var/lib/dpkg/info' -iname '*hayate*' | grep ."

echo "package.sh: $checks checks, $failed failed"
[ "$failed" = 0 ]
