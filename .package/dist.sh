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
rm -rf build/dist && mkdir -p build/dist
.package/version.sh file >build/dist/.version
commit=$(git stash create)
git archive --format=tar -o "build/dist/$name.tar" --prefix="$name/" --add-file=build/dist/.version "${commit:-HEAD}"
gzip -9n "build/dist/$name.tar"
mv "build/dist/$name.tar.gz" build/
rm -r build/dist
echo "build/$name.tar.gz"
