#!/bin/bash
# Runs tensorflow_test.py with a Python that has TensorFlow: $WEIR_TF_PYTHON. Without one the tests are skipped.
set -u
evaluator=$1
script=$2
if [ -z "${WEIR_TF_PYTHON:-}" ]; then
  # One line per test, so that whoever counts them knows what did not run.
  sed -n 's/^def test_\([a-z0-9_]*\)(.*/[  SKIPPED ] tests\/conformance:\1 WEIR_TF_PYTHON names no Python with TensorFlow/p' "$script"
  exit 0
fi
directory=$(mktemp -d "${TEST_TMPDIR:-/tmp}/tensorflow_test.XXXXXX") || exit 1
trap 'rm -rf "$directory"' EXIT
"$WEIR_TF_PYTHON" "$script" "$evaluator" "$directory"
