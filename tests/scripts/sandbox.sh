#!/usr/bin/env bash
# sandbox.sh COMMAND...: runs a command as root of a small world of its own that goes as a whole when the command ends:
# network, processes, mounts, cgroups, /run and temporary files. A Kubernetes node can run in it.
#
#   here: checks ─▶ cgroups ─▶ unshare ─▶ there: process 1: /sys, /run, bridge ─▶ COMMAND
#                                                    │
#   leftovers are told ◀─ cgroups removed ◀─ the end of process 1 kills everything there
#
# There is no way to the outside but the files of this machine: what the command needs is built before. Its temporary
# files, and what it writes to /var/lib and /var/log, are in memory. The bridge $JEVMETRICS_BRIDGE has the address
# $JEVMETRICS_NODE_ADDRESS and is the default route.
#
# Ends with the code of the command; with 77 and the reason if this machine cannot do it; with 76 if something is left
# although the command succeeded. Ctrl-C reaches the command; SIGTERM and SIGHUP end everything.
set -Eeuo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
name=jevmetrics-sandbox-$$
cannot=77
found=76

unable() {
    printf 'no sandbox: %s\n' "$*" >&2
    exit "$cannot"
}

# What a sandbox needs, found out before anything is made.
check_abilities() {
    local tool
    [[ $(uname -s) == Linux ]] || unable 'it needs Linux'
    [[ $(id -u) == 0 ]] || unable 'it needs root'
    for tool in unshare setpriv mount ip iptables-save sysctl; do
        command -v "$tool" >/dev/null || unable "$tool is missing"
    done
    unshare --net --mount --pid --cgroup --fork --kill-child --mount-proc true 2>/dev/null ||
        unable 'the kernel, or the container that this runs in, refuses new namespaces (unshare)'
    grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || unable 'the kernel has no overlay file system'
    [[ -d /proc/sys/net/bridge ]] || modprobe br_netfilter 2>/dev/null ||
        unable 'the kernel does not filter packets of bridges (br_netfilter)'
}

is_cgroup2() {
    [[ $(stat --file-system --format=%T /sys/fs/cgroup) == cgroup2fs ]]
}

# Where the command's cgroups are, a line for each hierarchy of version 1, below the one that we are in. Version 2 has
# one hierarchy; it gives controllers only to cgroups whose parent holds no process, which of ours only the root is
# sure to be.
cgroups() {
    local controllers path root mount
    if is_cgroup2; then
        printf '/sys/fs/cgroup/%s\n' "$name"
        return
    fi
    while IFS=: read -r _ controllers path; do
        # Of the mounts of this hierarchy the first: what it shows as its root, and where.
        read -r root mount < <(awk -v wanted="$controllers" '{
            for (i = 7; $i != "-"; i++) ;
            if (wanted == "" ? $(i + 1) == "cgroup2" : $(i + 1) == "cgroup" && index("," $(i + 3) ",", "," wanted ",")) {
                print $4, $5
                exit
            }
        }' /proc/self/mountinfo) || continue
        if [[ $root != / ]]; then path=${path#"$root"}; fi
        printf '%s\n' "$mount${path%/}/$name"
    done </proc/self/cgroup
}

make_cgroups() {
    local folder file
    for folder in "${folders[@]}"; do
        mkdir "$folder" 2>/dev/null || unable "cannot make the cgroup $folder"
        # Version 2 has what its parent hands on.
        if [[ -e $folder/cgroup.controllers && $(stat -f -c %T /sys/fs/cgroup) == cgroup2fs ]] &&
            ! grep -qw memory "$folder/cgroup.controllers"; then
            rmdir "$folder"
            unable "the cgroup $folder cannot limit memory"
        fi
        # Those of version 1 begin without any, and then take no process.
        for file in cpuset.cpus cpuset.mems; do
            if [[ -e $folder/$file && -z $(<"$folder/$file") ]] && ! is_cgroup2; then
                cat "${folder%/*}/$file" >"$folder/$file"
            fi
        done
    done
}

# Removes them with all that was made in them. What the kernel is still ending holds them for a moment.
remove_cgroups() {
    local folder deadline=$((SECONDS + 10))
    for folder in "${folders[@]}"; do
        while [[ -d $folder ]] && ((SECONDS < deadline)); do
            find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.05
        done
    done
}

# Those of sandboxes that were killed before they could do it.
remove_old_cgroups() {
    local folder old
    for folder in "${folders[@]}"; do
        for old in "${folder%/*}"/jevmetrics-sandbox-*; do
            if [[ -d $old ]] && ! grep -q sandbox.sh "/proc/${old##*-}/cmdline" 2>/dev/null; then
                find "$old" -depth -type d -exec rmdir {} + 2>/dev/null || true
            fi
        done
    done
}

# Becomes the parent of process 1. Killed with the shell that started it, and process 1 with it.
enter() {
    local folder
    for folder in "${folders[@]}"; do printf '%s\n' "$BASHPID" >"$folder/cgroup.procs"; done
    # shellcheck disable=SC2016  # expanded there
    local below='
        if [[ $(stat --file-system --format=%T /sys/fs/cgroup) == cgroup2fs ]]; then
            mkdir "$1/below"
            echo $$ >"$1/below/cgroup.procs"
        fi
        shift
        exec unshare --net --mount --pid --fork --kill-child --mount-proc "$@"'
    # The root of cgroups there is what we are in now. In version 2 it must hold no process, so we go below it.
    exec env --default-signal=INT,QUIT setpriv --pdeathsig KILL \
        unshare --cgroup bash -c "$below" bash "${folders[0]}" "$0" --inside "$@"
}

outside() {
    local child before status=0
    check_abilities
    # shellcheck source=tests/scripts/leftovers.sh
    source "$here/leftovers.sh"
    mapfile -t folders < <(cgroups)
    remove_old_cgroups
    before=$(traces "$name")
    trap remove_cgroups EXIT
    make_cgroups
    # A job in the background, for only waiting is interrupted by signals; it has the terminal all the same.
    enter "$@" <&0 &
    child=$!
    # Ctrl-C is the command's affair.
    trap : INT
    trap 'kill -KILL "$child" 2>/dev/null || true' TERM HUP
    while
        status=0
        wait "$child" 2>/dev/null || status=$?
        kill -0 "$child" 2>/dev/null
    do :; done
    remove_cgroups
    if ! tell_leftovers "$before" "$(traces "$name")" && ((status == 0)); then status=$found; fi
    exit "$status"
}

# What is left of options of a cgroup mount is what names its hierarchy.
hierarchy() {
    tr , '\n' <<<"$1" | grep -Evx 'rw|ro|nosuid|nodev|noexec|(no|rel)atime|xattr|clone_children|release_agent=.*' |
        paste --serial --delimiters=,
}

# Of the sandbox's network, and cgroup file systems whose roots are the sandbox's.
mount_sys() {
    local line lines two=
    if is_cgroup2; then two=yes; fi
    mapfile -t lines < <(awk '$3 == "cgroup" { print $2, $4 }' /proc/self/mounts)
    mount -t sysfs sysfs /sys
    if [[ $two ]]; then
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
        # Whoever misses one of them says so.
        for line in $(</sys/fs/cgroup/cgroup.controllers); do
            printf '+%s\n' "$line" >/sys/fs/cgroup/cgroup.subtree_control || true
        done
        return
    fi
    mount -t tmpfs -o mode=0755 tmpfs /sys/fs/cgroup
    for line in "${lines[@]}"; do
        mkdir -p "${line%% *}"
        mount -t cgroup -o "$(hierarchy "${line#* }")" cgroup "${line%% *}"
    done
}

# Folders that programs write to under names of their own.
mount_folders() {
    local folder over
    mount -t tmpfs -o mode=0755 tmpfs /run
    mkdir -m 1777 /run/lock /run/tmp
    export TMPDIR=/run/tmp
    for folder in /var/lib /var/log; do
        over=/run/over$folder
        mkdir -p "$over/upper" "$over/work"
        mount -t overlay -o "lowerdir=$folder,upperdir=$over/upper,workdir=$over/work" overlay "$folder"
    done
}

make_network() {
    export JEVMETRICS_BRIDGE=jevmetrics0 JEVMETRICS_NODE_ADDRESS=10.88.0.1
    ip link set lo up
    ip link add "$JEVMETRICS_BRIDGE" type bridge
    ip address add "$JEVMETRICS_NODE_ADDRESS/16" dev "$JEVMETRICS_BRIDGE"
    ip link set "$JEVMETRICS_BRIDGE" up
    # Else addresses of Services are unreachable before a rule can turn them into those of pods.
    ip route add default dev "$JEVMETRICS_BRIDGE"
    sysctl -qw net.ipv4.ip_forward=1
    # What one pod of the bridge sends to another by way of a Service comes back the same way.
    sysctl -qw net.bridge.bridge-nf-call-iptables=1
}

inside() {
    local status=0 what
    trap 'unable "cannot $what"' ERR
    what='mount /sys and cgroups'
    mount_sys
    what='mount /run, /var/lib and /var/log'
    mount_folders
    what='set up a network'
    make_network
    trap - ERR
    # Not in our place: process 1 gets no signal that it does not ask for, and has to wait for orphans.
    "$@" || status=$?
    exit "$status"
}

case ${1:-} in
    '') unable 'no command is given' ;;
    --inside)
        shift
        inside "$@"
        ;;
    *) outside "$@" ;;
esac
