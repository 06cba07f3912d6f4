// A hook: code that runs around the steps of a MonitoredSession.
//
// Order of calls: Begin once, while the graph may still grow; AfterCreateSession after every creation or
// recovery of the session; then BeforeRun and AfterRun around each step; End once, after the last good step
// (not after an error). All calls come from the thread that runs the session. An error from any of them ends
// the session with that error.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/graph_builder.h"
#include "session/session.h"

namespace weir {

// What a hook learns and may ask for after a step.
class RunContext {
 public:
  explicit RunContext(Session& session) : session_(session) {}

  // The values of what this hook's BeforeRun asked for, in order.
  absl::Span<const Tensor> results;

  Session& session() { return session_; }
  void RequestStop() { stop_requested_ = true; }
  bool stop_requested() const { return stop_requested_; }

 private:
  Session& session_;
  bool stop_requested_ = false;
};

class Hook {
 public:
  virtual ~Hook() = default;
  virtual absl::Status Begin(GraphBuilder& graph) { return absl::OkStatus(); }
  virtual absl::Status AfterCreateSession(Session& session) { return absl::OkStatus(); }
  // What to fetch in the coming step beside what the caller fetches.
  virtual std::vector<Output> BeforeRun() { return {}; }
  virtual absl::Status AfterRun(RunContext& context) { return absl::OkStatus(); }
  virtual absl::Status End(Session& session) { return absl::OkStatus(); }
};

using HookPtr = std::shared_ptr<Hook>;

}  // namespace weir
