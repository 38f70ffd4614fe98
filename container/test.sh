#!/usr/bin/env bash
# Builds the image without a registry of images, on a base made by debootstrap, and runs the quick workflow in it: another
# user, no network, the same bytes as outside. Needs root, buildah and debootstrap; WORK is a folder with 6 GB to spare.
#   container/test.sh WORK [FOLDER OF THE SAME RUN OUTSIDE]
set -euo pipefail
work=$(realpath -m "$1")
outside=${2:-}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$work"
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
buildah() { command buildah --root "$work/images" --runroot "$work/run" "$@"; }

if [ ! -d "$work/base" ]; then
    debootstrap --variant=minbase bookworm "$work/base" >"$work/debootstrap.log"
    rm -rf "$work"/base/var/cache/apt/* "$work"/base/var/lib/apt/lists/*
fi
base=$(buildah from scratch)
buildah copy -q "$base" "$work/base" / >/dev/null
buildah commit -q --rm "$base" elastiqueue-base >/dev/null

# The certificates of this machine, for pip: behind a proxy those of an image are not enough.
printf '[global]\ncert = /mnt/certificates.crt\n' >"$work/pip.conf"
settings=(--volume "$work/pip.conf:/etc/pip.conf:ro" --volume /etc/ssl/certs/ca-certificates.crt:/mnt/certificates.crt:ro)
buildah bud "${settings[@]}" --build-arg BASE=localhost/elastiqueue-base \
    -f container/Dockerfile -t elastiqueue . >"$work/build.log" 2>&1 || { tail -n 50 "$work/build.log"; exit 1; }

image=$(buildah from localhost/elastiqueue)
size=$(du -sm "$(buildah mount "$image")" | cut -f1)
echo "image: $size MB"
[ "$size" -lt 1000 ]
unshare --net -- env BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs buildah --root "$work/images" --runroot "$work/run" \
    run --user 54321:54321 "$image" -- /opt/elastiqueue/container/entrypoint.sh make quick
inside="$(buildah mount "$image")/opt/elastiqueue/results/quick"
test -s "$inside/claims.md"
if [ -n "$outside" ]; then
    for kind in data tables summaries; do diff -r "$outside/$kind" "$inside/$kind"; done
    for figure in "$outside"/*.pdf "$outside"/*.png; do cmp "$figure" "$inside/$(basename "$figure")"; done
    echo "the same bytes as outside"
fi
buildah rm "$image" >/dev/null
