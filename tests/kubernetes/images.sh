#!/usr/bin/env bash
# images.sh NAME...: images of programs that build.sh knows, outside the checkout, each written once for each state of its
# program. Prints the path of each, one a line, in the order asked. Image NAME is named jevmetrics.test/NAME:1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

writer=../images/image.sh
cache=${XDG_CACHE_HOME:-$HOME/.cache}/jevmetrics/kubernetes

# write NAME PROGRAM
write() {
    local state image
    # The program by path, size and date: reading it all would take longer.
    state=$({
        stat --format='%n %s %Y' "$2"
        cat "$writer"
    } | sha256sum | cut -c1-16)
    image=$cache/images-$state/$1.tar
    if [[ ! -f $image ]]; then "$writer" "jevmetrics.test/$1:1" "$image" "/$1" "/$1=$2" >&2; fi
    printf '%s\n' "$image"
}

mapfile -t programs < <(./build.sh "$@")
# A failed build has said why.
((${#programs[@]} == $#)) || exit 1
for name in "$@"; do
    write "$name" "${programs[0]}"
    programs=("${programs[@]:1}")
done
