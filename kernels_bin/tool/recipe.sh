# shellcheck shell=sh disable=SC2034
# recipe.sh - how one row becomes one binary; read by row.sh and rebuild.sh, in the root of the tree. build/kernels/status says what is to be done
# (ktool status).

out=build/kernels
ktool=$out/ktool
manifest=kernels_bin/MANIFEST.tsv
trixie=build/trixie/root
tab=$(printf '\t')
spirv_flags=$(cat kernels_bin/tool/spirv.flags)
# No device libraries. cumode: no cache is invalidated at fences inside a group. machine-sink would move cross-lane operations under branches.
gfx_flags=$(cat kernels_bin/tool/gfx1151.flags)

load_row() { # id: sets source, defines, workgroup, grain, args, matrix, options, and state and hash of the targets
    IFS=$tab read -r id source defines workgroup grain args needs spirv_state spirv_hash gfx_state gfx_hash <<EOF
$(grep "^$1$tab" $out/status)
EOF
    options="-DWORKGROUP=$workgroup -DGRAIN=$grain -DKERNEL_ID=$id"
    [ "$defines" = - ] || options="$options $defines"
    matrix=$((needs & 1))
}

binary_of() { # target
    case $1 in
    spirv) echo "kernels_bin/spirv/$id.spv" ;;
    gfx1151) echo "kernels_bin/gfx1151/$id.co" ;;
    esac
}

# Matrix rows need a newer glslc than Debian 12's: tests/need-trixie.sh unpacks one, which runs through its own loader.
for_row() { # program, arguments
    if [ "$matrix" = 0 ]; then
        "$@"
    else
        program=$1
        shift
        $trixie/usr/lib64/ld-linux-x86-64.so.2 --library-path $trixie/usr/lib/x86_64-linux-gnu "$trixie/usr/bin/$program" "$@"
    fi
}

# One line that names the compiler exactly, or nothing where it is missing.
compiler_of() { # target
    case $1 in
    spirv) for_row glslc --version 2>/dev/null | head -n 3 | tr '\n' ' ' | sed 's/ $//' ;;
    gfx1151) clang-19 --version 2>/dev/null | head -n 1 ;;
    esac
}

head_of_glsl() {
    cat gpu/lang/glsl_head.glsl
    [ "$matrix" = 0 ] || cat gpu/lang/glsl_head_matrix.glsl
}

# shellcheck disable=SC2086
compile() { # target, output
    case $1 in
    spirv)
        text=$2.comp
        {
            head_of_glsl
            ${CC:-cc} -E -P -undef -nostdinc -x c -I. -DLANG_GLSL $options "$source"
        } >"$text" || return 1
        if ! for_row glslc $spirv_flags "$text" -o "$2" 2>"$text.err"; then
            explain_glsl
            return 1
        fi
        for_row spirv-val --target-env vulkan1.3 --scalar-block-layout "$2"
        ;;
    gfx1151) clang-19 -x hip $gfx_flags -I. -DLANG_HIP $options "$source" -o "$2" ;;
    esac
}

# The messages of glslc once more, with the files and lines of the source.
# shellcheck disable=SC2086
explain_glsl() {
    {
        head_of_glsl
        echo '#extension GL_GOOGLE_cpp_style_line_directive : enable'
        ${CC:-cc} -E -undef -nostdinc -x c -I. -DLANG_GLSL $options "$source" | sed 's/^# \([0-9]* "[^"]*"\).*/#line \1/'
    } >"$text.lines"
    if for_row glslc $spirv_flags "$text.lines" -o /dev/null 2>"$text.err2"; then cat "$text.err"; else cat "$text.err2"; fi >&2
}
