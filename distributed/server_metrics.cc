#include "distributed/server_metrics.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "distributed/cluster_spec.h"
#include "distributed/descriptor_limit.h"
#include "graph/types/allocator.h"
#include "graph/types/status_macros.h"
#include "graph/version.h"

namespace weir {
namespace {

absl::StatusOr<std::string> AddressOf(absl::string_view port) {
  const std::string address =
      absl::StrContains(port, ':') ? std::string(port) : absl::StrCat("127.0.0.1:", port);
  const absl::StatusOr<HostPort> parsed = HostPort::Parse(address);
  if (parsed.ok()) return parsed->ToString();
  return absl::InvalidArgumentError(absl::StrCat(
      "the port for metrics (--metrics_port, WEIR_METRICS_PORT) is '", port,
      "': write a port, or HOST:PORT where other machines shall reach it: ", parsed.status().message()));
}

const char* NameOf(Membership::State state) {
  switch (state) {
    case Membership::State::kAlive:
      return "alive";
    case Membership::State::kDone:
      return "done";
    case Membership::State::kLost:
      return "lost";
    case Membership::State::kLeft:
      return "left";
    default:
      return "unknown";
  }
}

}  // namespace

std::string MetricsPortFromEnvironment() {
  const char* const value = std::getenv("WEIR_METRICS_PORT");
  return value == nullptr ? "" : value;
}

ServerMetrics::ServerMetrics(const Sources& sources)
    : sources_(sources), started_(sources.membership->environment().SteadyNow()) {}

absl::StatusOr<std::unique_ptr<ServerMetrics>> ServerMetrics::Start(absl::string_view port,
                                                                    const Sources& sources) {
  WEIR_ASSIGN_OR_RETURN(const std::string address, AddressOf(port));
  std::unique_ptr<ServerMetrics> pages(new ServerMetrics(sources));
  const auto page = [raw = pages.get()](absl::string_view path) -> std::optional<HttpPage> {
    if (path == "/healthz") return raw->HealthPage();
    if (path != "/metrics") return std::nullopt;
    return HttpPage{.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = raw->MetricsPage()};
  };
  absl::StatusOr<std::unique_ptr<HttpListener>> listener = HttpListener::Start(
      address, page, HttpListener::kTimeout, DescriptorsForConnections(RaiseDescriptorLimit()));
  if (!listener.ok()) {
    return absl::Status(listener.status().code(), absl::StrCat(sources.task->task().ToString(), " (metrics) ",
                                                               listener.status().message()));
  }
  pages->listener_ = *std::move(listener);
  return pages;
}

HttpPage ServerMetrics::HealthPage() const {
  const Membership& membership = *sources_.membership;
  if (membership.is_serving() && membership.superseded().ok()) return {.body = "serving\n"};
  return {.code = 503, .body = "not serving\n"};
}

std::string ServerMetrics::MetricsPage() const {
  const Membership& membership = *sources_.membership;
  MetricsText text;
  text.Begin("weir_task", "gauge", "This task and its version; always 1.");
  text.Sample({{"task", sources_.task->task().ToString()}, {"version", WEIR_VERSION}}, 1);
  text.Gauge("weir_uptime_seconds", "Since this server started.",
             absl::ToDoubleSeconds(membership.environment().SteadyNow() - started_));
  std::map<absl::string_view, int> peers = {
      {"alive", 0}, {"done", 0}, {"left", 0}, {"lost", 0}, {"unknown", 0}};
  for (const TaskName& peer : membership.tasks()) {
    if (peer != sources_.task->task()) ++peers[NameOf(membership.state(peer))];
  }
  text.Begin("weir_peers", "gauge", "Other tasks of the cluster by what is known of them.");
  for (const auto& [state, count] : peers) text.Sample({{"state", std::string(state)}}, count);
  text.Gauge("weir_tensor_bytes", "What larger tensors take in this process, variables among them.",
             static_cast<double>(HostAllocator().num_bytes_in_use()));
  text.Begin("weir_device_bytes", "gauge",
             "The same for a device's allocator: devices without a memory limit share one.");
  for (const auto& device : sources_.runtime->devices()) {
    text.Sample({{"device", device->name().ToString()}},
                static_cast<double>(device->allocator().num_bytes_in_use()));
  }
  text.Gauge("weir_plans", "Plans of sessions that have a part here.", sources_.worker->num_plans());
  text.Gauge("weir_running_steps", "Steps under way here.", sources_.worker->num_running_steps());
  if (sources_.use != nullptr) {
    const PeerUse::Amount use = sources_.use->total();
    text.Begin("weir_peer_use", "gauge", "What other tasks have taken of what --peer_limits limits.");
    text.Sample({{"kind", "sessions"}}, static_cast<double>(use.sessions));
    text.Sample({{"kind", "plans"}}, static_cast<double>(use.plans));
    text.Sample({{"kind", "edges"}}, static_cast<double>(use.edges));
    text.Sample({{"kind", "steps"}}, static_cast<double>(use.steps));
    text.Sample({{"kind", "bytes"}}, static_cast<double>(use.bytes));
  }
  if (sources_.inbound != nullptr) {
    const InboundBudget::Use inbound = sources_.inbound->use();
    text.Begin("weir_inbound_bytes", "gauge",
               "Tensors that other tasks push: the budget for all (--peer_limits=inbound=N), what they may "
               "have under way, what has come and is not delivered.");
    text.Sample({{"kind", "budget"}}, static_cast<double>(inbound.budget));
    text.Sample({{"kind", "granted"}}, static_cast<double>(inbound.granted));
    text.Sample({{"kind", "arrived"}}, static_cast<double>(inbound.arrived));
    text.Gauge("weir_inbound_senders", "Tasks that have pushed tensors and live.",
               static_cast<double>(inbound.senders));
    text.Begin("weir_inbound_refused_total", "counter",
               "Pushed messages that their sender had no room for here.");
    text.Sample({}, static_cast<double>(inbound.refused));
  }
  if (sources_.refused != nullptr) sources_.refused->AppendTo(&text);
  if (sources_.metrics != nullptr) sources_.metrics->AppendTo(&text);
  AppendProcessMetrics(&text);
  return text.Take();
}

}  // namespace weir
