#!/bin/sh
# version.sh header|full|epoch|maintainer|file - what this source is.
#
# A source tarball says it in .version, a checkout by its tag and commit: at a tag vX.Y.Z the version is X.Y.Z, after it X.Y.Z+gitDATE.COMMIT.
# "header" is that for C, "file" that as .version. In a checkout that git
# cannot read (not installed, another owner) it says what is known, and fails.
set -eu
cd "$(dirname "$0")/.."
base=0.1.0 # where there is no tag
commit=unknown date=$(date -u -r main.c +%F) epoch=$(date -r main.c +%s) maintainer='' short=$base full=$base+unknown known=0
if [ -f .version ]; then
    # shellcheck source=/dev/null
    . ./.version
elif [ -e .git ] && ! git log -1 >/dev/null; then
    known=1
elif [ -e .git ]; then
    commit=$(git describe --always --dirty --abbrev=10 --exclude='*')
    epoch=$(git log -1 --format=%ct)
    date=$(date -u -d "@$epoch" +%F)
    maintainer=$(git log -1 --format='%an <%ae>')
    tag=$(git describe --tags --abbrev=0 --match='v[0-9]*' 2>/dev/null || true)
    short=${tag:+${tag#v}}
    short=${short:-$base}
    full=$short
    if [ -z "$tag" ] || [ "$(git describe --tags --dirty --match='v[0-9]*')" != "$tag" ]; then
        full="$short+git$(date -u -d "@$epoch" +%Y%m%d).$(printf '%s' "$commit" | tr - .)"
    fi
fi
case ${1:-} in
header) printf '#define HAYATE_VERSION "%s"\n#define HAYATE_COMMIT "%s"\n#define HAYATE_DATE "%s"\n' "$short" "$commit" "$date" ;;
full) echo "$full" ;;
epoch) echo "$epoch" ;;
maintainer) echo "$maintainer" ;;
file) printf "short='%s' full='%s'\ncommit='%s' date='%s' epoch='%s'\nmaintainer='%s'\n" "$short" "$full" "$commit" "$date" "$epoch" \
    "$(printf '%s' "$maintainer" | tr -d \')" ;;
*)
    echo "usage: version.sh header|full|epoch|maintainer|file" >&2
    exit 2
    ;;
esac
exit $known
