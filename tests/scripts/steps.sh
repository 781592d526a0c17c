# shellcheck shell=bash
# What the recipes of the Makefile share: steps, skips, set-up. Sourced by bash -euo pipefail in the checkout's root.
#
# A step is quiet unless it fails: its output goes to a log, V=1 shows it as well. What cannot be done here is
# skipped, never silently: skips are told when they happen and counted at the end.

: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
export HOME
PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
# Colours would hide the words by which progress is told.
export CARGO_TERM_COLOR=never

built=${CARGO_TARGET_DIR:-target}
logs=$built/logs
tools=${XDG_CACHE_HOME:-$HOME/.cache}/jevmetrics/tools
cargo_deny_version=0.20.2
skips=()
mkdir -p "$logs"

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# skip WHAT WHY
skip() {
    skips+=("$1: $2")
    printf '  skipped: %s: %s\n' "$1" "$2"
}

# step NAME COMMAND...: ends everything if it fails.
step() {
    attempt "$@" || fail "$1: '${*:2}' failed; the end of its output is above, all of it in $step_log"
}

# attempt NAME COMMAND...
attempt() {
    local name=$1 began=$SECONDS
    shift
    step_log=$logs/${name//[^A-Za-z0-9]/-}.log
    printf '%s\n' "$name"
    if "$@" 2>&1 </dev/null | follow "$step_log"; then
        if ((SECONDS - began > 1)); then printf '  %d s\n' $((SECONDS - began)); fi
    else
        if [[ -z ${V:-} ]]; then tail -n 400 "$step_log" >&2; fi
        return 1
    fi
}

# Writes a step's output to its log and says now and then how far it is.
follow() {
    local log=$1 line crates=0
    : >"$log"
    while IFS= read -r line || [[ -n $line ]]; do
        printf '%s\n' "$line" >>"$log"
        if [[ -n ${V:-} ]]; then
            printf '%s\n' "$line"
            continue
        fi
        if [[ $line =~ ^\ +(Compiling|Checking|Documenting)\  ]]; then
            crates=$((crates + 1))
            if ((crates % 50 == 0)); then printf '  %d crates\n' "$crates"; fi
        elif [[ $line =~ ^\ +Running\ (unittests\ )?([^\ ]+)\ \(.*/([^/]+)-[0-9a-f]+\)$ ]]; then
            printf '  %s: %s\n' "${BASH_REMATCH[3]}" "${BASH_REMATCH[2]}"
        fi
    done
}

# Adds up what cargo test printed in the step before; a test that is ignored or left out is a skip.
count_tests() {
    awk '/^test result: / { passed += $4; failed += $6; skipped += $8 + $12 }
        END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit passed == 0 }' "$step_log" ||
        fail 'no test was run'
}

# finish TARGET
finish() {
    printf '%s: done in %d s, %d skipped\n' "$1" "$SECONDS" "${#skips[@]}"
    local what
    for what in "${skips[@]}"; do printf '  skipped: %s\n' "$what"; done
}

# install_packages PACKAGE...: Debian's, as root. Fails if that cannot be done.
install_packages() {
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then return 1; fi
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# install_without_services PACKAGE...: as install_packages, and no service that they bring is started, now or at boot.
install_without_services() (
    policy=/usr/sbin/policy-rc.d
    if [[ $(id -u) == 0 && ! -e $policy ]]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    install_packages "$@" || exit
    if [[ -d /run/systemd/system ]]; then systemctl disable --now "$@"; fi
)

# The toolchain of rust-toolchain.toml, the linker, and make for the C code of two dependencies.
need_rust() {
    local wanted name
    command -v rustup >/dev/null || fail 'rustup is missing: install it as https://rustup.rs says'
    wanted=$(sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml)
    if ! toolchains | grep "^$wanted-" >/dev/null && [[ -z ${RUSTUP_TOOLCHAIN:-} ]]; then
        # The very same release under another name, such as stable, spares a download.
        for name in $(toolchains); do
            if is_complete "$name" "$wanted"; then
                export RUSTUP_TOOLCHAIN=$name
                break
            fi
        done
        if [[ -z ${RUSTUP_TOOLCHAIN:-} ]]; then
            step "Installing Rust $wanted" rustup toolchain install "$wanted" \
                --profile minimal --component clippy,rustfmt --no-self-update
        fi
    fi
    if ! command -v cc >/dev/null; then
        step 'Installing a C compiler' install_packages gcc libc6-dev make
    fi
}

# What a static program needs: the target of musl for the toolchain in use, and a C compiler for it.
need_static() {
    static_target=$(uname -m)-unknown-linux-musl
    # Everywhere the name that Debian gives it.
    export "CC_${static_target//-/_}=musl-gcc"
    if ! rustup target list --installed | grep -x "$static_target" >/dev/null; then
        step "Installing Rust for $static_target" rustup target add "$static_target"
    fi
    if ! command -v musl-gcc >/dev/null || [[ ! -e /etc/ssl/certs/ca-certificates.crt ]]; then
        step 'Installing a C compiler for static programs, and certificates' \
            install_packages ca-certificates musl-tools
    fi
}

# write_images PROFILE FOLDER: of what ships, FOLDER/jevmetrics-operator.tar and FOLDER/jevmetrics-dataplane.tar.
write_images() {
    local name
    need_static
    step 'Building static programs' cargo build --locked --profile "$1" --target "$static_target" \
        -p jevmetrics-operator -p jevmetrics-dataplane --bins
    for name in operator dataplane; do
        step "Writing the image jevmetrics-$name" \
            tests/images/write.sh "$name" "$built/$static_target/$1/jevmetrics-$name" "$2"
    done
}

# write_standins FOLDER: the image of the stand-ins, FOLDER/jevmetrics-standins.tar, from the build of the tests.
write_standins() {
    step 'Writing the image jevmetrics-standins' tests/images/write.sh standins "$built/debug/standins" "$1"
}

# write_redis FOLDER: the image of Debian's Redis, FOLDER/jevmetrics-redis.tar.
write_redis() {
    step 'Writing the image jevmetrics-redis' tests/images/write.sh redis "$(command -v redis-server)" "$1"
}

toolchains() {
    rustup toolchain list | cut -d' ' -f1
}

# is_complete TOOLCHAIN RELEASE
is_complete() {
    [[ $(rustc "+$1" --version 2>/dev/null) == "rustc $2 "* ]] &&
        cargo "+$1" clippy --version >/dev/null 2>&1 && cargo "+$1" fmt --version >/dev/null 2>&1
}

# cargo-deny in a folder outside the checkout; built once, in minutes, without the optimisations it comes with.
need_cargo_deny() {
    cargo_deny=$tools/cargo-deny-$cargo_deny_version/bin/cargo-deny
    if [[ -x $cargo_deny ]]; then return; fi
    step "Building cargo-deny $cargo_deny_version" env \
        -u CARGO_TARGET_DIR CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
        cargo install --locked --version "$cargo_deny_version" --root "${cargo_deny%/bin/*}" cargo-deny
}

# Valgrind counts instructions; without it a benchmark shows times only.
need_valgrind() {
    if command -v valgrind >/dev/null; then return; fi
    if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
        step 'Installing valgrind' install_packages valgrind
    else
        export BENCH_ALLOW_MISSING=1
        skip 'instruction counts' 'valgrind is missing, and installing it needs root and apt-get'
    fi
}

# Redis for tests, which start it themselves, and a library with which they set clocks wrong. What cannot be tested is
# named in left_out, arguments of the tests' own.
need_redis() {
    left_out=()
    if [[ -n ${JEVMETRICS_TEST_REDIS_ADDR:-} ]]; then
        skip 'faults of Redis, and TLS' "$JEVMETRICS_TEST_REDIS_ADDR was there before and is left as it is"
        left_out+=(--skip redis::faults)
    fi
    if ! compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null &&
        ! { can_install && attempt 'Installing libfaketime' install_packages libfaketime; }; then
        skip 'wrong clocks' 'libfaketime is missing and could not be installed'
        left_out+=(--skip wrong_clocks)
    fi
    if ! command -v redis-server >/dev/null &&
        ! { can_install && attempt 'Installing Redis' install_without_services redis-server; }; then
        skip 'all with Redis' 'redis-server is missing and could not be installed'
        left_out+=(--skip redis)
    fi
}

can_install() {
    [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null
}

# What a real node needs of this machine: programs of Debian's, and root and a kernel that let it be.
has_node() {
    local program packages=()
    for program in containerd runc iptables conntrack ethtool socat ip:iproute2 sysctl:procps; do
        command -v "${program%:*}" >/dev/null || packages+=("${program#*:}")
    done
    [[ -x /usr/lib/cni/bridge ]] || packages+=(containernetworking-plugins)
    if ((${#packages[@]} > 0)); then
        if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
            if ! attempt "Installing ${packages[*]}" install_packages "${packages[@]}"; then
                skip 'a real node' "${packages[*]} could not be installed"
                return 1
            fi
            # A node starts one of its own.
            if [[ " ${packages[*]} " == *' containerd '* && -d /run/systemd/system ]]; then
                step 'Stopping what that has started' systemctl disable --now containerd
            fi
        else
            skip 'a real node' "${packages[*]} missing, and installing needs root and apt-get"
            return 1
        fi
    fi
    has_go 'a real node' || return
    has_sandbox 'a real node'
}

# has_sandbox WHAT
has_sandbox() {
    local reason code=0
    # It says itself why it cannot.
    reason=$(tests/scripts/sandbox.sh true 2>&1) || code=$?
    case $code in
        0) ;;
        77)
            skip "$1" "${reason#no sandbox: }"
            return 1
            ;;
        *) fail "the sandbox does not work: $reason" ;;
    esac
}

# has_cluster: a real node can be, and all programs of a cluster are there, with the images of its own pods.
has_cluster() {
    has_node || return
    if ! attempt 'Building a Kubernetes cluster, once' tests/kubernetes/build.sh \
        etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kubelet kube-proxy helm ||
        ! attempt 'Building its images, once' tests/kubernetes/images.sh pause coredns probe; then
        skip 'a real node' 'what a cluster is made of could not be built'
        return 1
    fi
}

# The images of the product as tests take them, in half the time of those that ship, and that of the stand-ins.
test_images() {
    export JEVMETRICS_IMAGES=$PWD/$built/test-images
    [[ $built != /* ]] || JEVMETRICS_IMAGES=$built/test-images
    write_images image "$JEVMETRICS_IMAGES"
    write_standins "$JEVMETRICS_IMAGES"
    if command -v redis-server >/dev/null; then write_redis "$JEVMETRICS_IMAGES"; fi
}

# executable TEST: what the step before has built with cargo test --no-run.
executable() {
    local path
    path=$(sed -n "s|^ *Executable tests/$1/main.rs (\(.*\))\$|\1|p" "$step_log")
    [[ -x $path ]] || fail "cargo has named no executable of $1"
    printf '%s\n' "$path"
}

# has_go WHAT: Go builds what others have written in it.
has_go() {
    PATH="$PATH:/usr/local/go/bin"
    if ! command -v go >/dev/null; then
        skip "$1" 'Go is missing: https://go.dev/dl'
        return 1
    fi
}

# every_crate COMMAND...: runs it with -p for each crate, alone, so that no crate lives on the features of another.
every_crate() {
    local crate
    for crate in $(cargo tree --locked --workspace --depth 0 --prefix none | awk 'NF { print $1 }' | sort -u); do
        "$@" -p "$crate" -- -D warnings || return
    done
}
