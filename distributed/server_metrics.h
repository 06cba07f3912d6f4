// The pages that a server has for Prometheus and for probes: /metrics and /healthz, at a port of their own.
//
// They are not secret and need no token, but say names of tasks and how busy they are: they are for this
// machine only, unless the address says otherwise. Thread safety: all methods.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distributed/membership.h"
#include "distributed/metrics/http_listener.h"
#include "distributed/metrics/metrics.h"
#include "distributed/metrics/refused_calls.h"
#include "distributed/peer_limits.h"
#include "distributed/peers/inbound_budget.h"
#include "distributed/task_config.h"
#include "session/local_worker.h"
#include "session/runtime.h"

namespace weir {

// $WEIR_METRICS_PORT; empty when it is not set.
std::string MetricsPortFromEnvironment();

class ServerMetrics {
 public:
  // What the pages tell about; borrowed. `use`, `inbound` and `refused` are null for a task that others do
  // not use.
  struct Sources {
    const TaskConfig* task = nullptr;
    const Membership* membership = nullptr;
    Runtime* runtime = nullptr;
    const LocalWorker* worker = nullptr;
    const PeerUse* use = nullptr;
    const InboundBudget* inbound = nullptr;
    const RefusedCalls* refused = nullptr;
    const Metrics* metrics = nullptr;
  };

  // `port`: "9100", on loopback, or "0.0.0.0:9100". Possible errors: InvalidArgument (no port), AlreadyExists
  // (in use), and those of HttpListener.
  static absl::StatusOr<std::unique_ptr<ServerMetrics>> Start(absl::string_view port, const Sources& sources);

  int port() const { return listener_->port(); }

 private:
  explicit ServerMetrics(const Sources& sources);
  std::string MetricsPage() const;
  HttpPage HealthPage() const;

  const Sources sources_;
  const absl::Time started_;
  std::unique_ptr<HttpListener> listener_;  // last: its thread uses what is above
};

}  // namespace weir
