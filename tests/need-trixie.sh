#!/bin/sh
# need-trixie.sh - Debian 13's glslc and spirv-val in build/trixie, which compile rows with cooperative matrices: Debian 12's do not know them.
# Nothing is installed. The packages come with all they need, C library included, and run through their own loader.
set -eu
cd "$(dirname "$0")/.."
dir=$PWD/build/trixie
root=$dir/root
unpacked() { # program, arguments
    program=$1
    shift
    "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/bin/$program" "$@"
}

# Every package counts as missing, so that apt fetches the whole closure.
fetch() {
    mirror=$(sed -n 's|^URIs: *\([^ ]*debian\)/*$|\1|p; s|^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*debian\)/* .*|\2|p' /etc/apt/sources.list /etc/apt/sources.list.d/* \
        2>/dev/null | head -n 1)
    mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial" "$root"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} trixie main" >"$dir/sources.list"
    : >"$dir/status"
    set -- -qq -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$dir/lists" \
        -o Dir::State::status="$dir/status" -o Dir::Cache="$dir/cache" -o APT::Sandbox::User=root -o Debug::NoLocking=true
    apt-get "$@" update
    apt-get "$@" --no-install-recommends --download-only -y install glslc spirv-tools libc6
    for p in "$dir"/cache/archives/*.deb; do
        dpkg-deb -x "$p" "$root"
    done
    rm -rf "$dir/cache" "$dir/lists"
}

[ -x "$root/usr/bin/glslc" ] || fetch
# A small shader with cooperative matrices must compile.
cat >"$dir/try.comp" <<'EOF'
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 32) in;
layout(set = 0, binding = 0) buffer mem { float16_t v[]; } m;
void main()
{
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
    coopMatLoad(a, m.v, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(a, m.v, 256, 16, gl_CooperativeMatrixLayoutRowMajor);
}
EOF
unpacked glslc --target-env=vulkan1.3 -O "$dir/try.comp" -o "$dir/try.spv"
unpacked spirv-val --target-env vulkan1.3 "$dir/try.spv"
unpacked glslc --version | head -n 1
