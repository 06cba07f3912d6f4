#!/bin/bash
# Trains a small residual network on a few real images, alone and as a job, goes on where it stopped, and meets bad input.
set -u
weir=$1 program=$2 writer=$3
out=$(mktemp -d "${TEST_TMPDIR:-/tmp}/resnet_XXXXXX")
trap 'rm -rf "$out"' EXIT
. tests/integration/expectations.sh

"$writer" --data_dir="$out/data" --limit=1000 || fail "cannot write the images"
[ "$(stat -c %s "$out/data/data_batch_5.bin")" = $((200 * 3073)) ] || fail "data_batch_5.bin has another size"

# The averages that batch normalization keeps are what evaluation uses: without them the model would only guess.
train=("$program" --data_dir="$out/data" --depth=8 --batch_size=50)
said=$("${train[@]}" --epochs=8 --seed=1 2>&1) || fail "training alone failed: $said"
accuracy=$(sed -n 's/.*test accuracy: \(0\.[0-9]*\).*/\1/p' <<<"$said")
at_least "${accuracy:-0}" 0.55 || fail "accuracy after 160 steps: '$accuracy': $said"

said=$("$weir" launch --ps=2 --workers=2 --log_dir="$out/logs" -- "${train[@]}" --epochs=2 --model_dir="$out/model" 2>&1) ||
  fail "the job failed: $said"
grep -q "test accuracy: 0" <<<"$said" || fail "the job did not evaluate: $said"
[ -s "$out/model/checkpoint" ] || fail "no checkpoint"
pgrep -f "$out/model" && fail "a process is left"
expect 0 "restored $out/model/model.ckpt-4" "${train[@]}" --epochs=3 --model_dir="$out/model"

expect 0 "test accuracy" "${train[@]}" --epochs=1 --bfloat16
expect 1 "must be 6 n + 2" "${train[@]}" --depth=21
expect 1 "resnet: --epochs='0' must be from 1 to 1000000" "${train[@]}" --epochs=0
expect 1 "--learning_rate='-1' must be at least 1e-12" "${train[@]}" --learning_rate=-1
expect 1 "--learning_rate='0' must be at least 1e-12" "${train[@]}" --learning_rate=0
expect 1 "data_batch_1.bin" "$program" --data_dir="$out/nowhere"
truncate -s -1 "$out/data/test_batch.bin"
expect 3 "test_batch.bin" "${train[@]}"
exit 0
