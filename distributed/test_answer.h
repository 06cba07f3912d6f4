// For tests: what a task answers to a message.
#pragma once

#include <utility>

#include "distributed/peers/worker_protocol.h"
#include "distributed/transport/test_calls.h"

namespace weir {

// Waits for the answer: the status that is in it, or why there is none.
inline absl::Status AnswerOf(Channel& channel, absl::string_view method, Frame request,
                             CallOptions options = {}) {
  const absl::StatusOr<Frame> reply = CallAndWait(channel, method, std::move(request), std::move(options));
  if (!reply.ok()) return reply.status();
  Incarnation replier = 0;
  WireReader reader(reply->header);
  return DecodeReplyStatus(&reader, &replier);
}

}  // namespace weir
