#!/bin/sh
# What pip cannot bring: the venv module and a browser. Installed where apt and root exist;
# elsewhere it says what to install and goes on. Quick when everything is there.
# usage: machine.sh [PYTHON]
set -eu
python=${1:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "mintact: needs Python 3.11 or newer; name one with PYTHON=python3.12" >&2
  exit 2
}

missing=
"$python" -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
command -v chromium-headless-shell >/dev/null || missing="$missing chromium-headless-shell"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck disable=SC2086  # a list of names
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } \
    </dev/null >/dev/null && exit 0
fi
echo "mintact: please install$missing (web environments need the browser)" >&2
