// For tests: a hook that calls what the test gives it.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "session/monitored/hook.h"

namespace weir {

class TestHook final : public Hook {
 public:
  std::function<absl::Status(GraphBuilder&)> begin;
  std::function<absl::Status(Session&, Coordinator&)> after_create_session;
  std::function<absl::StatusOr<RunArgs>(RunContext&)> before_run;
  std::function<absl::Status(RunContext&, const RunValues&)> after_run;
  std::function<absl::Status(Session&)> end;

  absl::string_view name() const override { return "TestHook"; }
  absl::Status Begin(GraphBuilder& graph) override { return begin ? begin(graph) : absl::OkStatus(); }
  absl::Status AfterCreateSession(Session& session, Coordinator& coordinator) override {
    return after_create_session ? after_create_session(session, coordinator) : absl::OkStatus();
  }
  absl::StatusOr<RunArgs> BeforeRun(RunContext& context) override {
    return before_run ? before_run(context) : RunArgs();
  }
  absl::Status AfterRun(RunContext& context, const RunValues& values) override {
    return after_run ? after_run(context, values) : absl::OkStatus();
  }
  absl::Status End(Session& session) override { return end ? end(session) : absl::OkStatus(); }
};

}  // namespace weir
