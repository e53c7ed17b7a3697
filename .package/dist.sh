#!/bin/sh
# dist.sh - build/hayate-VERSION.tar.gz: the tracked files of this checkout, changes included (the version says so), and .version.
# The same commit gives the same bytes.
set -eu
cd "$(dirname "$0")/.."
if [ ! -e .git ]; then
    echo "dist: this is no git checkout; a tarball is made in one" >&2
    exit 1
fi
name=hayate-$(.package/version.sh full)
epoch=$(.package/version.sh epoch)
mkdir -p build/dist
.package/version.sh file >build/dist/.version
commit=$(git stash create)
git archive --format=tar --mtime="@$epoch" --prefix="$name/" --add-file=build/dist/.version "${commit:-HEAD}" | gzip -9n >"build/$name.tar.gz.new"
mv "build/$name.tar.gz.new" "build/$name.tar.gz"
rm -r build/dist
echo "build/$name.tar.gz"
