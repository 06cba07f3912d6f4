#include "session/session.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/node_of_graph.h"
#include "graph/rewrite/pipeline.h"
#include "graph/rewrite/prune.h"
#include "graph/types/status_macros.h"
#include "kernels/memory_kind.h"
#include "placer/partitioner.h"
#include "session/call_together.h"
#include "session/executor/program.h"
#include "session/fetched_references.h"
#include "session/folding.h"
#include "session/partial_run.h"
#include "session/step_trace.h"

namespace weir {
namespace {

// Node ids with the counts in front: two signatures share a step when they are equal in order, and both or
// none of them for partial runs. What was compiled before the graph forgot shapes is for another graph.
std::vector<int64_t> CacheKey(const StepSignature& signature, bool is_partial) {
  const auto num_feeds = static_cast<int64_t>(signature.feeds.size());
  std::vector<int64_t> key = {signature.num_forgotten_shapes, is_partial ? -1 - num_feeds : num_feeds,
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

// A signature that is the same whatever order was asked for, and how to get from one to the other.
struct SortedSignature {
  StepSignature signature;
  std::vector<int> feed_order;   // sorted feed i is the caller's feed_order[i]
  std::vector<int> fetch_order;  // the caller's fetch i is sorted fetch fetch_order[i]
  bool is_reordered = false;
};

bool IsBefore(const Output& a, const Output& b) {
  return std::make_pair(a.node->id(), a.index) < std::make_pair(b.node->id(), b.index);
}

SortedSignature Sort(const StepSignature& asked) {
  SortedSignature sorted;
  sorted.signature.num_forgotten_shapes = asked.num_forgotten_shapes;
  sorted.feed_order.resize(asked.feeds.size());
  std::iota(sorted.feed_order.begin(), sorted.feed_order.end(), 0);
  std::stable_sort(sorted.feed_order.begin(), sorted.feed_order.end(),
                   [&](int a, int b) { return IsBefore(asked.feeds[a], asked.feeds[b]); });
  for (const int feed : sorted.feed_order) sorted.signature.feeds.push_back(asked.feeds[feed]);

  std::vector<Output>& fetches = sorted.signature.fetches;
  fetches = asked.fetches;
  std::sort(fetches.begin(), fetches.end(), IsBefore);
  fetches.erase(std::unique(fetches.begin(), fetches.end()), fetches.end());
  for (const Output& fetch : asked.fetches) {
    sorted.fetch_order.push_back(static_cast<int>(
        std::lower_bound(fetches.begin(), fetches.end(), fetch, IsBefore) - fetches.begin()));
  }

  std::vector<Node*>& targets = sorted.signature.targets;
  targets = asked.targets;
  std::sort(targets.begin(), targets.end(), [](const Node* a, const Node* b) { return a->id() < b->id(); });
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());

  sorted.is_reordered = fetches.size() != asked.fetches.size() ||
                        !std::is_sorted(sorted.feed_order.begin(), sorted.feed_order.end()) ||
                        !std::is_sorted(sorted.fetch_order.begin(), sorted.fetch_order.end());
  return sorted;
}

absl::Status NullRef(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("a ", what, " is no node's output: building the graph failed (see the builder's status)"));
}

}  // namespace

absl::StatusOr<Output> TensorRef::Resolve(const Graph& graph) const {
  if (!name_.empty()) return graph.FindOutput(name_);
  if (!output_) return NullRef("feed or fetch");
  WEIR_RETURN_IF_ERROR(CheckNodeOf(graph, *output_.node));
  if (output_.index < 0 || output_.index >= output_.node->num_outputs()) {
    return absl::OutOfRangeError(absl::StrCat("'", output_.name(), "': ", output_.node->Describe(), " has ",
                                              output_.node->num_outputs(), " outputs"));
  }
  return output_;
}

absl::StatusOr<Output> TensorRef::ResolveFetch(const Graph& graph) const {
  return name_.empty() ? Resolve(graph) : graph.FindValue(name_);
}

absl::StatusOr<std::string> TensorRef::Name() const {
  if (name_.empty() && !output_) return NullRef("feed or fetch");
  if (name_.empty()) return output_.name();
  return absl::StrContains(name_, ':') ? name_ : absl::StrCat(name_, ":0");
}

absl::StatusOr<Node*> TargetRef::Resolve(const Graph& graph) const {
  if (!name_.empty()) return graph.LookupNode(name_);
  if (node_ == nullptr) return NullRef("target");
  WEIR_RETURN_IF_ERROR(CheckNodeOf(graph, *node_));
  return node_;
}

Session::Session(const Graph& graph, const KernelRegistry& kernels, const SessionOptions& options)
    : graph_(graph),
      kernels_(kernels),
      options_(options),
      placement_files_(
          options.placement_dir.empty() ? nullptr : std::make_unique<PlacementFiles>(options.placement_dir)),
      id_(options.environment->Random() | 1) {}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const Graph& graph, std::vector<Worker*> workers,
                                                         const KernelRegistry& kernels,
                                                         const SessionOptions& options) {
  if (workers.empty()) return absl::InvalidArgumentError("a session needs at least one worker");
  if (std::find(workers.begin(), workers.end(), nullptr) != workers.end()) {
    return absl::InvalidArgumentError("one of a session's workers is null");
  }
  if (options.environment == nullptr) return absl::InvalidArgumentError("a session needs an environment");
  std::unique_ptr<Session> session(new Session(graph, kernels, options));
  if (session->options_.default_task.is_empty()) session->options_.default_task = workers[0]->task();
  const bool has_own_timeout = options.creation_timeout > absl::ZeroDuration();
  const absl::Time deadline =
      options.environment->Now() + (has_own_timeout ? options.creation_timeout : options.operation_timeout);
  std::vector<std::vector<DeviceAttributes>> devices_of(workers.size());
  WEIR_RETURN_IF_ERROR(CallTogether(*options.environment, workers.size(), [&](size_t i) {
    absl::StatusOr<std::vector<DeviceAttributes>> devices = workers[i]->ListDevices(deadline);
    if (devices.ok()) devices_of[i] = *std::move(devices);
    return devices.status();
  }));
  for (size_t i = 0; i < workers.size(); ++i) {
    Worker* const worker = workers[i];
    const std::vector<DeviceAttributes>& devices = devices_of[i];
    StepPlan::WorkerDevices entry = {worker, {}, 0};
    for (const DeviceAttributes& device : devices) entry.devices.push_back(device.name);
    if (!devices.empty()) entry.first_device = devices[0].incarnation;
    session->devices_.insert(session->devices_.end(), entry.devices.begin(), entry.devices.end());
    session->workers_.push_back(std::move(entry));
  }
  // The worker of this process runs last of a step's workers: on the calling thread, after the others have
  // been asked. Of several the session's own task does.
  const auto rank_of = [&](const StepPlan::WorkerDevices& entry) {
    const bool is_here = entry.worker->owners() != nullptr;
    return 2 * is_here + entry.worker->task().IsSameTask(session->options_.default_task);
  };
  std::stable_sort(session->workers_.begin(), session->workers_.end(),
                   [&](const auto& a, const auto& b) { return rank_of(a) < rank_of(b); });
  return session;
}

Session::~Session() { Close(); }

absl::StatusOr<std::shared_ptr<PreparedStep>> Session::FindOrCompile(const StepSignature& signature,
                                                                     bool is_partial, absl::Time deadline) {
  Key key = CacheKey(signature, is_partial);
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return absl::CancelledError("the session is closed");
    auto found = cached_.find(key);
    if (found != cached_.end()) {
      cache_.splice(cache_.begin(), cache_, found->second);
      return found->second->step;
    }
  }
  const SortedSignature sorted = is_partial ? SortedSignature{signature, {}, {}} : Sort(signature);
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<StepPlan> plan,
                        FindOrCompilePlan(sorted.signature, is_partial, deadline));
  std::shared_ptr<PreparedStep> step(new PreparedStep);
  step->plan_ = std::move(plan);
  step->timeout_ = options_.operation_timeout;
  step->is_reordered_ = sorted.is_reordered;
  step->feed_order_ = sorted.feed_order;
  step->fetch_order_ = sorted.fetch_order;
  step->num_plan_fetches_ = static_cast<int>(sorted.signature.fetches.size());
  {
    absl::ReaderMutexLock lock(&graph_mutex_);
    for (const Output& feed : signature.feeds) {
      step->feed_types_.push_back({feed.name(), feed.dtype(), feed.shape()});
    }
    if (is_partial) {
      auto partial = std::make_shared<PartialSignature>(PartialSignature{step->feed_types_, {}});
      for (const Output& fetch : signature.fetches) partial->fetches.push_back(fetch.name());
      step->partial_ = std::move(partial);
    }
  }
  std::shared_ptr<PreparedStep> evicted;  // dropped after the lock
  absl::MutexLock lock(&mutex_);
  if (closed_) return absl::CancelledError("the session is closed");
  auto found = cached_.find(key);  // another thread may have made the same step: the first one stays
  if (found != cached_.end()) return found->second->step;
  cache_.push_front({key, step});
  cached_.emplace(std::move(key), cache_.begin());
  if (static_cast<int>(cache_.size()) > std::max(1, options_.max_cached_signatures)) {
    evicted = std::move(cache_.back().step);
    cached_.erase(cache_.back().key);
    cache_.pop_back();
  }
  return step;
}

absl::StatusOr<std::shared_ptr<StepPlan>> Session::FindOrCompilePlan(const StepSignature& sorted,
                                                                     bool is_partial, absl::Time deadline) {
  Key key = CacheKey(sorted, is_partial);
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return absl::CancelledError("the session is closed");
    auto found = plans_.find(key);
    if (found != plans_.end()) {
      if (std::shared_ptr<StepPlan> plan = found->second.lock()) return plan;
    }
    ++num_compiling_;
    has_compiled_ = true;
  }
  const absl::StatusOr<std::shared_ptr<StepPlan>> compiled = CompilePlan(sorted, is_partial, deadline);
  absl::StatusOr<std::shared_ptr<StepPlan>> result = compiled;
  bool is_last = false;
  {
    absl::MutexLock lock(&mutex_);
    is_last = --num_compiling_ == 0 && closed_;
    if (closed_ && compiled.ok()) {
      result = absl::CancelledError("the session is closed");
    } else if (compiled.ok()) {
      absl::erase_if(plans_, [](const auto& entry) { return entry.second.expired(); });
      std::weak_ptr<StepPlan>& known = plans_[std::move(key)];
      if (std::shared_ptr<StepPlan> first = known.lock()) {
        result = std::move(first);  // another thread has compiled the same one meanwhile
      } else {
        known = *compiled;
      }
    }
  }
  if (is_last) {
    if (compiled.ok()) (*compiled)->Close(result.status());
    EndOnWorkers();
  }
  return result;
}

absl::StatusOr<StepPlanOptions::LateExchange> Session::LateExchangeOf(const StepSignature& signature) const {
  StepPlanOptions::LateExchange late_exchange;
  const auto cpu = std::find_if(devices_.begin(), devices_.end(), [this](const DeviceName& device) {
    return device.type == "CPU" && device.IsSameTask(options_.default_task);
  });
  if (cpu == devices_.end()) {
    return absl::UnimplementedError(absl::StrCat("a partial run needs a CPU of the session's own task ",
                                                 options_.default_task.ToString(), ", which has none"));
  }
  late_exchange.device = *cpu;
  absl::ReaderMutexLock lock(&graph_mutex_);
  for (const Output& feed : signature.feeds) late_exchange.feeds.push_back(feed.name());
  return late_exchange;
}

absl::StatusOr<StepPlanOptions> Session::PlanOptions(const StepSignature& signature, bool is_partial,
                                                     absl::Time deadline) {
  StepPlanOptions options;
  if (is_partial) {
    WEIR_ASSIGN_OR_RETURN(options.late_exchange, LateExchangeOf(signature));
  }
  const KernelAvailability has_kernel = [this](const Node& node, absl::string_view type) {
    return HasKernel(node, type);
  };
  options.has_kernel = has_kernel;
  // The check after the pass says what is over.
  WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<Folding> folding, StartFolding(deadline));
  const auto fold = [folding](const Node& node, absl::Span<const Tensor> inputs) {
    return folding->Evaluate(node, inputs);
  };
  options.rewrite = [this, is_partial, fold](Graph& graph) {  // a pruned copy of graph_
    // A part of a partial run must not wait for an update that waits for the feeds of a later one.
    if (!is_partial) {
      absl::ReaderMutexLock lock(&graph_mutex_);
      WEIR_RETURN_IF_ERROR(ReadFetchedReferencesLast(graph_, graph));
    }
    if (options_.isolate_session_state) UsePrivateContainers(graph);
    return RewriteBeforePlacement(graph, fold, options_.rewrites);
  };
  options.rewrite_placed = [this, has_kernel, is_partial](std::unique_ptr<Graph>& graph) {
    return RewriteAfterPlacement(graph, has_kernel, options_.rewrites,
                                 is_partial ? Waits::kMustNotGrow : Waits::kMayGrow);
  };
  options.computes_on_host = [this](const Node& node, absl::string_view type) {
    return ComputesOnHost(node, type);
  };
  options.placer = {.default_task = options_.default_task,
                    .allow_soft_placement = options_.allow_soft_placement,
                    .unfit_kinds = FindUnfit()};
  options.state_places = PlacesOfState();
  options.placer.state_places = options.state_places.get();
  options.session = id_;
  options.environment = options_.environment;
  return options;
}

absl::StatusOr<std::shared_ptr<Folding>> Session::StartFolding(absl::Time deadline) {
  auto folding = std::make_shared<Folding>(kernels_, folding_threads_, *options_.environment, deadline);
  absl::MutexLock lock(&mutex_);
  if (closed_) return absl::CancelledError("the session is closed");
  foldings_.erase(std::remove_if(foldings_.begin(), foldings_.end(),
                                 [](const std::weak_ptr<Folding>& known) { return known.expired(); }),
                  foldings_.end());
  foldings_.push_back(folding);
  return folding;
}

void Session::EndInTime(StepPlanOptions* options, absl::Time deadline) {
  // Between the passes: a large graph takes long, and memory that a session which is closed shall give back.
  const auto may_go_on = [this, deadline](const Graph& graph) -> absl::Status {
    WEIR_RETURN_IF_ERROR(CheckOpen());
    if (options_.environment->Now() < deadline) return absl::OkStatus();
    return absl::DeadlineExceededError(
        absl::StrCat("a step of ", graph.num_nodes(), " nodes has run out of time while it was compiled"));
  };
  options->rewrite = [may_go_on, rewrite = std::move(options->rewrite)](Graph& graph) -> absl::Status {
    WEIR_RETURN_IF_ERROR(may_go_on(graph));
    WEIR_RETURN_IF_ERROR(rewrite(graph));
    return may_go_on(graph);
  };
  options->rewrite_placed = [may_go_on, rewrite = std::move(options->rewrite_placed)](
                                std::unique_ptr<Graph>& graph) -> absl::Status {
    WEIR_RETURN_IF_ERROR(may_go_on(*graph));
    WEIR_RETURN_IF_ERROR(rewrite(graph));
    return may_go_on(*graph);
  };
}

std::shared_ptr<const StatePlaces> Session::PlacesOfState() const {
  absl::ReaderMutexLock graph_lock(&graph_mutex_);
  absl::MutexLock lock(&places_mutex_);
  if (state_places_ != nullptr && num_nodes_placed_ == graph_.num_nodes()) return state_places_;
  auto places = state_places_ == nullptr ? std::make_shared<StatePlaces>()
                                         : std::make_shared<StatePlaces>(*state_places_);
  PlaceState(
      graph_, devices_, [this](const Node& node, absl::string_view type) { return HasKernel(node, type); },
      {.default_task = options_.default_task, .allow_soft_placement = options_.allow_soft_placement},
      places.get());
  state_places_ = std::move(places);
  num_nodes_placed_ = graph_.num_nodes();
  return state_places_;
}

absl::Status Session::CheckOpen() const {
  absl::MutexLock lock(&mutex_);
  return closed_ ? absl::CancelledError("the session is closed") : absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<StepPlan>> Session::CompilePlan(const StepSignature& sorted, bool is_partial,
                                                               absl::Time deadline) {
  deadline = std::min(deadline, options_.environment->Now() + options_.operation_timeout);
  WEIR_ASSIGN_OR_RETURN(StepPlanOptions options, PlanOptions(sorted, is_partial, deadline));
  options.want_report = options_.log_placement || placement_files_ != nullptr;
  std::unique_ptr<Graph> pruned;
  {
    absl::ReaderMutexLock lock(&graph_mutex_);
    WEIR_ASSIGN_OR_RETURN(pruned, PruneToSignature(graph_, sorted.feeds, sorted.fetches, sorted.targets));
  }
  EndInTime(&options, deadline);
  WEIR_ASSIGN_OR_RETURN(
      std::shared_ptr<StepPlan> plan,
      StepPlan::Compile(std::move(pruned), static_cast<int>(sorted.feeds.size()),
                        static_cast<int>(sorted.fetches.size()), workers_, options, deadline));
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, kind] : plan->resources()) kinds_of_resources_.emplace(name, kind);
  }
  if (options_.log_placement) std::fputs(plan->placement_report().text.c_str(), stderr);
  if (placement_files_ != nullptr) WEIR_RETURN_IF_ERROR(placement_files_->Write(plan->placement_report()));
  return plan;
}

absl::StatusOr<std::vector<std::unique_ptr<Graph>>> Session::PartitionGraphs(
    const std::vector<TensorRef>& feeds, const std::vector<TensorRef>& fetches,
    const std::vector<TargetRef>& targets, absl::Time deadline) {
  WEIR_RETURN_IF_ERROR(CheckOpen());
  WEIR_ASSIGN_OR_RETURN(const StepSignature signature, Resolve(feeds, fetches, targets));
  deadline = std::min(deadline, options_.environment->Now() + options_.operation_timeout);
  WEIR_ASSIGN_OR_RETURN(StepPlanOptions options, PlanOptions(signature, /*is_partial=*/false, deadline));
  EndInTime(&options, deadline);
  std::unique_ptr<Graph> pruned;
  {
    absl::ReaderMutexLock lock(&graph_mutex_);
    WEIR_ASSIGN_OR_RETURN(pruned,
                          PruneToSignature(graph_, signature.feeds, signature.fetches, signature.targets));
  }
  WEIR_ASSIGN_OR_RETURN(PartitionedGraph partitioned, StepPlan::Cut(pruned, workers_, options));
  std::vector<std::unique_ptr<Graph>> graphs;
  for (Partition& partition : partitioned.partitions) {
    if (partition.graph != nullptr) graphs.push_back(std::move(partition.graph));
  }
  return graphs;
}

bool Session::has_remote_workers() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const auto& entry) { return entry.worker->owners() == nullptr; });
}

absl::Status Session::Restore(RestoreProgress& progress, absl::FunctionRef<absl::Status()> set) {
  has_restored_ = true;
  const auto deadline = [this] { return options_.environment->Now() + options_.operation_timeout; };
  std::vector<uint64_t> lives;
  for (const auto& entry : workers_) lives.push_back(entry.first_device);
  const bool was_set = progress.set_on == lives;
  if (!was_set) {
    // Where an earlier attempt has ended it is undone: another worker has lost what it has set.
    const auto now = static_cast<uint64_t>(absl::ToUnixNanos(options_.environment->SteadyNow()));
    progress = {.id = std::max(progress.id + 1, now), .set_on = {}, .applied_updates = {}};
    for (const auto& entry : workers_) {
      WEIR_RETURN_IF_ERROR(entry.worker->BeginRestore(progress.id, deadline()));
    }
    WEIR_RETURN_IF_ERROR(set());
    progress.set_on = std::move(lives);
  }
  for (const auto& entry : workers_) {
    const absl::Status ended = entry.worker->EndRestore(progress.id, progress.applied_updates, deadline());
    if (ended.ok()) continue;
    // A worker that gave the restore up after all was set has opened by itself. Before, others may have
    // trained on values of which only some were set.
    if (was_set && absl::IsAborted(ended)) continue;
    if (absl::IsAborted(ended)) progress.set_on.clear();
    return ended;
  }
  progress.set_on.clear();
  return absl::OkStatus();
}

std::string Session::AppliedUpdates() const {
  std::string all;
  for (const auto& entry : workers_) all += entry.worker->AppliedUpdates();
  return all;
}

void Session::UsePrivateContainers(Graph& graph) {
  for (const auto& node : graph.nodes()) {
    const AttrValue* const container = node->FindAttr("container");
    const std::string* const name = container == nullptr ? nullptr : container->get_if<std::string>();
    if (name == nullptr) continue;
    std::string own = absl::StrCat("session_", absl::Hex(id_), name->empty() ? "" : "/", *name);
    {
      absl::MutexLock lock(&mutex_);
      private_containers_.insert(own);
    }
    graph.SetAttr(node.get(), "container", std::move(own));
  }
}

absl::Status Session::Extend(absl::FunctionRef<absl::Status()> add) {
  absl::MutexLock lock(&graph_mutex_);
  const absl::Status added = add();
  num_forgotten_shapes_ = NumForgottenShapes(graph_);
  return added;
}

absl::StatusOr<StepSignature> Session::Resolve(const std::vector<TensorRef>& feeds,
                                               const std::vector<TensorRef>& fetches,
                                               const std::vector<TargetRef>& targets) const {
  absl::ReaderMutexLock lock(&graph_mutex_);
  StepSignature signature;
  for (const TensorRef& feed : feeds) {
    WEIR_ASSIGN_OR_RETURN(Output output, feed.Resolve(graph_));
    signature.feeds.push_back(output);
  }
  for (const TensorRef& fetch : fetches) {
    WEIR_ASSIGN_OR_RETURN(Output output, fetch.ResolveFetch(graph_));
    signature.fetches.push_back(output);
  }
  for (const TargetRef& target : targets) {
    WEIR_ASSIGN_OR_RETURN(Node * node, target.Resolve(graph_));
    signature.targets.push_back(node);
  }
  signature.num_forgotten_shapes = num_forgotten_shapes_;
  return signature;
}

absl::StatusOr<std::shared_ptr<PreparedStep>> Session::Prepare(const std::vector<TensorRef>& feeds,
                                                               const std::vector<TensorRef>& fetches,
                                                               const std::vector<TargetRef>& targets,
                                                               absl::Time deadline) {
  // Before the graph is read: it need not outlive a closed session, but a late thread may.
  WEIR_RETURN_IF_ERROR(CheckOpen());
  WEIR_ASSIGN_OR_RETURN(const StepSignature signature, Resolve(feeds, fetches, targets));
  return FindOrCompile(signature, /*is_partial=*/false, deadline);
}

absl::StatusOr<std::unique_ptr<PartialRun>> Session::StartPartialRun(const std::vector<TensorRef>& feeds,
                                                                     const std::vector<TensorRef>& fetches,
                                                                     const std::vector<TargetRef>& targets,
                                                                     const RunOptions& options,
                                                                     absl::Time deadline) {
  WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<PreparedStep> step,
                        PreparePartialRun(feeds, fetches, targets, deadline));
  return step->StartPartialRun(options);
}

absl::StatusOr<std::shared_ptr<PreparedStep>> Session::PreparePartialRun(
    const std::vector<TensorRef>& feeds, const std::vector<TensorRef>& fetches,
    const std::vector<TargetRef>& targets, absl::Time deadline) {
  WEIR_RETURN_IF_ERROR(CheckOpen());  // as in Prepare
  WEIR_ASSIGN_OR_RETURN(StepSignature signature, Resolve(feeds, fetches, targets));
  if (signature.fetches.empty() && signature.targets.empty()) {
    return absl::InvalidArgumentError("a partial run needs at least one fetch or target");
  }
  absl::flat_hash_set<Output> known;
  signature.fetches.erase(
      std::remove_if(signature.fetches.begin(), signature.fetches.end(),
                     [&known](const Output& fetch) { return !known.insert(fetch).second; }),
      signature.fetches.end());
  return FindOrCompile(signature, /*is_partial=*/true, deadline);
}

std::unique_ptr<PartialRun> PreparedStep::StartPartialRun(const RunOptions& options) {
  return std::unique_ptr<PartialRun>(new PartialRun(plan_, partial_, Deadline(options)));
}

absl::StatusOr<std::vector<Tensor>> Session::Run(const Feeds& feeds, const std::vector<TensorRef>& fetches,
                                                 const std::vector<TargetRef>& targets,
                                                 const RunOptions& options, RunMetadata* metadata) {
  std::vector<TensorRef> feed_refs;
  std::vector<Tensor> feed_tensors;
  for (const auto& [ref, tensor] : feeds) {
    feed_refs.push_back(ref);
    feed_tensors.push_back(tensor);
  }
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<PreparedStep> step, Prepare(feed_refs, fetches, targets));
  std::vector<Tensor> results(fetches.size());
  WEIR_RETURN_IF_ERROR(step->Run(feed_tensors, absl::MakeSpan(results), options, metadata));
  return results;
}

bool Session::HasKernel(const Node& node, absl::string_view device_type) const {
  return NeedsNoKernel(node) || kernels_.HasKernel(node, device_type);
}

bool Session::ComputesOnHost(const Node& node, absl::string_view device_type) const {
  if (device_type == "CPU" || NeedsNoKernel(node)) return false;
  if (kernels_.KindsOf(node, device_type).own != MemoryKind::kHost) return false;
  return std::any_of(node.inputs().begin(), node.inputs().end(),
                     [](const Output& input) { return IsPlainBytes(input.dtype()); });
}

UnfitKinds Session::FindUnfit() const {
  KindsOfResources placed;
  {
    absl::MutexLock lock(&mutex_);
    placed = kinds_of_resources_;
  }
  absl::ReaderMutexLock lock(&graph_mutex_);
  return FindUnfitKinds(
      graph_, devices_, [this](const Node& node, absl::string_view type) { return HasKernel(node, type); },
      placed);
}

absl::StatusOr<std::unique_ptr<Graph>> Session::PlacedGraph() const {
  const std::shared_ptr<const StatePlaces> state_places = PlacesOfState();
  std::unique_ptr<Graph> placed;
  {
    absl::ReaderMutexLock lock(&graph_mutex_);
    placed = graph_.Clone();
  }
  WEIR_RETURN_IF_ERROR(PlaceGraph(
      *placed, devices_, [this](const Node& node, absl::string_view type) { return HasKernel(node, type); },
      {.default_task = options_.default_task,
       .allow_soft_placement = options_.allow_soft_placement,
       .unfit_kinds = FindUnfit(),
       .state_places = state_places.get()}));
  return placed;
}

void Session::Close() {
  std::list<CachedStep> cache;                     // dropped after the lock
  std::map<Key, std::shared_ptr<StepPlan>> plans;  // in one order for all runs of a program
  std::vector<std::weak_ptr<Folding>> foldings;
  bool is_last = false;
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return;
    closed_ = true;
    foldings.swap(foldings_);
    for (auto& [key, known] : plans_) {
      if (std::shared_ptr<StepPlan> plan = known.lock()) plans.emplace(key, std::move(plan));
    }
    cache.swap(cache_);
    cached_.clear();
    plans_.clear();
    is_last = has_compiled_ && num_compiling_ == 0;  // else the last one that compiles
  }
  for (const std::weak_ptr<Folding>& known : foldings) {
    if (const std::shared_ptr<Folding> folding = known.lock()) {
      folding->Cancel(absl::CancelledError("the session is closed"));
    }
  }
  for (const auto& [key, plan] : plans) plan->Close(absl::CancelledError("the session was closed"));
  if (is_last) EndOnWorkers();
}

void Session::EndOnWorkers() {
  constexpr absl::Duration kPatience = absl::Seconds(10);
  std::vector<std::string> containers;
  {
    absl::MutexLock lock(&mutex_);
    containers.assign(private_containers_.begin(), private_containers_.end());
  }
  for (const auto& entry : workers_) entry.worker->EndSession(id_);
  if (containers.empty()) return;
  // All at once: the time of those that are silent passes once. A worker that cannot be reached has lost what
  // it had for this session anyway.
  const absl::Time deadline = options_.environment->Now() + kPatience;
  std::vector<std::unique_ptr<StartedThread>> threads;
  for (const auto& entry : workers_) {
    const auto reset = [worker = entry.worker, &containers, deadline] {
      worker->ResetContainers(containers, deadline).IgnoreError();
    };
    absl::StatusOr<std::unique_ptr<StartedThread>> thread = options_.environment->StartThread(reset);
    if (thread.ok()) {
      threads.push_back(*std::move(thread));
    } else {
      reset();
    }
  }
  for (const auto& thread : threads) thread->Join();
}

}  // namespace weir
