#!/bin/sh
# Builds the Kubernetes control plane that the operator is tested against, once for each state of its modules,
# outside the checkout. Prints the folder of the binaries.
#
# A binary that $KUBEBUILDER_ASSETS holds (the convention of envtest) is not built: whoever asks takes it from there,
# and all others from the folder.
set -eu
cd "$(dirname "$0")"
kubernetes=v1.36.3
flags="-s -w -X k8s.io/component-base/version.gitVersion=$kubernetes"
# What the binaries are made of. Not of this file: words in it change more often than they do.
state=$({
    echo "$flags"
    cat ./*/go.mod ./*/go.sum
} | sha256sum | cut -c1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/jevmetrics/kubernetes-$kubernetes/$state

# is_there NAME
is_there() {
    [ -x "${KUBEBUILDER_ASSETS:+$KUBEBUILDER_ASSETS/$1}" ] || [ -x "$folder/$1" ]
}

# build MODULE PACKAGE NAME
build() {
    if is_there "$3"; then return; fi
    # Under another name until it is complete: an interrupted build is never taken for one.
    (cd "$1" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$folder/$3.$$" -ldflags "$flags" "$2" >&2)
    mv "$folder/$3.$$" "$folder/$3"
}

complete=yes
for name in etcd kube-apiserver kube-controller-manager kube-scheduler kubectl; do
    is_there "$name" || complete=
done
if [ -z "$complete" ]; then
    PATH="$PATH:/usr/local/go/bin"
    if ! command -v go >/dev/null; then
        echo 'the control plane for tests is built with Go, which is missing: https://go.dev/dl' >&2
        exit 1
    fi
    mkdir -p "$folder"
    # One at a time, and whoever waited finds it done.
    exec 9>"$folder/lock"
    flock 9
    build etcd go.etcd.io/etcd/server/v3 etcd
    for name in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
        build control-plane "k8s.io/kubernetes/cmd/$name" "$name"
    done
fi
echo "$folder"
