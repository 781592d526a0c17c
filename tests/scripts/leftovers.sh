# shellcheck shell=bash
# What a sandbox could leave on this machine. Sourced by sandbox.sh.
#
# A trace is a line that names one thing. Processes and cgroups are the sandbox's own by name; of what others have as well,
# only what has come since counts.

# Folders that programs of a node write to under fixed names.
node_folders=(/run/containerd /run/runc /run/netns /run/xtables.lock /var/lib/containerd /var/lib/kubelet /var/lib/cni
    /var/log/pods /var/log/containers /etc/cni /opt/cni /opt/containerd /usr/libexec/kubernetes)

# traces NAME
traces() {
    local name=$1 folder pid command
    # One without a command line has ended and is only not waited for yet.
    { grep -lE "/$name(/|\$)" /proc/[0-9]*/cgroup 2>/dev/null || true; } | while IFS=/ read -r _ _ pid _; do
        command=$(tr '\0' ' ' <"/proc/$pid/cmdline") 2>/dev/null || true
        if [[ $command ]]; then printf 'process %s %s\n' "$pid" "$command"; fi
    done
    find /sys/fs/cgroup -type d \( -name "$name" -o -path "*/$name/*" \) -printf 'cgroup %p\n' 2>/dev/null || true
    awk '{ print "mount", $5 }' /proc/self/mountinfo
    ip -o link | sed 's/^[0-9]*: \([^:@]*\).*/link \1/'
    { iptables-save 2>/dev/null | grep '^-A' | sed 's/^/iptables rule /'; } || true
    for folder in "${node_folders[@]}"; do
        find "$folder" -maxdepth 3 -printf 'file %p\n' 2>/dev/null || true
    done
}

# tell_leftovers BEFORE AFTER: fails if there are any, and names them.
tell_leftovers() {
    local left
    left=$(comm -13 <(sort -u <<<"$1") <(sort -u <<<"$2"))
    if [[ -z $left ]]; then return; fi
    printf 'the sandbox has left:\n%s\n' "$left" >&2
    return 1
}
