#!/bin/bash
# Runs model_interop_test.py with a Python that has TensorFlow: $WEIR_TF_PYTHON. Without one it is skipped.
set -u
if [ -z "${WEIR_TF_PYTHON:-}" ]; then
  echo "[  SKIPPED ] tests/interop:model WEIR_TF_PYTHON names no Python with TensorFlow"
  exit 0
fi
directory=$(mktemp -d "${TEST_TMPDIR:-/tmp}/model_interop.XXXXXX") || exit 1
trap 'rm -rf "$directory"' EXIT
"$WEIR_TF_PYTHON" "$2" "$1" "$directory"
