#include "distributed/horovod.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/broadcast_variables.h"
#include "distributed/cluster_spec.h"
#include "distributed/collective_nodes.h"
#include "graph/types/status_macros.h"
#include "ops/training/local_steps.h"

namespace weir {
namespace {

// Of nodes; those of the hook have another (broadcast_variables.cc).
constexpr int64_t kGroupKey = 1;

CollectiveNodes NodesOf(const GraphBuilder& g, int size) {
  return CollectiveNodes(kGroupKey, size, CollectiveNodes::NextInstance(g));
}

// Averages gradients over the ranks before another optimizer applies them.
class ReplicatedOptimizer final : public Optimizer {
 public:
  ReplicatedOptimizer(std::unique_ptr<Optimizer> optimizer, int size,
                      const DistributedOptimizerOptions& options)
      : Optimizer("DistributedOptimizer"), optimizer_(std::move(optimizer)), size_(size), options_(options) {}

  absl::StatusOr<std::vector<GradientAndVariable>> ComputeGradients(GraphBuilder& g, Output loss,
                                                                    const GradientOptions& options,
                                                                    SourceLocation where) override {
    WEIR_RETURN_IF_ERROR(Check(g, where));
    return optimizer_->ComputeGradients(g, loss, options, where);
  }

  absl::StatusOr<Node*> ApplyGradients(GraphBuilder& g, const std::vector<GradientAndVariable>& gradients,
                                       const ModelVariable& global_step, SourceLocation where) override {
    WEIR_RETURN_IF_ERROR(Check(g, where));
    if (options_.backward_passes_per_step == 1) return Apply(g, gradients, global_step, where);
    const auto scope = g.NameScope(name());
    const int passes = options_.backward_passes_per_step;
    const ModelVariable pass = MakeLocalStep(g, where);
    WEIR_ASSIGN_OR_RETURN(const GradientSums sums,
                          GradientSums::Make(g, name(), gradients, "aggregated", where));
    absl::Status status;
    const auto apply = [&]() -> std::vector<Node*> {
      const double factor = options_.averages_backward_passes ? 1.0 / passes : 1;
      const absl::StatusOr<Node*> update = Apply(g, sums.Read(g, factor, where), global_step, where);
      status = update.status();
      if (!update.ok()) return {};
      std::vector<Node*> ends = sums.Clear(g, *update, where);
      ends.push_back(*update);
      return ends;
    };
    Node* const applied = When(g, IsDue(g, pass.value, passes, passes - 1, where), apply, where);
    WEIR_RETURN_IF_ERROR(status);
    return EndLocalStep(g, pass, {sums.added(), applied}, where);
  }
  bool keeps_local_copies() const override {
    return optimizer_ != nullptr && optimizer_->keeps_local_copies();
  }
  bool measures_staleness() const override {
    return optimizer_ != nullptr && optimizer_->measures_staleness();
  }

 private:
  // The wrapped optimizer updates.
  Node* Update(GraphBuilder&, const ModelVariable&, Output) override { return nullptr; }

  absl::Status Check(GraphBuilder& g, SourceLocation where) const {
    if (!g.ok()) return g.status();
    if (optimizer_ == nullptr) {
      g.SetError(absl::InvalidArgumentError("DistributedOptimizer: the optimizer is null"), where);
    } else if (absl::Status wrong = CheckGradientAveraging(name(), options_); !wrong.ok()) {
      g.SetError(wrong, where);
    }
    return g.status();
  }

  absl::StatusOr<Node*> Apply(GraphBuilder& g, const std::vector<GradientAndVariable>& gradients,
                              const ModelVariable& global_step, SourceLocation where) {
    if (size_ == 1) return optimizer_->ApplyGradients(g, gradients, global_step, where);
    std::vector<GradientAndVariable> averaged;
    Node* begin = nullptr;
    {
      const auto scope = g.NameScope(name());
      averaged = Average(g, gradients, &begin, where);
    }
    WEIR_RETURN_IF_ERROR(g.status());
    WEIR_ASSIGN_OR_RETURN(Node* const applied, optimizer_->ApplyGradients(g, averaged, global_step, where));
    const auto scope = g.NameScope(name());
    const auto after = g.ControlScope({applied});
    Node* const end = CollectiveNodes::EndUpdates(g, begin, where);
    WEIR_RETURN_IF_ERROR(g.status());
    return end;
  }

  // No update before every collective is done: what fails then has changed nothing. What fails later, a
  // metric's, is told when the updates, which begin after `*begin`, are done.
  std::vector<GradientAndVariable> Average(GraphBuilder& g, const std::vector<GradientAndVariable>& gradients,
                                           Node** begin, SourceLocation where) const {
    AveragedGradients averaged = AverageGradients(g, NodesOf(g, size_), gradients, options_, where);
    const auto after = g.ControlScope(averaged.collectives);
    *begin = NodesOf(g, size_).BeginUpdates(g, where);
    if (*begin == nullptr) return gradients;
    return GradientsAfter(g, {*begin}, std::move(averaged.gradients), where);
  }

  const std::unique_ptr<Optimizer> optimizer_;
  const int size_;
  const DistributedOptimizerOptions options_;
};

std::string HostOf(const ClusterSpec& cluster, const TaskName& task) {
  const absl::StatusOr<std::string> address = cluster.address(task);
  const absl::StatusOr<HostPort> host_port =
      address.ok() ? HostPort::Parse(*address) : absl::StatusOr<HostPort>(address.status());
  return host_port.ok() ? host_port->host : "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Horovod>> Horovod::Init(Server& server, const HorovodOptions& options) {
  const TaskConfig& task = server.task();
  WEIR_RETURN_IF_ERROR(FormReplicas(server, options.timeout));
  std::unique_ptr<Horovod> horovod(new Horovod(server, options));
  if (task.runs_alone()) return horovod;
  const std::string host = HostOf(task.cluster(), task.task());
  horovod->local_size_ = 0;
  for (const TaskName& other : task.worker_tasks()) {
    if (HostOf(task.cluster(), other) != host) continue;
    if (other == task.task()) horovod->local_rank_ = horovod->local_size_;
    ++horovod->local_size_;
  }
  return horovod;
}

int Horovod::rank() const { return server_.replicas()->ranks()->rank(); }
int Horovod::size() const { return server_.replicas()->ranks()->size(); }

Output Horovod::AllReduce(GraphBuilder& g, Output x, Reduction reduction, bool averages,
                          SourceLocation where) {
  return NodesOf(g, size()).AllReduce(g, x, reduction, averages, where);
}

Output Horovod::ReduceScatter(GraphBuilder& g, Output x, Reduction reduction, bool averages,
                              SourceLocation where) {
  return NodesOf(g, size()).ReduceScatter(g, x, reduction, averages, where);
}

Horovod::Exchanged Horovod::AllToAll(GraphBuilder& g, Output x, Output splits, SourceLocation where) {
  Node* const node = NodesOf(g, size()).AllToAll(g, x, splits, where);
  return node == nullptr ? Exchanged{} : Exchanged{{node, 0}, {node, 1}};
}

Node* Horovod::Barrier(GraphBuilder& g, SourceLocation where) { return NodesOf(g, size()).Barrier(g, where); }

Output Horovod::Join(GraphBuilder& g, SourceLocation where) { return NodesOf(g, size()).Join(g, where); }

Output Horovod::AllGather(GraphBuilder& g, Output x, SourceLocation where) {
  return NodesOf(g, size()).AllGather(g, x, where);
}

Output Horovod::Broadcast(GraphBuilder& g, Output x, int root, SourceLocation where) {
  if (!g.ok() || !x) return {};
  if (root < 0 || root >= size()) {
    g.SetError(absl::InvalidArgumentError(
                   absl::StrCat("Broadcast: root is ", root, ", but there are ", size(), " ranks")),
               where);
    return {};
  }
  return NodesOf(g, size()).Broadcast(g, x, root == rank(), where);
}

std::unique_ptr<Optimizer> Horovod::DistributedOptimizer(std::unique_ptr<Optimizer> optimizer,
                                                         const DistributedOptimizerOptions& options) {
  return std::make_unique<ReplicatedOptimizer>(std::move(optimizer), size(), options);
}

HookPtr Horovod::BroadcastGlobalVariablesHook() {
  return BroadcastVariablesHook(*server_.replicas(), server_.runtime().environment(), options_.timeout);
}

}  // namespace weir
