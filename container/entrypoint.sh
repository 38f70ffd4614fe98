#!/bin/sh
# A user without a name or a home, or an image that is read-only: what has to be written goes to a temporary folder.
set -e
export LOGNAME="${LOGNAME:-user}"
if [ ! -w "${HOME:-/nonexistent}" ]; then
    HOME=$(mktemp -d)
    export HOME
fi
export XDG_CACHE_HOME="$HOME/.cache"
if [ ! -w "$NUMBA_CACHE_DIR" ]; then
    cp -R "$NUMBA_CACHE_DIR" "$HOME/kernels"
    export NUMBA_CACHE_DIR="$HOME/kernels"
fi
exec "$@"
