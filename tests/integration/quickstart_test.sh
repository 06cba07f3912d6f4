#!/bin/bash
# What tools/quickstart makes of its arguments: in a tree of its own, whose build and command `weir` only write down what they are
# asked for.
set -u
. tests/integration/expectations.sh
out=$(mktemp -d "${TEST_TMPDIR:-/tmp}/quickstart_XXXXXX")
trap 'rm -rf "$out"' EXIT
root=$out/tree
mkdir -p "$root/tools" "$root/bazel-bin/distributed/command" "$out/here"
cp "$1" "$root/tools/quickstart"
stub() {  # PATH CODE_FILE: notes its arguments in PATH.said
  printf '#!/bin/bash\nprintf "%%s\\n" "$*" >> "%s.said"\nexit $(cat "%s" 2>/dev/null || echo 0)\n' "$1" "$2" >"$1"
  chmod +x "$1"
}
stub "$root/tools/install_dependencies" "$out/no_dependencies"
stub "$root/tools/run_bazel" "$out/no_build"
weir=$root/bazel-bin/distributed/command/weir
stub "$weir" "$out/job_fails"
quickstart() { rm -f "$root"/tools/*.said "$weir.said"; (cd "$out/here" && "$root/tools/quickstart" "$@" 2>&1); }
launched() { cat "$weir.said" 2>/dev/null; }

# MODE's flags and how many of whom are started then.
while read -r ps workers arguments; do
  said=$(quickstart --model_dir=model -- $arguments) || fail "quickstart -- $arguments: $said"
  expected="launch --ps=$ps --workers=$workers --log_dir=$out/here/model/logs -- $root/bazel-bin/examples/fashion_mnist --model_dir=$out/here/model"
  [ "$(launched)" = "$expected${arguments:+ $arguments}" ] || fail "quickstart -- $arguments started: $(launched)"
  grep -qF "$out/here/model" <<<"$said" || fail "where the checkpoints are was not said: $said"
done <<END
1 2
1 2 --model=cnn
2 3 --mode=sync
2 3 --mode=sync --backup_workers=1
0 2 --mode=horovod
0 2 --mode=multi_worker --devices=3
0 1 --mode=mirrored
END
[ -d "$out/here/model/logs" ] || fail "there is no folder for the logs"
[ "$(head -1 "$root/tools/run_bazel.said")" = "build //distributed/command:weir //examples:fashion_mnist" ] || fail "the build was not asked for"
quickstart --ps=3 --workers=4 --log_dir=/dev/shm/../shm --model_dir="$out/absolute" -- --mode=sync >/dev/null || fail "flags were refused"
grep -qF -- "launch --ps=3 --workers=4 --log_dir=/dev/shm/../shm -- " <<<"$(launched)" || fail "its flags do not count: $(launched)"
said=$(TMPDIR=$out quickstart) || fail "without arguments: $said"
[ -n "$(find "$out" -maxdepth 1 -name 'weir-fashion-mnist-*')" ] || fail "no folder was made for the checkpoints"

expect 0 "--model_dir=DIR" quickstart --help
expect 1 "unknown argument '--epochs=2' (the example's own flags come after --" quickstart --epochs=2
expect 1 "--model_dir is quickstart's own flag" quickstart -- --model_dir=x
[ -z "$(launched)" ] || fail "wrong arguments started: $(launched)"
echo 7 >"$out/job_fails"
expect 7 "ended with exit code 7; the logs of its tasks are in $out/here/model/logs" quickstart --model_dir=model
echo 1 >"$out/no_build"
expect 1 "the build failed" quickstart --model_dir=model
[ -z "$(launched)" ] || fail "a job was started that was not built"
echo 1 >"$out/no_dependencies"
expect 1 "" quickstart --model_dir=model
[ -e "$root/tools/run_bazel.said" ] && fail "something was built without what it needs"
exit 0
