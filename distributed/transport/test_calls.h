// What tests of transports call with, and what answers them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/transport/transport.h"

namespace weir {

inline absl::StatusOr<Frame> CallAndWait(Channel& channel, absl::string_view method, Frame request,
                                         CallOptions options = {}) {
  absl::StatusOr<Frame> result = absl::UnknownError("no reply");
  absl::Notification done;
  channel.Call(method, std::move(request), options, [&](absl::StatusOr<Frame> reply) {
    result = std::move(reply);
    done.Notify();
  });
  done.WaitForNotification();
  return result;
}

inline CallOptions Within(absl::Duration duration) { return {absl::Now() + duration}; }

inline void Echo(std::shared_ptr<IncomingCall> call) { call->Reply(std::move(call->request())); }

inline Frame MakeFrame(std::string header, std::vector<size_t> payload_sizes) {
  Frame frame;
  frame.header = std::move(header);
  for (size_t size : payload_sizes) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + size);
    frame.payloads.push_back(Payload::OfString(std::move(bytes)));
  }
  return frame;
}

}  // namespace weir
