#!/bin/sh
# Copies the generated reference of ops into the source tree.
set -e
install -m 644 "$1" "$BUILD_WORKSPACE_DIRECTORY/docs/ops.md"
