#!/bin/bash
# A Bazel workspace of its own has the program of examples/outside with the target @weir//:weir, sees no other, and needs
# neither this repository's .bazelrc nor the network.
#
# usage: bazel_test.sh [build]
#   build   builds the program too, which compiles all of Weir once more, and runs it
. "$(dirname "$0")/outside.sh"
# Bazel wants a home, and keeps what it compiles where tools/run_bazel does: it takes long, and has been done before.
export HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
bazel() {
  (cd "$WORK/program" && command bazel --output_user_root="$WORK/bazel" --max_idle_secs=5 "$1" \
    --disk_cache="${WEIR_BAZEL_CACHE:-$HOME/.cache/weir-bazel}" --noshow_progress -c opt "${@:2}")
}
trap 'bazel shutdown >/dev/null 2>&1; chmod -R u+w "$WORK/bazel"; rm -rf "$WORK/bazel"' EXIT

cp -rL "$ROOT/examples/outside" "$WORK/program"
sed -i "s|path = \"../..\"|path = \"$ROOT\"|" "$WORK/program/WORKSPACE"

in_case finds_the_target
run bazel build --nobuild //:outside

in_case sees_no_other_target
cat >>"$WORK/program/BUILD" <<'END'
cc_binary(
    name = "target_inside",
    srcs = ["outside.cc"],
    deps = ["@weir//graph"],
)
cc_binary(
    name = "header_inside",
    srcs = ["inside.cc"],
    copts = ["-std=c++20"],
    deps = ["@weir"],
)
END
bazel build --nobuild //:target_inside >"$WORK/log" 2>&1 && fail "@weir//graph is visible"
grep -q 'not visible' "$WORK/log" || { cat "$WORK/log"; fail "another error"; }

if [ "${1:-}" = build ]; then
  in_case builds_with_one_target
  run bazel build //:outside
  finds_the_line "$WORK/program/bazel-bin/outside" "$BUILT/distributed/command/weir"

  in_case sees_no_header_inside
  printf '#include "graph/graph.h"\nint main() {}\n' >"$WORK/program/inside.cc"
  bazel build //:header_inside >"$WORK/log" 2>&1 && fail "graph/graph.h can be included"
  grep -q 'graph/graph.h: No such file' "$WORK/log" || { cat "$WORK/log"; fail "another error"; }
fi
in_case ""
