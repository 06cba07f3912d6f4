#!/bin/bash
# docs/deploy/slurm/train.sbatch. Always with a script in the place of srun, which starts the tasks here with the variables that
# a step has; and with Slurm itself where a cluster answers.
#
# usage: slurm_test.sh TRAIN_SBATCH COUNTING_TRAINER
set -u
script=$PWD/$1 trainer=$PWD/$2
work=$TEST_TMPDIR/slurm
failed=0

# Two workers may overshoot the last step; what counts is that no step was lost between them.
finished='finished at step \(2[0-9]\), counter \1, sum \1$'

# report NAME OUTCOME: a line as googletest writes it.
report() {
  if [ "$2" = 0 ]; then echo "[       OK ] slurm.$1 (0 ms)"; else echo "[  FAILED  ] slurm.$1 (0 ms)"; failed=1; fi
}

# A step of the tasks 0 to 2 on the node "localhost". As Slurm it ends with the largest exit code.
mkdir -p "$work/bin" "$work/steps"
cat >"$work/bin/srun" <<'END'
#!/bin/bash
while [[ "$1" == -* ]]; do shift; done
code=0 tasks=()
for rank in 0 1 2; do
  SLURM_PROCID=$rank SLURM_LOCALID=$rank SLURM_NODEID=0 SLURM_GTIDS=0,1,2 SLURM_STEP_NUM_TASKS=3 \
    SLURM_STEP_NODELIST=localhost SLURM_STEP_TASKS_PER_NODE=3 "$@" &
  tasks+=($!)
done
for task in "${tasks[@]}"; do
  wait "$task"
  ended=$?
  [ $ended -gt $code ] && code=$ended
done
exit $code
END
printf '#!/bin/bash\necho "$@" >> %q\n' "$work/requeued" >"$work/bin/scontrol"
chmod +x "$work"/bin/*

# What sbatch gives a batch script: a rank, but no step.
batch() {
  env PATH="$work/bin:$PATH" SLURM_JOB_ID=$((RANDOM % 2000)) SLURM_PROCID=0 SLURM_NTASKS=3 SLURM_JOB_NODELIST=localhost \
    SLURM_TASKS_PER_NODE=3 SLURM_CPUS_PER_TASK=1 "$@"
}

(
  output=$(batch bash "$script" "$trainer" --dir="$work/steps" --last_step=20 --step_ms=0 2>&1)
  code=$?
  echo "$output"
  [ $code = 0 ] && grep -q "$finished" <<<"$output" &&
    ls "$work"/steps | grep -q 'ps:0.pid' && ls "$work"/steps | grep -q 'worker:1.pid'
)
report one_model_of_three_tasks $?

(
  batch env WEIR_NUM_PS=7 bash "$script" "$trainer" --dir="$work/steps" >"$work/log" 2>&1
  [ $? = 1 ] && grep -q 'of 3 processes 7 cannot be parameter servers' "$work/log" && [ ! -e "$work/requeued" ]
)
report a_mistake_is_not_repeated $?

(
  printf '#!/bin/bash\nexit 160\n' >"$work/retryable" && chmod +x "$work/retryable"
  batch bash "$script" "$work/retryable" >"$work/log" 2>&1
  [ $? = 160 ] && grep -q requeue "$work/requeued" && rm "$work/requeued" || exit 1
  batch env SLURM_RESTART_COUNT=3 bash "$script" "$work/retryable" >"$work/log" 2>&1
  [ $? = 160 ] && [ ! -e "$work/requeued" ]
)
report a_lost_task_queues_the_job_again_three_times $?

if command -v sbatch >/dev/null && timeout 20 sinfo --noheader >/dev/null 2>&1; then
  (
    rm -rf "$work/steps" && mkdir "$work/steps"
    timeout 200 sbatch --wait --output="$work/job.log" "$script" "$trainer" --dir="$work/steps" --last_step=20 --step_ms=0
    code=$?
    cat "$work/job.log"
    [ $code = 0 ] && grep -q "$finished" "$work/job.log"
  )
  report a_job_of_slurm $?
else
  echo "[  SKIPPED ] slurm.a_job_of_slurm no Slurm cluster answers here"
fi
exit $failed
