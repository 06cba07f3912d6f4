#include "session/session.h"

#include <algorithm>
#include <cstdio>
#include <random>

#include "absl/strings/str_cat.h"
#include "graph/rewrite/constant_folding.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/evaluate.h"
#include "session/executor/program.h"

namespace weir {
namespace {

// Node ids with the counts in front: two signatures share a step when they are equal in order.
std::vector<int64_t> CacheKey(const StepSignature& signature) {
  std::vector<int64_t> key = {static_cast<int64_t>(signature.feeds.size()),
                              static_cast<int64_t>(signature.fetches.size())};
  for (const std::vector<Output>* outputs : {&signature.feeds, &signature.fetches}) {
    for (const Output& output : *outputs) {
      key.push_back(output.node->id());
      key.push_back(output.index);
    }
  }
  for (const Node* target : signature.targets) key.push_back(target->id());
  return key;
}

SessionId RandomId() {
  std::random_device random;
  return (uint64_t{random()} << 32 | random()) | 1;
}

absl::Status NullRef(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("a ", what, " is no node's output: building the graph failed (see the builder's status)"));
}

}  // namespace

absl::StatusOr<Output> TensorRef::Resolve(const Graph& graph) const {
  if (!name_.empty()) return graph.FindOutput(name_);
  if (!output_) return NullRef("feed or fetch");
  return output_;
}

absl::StatusOr<Node*> TargetRef::Resolve(const Graph& graph) const {
  if (!name_.empty()) return graph.LookupNode(name_);
  if (node_ == nullptr) return NullRef("target");
  return node_;
}

absl::Status PreparedStep::Run(absl::Span<const Tensor> feeds, absl::Span<Tensor> fetches,
                               const RunOptions& options) {
  for (size_t i = 0; i < std::min(feeds.size(), feed_types_.size()); ++i) {
    const FeedType& type = feed_types_[i];
    if (feeds[i].dtype() == type.dtype && type.shape.IsCompatibleWith(feeds[i].shape())) continue;
    return absl::InvalidArgumentError(absl::StrCat("feed '", type.name, "' must be ",
                                                   TypeString(type.dtype, type.shape), ", got ",
                                                   TypeString(feeds[i].dtype(), feeds[i].shape())));
  }
  const absl::Duration timeout = options.timeout > absl::ZeroDuration() ? options.timeout : timeout_;
  return plan_->Run(feeds, fetches, absl::Now() + timeout);
}

Session::Session(const Graph& graph, const KernelRegistry& kernels, const SessionOptions& options)
    : graph_(graph),
      kernels_(kernels),
      options_(options),
      id_(RandomId()),
      folding_device_(MakeCpuDevice("folding", 0, 0, folding_threads_)) {}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const Graph& graph, std::vector<Worker*> workers,
                                                         const KernelRegistry& kernels,
                                                         const SessionOptions& options) {
  if (workers.empty()) return absl::InvalidArgumentError("a session needs at least one worker");
  std::unique_ptr<Session> session(new Session(graph, kernels, options));
  if (session->options_.default_task.is_empty()) session->options_.default_task = workers[0]->task();
  const bool has_own_timeout = options.creation_timeout > absl::ZeroDuration();
  const absl::Time deadline =
      absl::Now() + (has_own_timeout ? options.creation_timeout : options.operation_timeout);
  for (Worker* worker : workers) {
    WEIR_ASSIGN_OR_RETURN(std::vector<DeviceAttributes> devices, worker->ListDevices(deadline));
    StepPlan::WorkerDevices entry = {worker, {}};
    for (const DeviceAttributes& device : devices) entry.devices.push_back(device.name);
    session->devices_.insert(session->devices_.end(), entry.devices.begin(), entry.devices.end());
    session->workers_.push_back(std::move(entry));
  }
  // The session's own task runs last of a step's workers: on the calling thread, after the others have been
  // asked.
  std::stable_partition(session->workers_.begin(), session->workers_.end(), [&](const auto& entry) {
    return !entry.worker->task().IsSameTask(session->options_.default_task);
  });
  return session;
}

Session::~Session() { Close(); }

absl::StatusOr<std::shared_ptr<PreparedStep>> Session::FindOrCompile(const StepSignature& signature) {
  const std::vector<int64_t> key = CacheKey(signature);
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return absl::CancelledError("the session is closed");
    auto found = cache_.find(key);
    if (found != cache_.end()) return found->second;
  }
  StepPlanOptions options;
  options.has_kernel = [this](const Node& node, absl::string_view type) { return HasKernel(node, type); };
  options.rewrite = [this](Graph& graph) {
    return FoldConstants(graph, [this](const Node& node, absl::Span<const Tensor> inputs) {
      return EvaluateNode(node, inputs, *folding_device_, kernels_);
    });
  };
  options.placer = {.default_task = options_.default_task,
                    .allow_soft_placement = options_.allow_soft_placement};
  options.want_report = options_.log_placement;
  options.session = id_;
  WEIR_ASSIGN_OR_RETURN(
      std::shared_ptr<StepPlan> plan,
      StepPlan::Compile(graph_, signature, workers_, options, absl::Now() + options_.operation_timeout));
  if (options_.log_placement) std::fputs(plan->placement_report().c_str(), stderr);
  std::vector<PreparedStep::FeedType> types;
  for (const Output& feed : signature.feeds) types.push_back({feed.name(), feed.dtype(), feed.shape()});
  std::shared_ptr<PreparedStep> step(new PreparedStep(plan, std::move(types), options_.operation_timeout));
  absl::MutexLock lock(&mutex_);
  // Another thread may have compiled the same step meanwhile: the first one stays.
  return cache_.emplace(key, std::move(step)).first->second;
}

absl::StatusOr<std::shared_ptr<PreparedStep>> Session::Prepare(const std::vector<TensorRef>& feeds,
                                                               const std::vector<TensorRef>& fetches,
                                                               const std::vector<TargetRef>& targets) {
  StepSignature signature;
  for (const TensorRef& feed : feeds) {
    WEIR_ASSIGN_OR_RETURN(Output output, feed.Resolve(graph_));
    signature.feeds.push_back(output);
  }
  for (const TensorRef& fetch : fetches) {
    WEIR_ASSIGN_OR_RETURN(Output output, fetch.Resolve(graph_));
    signature.fetches.push_back(output);
  }
  for (const TargetRef& target : targets) {
    WEIR_ASSIGN_OR_RETURN(Node * node, target.Resolve(graph_));
    signature.targets.push_back(node);
  }
  return FindOrCompile(signature);
}

absl::StatusOr<std::vector<Tensor>> Session::Run(const Feeds& feeds, const std::vector<TensorRef>& fetches,
                                                 const std::vector<TargetRef>& targets,
                                                 const RunOptions& options) {
  std::vector<TensorRef> feed_refs;
  std::vector<Tensor> feed_tensors;
  for (const auto& [ref, tensor] : feeds) {
    feed_refs.push_back(ref);
    feed_tensors.push_back(tensor);
  }
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<PreparedStep> step, Prepare(feed_refs, fetches, targets));
  std::vector<Tensor> results(fetches.size());
  WEIR_RETURN_IF_ERROR(step->Run(feed_tensors, absl::MakeSpan(results), options));
  return results;
}

bool Session::HasKernel(const Node& node, absl::string_view device_type) const {
  return NeedsNoKernel(node) || kernels_.HasKernel(node, device_type);
}

absl::StatusOr<std::unique_ptr<Graph>> Session::PlacedGraph() const {
  std::unique_ptr<Graph> placed = graph_.Clone();
  WEIR_RETURN_IF_ERROR(PlaceGraph(
      *placed, devices_, [this](const Node& node, absl::string_view type) { return HasKernel(node, type); },
      {.default_task = options_.default_task, .allow_soft_placement = options_.allow_soft_placement}));
  return placed;
}

void Session::Close() {
  std::vector<std::shared_ptr<PreparedStep>> steps;
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return;
    closed_ = true;
    for (auto& [key, step] : cache_) steps.push_back(step);
    cache_.clear();
  }
  for (const auto& step : steps) step->plan_->CancelAll(absl::CancelledError("the session was closed"));
  if (steps.empty()) return;
  for (const auto& entry : workers_) entry.worker->EndSession(id_);
}

}  // namespace weir
