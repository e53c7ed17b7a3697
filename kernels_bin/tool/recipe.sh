# shellcheck shell=sh disable=SC2034
# recipe.sh - how one row becomes one binary; read by row.sh and check.sh, in the root of the tree.
# The rows are in build/kernels/rows (ktool rows). A row is built for both targets, unless its defines say -DONLY_SPIRV or -DONLY_GFX.

out=build/kernels
ktool=$out/ktool
manifest=kernels_bin/MANIFEST.tsv
trixie=build/trixie/root
tab=$(printf '\t')

spirv_flags="--target-env=vulkan1.3 -fshader-stage=compute -O"
# The device libraries are not needed. cumode: no cache invalidation at fences; machine-sink moves cross-lane operations under branches.
gfx_flags="--cuda-device-only --offload-arch=gfx1151 -nogpulib -nogpuinc --no-gpu-bundle-output -std=c++17 -O3 -ffp-contract=off -mcumode \
-munsafe-fp-atomics -mllvm -disable-machine-sink"

load_row() { # id: sets source, defines, workgroup, grain, args, needs, options
    IFS=$tab read -r id source defines workgroup grain args needs <<EOF
$(grep "^$1$tab" $out/rows)
EOF
    options="-DWORKGROUP=$workgroup -DGRAIN=$grain -DKERNEL_ID=$id"
    [ "$defines" = - ] || options="$options $defines"
    matrix=$((needs & 1))
}

wanted() { # target: whether the row is built for it
    [ "$1" = spirv ] || [ -f gpu/lang/hip.h ] || return 1
    case "$1 $options " in
    spirv*" -DONLY_GFX "* | gfx1151*" -DONLY_SPIRV "*) return 1 ;;
    esac
}

binary_of() { # target id
    case $1 in
    spirv) echo "kernels_bin/spirv/$2.spv" ;;
    gfx1151) echo "kernels_bin/gfx1151/$2.co" ;;
    esac
}

head_of_glsl() {
    cat gpu/lang/glsl_head.glsl
    [ "$matrix" = 0 ] || cat gpu/lang/glsl_head_matrix.glsl
}

# What a binary is made from: hashed, so that everything that can change its bytes is in it.
# shellcheck disable=SC2086
preprocessed() { # target: to standard output
    case $1 in
    spirv)
        echo "$spirv_flags"
        head_of_glsl
        ${CC:-cc} -E -P -undef -nostdinc -x c -I. -DLANG_GLSL $options "$source"
        ;;
    gfx1151)
        echo "$gfx_flags"
        ${CC:-cc} -E -P -undef -nostdinc -x c -I. -DLANG_HIP $options "$source"
        ;;
    esac
}

# Matrix rows need a newer glslc than Debian 12's: tests/need-trixie.sh unpacks one, which runs through its own loader.
glslc_for_row() {
    if [ "$matrix" = 0 ]; then
        glslc "$@"
    else
        $trixie/lib64/ld-linux-x86-64.so.2 --library-path $trixie/usr/lib/x86_64-linux-gnu $trixie/usr/bin/glslc "$@"
    fi
}
spirv_val_for_row() {
    if [ "$matrix" = 0 ]; then
        spirv-val "$@"
    else
        $trixie/lib64/ld-linux-x86-64.so.2 --library-path $trixie/usr/lib/x86_64-linux-gnu $trixie/usr/bin/spirv-val "$@"
    fi
}

# One line that names the compiler exactly, or nothing where it is missing.
compiler_of() { # target
    case $1 in
    spirv) glslc_for_row --version 2>/dev/null | head -n 3 | tr '\n' ' ' | sed 's/ $//' ;;
    gfx1151) clang-19 --version 2>/dev/null | head -n 1 ;;
    esac
}

# shellcheck disable=SC2086
compile() { # target, output
    case $1 in
    spirv)
        text=$out/spirv/$id.comp
        {
            head_of_glsl
            ${CC:-cc} -E -P -undef -nostdinc -x c -I. -DLANG_GLSL $options "$source"
        } >"$text" || return 1
        if ! glslc_for_row $spirv_flags "$text" -o "$2" 2>"$text.err"; then
            explain_glsl
            return 1
        fi
        spirv_val_for_row --target-env vulkan1.3 --scalar-block-layout "$2"
        ;;
    gfx1151) clang-19 -x hip $gfx_flags -I. -DLANG_HIP $options "$source" -o "$2" ;;
    esac
}

# The message once more, with the file and line of the source.
# shellcheck disable=SC2086
explain_glsl() {
    {
        head_of_glsl
        echo '#extension GL_GOOGLE_cpp_style_line_directive : enable'
        ${CC:-cc} -E -undef -nostdinc -x c -I. -DLANG_GLSL $options "$source" | sed 's/^# \([0-9]* "[^"]*"\).*/#line \1/'
    } >"$text.lines"
    if glslc_for_row $spirv_flags "$text.lines" -o /dev/null 2>"$text.err2"; then cat "$text.err"; else cat "$text.err2"; fi >&2
}
