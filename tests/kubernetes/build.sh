#!/bin/sh
# Builds the Kubernetes control plane that the operator is tested against, once for each state of this folder,
# outside the checkout. Prints the folder of the binaries.
#
# What $KUBEBUILDER_ASSETS holds (the convention of envtest) is taken from there and not built.
set -eu
cd "$(dirname "$0")"
kubernetes=v1.36.3
state=$(cat build.sh */go.mod */go.sum | sha256sum | cut -c1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/jevmetrics/kubernetes-$kubernetes/$state
mkdir -p "$folder"

# build MODULE PACKAGE
build() {
    name=${2##*/}
    case $name in v[0-9]*) name=etcd ;; esac
    given=${KUBEBUILDER_ASSETS:+$KUBEBUILDER_ASSETS/$name}
    if [ -n "$given" ] && [ -x "$given" ]; then
        return
    fi
    if [ -x "$folder/$name" ]; then return; fi
    # Under another name until it is complete: an interrupted build is never taken for one.
    (cd "$1" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$folder/$name.$$" \
        -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$kubernetes" "$2" >&2)
    mv "$folder/$name.$$" "$folder/$name"
}

build etcd go.etcd.io/etcd/server/v3
for command in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
    build control-plane "k8s.io/kubernetes/cmd/$command"
done
echo "$folder"
