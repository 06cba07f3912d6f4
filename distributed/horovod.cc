#include "distributed/horovod.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "distributed/cluster_spec.h"
#include "graph/types/status_macros.h"
#include "kernels/notice.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/monitored/global_step_output.h"

namespace weir {
namespace {

// Of nodes; the hook's own collectives have another.
constexpr int64_t kGroupKey = 1;
constexpr int64_t kHookGroupKey = -1;

// The same on all ranks, because they build the same graph.
int64_t NextInstanceKey(const GraphBuilder& g) {
  int64_t count = 0;
  for (const std::unique_ptr<Node>& node : g.graph().nodes()) {
    count += absl::StartsWith(node->op_name(), "Collective") || node->attrs().count("instance_key") > 0;
  }
  return count;
}

AttrMap GroupAttrs(const GraphBuilder& g, int size) {
  return {{"group_size", int64_t{size}}, {"group_key", kGroupKey}, {"instance_key", NextInstanceKey(g)}};
}

Output Sizes(GraphBuilder& g, absl::Span<const int64_t> values, SourceLocation where) {
  return Const(g, Tensor::FromSpan<int64_t>(Shape({static_cast<int64_t>(values.size())}), values), {}, where);
}

AttrMap ReductionAttrs(const GraphBuilder& g, int size, Reduction reduction, bool averages) {
  AttrMap attrs = GroupAttrs(g, size);
  const char* const merge_ops[] = {"Add", "Mul", "Min", "Max", "Adasum"};
  attrs["merge_op"] = std::string(merge_ops[static_cast<int>(reduction)]);
  attrs["final_op"] = std::string(averages && reduction == Reduction::kSum ? "Div" : "Id");
  return attrs;
}

// TensorFlow's op, where it does what is asked for.
Output Reduce(GraphBuilder& g, int size, Output x, Reduction reduction, bool averages, SourceLocation where) {
  if (!g.ok() || !x) return {};
  AttrMap attrs = ReductionAttrs(g, size, reduction, averages);
  if (reduction == Reduction::kAdasum) {
    return g.AddOp("WeirAllReduce", {x}, std::move(attrs), "AllReduce", where);
  }
  attrs["subdiv_offsets"] = std::vector<int64_t>{0};
  return g.AddOp("CollectiveReduce", {x}, std::move(attrs), "AllReduce", where);
}

Output Gather(GraphBuilder& g, int size, Output x, SourceLocation where) {
  if (!g.ok() || !x) return {};
  AttrMap attrs = GroupAttrs(g, size);
  attrs["shape"] = PartialShape();
  return g.AddOp("CollectiveGather", {x}, std::move(attrs), "AllGather", where);
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
    if (size_ == 1) return optimizer_->ApplyGradients(g, gradients, global_step, where);
    std::vector<GradientAndVariable> averaged;
    {
      const auto scope = g.NameScope(name());
      averaged = Average(g, gradients, where);
    }
    WEIR_RETURN_IF_ERROR(g.status());
    return optimizer_->ApplyGradients(g, averaged, global_step, where);
  }

 private:
  // What is reduced by one node: gradients of one dtype, as indices.
  struct Bucket {
    DType dtype;
    std::vector<size_t> members;
    int64_t num_bytes = 0;
  };

  // The wrapped optimizer updates.
  Node* Update(GraphBuilder&, const ModelVariable&, Output) override { return nullptr; }

  absl::Status Check(GraphBuilder& g, SourceLocation where) const {
    if (!g.ok()) return g.status();
    if (optimizer_ == nullptr) {
      g.SetError(absl::InvalidArgumentError("DistributedOptimizer: the optimizer is null"), where);
    } else if (options_.bucket_bytes < 1 || options_.first_bucket_bytes < 1) {
      g.SetError(absl::InvalidArgumentError(absl::StrCat(
                     "DistributedOptimizer: bucket_bytes and first_bucket_bytes must be at least 1, are ",
                     options_.bucket_bytes, " and ", options_.first_bucket_bytes)),
                 where);
    }
    return g.status();
  }

  // Gradients of the last variables are ready first.
  std::vector<Bucket> MakeBuckets(const std::vector<GradientAndVariable>& gradients) const {
    std::vector<Bucket> full;
    std::vector<Bucket> open;
    for (size_t i = gradients.size(); i-- > 0;) {
      if (IsNull(gradients[i].gradient) || !std::holds_alternative<Output>(gradients[i].gradient)) continue;
      const ModelVariable& variable = gradients[i].variable;
      auto bucket = std::find_if(open.begin(), open.end(),
                                 [&](const Bucket& one) { return one.dtype == variable.dtype; });
      if (bucket == open.end()) bucket = open.insert(open.end(), Bucket{variable.dtype, {}, 0});
      bucket->members.push_back(i);
      bucket->num_bytes += variable.shape.num_elements() * static_cast<int64_t>(DTypeSize(variable.dtype));
      if (bucket->num_bytes < (full.empty() ? options_.first_bucket_bytes : options_.bucket_bytes)) continue;
      full.push_back(*std::move(bucket));
      open.erase(bucket);
    }
    full.insert(full.end(), open.begin(), open.end());
    return full;
  }

  DType TypeOnTheWay(DType dtype) const {
    if (dtype != DType::kFloat32 && dtype != DType::kFloat64) return dtype;
    if (options_.compression == GradientCompression::kHalf) return DType::kHalf;
    return options_.compression == GradientCompression::kBfloat16 ? DType::kBfloat16 : dtype;
  }

  std::vector<GradientAndVariable> Average(GraphBuilder& g, std::vector<GradientAndVariable> gradients,
                                           SourceLocation where) const {
    std::vector<Node*> collectives;
    for (const Bucket& bucket : MakeBuckets(gradients)) {
      AverageBucket(g, bucket, &gradients, &collectives, where);
    }
    for (GradientAndVariable& one : gradients) {
      const auto* const rows = std::get_if<IndexedSlices>(&one.gradient);
      if (rows == nullptr || IsNull(one.gradient)) continue;
      one.gradient = GatherRows(g, *rows, &collectives, where);
    }
    // No update before every collective is done: what fails then has changed nothing.
    const auto after = g.ControlScope(collectives);
    for (GradientAndVariable& one : gradients) {
      if (IsNull(one.gradient)) continue;
      if (auto* const rows = std::get_if<IndexedSlices>(&one.gradient)) {
        rows->values = Identity(g, rows->values, {}, where);
      } else {
        one.gradient = Identity(g, std::get<Output>(one.gradient), {}, where);
      }
    }
    return gradients;
  }

  void AverageBucket(GraphBuilder& g, const Bucket& bucket, std::vector<GradientAndVariable>* gradients,
                     std::vector<Node*>* collectives, SourceLocation where) const {
    const auto flat = [&](size_t i) {
      return Reshape(g, std::get<Output>((*gradients)[i].gradient), ConstIntegers(g, {-1}, {}, where), {},
                     where);
    };
    const auto average = [&](Output x) {
      const DType on_the_way = TypeOnTheWay(bucket.dtype);
      if (x && on_the_way != x.dtype()) x = Cast(g, x, on_the_way, {}, where);
      Output all = Reduce(g, size_, x, Reduction::kSum, options_.averages, where);
      collectives->push_back(all.node);
      if (all && on_the_way != bucket.dtype) all = Cast(g, all, bucket.dtype, {}, where);
      return all;
    };
    if (bucket.members.size() == 1) {
      Gradient& gradient = (*gradients)[bucket.members[0]].gradient;
      gradient = average(std::get<Output>(gradient));
      return;
    }
    std::vector<Output> parts;
    std::vector<int64_t> sizes;
    for (const size_t i : bucket.members) {
      parts.push_back(flat(i));
      sizes.push_back((*gradients)[i].variable.shape.num_elements());
    }
    const Output joined = average(ConcatV2(g, parts, Const(g, 0, {}, where), {}, where));
    const std::vector<Output> split = SplitV(g, joined, Sizes(g, sizes, where), Const(g, 0, {}, where),
                                             static_cast<int64_t>(sizes.size()), {}, where);
    if (!g.ok()) return;
    for (size_t k = 0; k < bucket.members.size(); ++k) {
      GradientAndVariable& one = (*gradients)[bucket.members[k]];
      one.gradient = Reshape(g, split[k], Sizes(g, one.variable.shape.dims(), where), {}, where);
    }
  }

  IndexedSlices GatherRows(GraphBuilder& g, const IndexedSlices& rows, std::vector<Node*>* collectives,
                           SourceLocation where) const {
    Output values = rows.values;
    if (values && options_.averages) {
      values = Div(g, values, ConstOf(g, values.dtype(), size_), {}, where);
    }
    values = Gather(g, size_, values, where);
    const Output indices = Gather(g, size_, rows.indices, where);
    collectives->push_back(values.node);
    collectives->push_back(indices.node);
    return {values, indices, rows.dense_shape};
  }

  const std::unique_ptr<Optimizer> optimizer_;
  const int size_;
  const DistributedOptimizerOptions options_;
};

// Gives all ranks the state of one.
class BroadcastVariables final : public Hook {
 public:
  BroadcastVariables(CollectiveGroup& group, Environment& environment, absl::Duration timeout)
      : group_(group), environment_(environment), timeout_(timeout) {}

  absl::string_view name() const override { return "BroadcastGlobalVariablesHook"; }

  absl::Status Begin(GraphBuilder& g) override {
    global_step_ = GlobalStep(g).value;
    const auto scope = g.NameScope("broadcast");
    for (const ModelVariable& variable : AllVariables(g)) {
      const auto beside = g.ColocationScope(variable.handle.node);
      Copy copy{variable, {}, nullptr};
      copy.received = Placeholder(g, variable.dtype, variable.shape);
      copy.assign = AssignVariableOp(g, variable.handle, copy.received);
      copies_.push_back(copy);
    }
    return g.status();
  }

  absl::Status AfterCreateSession(Session& session, Coordinator& coordinator) override {
    // Each session but the first follows a loss: the others are to come here, too.
    if (std::exchange(has_begun_, true) || !group_.ranks()->status().ok()) {
      WEIR_RETURN_IF_ERROR(
          group_.Form(environment_.Now() + timeout_, [&coordinator] { return coordinator.should_stop(); }));
    }
    RankGroup& ranks = *group_.ranks();
    SetLostStepIsDone(false);
    if (ranks.size() == 1) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const int64_t own_step, ReadGlobalStep(session, global_step_));
    WEIR_ASSIGN_OR_RETURN(const Leader leader, FindLeader(own_step));
    if (leader.step != own_step) {
      PrintNotice(absl::StrCat(ranks.NameOf(ranks.rank()), " takes over the variables of ",
                               ranks.NameOf(leader.rank), ", from step ", own_step, " to ", leader.step));
    }
    WEIR_RETURN_IF_ERROR(leader.rank == ranks.rank() ? SendAll(session) : ReceiveAll(session, leader.rank));
    // Nobody could have done it without this rank's gradients: this rank was in it, and its Run failed.
    SetLostStepIsDone(last_good_step_ >= 0 && leader.step == last_good_step_ + 1);
    last_good_step_ = leader.step;
    return absl::OkStatus();
  }

  bool HasDoneLostStep() const override { return lost_step_is_done_; }
  bool OwnsVariables() const override { return true; }

  absl::Status AfterRun(RunContext& context, const RunValues&) override {
    if (group_.ranks()->size() == 1) return absl::OkStatus();  // nobody to compare its step with
    SetLostStepIsDone(false);
    WEIR_ASSIGN_OR_RETURN(last_good_step_, ReadGlobalStep(context.session(), global_step_));
    return absl::OkStatus();
  }

 private:
  struct Copy {
    ModelVariable variable;
    Output received;
    Node* assign = nullptr;
  };

  // The rank that has done the most steps; the lowest of several.
  struct Leader {
    int rank = 0;
    int64_t step = 0;
  };
  absl::StatusOr<Leader> FindLeader(int64_t own_step) {
    WEIR_ASSIGN_OR_RETURN(const Tensor steps, Wait([&](Communicator& ranks, Communicator::Done done) {
                            ranks.AllGather(CallFor(0, "global_step"), Tensor::Vector<int64_t>({own_step}),
                                            std::move(done));
                          }));
    const absl::Span<const int64_t> all = steps.flat<int64_t>();
    const auto most = std::max_element(all.begin(), all.end());
    return Leader{static_cast<int>(most - all.begin()), *most};
  }

  void SetLostStepIsDone(bool is_done) {
    lost_step_is_done_ = is_done;
    group_.ranks()->SetIsAlone(is_done);
  }

  absl::Status SendAll(Session& session) {
    std::vector<TensorRef> reads;
    for (const Copy& copy : copies_) reads.push_back(copy.variable.value);
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> values, session.Run({}, reads));
    for (size_t i = 0; i < copies_.size(); ++i) {
      WEIR_RETURN_IF_ERROR(Exchange(i, group_.ranks()->rank(), values[i]).status());
    }
    return absl::OkStatus();
  }

  absl::Status ReceiveAll(Session& session, int root) {
    Feeds feeds;
    std::vector<TargetRef> assigns;
    for (size_t i = 0; i < copies_.size(); ++i) {
      WEIR_ASSIGN_OR_RETURN(const Tensor value, Exchange(i, root, Tensor()));
      const ModelVariable& variable = copies_[i].variable;
      if (value.shape() != variable.shape) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the ranks have different models: variable '", variable.name, "' is ", variable.shape.ToString(),
            " here and ", value.shape().ToString(), " on ", group_.ranks()->NameOf(root)));
      }
      feeds.push_back({copies_[i].received, value});
      assigns.push_back(copies_[i].assign);
    }
    // What the lost step has applied to the values of before counts as not applied.
    return session.Restore(environment_.Random() | 1,
                           [&] { return session.Run(feeds, {}, assigns).status(); });
  }

  absl::StatusOr<Tensor> Exchange(size_t i, int root, Tensor value) {
    const ModelVariable& variable = copies_[i].variable;
    return Wait([&](Communicator& ranks, Communicator::Done done) {
      ranks.Broadcast(CallFor(static_cast<int64_t>(i) + 1, variable.name), root, variable.dtype, value,
                      std::move(done));
    });
  }

  static Communicator::Call CallFor(int64_t instance, const std::string& name) {
    return {.name = absl::StrCat("broadcast of ", name), .key = {kHookGroupKey, instance}};
  }

  // A collective outside of a step. It ends when the group does.
  absl::StatusOr<Tensor> Wait(absl::FunctionRef<void(Communicator& ranks, Communicator::Done done)> begin) {
    struct Outcome {
      absl::Mutex mutex;
      std::optional<absl::StatusOr<Tensor>> told;
    };
    const auto outcome = std::make_shared<Outcome>();
    begin(*group_.ranks(), [outcome](absl::StatusOr<Tensor> result) {
      absl::MutexLock lock(&outcome->mutex);
      outcome->told = std::move(result);
    });
    absl::MutexLock lock(&outcome->mutex);
    const auto is_told = [&outcome] { return outcome->told.has_value(); };
    environment_.Await(outcome->mutex, absl::Condition(&is_told));
    return *std::move(outcome->told);
  }

  CollectiveGroup& group_;
  Environment& environment_;
  const absl::Duration timeout_;
  Output global_step_;
  std::vector<Copy> copies_;
  bool has_begun_ = false;
  int64_t last_good_step_ = -1;  // when this rank last knew where it was; -1: never
  bool lost_step_is_done_ = false;
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
  if (server.replicas() == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        task.task().ToString(), " is no replica of a model: ",
        task.is_evaluator() ? "it evaluates"
                            : "its cluster has parameter servers, which hold the variables (start it without "
                              "them, --ps=0)"));
  }
  std::unique_ptr<Horovod> horovod(new Horovod(server, options));
  Environment& environment = server.runtime().environment();
  WEIR_RETURN_IF_ERROR(server.replicas()->Form(environment.Now() + options.timeout));
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
  return Reduce(g, size(), x, reduction, averages, where);
}

Output Horovod::ReduceScatter(GraphBuilder& g, Output x, Reduction reduction, bool averages,
                              SourceLocation where) {
  if (!g.ok() || !x) return {};
  return g.AddOp("WeirReduceScatter", {x}, ReductionAttrs(g, size(), reduction, averages), "ReduceScatter",
                 where);
}

Horovod::Exchanged Horovod::AllToAll(GraphBuilder& g, Output x, Output splits, SourceLocation where) {
  if (!g.ok() || !x) return {};
  if (!splits) splits = Sizes(g, {}, where);
  Node* const node = g.AddNode("WeirAllToAll", {x, splits}, GroupAttrs(g, size()), "AllToAll", where);
  return node == nullptr ? Exchanged{} : Exchanged{{node, 0}, {node, 1}};
}

Node* Horovod::Barrier(GraphBuilder& g, SourceLocation where) {
  return g.ok() ? g.AddNode("WeirBarrier", {}, GroupAttrs(g, size()), "Barrier", where) : nullptr;
}

Output Horovod::Join(GraphBuilder& g, SourceLocation where) {
  return g.ok() ? g.AddOp("WeirJoin", {}, GroupAttrs(g, size()), "Join", where) : Output();
}

Output Horovod::AllGather(GraphBuilder& g, Output x, SourceLocation where) {
  return Gather(g, size(), x, where);
}

Output Horovod::Broadcast(GraphBuilder& g, Output x, int root, SourceLocation where) {
  if (!g.ok() || !x) return {};
  if (root < 0 || root >= size()) {
    g.SetError(absl::InvalidArgumentError(
                   absl::StrCat("Broadcast: root is ", root, ", but there are ", size(), " ranks")),
               where);
    return {};
  }
  AttrMap attrs = GroupAttrs(g, size());
  attrs["shape"] = x.shape();
  if (root == rank()) return g.AddOp("CollectiveBcastSend", {x}, std::move(attrs), "Broadcast", where);
  attrs["T"] = x.dtype();
  return g.AddOp("CollectiveBcastRecv", {}, std::move(attrs), "Broadcast", where);
}

std::unique_ptr<Optimizer> Horovod::DistributedOptimizer(std::unique_ptr<Optimizer> optimizer,
                                                         const DistributedOptimizerOptions& options) {
  return std::make_unique<ReplicatedOptimizer>(std::move(optimizer), size(), options);
}

HookPtr Horovod::BroadcastGlobalVariablesHook() {
  return std::make_shared<BroadcastVariables>(*server_.replicas(), server_.runtime().environment(),
                                              options_.timeout);
}

}  // namespace weir
