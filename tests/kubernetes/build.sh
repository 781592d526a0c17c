#!/usr/bin/env bash
# build.sh NAME...: builds what is missing of the programs of a Kubernetes cluster, once for each state of their Go
# modules, outside the checkout. Prints the path of each, one a line, in the order asked.
#
# What $KUBEBUILDER_ASSETS holds (the convention of envtest) is taken from there. Each module has a folder of its
# own, so a change in one does not build the others anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

kubernetes=v1.36.3
helm=v3.22.0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/jevmetrics/kubernetes

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# look_up NAME: its module and its main package, and the flags of the linker.
look_up() {
    flags='-s -w'
    case $1 in
    etcd)
        module=etcd
        package=go.etcd.io/etcd/server/v3
        ;;
    kube-apiserver | kube-controller-manager | kube-scheduler | kubectl)
        module=control-plane
        package=k8s.io/kubernetes/cmd/$1
        flags+=" -X k8s.io/component-base/version.gitVersion=$kubernetes"
        ;;
    kubelet | kube-proxy)
        module=node
        package=k8s.io/kubernetes/cmd/$1
        flags+=" -X k8s.io/component-base/version.gitVersion=$kubernetes"
        ;;
    helm)
        module=helm
        package=helm.sh/helm/v3/cmd/helm
        flags+=" -X helm.sh/helm/v3/internal/version.version=$helm"
        # The Kubernetes that it renders for where it has no cluster to ask.
        flags+=' -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=36'
        ;;
    coredns | pause | probe)
        module=$1
        package=.
        ;;
    *) fail "nothing here is named $1" ;;
    esac
}

# locate NAME: where it is or will be.
locate() {
    local given=${KUBEBUILDER_ASSETS:+$KUBEBUILDER_ASSETS/$1} state
    if [[ -n $given && -x $given ]]; then
        path=$given
        return
    fi
    look_up "$1"
    # What the program is made of. Not of this file: words in it change more often than they do.
    state=$({
        printf '%s\n' "$flags"
        find "$module" -type f | LC_ALL=C sort | xargs cat
    } | sha256sum | cut -c1-16)
    path=$cache/$module-$state/$1
}

# build NAME
build() {
    locate "$1"
    if [[ -x $path ]]; then return; fi
    mkdir -p "${path%/*}"
    # Under another name until it is complete: an interrupted build is never taken for one.
    CGO_ENABLED=0 go -C "$module" build -trimpath -buildvcs=false -ldflags "$flags" -o "$path.$$" "$package" >&2
    mv "$path.$$" "$path"
}

# Read as a whole before it begins, so that an edit does not change a build that is under way.
main() {
    local name complete
    complete=yes
    for name in "$@"; do
        locate "$name"
        [[ -x $path ]] || complete=
    done
    if [[ -z $complete ]]; then
        PATH="$PATH:/usr/local/go/bin"
        command -v go >/dev/null || fail 'the cluster for tests is built with Go, which is missing: https://go.dev/dl'
        mkdir -p "$cache"
        # One at a time, and whoever waited finds it done.
        exec 9>"$cache/lock"
        flock 9
        for name in "$@"; do build "$name"; done
    fi
    for name in "$@"; do
        locate "$name"
        printf '%s\n' "$path"
    done
}

main "$@"; exit
