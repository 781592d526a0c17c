#!/usr/bin/env bash
# Writes an image: an OCI layout in a tar, with one layer that holds the given files and nothing else. No engine and
# no registry is needed. The same input gives the same bytes.
#
#   image.sh NAME:TAG OUT.tar ENTRYPOINT CONTAINER_PATH=HOST_PATH...
#
#   files ──tar──▶ layer ──▶ config ──▶ manifest ──▶ index ──tar──▶ OUT.tar      each names the one before by its digest
#
# containerd imports it under the full name that NAME:TAG stands for in a pod. Programs run as user 65532, not as root.
set -euo pipefail
# One order of letters everywhere.
export LC_ALL=C

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# What containerd makes of a name in a pod: without a host it is one of the default registry's.
full_name() {
    case $1 in
        *.*/* | *:*/* | localhost/*) echo "$1" ;;
        */*) echo "docker.io/$1" ;;
        *) echo "docker.io/library/$1" ;;
    esac
}

architecture() {
    case $(uname -m) in
        x86_64) echo amd64 ;;
        aarch64) echo arm64 ;;
        *) fail "no image can be named for the architecture $(uname -m)" ;;
    esac
}

# archive FOLDER: as a tar on standard output that knows nothing of this machine: no user, no date, no order of a disk.
archive() (
    cd "$1"
    tar --create --format=ustar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' -- *
)

digest() {
    sha256sum "$1" | cut -d' ' -f1
}

# blob FILE: puts it where the layout wants it, and prints what refers to it.
blob() {
    local sum size
    sum=$(digest "$1")
    size=$(stat --format=%s "$1")
    mv "$1" "$layout/blobs/sha256/$sum"
    printf '"digest":"sha256:%s","size":%s' "$sum" "$size"
}

(($# >= 4)) || fail 'usage: image.sh NAME:TAG OUT.tar ENTRYPOINT CONTAINER_PATH=HOST_PATH...'
name=$1 out=$2 entrypoint=$3
shift 3
[[ $name =~ ^[a-z0-9./:_-]+:[A-Za-z0-9._-]+$ ]] || fail "$name must be NAME:TAG"
tag=${name##*:}

work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT
layout=$work/layout root=$work/root
mkdir -p "$layout/blobs/sha256" "$root"

for file in "$@"; do
    inside=${file%%=*} outside=${file#*=}
    [[ $inside == /* && $file == *=* ]] || fail "$file must be CONTAINER_PATH=HOST_PATH, the first one absolute"
    [[ -f $outside ]] || fail "$outside is not a file"
    mode=0644
    if [[ -x $outside ]]; then mode=0755; fi
    install -D --mode="$mode" "$outside" "$root$inside"
done
[[ -x $root$entrypoint ]] || fail "the entry point $entrypoint must be one of the files, and a program"

archive "$root" >"$work/layer"
diff_id=$(digest "$work/layer")
# Without its name and date, which gzip would write down.
gzip --no-name "$work/layer"
layer=$(blob "$work/layer.gz")

cat >"$work/config" <<JSON
{"created":"1970-01-01T00:00:00Z","architecture":"$(architecture)","os":"linux","config":{"User":"65532:65532","Entrypoint":["$entrypoint"],"WorkingDir":"/","Labels":{"org.opencontainers.image.title":"${name%:*}","org.opencontainers.image.version":"$tag"}},"rootfs":{"type":"layers","diff_ids":["sha256:$diff_id"]}}
JSON
config=$(blob "$work/config")

cat >"$work/manifest" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json",$config},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",$layer}]}
JSON
manifest=$(blob "$work/manifest")

cat >"$layout/index.json" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json",$manifest,"annotations":{"io.containerd.image.name":"$(full_name "$name")","org.opencontainers.image.ref.name":"$tag"}}]}
JSON
printf '{"imageLayoutVersion":"1.0.0"}\n' >"$layout/oci-layout"

mkdir -p "$(dirname "$out")"
# Under another name until it is complete: an interrupted one is never taken for an image.
archive "$layout" >"$out.part"
mv "$out.part" "$out"
