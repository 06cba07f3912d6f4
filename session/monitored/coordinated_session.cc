#include "session/monitored/coordinated_session.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/notice.h"

namespace weir {
namespace {

// How long threads may take to find out that their session is closed.
constexpr absl::Duration kAfterClose = absl::Seconds(5);

}  // namespace

CoordinatedSession::CoordinatedSession(std::unique_ptr<Session> session, const Options& options)
    : options_(options), session_(std::move(session)), coordinator_(session_->environment()) {
  coordinator_.Keep(session_);
}

void CoordinatedSession::StopThreadsSoon() {
  if (stops_soon_.exchange(true)) return;
  coordinator_.Start("the end of the last step", [grace = options_.step_grace_period](Coordinator& threads) {
    if (!threads.WaitForStop(grace)) threads.RequestStop();
    return absl::OkStatus();
  });
}

absl::Status CoordinatedSession::Close() {
  coordinator_.RequestStop();
  coordinator_.AwaitThreads(options_.stop_grace_period);
  session_->Close();
  return JoinThreads();
}

void CoordinatedSession::CloseLost() {
  session_->Close();
  coordinator_.RequestStop();
  coordinator_.AwaitThreads(options_.stop_grace_period);
  JoinThreads().IgnoreError();
}

absl::Status CoordinatedSession::JoinThreads() {
  const absl::Status joined =
      coordinator_.Join({.grace_period = std::min(options_.stop_grace_period, kAfterClose)});
  const absl::Status failure = coordinator_.status();
  if (failure.ok() && !joined.ok()) {
    PrintNotice(absl::StrCat("the session was closed, but ", joined.message()));
  }
  return failure;
}

}  // namespace weir
