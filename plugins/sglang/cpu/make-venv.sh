#!/bin/sh
# An environment in which SGLang serves on a CPU, slowly: enough to check protocols, not to train.
#   make-venv.sh DIRECTORY [PYTHON]
# About five minutes, 3.5 GB. A second call only installs what is missing.
set -eu

directory=${1:?usage: make-venv.sh DIRECTORY [PYTHON]}
python=${2:-python3}
here=$(cd "$(dirname "$0")" && pwd)

"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || {
  echo "make-venv.sh: $python is no Python 3.11 to 3.13; name one: make sglang-venv PYTHON=python3.11" >&2
  exit 1
}
test -x "$directory/bin/python" || "$python" -m venv "$directory"
pip="$directory/bin/python -m pip install --quiet --disable-pip-version-check"

# torch first and by its version, so that nothing else decides on its build
$pip torch==2.13.0
$pip torchvision==0.28.0 --no-deps
$pip -r "$here/requirements.txt" torch==2.13.0
$pip --no-deps sglang==0.5.23
# its compiled part does not load beside this torch, and breaks transformers
"$directory/bin/python" -m pip uninstall --quiet --yes torchaudio 2>/dev/null || true
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -R "$here/pyproject.toml" "$here/mintact_sglang_cpu" "$copy"
$pip --no-deps --no-build-isolation --force-reinstall "$copy"
site=$("$directory/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "import mintact_sglang_cpu.torchvision_operators" > "$site/mintact_sglang_cpu.pth"

"$directory/bin/python" -c 'import sglang, torchvision; print("SGLang", sglang.__version__)'
