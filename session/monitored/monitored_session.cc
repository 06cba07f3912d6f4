#include "session/monitored/monitored_session.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/interchange/graph_def.h"
#include "graph/types/status_macros.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/checkpoint_saver_hook.h"
#include "session/monitored/hooks/step_counter_hook.h"
#include "session/monitored/hooks/summary_saver_hook.h"

namespace weir {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(2);
constexpr absl::Duration kReportAfter = absl::Seconds(10);

std::string FirstNames(const std::vector<std::string>& names) {
  const size_t shown = std::min<size_t>(names.size(), 4);
  return absl::StrCat(absl::StrJoin(names.begin(), names.begin() + shown, ", "),
                      shown < names.size() ? absl::StrCat(" and ", names.size() - shown, " more") : "");
}

}  // namespace

MonitoredSession::MonitoredSession(GraphBuilder& graph, MonitoredSessionOptions options)
    : graph_(graph), options_(std::move(options)) {}

MonitoredSession::~MonitoredSession() {
  if (session_) session_->Close();
}

absl::Status MonitoredSession::Begin() {
  WEIR_RETURN_IF_ERROR(options_.scaffold.Finalize(graph_));
  if (options_.is_chief && !options_.checkpoint_dir.empty() && options_.scaffold.global_step) {
    WEIR_RETURN_IF_ERROR(AddChiefHooks());
  }
  for (const HookPtr& hook : options_.hooks) WEIR_RETURN_IF_ERROR(hook->Begin(graph_));
  return graph_.status();
}

absl::Status MonitoredSession::AddChiefHooks() {
  const Scaffold& scaffold = options_.scaffold;
  WEIR_ASSIGN_OR_RETURN(writer_, EventWriter::Create(options_.checkpoint_dir));
  if (options_.log_step_count_steps > 0) {
    options_.hooks.push_back(StepCounterHook({.every_steps = options_.log_step_count_steps,
                                              .writer = writer_,
                                              .global_step = scaffold.global_step}));
  }
  if (options_.save_summaries_steps > 0 && scaffold.summary) {
    options_.hooks.push_back(SummarySaverHook({.every_steps = options_.save_summaries_steps,
                                               .writer = writer_,
                                               .summary = scaffold.summary,
                                               .global_step = scaffold.global_step}));
  }
  if (options_.save_checkpoint_steps > 0 || options_.save_checkpoint_interval > absl::ZeroDuration()) {
    options_.hooks.push_back(CheckpointSaverHook({.directory = options_.checkpoint_dir,
                                                  .every_steps = options_.save_checkpoint_steps,
                                                  .interval = options_.save_checkpoint_interval,
                                                  .saver = scaffold.saver,
                                                  .global_step = scaffold.global_step}));
  }
  return absl::OkStatus();
}

void MonitoredSession::WriteGraph() {
  absl::StatusOr<std::unique_ptr<Graph>> placed = session_->PlacedGraph();
  if (!placed.ok()) return;
  absl::StatusOr<std::string> bytes = GraphDefBytes(**placed, {.use_assigned_devices = true});
  if (bytes.ok()) writer_->AddGraph(0, *bytes).IgnoreError();
}

absl::Status MonitoredSession::CreateSession() {
  const absl::Time begin = absl::Now(), deadline = begin + options_.recovery_timeout;
  absl::Duration pause = kFirstPause;
  absl::Time next_report = begin + kReportAfter;
  while (true) {
    const absl::Status status = TryCreateSession();
    if (status.ok() || !(IsRecoverable(status) || absl::IsDeadlineExceeded(status))) return status;
    if (should_stop()) return absl::CancelledError("stopped while waiting for the cluster");
    if (absl::Now() + pause > deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          "gave up after ", absl::FormatDuration(options_.recovery_timeout), ": ", status.message()));
    }
    if (absl::Now() >= next_report) {
      std::fprintf(stderr, "weir: still waiting (%s left): %s\n",
                   absl::FormatDuration(absl::Trunc(deadline - absl::Now(), absl::Seconds(1))).c_str(),
                   std::string(status.message()).c_str());
      next_report = absl::Now() + kReportAfter;
    }
    absl::SleepFor(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
}

absl::Status MonitoredSession::TryCreateSession() {
  session_.reset();
  SessionOptions options = options_.session;
  options.default_task = options_.target.default_task;
  options.creation_timeout = options_.recovery_timeout;
  WEIR_ASSIGN_OR_RETURN(
      session_, Session::Create(graph_.graph(), options_.target.workers, *options_.target.kernels, options));
  if (options_.is_chief) WEIR_RETURN_IF_ERROR(InitializeAsChief());
  WEIR_RETURN_IF_ERROR(CheckReady());
  if (options_.scaffold.local_init != nullptr) {
    WEIR_RETURN_IF_ERROR(session_->Run({}, {}, {options_.scaffold.local_init}).status());
  }
  if (writer_ && !was_ready_) WriteGraph();
  was_ready_ = true;
  for (const HookPtr& hook : options_.hooks) WEIR_RETURN_IF_ERROR(hook->AfterCreateSession(*session_));
  return absl::OkStatus();
}

absl::Status MonitoredSession::InitializeAsChief() {
  // After a short loss of contact the variables are still there: going on from them loses nothing. A process
  // that has just started restores, whatever it finds, so that what it runs is what was saved.
  if (was_ready_) {
    WEIR_ASSIGN_OR_RETURN(std::vector<std::string> missing,
                          options_.scaffold.UninitializedVariables(*session_));
    if (missing.empty()) return absl::OkStatus();
    std::fprintf(stderr, "weir: variables were lost with their task: %s\n", FirstNames(missing).c_str());
  }
  if (!options_.checkpoint_dir.empty() && options_.scaffold.saver) {
    absl::StatusOr<std::string> restored =
        options_.scaffold.saver->RestoreNewest(*session_, options_.checkpoint_dir);
    if (restored.ok()) {
      std::fprintf(stderr, "weir: restored %s\n", restored->c_str());
      return absl::OkStatus();
    }
    if (!absl::IsNotFound(restored.status())) return restored.status();
    WEIR_ASSIGN_OR_RETURN(std::vector<std::string> checkpoints, CheckpointsIn(options_.checkpoint_dir));
    if (!checkpoints.empty()) return restored.status();  // a variable that is in no checkpoint
  }
  return session_->Run({}, {}, {options_.scaffold.init}).status();
}

absl::Status MonitoredSession::CheckReady() {
  WEIR_ASSIGN_OR_RETURN(std::vector<std::string> missing,
                        options_.scaffold.UninitializedVariables(*session_));
  if (missing.empty()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("variables without a value: ", FirstNames(missing),
                   options_.is_chief ? "" : " (the chief has to initialise or restore them)"));
}

absl::StatusOr<std::vector<Tensor>> MonitoredSession::Run(const Feeds& feeds,
                                                          const std::vector<TensorRef>& fetches,
                                                          const std::vector<TargetRef>& targets) {
  if (!failure_.ok()) return failure_;
  if (is_closed_) return absl::FailedPreconditionError("the monitored session is closed");
  while (true) {
    absl::StatusOr<std::vector<Tensor>> result = RunOnce(feeds, fetches, targets);
    if (result.ok()) {
      // A peer was lost under a hook, after the step: the step stays done, only the session is made anew.
      if (const absl::Status lost = std::exchange(lost_under_hook_, absl::OkStatus()); !lost.ok()) {
        WEIR_RETURN_IF_ERROR(Recover(lost));
      }
      return result;
    }
    if (absl::IsOutOfRange(result.status())) {
      RequestStop();
      return result;
    }
    if (!IsRecoverable(result.status())) return failure_ = result.status();
    WEIR_RETURN_IF_ERROR(Recover(result.status()));
  }
}

absl::Status MonitoredSession::Recover(const absl::Status& reason) {
  std::fprintf(stderr, "weir: a peer was lost, creating the session anew: %s\n",
               std::string(reason.message()).c_str());
  absl::Status status = CreateSession();
  if (!status.ok()) failure_ = status;
  return status;
}

absl::StatusOr<std::vector<Tensor>> MonitoredSession::RunOnce(const Feeds& feeds,
                                                              const std::vector<TensorRef>& fetches,
                                                              const std::vector<TargetRef>& targets) {
  std::vector<TensorRef> all = fetches;
  std::vector<size_t> begins;
  for (const HookPtr& hook : options_.hooks) {
    begins.push_back(all.size());
    for (const Output& output : hook->BeforeRun()) all.push_back(output);
  }
  begins.push_back(all.size());
  WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> results, session_->Run(feeds, all, targets));
  for (size_t i = 0; i < options_.hooks.size(); ++i) {
    RunContext context(*session_);
    context.results = absl::MakeConstSpan(results).subspan(begins[i], begins[i + 1] - begins[i]);
    const absl::Status status = options_.hooks[i]->AfterRun(context);
    if (context.stop_requested()) RequestStop();
    if (IsRecoverable(status)) {
      lost_under_hook_ = status;
      break;  // the session is gone for the other hooks, too
    }
    WEIR_RETURN_IF_ERROR(status);
  }
  results.resize(fetches.size());
  return results;
}

absl::Status MonitoredSession::Close() {
  if (is_closed_) return failure_;
  is_closed_ = true;
  RequestStop();
  for (const HookPtr& hook : options_.hooks) {
    if (!failure_.ok()) break;
    failure_ = hook->End(*session_);
  }
  session_->Close();
  if (writer_)
    writer_->Close().IgnoreError();  // summaries that a full disk swallowed are no failure of training
  return failure_;
}

absl::StatusOr<int64_t> MonitoredSession::GlobalStep() {
  if (!options_.scaffold.global_step) return absl::FailedPreconditionError("the graph has no global step");
  while (true) {
    if (!failure_.ok()) return failure_;
    absl::StatusOr<std::vector<Tensor>> step = session_->Run({}, {options_.scaffold.global_step});
    if (step.ok()) return (*step)[0].scalar<int64_t>();
    if (!IsRecoverable(step.status()) || is_closed_) return step.status();
    WEIR_RETURN_IF_ERROR(Recover(step.status()));
  }
}

absl::StatusOr<std::unique_ptr<MonitoredSession>> MonitoredTrainingSession(GraphBuilder& graph,
                                                                           MonitoredSessionOptions options) {
  if (options.target.workers.empty() || options.target.kernels == nullptr) {
    return absl::InvalidArgumentError("a monitored session needs a target (Server::target())");
  }
  std::unique_ptr<MonitoredSession> session(new MonitoredSession(graph, std::move(options)));
  WEIR_RETURN_IF_ERROR(session->Begin());
  WEIR_RETURN_IF_ERROR(session->CreateSession());
  return session;
}

}  // namespace weir
