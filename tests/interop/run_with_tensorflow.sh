#!/bin/bash
# Runs the tests in SCRIPT with a Python that has TensorFlow: $WEIR_TF_PYTHON. Without one they are skipped.
#
# usage: run_with_tensorflow.sh TOOL SCRIPT    the script gets the path of the tool and of a folder of its own
set -u
tool=$1
script=$2
folder=$(dirname "$script")
if [ -z "${WEIR_TF_PYTHON:-}" ]; then
  # One line per test, so that whoever counts them knows what did not run.
  sed -n "s|^def test_\([a-z0-9_]*\)(.*|[  SKIPPED ] $folder:\1 WEIR_TF_PYTHON names no Python with TensorFlow|p" "$script"
  exit 0
fi
directory=$(mktemp -d "${TEST_TMPDIR:-/tmp}/$(basename "$script" .py).XXXXXX") || exit 1
trap 'rm -rf "$directory"' EXIT
"$WEIR_TF_PYTHON" "$script" "$tool" "$directory"
