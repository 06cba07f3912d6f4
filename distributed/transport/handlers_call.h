// What a Listener gives its handler of a call: answers for a handler that drops it without a reply.
//
// An object of its own, so that what the transport keeps of the call while it waits for events (or for the
// client to give up) does not keep the handler's share alive. Thread safety: as IncomingCall.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/transport/transport.h"

namespace weir {

class HandlersCall : public IncomingCall {
 public:
  explicit HandlersCall(std::shared_ptr<IncomingCall> call) : call_(std::move(call)) {}
  ~HandlersCall() override {
    call_->Reply(absl::InternalError(absl::StrCat(method(), ": the server gave no reply")));
  }

  const std::string& method() const override { return call_->method(); }
  Frame& request() override { return call_->request(); }
  absl::Time deadline() const override { return call_->deadline(); }
  std::string client() const override { return call_->client(); }
  std::vector<std::string> caller_names() const override { return call_->caller_names(); }
  std::string caller_mark() const override { return call_->caller_mark(); }
  void Compute(absl::AnyInvocable<void()> work) override { call_->Compute(std::move(work)); }
  void Reply(absl::StatusOr<Frame> reply) override { call_->Reply(std::move(reply)); }
  void OnCancel(std::function<void()> callback) override { call_->OnCancel(std::move(callback)); }

 private:
  const std::shared_ptr<IncomingCall> call_;
};

}  // namespace weir
