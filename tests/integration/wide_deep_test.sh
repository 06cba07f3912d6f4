#!/bin/bash
# Trains Wide & Deep on clicks that the test writes, alone and as a job, goes on where it stopped, and meets bad input.
set -u
weir=$1 program=$2 writer=$3
out=$(mktemp -d "${TEST_TMPDIR:-/tmp}/wide_deep_XXXXXX")
trap 'rm -rf "$out"' EXIT
. tests/integration/expectations.sh
area_of() { sed -n 's/.*test area under the ROC curve: \(0\.[0-9]*\).*/\1/p' <<<"$1"; }

"$writer" --data_dir="$out/data" --lines=20000 --test_lines=5000 || fail "cannot write the log"
"$writer" --data_dir="$out/again" --lines=20000 --test_lines=5000 && cmp "$out/data/train.tsv" "$out/again/train.tsv" ||
  fail "the same seed gave another log"
cmp -s "$out/data/test.tsv" <(head -5000 "$out/data/train.tsv") && fail "the test lines are the training lines"

train=("$program" --data_dir="$out/data" --rows=5000 --embedding_size=8 --batch_size=256)
said=$("${train[@]}" --steps=200 --seed=1 2>&1) || fail "training alone failed: $said"
at_least "$(area_of "$said")" 0.63 || fail "alone, after 200 steps: $said"

said=$("$weir" launch --ps=2 --workers=2 --log_dir="$out/logs" -- "${train[@]}" --steps=100 --model_dir="$out/model" 2>&1) ||
  fail "the job failed: $said"
at_least "$(area_of "$said")" 0.58 || fail "of a job, after 100 steps: $said"
pgrep -f "$out/model" && fail "a process is left"
expect 0 "restored $out/model/model.ckpt-10" "${train[@]}" --steps=120 --model_dir="$out/model"

expect 1 "--learning_rate='0' must be at least 1e-12" "${train[@]}" --learning_rate=0
expect 1 "wide_deep: --steps='0' must be at least 1" "${train[@]}" --steps=0
expect 1 "train.tsv" "$program" --data_dir="$out/nowhere"
echo "1	2	3" >>"$out/data/test.tsv"
expect 3 "test.tsv, line 5001: has 3 fields" "${train[@]}" --steps=1
exit 0
