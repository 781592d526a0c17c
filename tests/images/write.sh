#!/usr/bin/env bash
# Writes the image jevmetrics-NAME:VERSION of a program: the program, the certificates of public authorities, nothing else.
#
#   write.sh NAME PROGRAM FOLDER        FOLDER/jevmetrics-NAME.tar
#
# What ships must be static. A program for tests may come from an ordinary build, or from Debian: then the libraries that
# it names go with it.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

(($# == 3)) || fail 'usage: write.sh NAME PROGRAM FOLDER'
name=jevmetrics-$1 program=$2 folder=$3
version=$(sed -n '/^\[workspace.package\]$/,/^\[/s/^version = "\(.*\)"$/\1/p' "$here/../../Cargo.toml")
certificates=/etc/ssl/certs/ca-certificates.crt
files=("/$name=$program" "$certificates=$certificates")

# Lines such as "libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x…)", and the loader without an arrow.
mapfile -t libraries < <(ldd "$program" 2>/dev/null |
    sed -n 's,^.* => \(/[^ ]*\) (.*$,\1,p; s,^\t\(/[^ ]*\) (.*$,\1,p')
if ((${#libraries[@]} > 0)); then
    [[ $1 == standins || $1 == redis ]] || fail "$program is not static: it wants ${libraries[*]}"
    for library in "${libraries[@]}"; do files+=("$library=$library"); done
    # What debuggers read is most of an ordinary build.
    small=$(mktemp)
    trap 'rm -f "$small"' EXIT
    strip --strip-debug -o "$small" "$program"
    files[0]=/$name=$small
fi

"$here/image.sh" "$name:$version" "$folder/$name.tar" "/$name" "${files[@]}"
printf '%s %s: %s bytes\n' "$name:$version" "$folder/$name.tar" "$(stat --format=%s "$folder/$name.tar")"
