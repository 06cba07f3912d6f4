#include "tests/random_graphs/runner.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <queue>
#include <thread>

#include "absl/strings/str_cat.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "graph/interchange/graph_def.h"
#include "graph/types/status_macros.h"
#include "ops/register_ops.h"

namespace weir::random_graphs {
namespace {

// Also for a loop that never ends.
constexpr absl::Duration kPatience = absl::Seconds(30);

bool IsSame(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  return a.num_bytes() == 0 || std::memcmp(a.data(), b.data(), a.num_bytes()) == 0;
}

Feeds FeedsOf(const GraphCase& graph_case) {
  Feeds feeds;
  for (const auto& [output, value] : graph_case.feeds) feeds.emplace_back(output, value);
  return feeds;
}

std::vector<TensorRef> FetchesOf(const GraphCase& graph_case) {
  return {graph_case.fetches.begin(), graph_case.fetches.end()};
}

std::vector<TargetRef> TargetsOf(const GraphCase& graph_case) {
  return {graph_case.targets.begin(), graph_case.targets.end()};
}

std::vector<Tensor> CloneAll(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> clones;
  for (const Tensor& tensor : tensors) clones.push_back(tensor.Clone());
  return clones;
}

absl::Status ResetAll(const std::vector<Worker*>& workers) {
  for (Worker* worker : workers) {
    WEIR_RETURN_IF_ERROR(worker->ResetContainers({}, absl::Now() + kPatience));
  }
  return absl::OkStatus();
}

// With the feeds, for constants may be fed.
absl::Status Initialize(const GraphCase& graph_case, Session& session) {
  if (graph_case.initializer == nullptr) return absl::OkStatus();
  return session.Run(FeedsOf(graph_case), {}, {graph_case.initializer}).status();
}

// Nodes by id in an order that could as well have been the one in which they were built.
absl::StatusOr<std::vector<const Node*>> RandomOrder(const Graph& graph, Random& random) {
  std::vector<int> pending(graph.num_nodes(), 0);
  std::vector<std::vector<int>> users(graph.num_nodes());
  for (const auto& node : graph.nodes()) {
    const auto follows = [&](const Node* before) {
      if (before->op_name() == "NextIteration") return;
      users[before->id()].push_back(node->id());
      ++pending[node->id()];
    };
    for (const Output& input : node->inputs()) follows(input.node);
    for (const Node* before : node->control_inputs()) follows(before);
  }
  std::vector<int> ready;
  for (int id = 0; id < graph.num_nodes(); ++id) {
    if (pending[id] == 0) ready.push_back(id);
  }
  std::vector<const Node*> order;
  while (!ready.empty()) {
    std::swap(ready[random.Below(static_cast<int64_t>(ready.size()))], ready.back());
    const int id = ready.back();
    ready.pop_back();
    order.push_back(graph.node(id));
    for (int user : users[id]) {
      if (--pending[user] == 0) ready.push_back(user);
    }
  }
  if (static_cast<int>(order.size()) != graph.num_nodes()) return absl::InvalidArgumentError("a cycle");
  return order;
}

bool UsesResource(const Node& node) {
  return std::any_of(node.inputs().begin(), node.inputs().end(),
                     [](const Output& input) { return input.dtype() == DType::kResource; });
}

// A variable of each group that some op reads together (a model's and its slots): they share a device.
std::map<const Node*, const Node*> VariablesTogether(const Graph& graph) {
  std::map<const Node*, const Node*> leaders;
  const auto leader_of = [&](const Node* handle) {
    while (leaders[handle] != nullptr && leaders[handle] != handle) handle = leaders[handle];
    return handle;
  };
  for (const auto& node : graph.nodes()) {
    const Node* first = nullptr;
    for (const Output& input : node->inputs()) {
      if (input.node->op_name() != "VarHandleOp") continue;
      const Node* const leader = leader_of(input.node);
      if (first == nullptr) first = leader;
      leaders[leader] = first;
    }
  }
  for (auto& [handle, leader] : leaders) leader = leader_of(handle);
  return leaders;
}

// A copy whose nodes ask for devices by chance, those of loops too. A variable's device is always said, and
// its users follow it.
absl::StatusOr<GraphCase> OnRandomDevices(const GraphCase& original, const std::vector<std::string>& devices,
                                          Random& random) {
  std::vector<DeviceName> names;
  for (const std::string& device : devices) {
    WEIR_ASSIGN_OR_RETURN(DeviceName name, DeviceName::Parse(device));
    names.push_back(std::move(name));
  }
  std::map<const Node*, DeviceName> of_variables;
  const auto leaders = VariablesTogether(original.graph());
  for (const auto& [handle, leader] : leaders) {
    if (handle == leader) of_variables.emplace(leader, random.Pick(names));
  }
  Edits edits;
  edits.device = [&](const Node& node) {
    if (auto found = leaders.find(&node); found != leaders.end()) return of_variables.at(found->second);
    if (UsesResource(node) || !node.colocation_names().empty()) return DeviceName();
    const bool is_free = node.op_name() != "VarHandleOp" && random.Chance(20);
    return is_free ? DeviceName() : random.Pick(names);
  };
  return CopyCase(original, edits);
}

}  // namespace

const char* WayName(Way way) {
  switch (way) {
    case Way::kPlain:
      return "plain";
    case Way::kOneThread:
      return "one thread";
    case Way::kEightThreads:
      return "eight threads";
    case Way::kOneFetch:
      return "one fetch";
    case Way::kOtherOrder:
      return "other order";
    case Way::kDevices:
      return "devices";
    case Way::kTasks:
      return "tasks";
    case Way::kNothingFolded:
      return "nothing folded";
    case Way::kNotRewritten:
      return "not rewritten";
    case Way::kSerialized:
      return "serialized";
    case Way::kCancelled:
      return "cancelled";
    case Way::kTwoAtOnce:
      return "two at once";
    case Way::kGpus:
      return "GPUs";
  }
  return "";
}

Runner::Process Runner::Start(const RuntimeOptions& options) {
  Process process;
  process.runtime = Runtime::Create(options).value();
  process.worker = std::make_unique<LocalWorker>(*process.runtime, process.runtime->task());
  return process;
}

Runner::Runner(const CudaBackend* gpus)
    : plain_(Start({.num_threads = 2})),
      one_thread_(Start({.num_threads = 1})),
      eight_threads_(Start({.num_threads = 8})),
      devices_(Start({.num_cpus = 2, .num_fake_gpus = 2, .num_threads = 2})),
      transport_(MakeInprocTransport(MakeInprocNetwork())) {
  if (gpus != nullptr) gpus_ = Start({.num_gpus = 1, .num_threads = 2, .cuda = gpus});
  ClusterSpec cluster;
  const std::vector<TaskName> tasks = {{"ps", 0}, {"worker", 0}, {"worker", 1}};
  for (size_t i = 0; i < tasks.size(); ++i) {
    (void)cluster.AddTask(tasks[i], absl::StrCat("inproc:", i + 1));
  }
  for (const TaskName& task : tasks) {
    ServerOptions options;
    options.num_threads = 1;
    options.transport = transport_.get();
    options.lease = absl::Minutes(10);  // nobody dies here; a slow machine must not look like it
    servers_.push_back(Server::Start(TaskConfig::Create(cluster, task).value(), options).value());
  }
}

Runner::~Runner() {
  for (auto server = servers_.rbegin(); server != servers_.rend(); ++server) (*server)->Shutdown();
}

absl::StatusOr<Results> Runner::Run(const GraphCase& graph_case, Way way, Random& random) {
  switch (way) {
    case Way::kPlain:
      return RunIn(plain_, graph_case);
    case Way::kOneThread:
      return RunIn(one_thread_, graph_case);
    case Way::kEightThreads:
      return RunIn(eight_threads_, graph_case);
    case Way::kOneFetch:
      return RunOneFetch(graph_case, random);
    case Way::kOtherOrder:
      return RunInOtherOrder(graph_case, random);
    case Way::kDevices:
      return RunOnDevices(graph_case, random);
    case Way::kTasks:
      return RunOnTasks(graph_case, random);
    case Way::kNothingFolded: {
      Edits edits;
      edits.feeds_constants = true;
      WEIR_ASSIGN_OR_RETURN(GraphCase copy, CopyCase(graph_case, edits));
      return RunIn(plain_, copy);
    }
    case Way::kNotRewritten: {
      SessionOptions options;
      options.rewrites.is_enabled = false;
      return RunSession(graph_case, {plain_.worker.get()}, plain_.runtime->kernels(), options);
    }
    case Way::kSerialized:
      return RunSerialized(graph_case);
    case Way::kCancelled:
      return RunAfterCancelling(graph_case, random);
    case Way::kTwoAtOnce:
      return RunTwoAtOnce(graph_case);
    case Way::kGpus:
      return RunOnGpus(graph_case, random);
  }
  return absl::InternalError("no such way");
}

absl::StatusOr<Results> Runner::RunIn(const Process& process, const GraphCase& graph_case) {
  return RunSession(graph_case, {process.worker.get()}, process.runtime->kernels());
}

absl::StatusOr<Results> Runner::RunSession(const GraphCase& graph_case, const std::vector<Worker*>& workers,
                                           const KernelRegistry& kernels, SessionOptions options) {
  options.operation_timeout = kPatience;
  WEIR_RETURN_IF_ERROR(ResetAll(workers));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                        Session::Create(graph_case.graph(), workers, kernels, options));
  WEIR_RETURN_IF_ERROR(Initialize(graph_case, *session));
  const Feeds feeds = FeedsOf(graph_case);
  std::vector<Tensor> fed;
  for (const auto& feed : feeds) fed.push_back(feed.second.Clone());
  Results results, kept;
  for (int step = 0; step < graph_case.num_steps; ++step) {
    WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> fetched,
                          session->Run(feeds, FetchesOf(graph_case), TargetsOf(graph_case)));
    kept.push_back(CloneAll(fetched));
    results.push_back(std::move(fetched));
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (!IsSame(feeds[i].second, fed[i]))
      return absl::InternalError(absl::StrCat("the steps wrote into feed ", i, " of the caller"));
  }
  for (size_t step = 0; step < results.size(); ++step) {
    for (size_t i = 0; i < results[step].size(); ++i) {
      if (!IsSame(results[step][i], kept[step][i]))
        return absl::InternalError(absl::StrCat("a later step wrote into result ", i, " of step ", step));
    }
  }
  return results;
}

absl::StatusOr<Results> Runner::RunOneFetch(const GraphCase& graph_case, Random& random) {
  if (graph_case.fetches.empty()) return RunIn(plain_, graph_case);
  const int64_t which = random.Below(static_cast<int64_t>(graph_case.fetches.size()));
  const Process& process = plain_;
  WEIR_RETURN_IF_ERROR(ResetAll({process.worker.get()}));
  WEIR_ASSIGN_OR_RETURN(
      const std::unique_ptr<Session> session,
      Session::Create(graph_case.graph(), {process.worker.get()}, process.runtime->kernels()));
  WEIR_RETURN_IF_ERROR(Initialize(graph_case, *session));
  // Only the first step: later ones may depend on what the other fetches would have written.
  std::vector<Tensor> results(graph_case.fetches.size());
  WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> fetched,
                        session->Run(FeedsOf(graph_case), {graph_case.fetches[which]}));
  results[which] = fetched[0];
  return Results{results};
}

absl::StatusOr<Results> Runner::RunInOtherOrder(const GraphCase& graph_case, Random& random) {
  Edits edits;
  WEIR_ASSIGN_OR_RETURN(edits.order, RandomOrder(graph_case.graph(), random));
  WEIR_ASSIGN_OR_RETURN(const GraphCase copy, CopyCase(graph_case, edits));
  return RunIn(plain_, copy);
}

absl::StatusOr<Results> Runner::RunOnDevices(const GraphCase& graph_case, Random& random) {
  WEIR_ASSIGN_OR_RETURN(const GraphCase copy,
                        OnRandomDevices(graph_case, {"/cpu:0", "/cpu:1", "/gpu:0", "/gpu:1"}, random));
  return RunIn(devices_, copy);
}

absl::StatusOr<Results> Runner::RunOnGpus(const GraphCase& graph_case, Random& random) {
  if (gpus_.runtime == nullptr) return absl::FailedPreconditionError("the runner was made without GPUs");
  WEIR_ASSIGN_OR_RETURN(const GraphCase copy,
                        OnRandomDevices(graph_case, {"/cpu:0", "/gpu:0", "/gpu:0"}, random));
  return RunIn(gpus_, copy);
}

absl::StatusOr<Results> Runner::RunOnTasks(const GraphCase& graph_case, Random& random) {
  WEIR_ASSIGN_OR_RETURN(
      const GraphCase copy,
      OnRandomDevices(graph_case, {"/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"}, random));
  const SessionTarget target = servers_[1]->target_on_all_tasks();
  SessionOptions options;
  options.default_task = target.default_task;
  return RunSession(copy, target.workers, *target.kernels, options);
}

absl::StatusOr<Results> Runner::RunSerialized(const GraphCase& graph_case) {
  WEIR_ASSIGN_OR_RETURN(const std::string bytes, GraphDefBytes(graph_case.graph()));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph, GraphFromGraphDefBytes(bytes, StandardOps()));
  WEIR_RETURN_IF_ERROR(ResetAll({plain_.worker.get()}));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                        Session::Create(*graph, {plain_.worker.get()}, plain_.runtime->kernels()));
  if (graph_case.initializer != nullptr) {
    WEIR_RETURN_IF_ERROR(session->Run({}, {}, {graph_case.initializer->name()}).status());
  }
  Feeds feeds;
  for (const auto& [output, value] : graph_case.feeds) feeds.emplace_back(output.name(), value);
  std::vector<TensorRef> fetches;
  for (const Output& fetch : graph_case.fetches) fetches.emplace_back(fetch.name());
  std::vector<TargetRef> targets;
  for (const Node* target : graph_case.targets) targets.emplace_back(target->name());
  Results results;
  for (int step = 0; step < graph_case.num_steps; ++step) {
    WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> fetched, session->Run(feeds, fetches, targets));
    results.push_back(std::move(fetched));
  }
  return results;
}

// Steps that are given up at some instant, then the case from its beginning, in the same session.
absl::StatusOr<Results> Runner::RunAfterCancelling(const GraphCase& graph_case, Random& random) {
  const std::vector<Worker*> workers = {devices_.worker.get()};
  WEIR_ASSIGN_OR_RETURN(const GraphCase copy,
                        OnRandomDevices(graph_case, {"/cpu:0", "/cpu:1", "/gpu:0"}, random));
  WEIR_RETURN_IF_ERROR(ResetAll(workers));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                        Session::Create(copy.graph(), workers, devices_.runtime->kernels()));
  for (int i = 0; i < 3; ++i) {
    WEIR_RETURN_IF_ERROR(Initialize(copy, *session));
    const RunOptions options = {.timeout = absl::Nanoseconds(random.Between(1, 100000))};
    const absl::Status status =
        session->Run(FeedsOf(copy), FetchesOf(copy), TargetsOf(copy), options).status();
    if (!status.ok() && !absl::IsDeadlineExceeded(status)) return status;
  }
  WEIR_RETURN_IF_ERROR(Initialize(copy, *session));
  Results results;
  for (int step = 0; step < copy.num_steps; ++step) {
    WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> fetched,
                          session->Run(FeedsOf(copy), FetchesOf(copy), TargetsOf(copy)));
    results.push_back(std::move(fetched));
  }
  return results;
}

absl::StatusOr<Results> Runner::RunTwoAtOnce(const GraphCase& graph_case) {
  if (graph_case.initializer != nullptr) return RunIn(eight_threads_, graph_case);
  WEIR_ASSIGN_OR_RETURN(
      const std::unique_ptr<Session> session,
      Session::Create(graph_case.graph(), {eight_threads_.worker.get()}, eight_threads_.runtime->kernels()));
  constexpr int kRuns = 3;
  std::vector<absl::StatusOr<std::vector<Tensor>>> results(2 * kRuns, std::vector<Tensor>());
  const auto run = [&](int first) {
    for (int i = first; i < first + kRuns; ++i) {
      results[i] = session->Run(FeedsOf(graph_case), FetchesOf(graph_case), TargetsOf(graph_case));
    }
  };
  std::thread other(run, 0);
  run(kRuns);
  other.join();
  for (const auto& result : results) WEIR_RETURN_IF_ERROR(result.status());
  for (const auto& result : results) {
    for (size_t i = 0; i < result->size(); ++i) {
      if (!IsSame((*result)[i], (*results[0])[i]))
        return absl::InternalError(absl::StrCat("two runs of one step differ in result ", i));
    }
  }
  return Results(graph_case.num_steps, *results[0]);
}

}  // namespace weir::random_graphs
