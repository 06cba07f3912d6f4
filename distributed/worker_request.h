// A request of another task to this one's worker.
//
// Thread safety: none; copies share the call.
#pragma once

#include <memory>
#include <vector>

#include "distributed/peers/worker_protocol.h"
#include "distributed/transport/transport.h"

namespace weir {

struct WorkerRequest {
  std::shared_ptr<IncomingCall> call;
  Envelope envelope;
  WireReader reader{""};  // of what comes after the envelope

  const std::vector<Payload>& payloads() const { return call->request().payloads; }
};

}  // namespace weir
