#!/usr/bin/env bash
# What tests in a sandbox rely on: it tells how its command ended, it ends with all that is in it, and what would be left is
# found.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
sandbox=$here/sandbox.sh
# In the command line of a process of ours alone.
mark=987$$

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

running() {
    pgrep -x -f "sleep $mark" >/dev/null
}

# eventually WHAT COMMAND...
eventually() {
    local what=$1 tries
    shift
    for tries in {1..200}; do
        if "$@"; then return; fi
        sleep 0.05
    done
    fail "$what did not happen; $tries looks"
}

not() {
    ! "$@"
}

tells_the_code_of_its_command() {
    local code=0
    "$sandbox" bash -c 'exit 7' || code=$?
    ((code == 7)) || fail "the command ended with 7, the sandbox with $code"
}

ends_daemons() {
    "$sandbox" bash -c "setsid sleep $mark & sleep 0.1"
    not running || fail 'a daemon outlives its sandbox'
}

# ends_on SIGNAL: of the outermost process.
ends_on() {
    "$sandbox" bash -c "setsid sleep $mark & sleep $mark" &
    local outer=$!
    eventually 'the start' running
    kill -s "$1" "$outer"
    wait "$outer" 2>/dev/null && fail "after SIG$1 it says that all went well"
    eventually "the end after SIG$1" not running
    # What one that was killed could not remove, the next one does.
    eventually "the end of the cgroups after SIG$1" is_removed "$outer"
}

# is_removed SANDBOX
is_removed() {
    "$sandbox" true
    [[ -z $(find /sys/fs/cgroup -type d -name "jevmetrics-sandbox-$1" -print -quit) ]]
}

# In a sandbox, so that it goes again.
plant() {
    local before after told what name=jevmetrics-sandbox-planted folder=/sys/fs/cgroup
    # shellcheck source=tests/scripts/leftovers.sh
    source "$here/leftovers.sh"
    before=$(traces "$name")
    tell_leftovers "$before" "$(traces "$name")" || fail 'something is left of nothing'
    # Version 1 has a folder for each controller.
    if [[ -d $folder/memory ]]; then folder+=/memory; fi
    folder+=/$name
    mkdir "$folder"
    sleep "$mark" &
    echo $! >"$folder/cgroup.procs"
    mount -t tmpfs tmpfs /mnt
    ip link add planted type bridge
    iptables -A INPUT -s 192.0.2.1 -j DROP
    mkdir -p /run/containerd
    after=$(traces "$name")
    if told=$(tell_leftovers "$before" "$after" 2>&1); then fail 'nothing is found'; fi
    for what in 'process ' "cgroup .*/$name" 'mount /mnt' 'link planted' 'iptables rule -A INPUT -s 192.0.2.1' \
        'file /run/containerd'; do
        grep -q "^$what" <<<"$told" || fail "$what is not found among: $told"
    done
}

case ${1:-} in
    --plant) plant ;;
    *)
        tells_the_code_of_its_command
        ends_daemons
        ends_on TERM
        ends_on KILL
        "$sandbox" "$0" --plant
        ;;
esac
