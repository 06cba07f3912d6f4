#!/bin/bash
# Runs every quick benchmark once: each must give a line with a number. What they measure is nobody's business here.
set -u
bench=$1
export WEIR_BENCH_SECONDS=0 BENCH_DIR=${TEST_TMPDIR:-/tmp}
output=$("$bench" session_run small_ops mlp_step cnn_step resnet20_step wide_deep_step executor_add kernels tfrecord_read ps_run ps_mlp \
  sync_null sync_null_tcp all_reduce all_reduce_tcp startup) || { echo "weir_bench failed"; exit 1; }
echo "$output"
for metric in session_run_python session_callable_noop small_add16_1t mlp_b32_step ps_null_run ps_pull_scalar_run \
  ps_mlp_b32_step all_reduce_w2_4096 all_reduce_w4_134217728 sync_null_step_1w sync_null_step_8w sync_null_step_1w_tcp all_reduce_w2_134217728_tcp start_to_first_step cnn_b100_step resnet20_b128_fp32 resnet20_b128_bf16 wide_deep_b2048 \
  executor_add16_chain_1t executor_add16_cond_2t kernel_sum_rows_262144x16 tfrecord_read_1024 tfrecord_read_100000; do
  grep -qE "^\{\"peer\": \"weir\", \"metric\": \"$metric\", \"value\": -?[0-9.e+-]+, \"unit\": " <<<"$output" ||
    { echo "no line for $metric"; exit 1; }
done
"$bench" no_such_benchmark 2>/dev/null && { echo "an unknown name must be an error"; exit 1; }
exit 0
