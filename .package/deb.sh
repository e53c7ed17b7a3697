#!/bin/sh
# deb.sh - build/hayate_VERSION_ARCH.deb from build/release/hayate, which `make deb` has built.
#
# What it depends on is what dpkg-shlibdeps finds in the program; the Vulkan loader is opened at run time, so it is recommended only. The maintainer
# is who builds it: DEBFULLNAME and DEBEMAIL as for Debian's own tools, else the author of the commit. The same program gives the same bytes.
set -eu
cd "$(dirname "$0")/.."
version=$(.package/version.sh full)
arch=$(dpkg --print-architecture)
SOURCE_DATE_EPOCH=$(.package/version.sh epoch)
export SOURCE_DATE_EPOCH
maintainer=$(.package/version.sh maintainer)
if [ -n "${DEBEMAIL:-}" ]; then maintainer="${DEBFULLNAME:-hayate packager} <$DEBEMAIL>"; fi
stage=build/deb root=build/deb/root doc=build/deb/root/usr/share/doc/hayate
rm -rf "$stage"
mkdir -p "$root/DEBIAN" "$stage/debian"
make --no-print-directory install DESTDIR="$PWD/$root" PREFIX=/usr ZSHDIR=/usr/share/zsh/vendor-completions >/dev/null
strip --remove-section=.comment --remove-section=.note "$root/usr/bin/hayate"
gzip -9n "$root/usr/share/man/man1/hayate.1"
{
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n'
    printf 'Upstream-Name: hayate\n\nFiles: *\n%s\nLicense: Expat\n' "$(sed -n 's/^Copyright (c)/Copyright:/p' LICENSE)"
    sed -n '/^Permission/,$ s/^/ /p' LICENSE | sed 's/^ $/ ./'
} >"$doc/copyright"
rm "$doc/LICENSE"
gzip -9n >"$doc/changelog.gz" <<EOF
hayate ($version) unstable; urgency=medium

  * Built from commit $(sed -n 's/.*HAYATE_COMMIT "\(.*\)"/\1/p' build/release/version.h).

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
EOF
printf 'Source: hayate\n\nPackage: hayate\nArchitecture: any\n' >"$stage/debian/control"
depends=$(cd "$stage" && dpkg-shlibdeps -O root/usr/bin/hayate | sed -n 's/^shlibs:Depends=//p')
cat >"$root/DEBIAN/control" <<EOF
Package: hayate
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f 1)
Depends: $depends
Recommends: libvulkan1
Suggests: bash-completion
Section: science
Priority: optional
Description: summaries of documents by the language model Qwen3.8-Flash-Next
 One program that runs Qwen3.8-Flash-Next from a GGUF file: documents in,
 answers out, on the CPU or on a GPU through Vulkan, without a server, Python
 or a network. A pile of documents is answered with one load, and continues
 where it was stopped.
 .
 A toy model is built in, so that the program can be tried on a fresh machine.
EOF
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
chmod -R u=rwX,go=rX "$root"
dpkg-deb --root-owner-group -Zxz --build "$root" "build/hayate_${version}_$arch.deb" >/dev/null
rm -rf "$stage"
echo "build/hayate_${version}_$arch.deb"
