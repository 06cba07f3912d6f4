#!/bin/bash
# examples/fine_tune, built outside of the tree with CMake from an installed Weir, trains the last layer of the model that
# TensorFlow wrote, on a cluster with an evaluator, until its own hook stops it.
. "$(dirname "$0")/outside.sh"
pretrained=$ROOT/examples/fine_tune/pretrained
model=$WORK/model

in_case builds_with_cmake
prefix=$WORK/prefix
run "$ROOT/tools/install" --prefix="$prefix" --built="$BUILT"
run cmake -S "$ROOT/examples/fine_tune" -B "$WORK/build" -DCMAKE_PREFIX_PATH="$prefix"
run cmake --build "$WORK/build"

in_case stops_early_and_is_better_than_before
"$prefix/bin/weir" launch --ps=2 --workers=3 --evaluator -- "$WORK/build/fine_tune" "$pretrained" "$model" >"$WORK/job" 2>&1 ||
  { cat "$WORK/job"; fail "the job failed"; }
said=$(cat "$WORK/job")
grep -q '^\[worker:0\] step [0-9]*: the held-out loss has not fallen since step [0-9]*,' <<<"$said" ||
  fail "the hook did not stop it: $said"
before=$(sed -n 's/^\[evaluator:0\] before: accuracy //p' <<<"$said")
after=$(sed -n 's/^\[evaluator:0\] step [1-9][0-9]*: accuracy //p' <<<"$said" | tail -1)
awk -v before="${before:-1}" -v after="${after:-0}" 'BEGIN { exit !(before > 0.4 && after > before + 0.1) }' ||
  fail "accuracy '$before' before, '$after' after: $said"
pgrep -f "$model" && fail "a process is left"

in_case only_the_last_layer_has_changed_and_events_tell_the_story
run "$BUILT/tests/outside/fine_tune_check" "$pretrained" "$model"

in_case goes_on_where_it_stopped
# The checkpoint says that training has stopped early: one step, and no evaluation waits for another.
said=$("$WORK/build/fine_tune" "$pretrained" "$model" 2>&1) || fail "alone, it failed: $said"
grep -q "weir: restored $model/model.ckpt-" <<<"$said" || fail "nothing was restored: $said"
run "$BUILT/tests/outside/fine_tune_check" "$pretrained" "$model"

in_case a_wrong_checkpoint_is_named
said=$("$WORK/build/fine_tune" "$model" "$WORK/other" 2>&1) && fail "it took a checkpoint of another model: $said"
grep -q "has no tensor 'classifier/dense/bias' to initialise variable 'hidden/bias'" <<<"$said" || fail "it said: $said"
[ ! -e "$WORK/other" ] || fail "it wrote a folder for nothing"

if [ -n "${WEIR_TF_PYTHON:-}" ]; then
  in_case tensorflow_reads_both
  run "$WEIR_TF_PYTHON" "$(dirname "$0")/fine_tune_check.py" "$pretrained" "$model"
  in_case ""
else
  in_case ""
  echo "[  SKIPPED ] outside.tensorflow_reads_both WEIR_TF_PYTHON names no Python with TensorFlow"
fi
