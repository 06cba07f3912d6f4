#!/bin/bash
# Checks recorded.json against the TensorFlow of $WEIR_TF_PYTHON; skipped without one.
#
# usage: run_record.sh RECORD_PY RECORDED_JSON
set -u
if [ -z "${WEIR_TF_PYTHON:-}" ]; then
  echo "[  SKIPPED ] tests/models:recorded_numbers WEIR_TF_PYTHON names no Python with TensorFlow"
  exit 0
fi
exec "$WEIR_TF_PYTHON" "$1" --check "$2"
