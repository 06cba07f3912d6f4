#!/bin/sh
# docs/ops.md is what the schemas say. After a change: bazel run //ops/generator:update_docs
diff -u "$1" "$2" && exit 0
echo "docs/ops.md is out of date; run: bazel run //ops/generator:update_docs" >&2
exit 1
