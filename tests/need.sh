#!/bin/sh
# need.sh PACKAGE... - installs the Debian packages that are missing when run as root, else says which command would.
set -u
missing=
for p in "$@"; do
    dpkg-query -W -f '${Status}\n' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "need:$missing (Debian package names); install what matches on this system" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "missing packages; run:  sudo apt-get install$missing" >&2
    exit 1
fi
echo "installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
apt-get install -y --no-install-recommends $missing >/dev/null 2>&1 && exit 0
# shellcheck disable=SC2086
apt-get update >/dev/null && apt-get install -y --no-install-recommends $missing >/dev/null
