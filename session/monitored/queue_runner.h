// Threads that fill a queue while the model takes from it (tf.train.QueueRunner).
//
//   auto scaffold = std::make_shared<Scaffold>();
//   scaffold->queue_runners.push_back({.enqueues = {enqueue, enqueue}, .close = close, .cancel = cancel});
//   MonitoredTrainingSession(g, {.scaffold = scaffold, ...});
//
// Each enqueue op has a thread that runs it again and again. The end of the input (a status of `ends`) ends
// its thread, and the last one closes the queue: the model takes what is left and then gets OutOfRange. Any
// other error stops the coordinator with that error. When the coordinator stops, the queue is closed with its
// waiting enqueues cancelled, so no thread waits for ever.
//
// Thread safety: a QueueRunner is a value.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "graph/node.h"
#include "session/monitored/coordinator.h"
#include "session/session.h"

namespace weir {

struct QueueRunner {
  // One thread for each; an op that stands there twice has two.
  std::vector<Node*> enqueues;
  // QueueCloseV2 without and with cancel_pending_enqueues.
  Node* close = nullptr;
  Node* cancel = nullptr;
  // Errors of enqueues that mean that there is no more input.
  std::vector<absl::StatusCode> ends = {absl::StatusCode::kOutOfRange};
};

// InvalidArgument for a runner without an enqueue op, `close` or `cancel`; then no thread was started. The
// session must live as long as the coordinator (Coordinator::Keep). In a session that is closed before the
// coordinator stops the queue stays open: another session may fill it further.
absl::Status StartQueueRunners(absl::Span<const QueueRunner> runners, Session& session,
                               Coordinator& coordinator);

}  // namespace weir
