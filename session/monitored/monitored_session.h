// A session for training: initialises or restores the model, runs hooks around every step, survives lost
// peers.
//
//   auto session = MonitoredTrainingSession(g, {.target = server->target(), .is_chief = task.is_chief(),
//                                               .checkpoint_dir = dir, .hooks = {StopAtStepHook({.last_step =
//                                               1000})}});
//   while (!session->should_stop()) RETURN_IF_ERROR(session->Run(feeds, {}, {train}).status());
//   return session->Close();
//
// The chief restores the newest good checkpoint or initialises; the others wait until every variable has a
// value. When a step fails because a peer was lost or restarted (IsRecoverable), the session is created anew,
// the chief restoring what was lost, and the step runs again. Counterpart of
// tf.train.MonitoredTrainingSession.
//
// Borrows the builder and the target's workers, which must outlive it; after creation the graph must not
// grow. Thread safety: one thread at a time; RequestStop from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "graph/graph_builder.h"
#include "kernels/formats/event_file.h"
#include "session/monitored/hook.h"
#include "session/monitored/scaffold.h"
#include "session/session.h"
#include "session/session_target.h"

namespace weir {

struct MonitoredSessionOptions {
  SessionTarget target;
  bool is_chief = true;
  // Where checkpoints and event files go and come from; empty: neither is written nor read.
  std::string checkpoint_dir;
  std::vector<HookPtr> hooks;
  // The chief's own hooks, added when checkpoint_dir is set; zero turns one off.
  absl::Duration save_checkpoint_interval = absl::Minutes(10);
  int64_t save_checkpoint_steps = 0;  // instead of the interval when > 0
  int64_t save_summaries_steps = 100;
  int64_t log_step_count_steps = 100;
  Scaffold scaffold;
  SessionOptions session;
  // How long the others wait for the chief, and a lost peer is waited for, before the session gives up.
  absl::Duration recovery_timeout = absl::Minutes(5);
};

class MonitoredSession {
 public:
  ~MonitoredSession();  // without Close: hooks' End is not called, nothing is saved

  bool should_stop() const { return stop_.load(std::memory_order_acquire); }
  void RequestStop() { stop_.store(true, std::memory_order_release); }

  // One step with the hooks around it. OutOfRange (the input is exhausted) also requests a stop.
  // An error that cannot be recovered from is returned again by every later call.
  absl::StatusOr<std::vector<Tensor>> Run(const Feeds& feeds, const std::vector<TensorRef>& fetches,
                                          const std::vector<TargetRef>& targets = {});

  // Calls the hooks' End (the checkpoint saver's saves a last time) and closes. The first error; idempotent.
  absl::Status Close();

  Session& session() { return *session_; }
  // The step counter as it is now; a lost peer is waited for as in Run. FailedPrecondition without a global
  // step.
  absl::StatusOr<int64_t> GlobalStep();
  const Scaffold& scaffold() const { return options_.scaffold; }

 private:
  friend absl::StatusOr<std::unique_ptr<MonitoredSession>> MonitoredTrainingSession(GraphBuilder&,
                                                                                    MonitoredSessionOptions);
  MonitoredSession(GraphBuilder& graph, MonitoredSessionOptions options);

  absl::Status Begin();
  absl::Status AddChiefHooks();
  // The graph with its devices, for TensorBoard's graph page. What cannot be written is only missed there.
  void WriteGraph();
  // Creates the session and brings the model to life, trying again while peers are away.
  absl::Status CreateSession();
  absl::Status TryCreateSession();
  // Says why on stderr and creates the session again; failure_ is set when that fails.
  absl::Status Recover(const absl::Status& reason);
  absl::Status InitializeAsChief();
  absl::Status CheckReady();
  absl::StatusOr<std::vector<Tensor>> RunOnce(const Feeds& feeds, const std::vector<TensorRef>& fetches,
                                              const std::vector<TargetRef>& targets);

  GraphBuilder& graph_;
  MonitoredSessionOptions options_;
  std::unique_ptr<Session> session_;
  std::shared_ptr<EventWriter> writer_;  // the chief's
  std::atomic<bool> stop_{false};
  bool was_ready_ = false;
  bool is_closed_ = false;
  absl::Status failure_;
  absl::Status lost_under_hook_;
};

// Finishes the graph (scaffold, hooks), creates the session. Errors: the builder's; NotFound, DataLoss or
// InvalidArgument of restoring; DeadlineExceeded, naming the variables or tasks waited for.
absl::StatusOr<std::unique_ptr<MonitoredSession>> MonitoredTrainingSession(GraphBuilder& graph,
                                                                           MonitoredSessionOptions options);

}  // namespace weir
