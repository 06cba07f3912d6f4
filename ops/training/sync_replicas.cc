#include "ops/training/sync_replicas.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

constexpr char kName[] = "sync_replicas";

// The variables of one task, and their group.
struct Shard {
  std::vector<size_t> gradients;  // which
  Node* first = nullptr;          // of the variables
  Output group;
  Node* contribute = nullptr;
  Node* aggregate = nullptr;
};

const char* TextOf(OnLoss on_loss) {
  return on_loss == OnLoss::kShrink ? "SHRINK" : on_loss == OnLoss::kWait ? "WAIT" : "FAIL";
}

class SyncReplicasOptimizer final : public Optimizer {
 public:
  SyncReplicasOptimizer(std::unique_ptr<Optimizer> optimizer, const SyncReplicasOptions& options)
      : Optimizer("SyncReplicas"), optimizer_(std::move(optimizer)), options_(options) {
    if (options_.total_num_replicas == 0) options_.total_num_replicas = options_.replicas_to_aggregate;
  }

  absl::StatusOr<std::vector<GradientAndVariable>> ComputeGradients(GraphBuilder& g, Output loss,
                                                                    const GradientOptions& options,
                                                                    SourceLocation where) override {
    WEIR_RETURN_IF_ERROR(Check(g, where));
    return optimizer_->ComputeGradients(g, loss, options, where);
  }
  absl::StatusOr<Node*> ApplyGradients(GraphBuilder& g, const std::vector<GradientAndVariable>& gradients,
                                       const ModelVariable& global_step, SourceLocation where) override;

 private:
  // The wrapped optimizer updates.
  Node* Update(GraphBuilder& g, const ModelVariable& variable, Output) override {
    g.SetError(
        absl::InternalError(absl::StrCat(name(), ": the wrapped optimizer updates '", variable.name, "'")));
    return nullptr;
  }

  absl::Status Check(GraphBuilder& g, SourceLocation where) const;
  absl::Status CheckOptions() const;
  // What the hook feeds.
  struct Fed {
    Output life;
    Output update;  // its number
  };
  static Fed MakeFed(GraphBuilder& g, SourceLocation where);
  void MakeGroup(GraphBuilder& g, const std::vector<GradientAndVariable>& gradients, Output identity,
                 Output update, Shard& shard, SourceLocation where) const;

  const std::unique_ptr<Optimizer> optimizer_;
  SyncReplicasOptions options_;
};

absl::Status SyncReplicasOptimizer::CheckOptions() const {
  if (optimizer_ == nullptr) return absl::InvalidArgumentError("the optimizer is null");
  if (optimizer_->keeps_local_copies()) {
    return absl::InvalidArgumentError(
        "the wrapped optimizer trains local copies, one in each worker, and the chief alone applies what is "
        "averaged: the copies of the others would never move");
  }
  if (options_.replicas_to_aggregate < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("replicas_to_aggregate must be at least 1, is ", options_.replicas_to_aggregate));
  }
  if (options_.total_num_replicas < options_.replicas_to_aggregate) {
    return absl::InvalidArgumentError(absl::StrCat("total_num_replicas is ", options_.total_num_replicas,
                                                   ", less than the replicas_to_aggregate ",
                                                   options_.replicas_to_aggregate));
  }
  if (options_.min_replicas < 0 || options_.min_replicas > options_.replicas_to_aggregate) {
    return absl::InvalidArgumentError(absl::StrCat("min_replicas is ", options_.min_replicas,
                                                   ", must be from 0 to the replicas_to_aggregate ",
                                                   options_.replicas_to_aggregate));
  }
  if (options_.min_replicas > 0 && options_.on_loss != OnLoss::kShrink) {
    return absl::InvalidArgumentError("min_replicas lets workers come and go: on_loss must be kShrink");
  }
  return absl::OkStatus();
}

absl::Status SyncReplicasOptimizer::Check(GraphBuilder& g, SourceLocation where) const {
  if (const absl::Status status = CheckOptions(); !status.ok()) {
    g.SetError(absl::Status(status.code(), absl::StrCat(name(), ": ", status.message())), where);
  }
  return g.status();
}

// Those of one device, in the order of their first variables.
std::vector<Shard> ShardsOf(const std::vector<GradientAndVariable>& gradients) {
  std::vector<Shard> shards;
  std::map<std::string, size_t> by_device;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (IsNull(gradients[i].gradient)) continue;
    Node* const variable = gradients[i].variable.handle.node;
    const auto [at, is_new] = by_device.emplace(variable->requested_device().ToString(), shards.size());
    if (is_new) shards.emplace_back().first = variable;
    shards[at->second].gradients.push_back(i);
  }
  return shards;
}

// The tensors of a gradient, and what comes back of them.
struct TensorList {
  std::vector<Output> tensors;
  std::vector<DType> types;
  std::vector<PartialShape> shapes;

  void Add(GraphBuilder& g, const GradientAndVariable& one) {
    const auto* const rows = std::get_if<IndexedSlices>(&one.gradient);
    AddTensor(rows != nullptr ? rows->values : std::get<Output>(one.gradient));
    shapes.push_back(rows != nullptr ? AnyRows(one.variable.shape) : PartialShape(one.variable.shape));
    if (rows == nullptr) return;
    const bool is_int64 = rows->indices.dtype() == DType::kInt64;
    AddTensor(is_int64 ? rows->indices : Cast(g, rows->indices, DType::kInt64));
    shapes.push_back(PartialShape::OfRank(1));
  }

 private:
  void AddTensor(Output tensor) {
    tensors.push_back(tensor);
    types.push_back(tensor.dtype());
  }
  static PartialShape AnyRows(const Shape& variable) {
    Dims dims(variable.dims().begin(), variable.dims().end());
    if (!dims.empty()) dims[0] = PartialShape::kUnknownDim;
    return PartialShape::FromDims(dims).value_or(PartialShape());
  }
};

SyncReplicasOptimizer::Fed SyncReplicasOptimizer::MakeFed(GraphBuilder& g, SourceLocation where) {
  const auto number = [&](const char* name) {
    return g.AddOp("Placeholder", {}, {{"dtype", DType::kInt64}, {"shape", PartialShape(Shape())}}, name,
                   where);
  };
  return {number("is_fed_by_SyncReplicasHook"), number("update_is_fed_by_SyncReplicasHook")};
}

void SyncReplicasOptimizer::MakeGroup(GraphBuilder& g, const std::vector<GradientAndVariable>& gradients,
                                      Output identity, Output update, Shard& shard,
                                      SourceLocation where) const {
  TensorList list;
  std::vector<DType> types;
  std::vector<PartialShape> shapes;
  std::vector<bool> are_sparse;
  for (const size_t i : shard.gradients) {
    list.Add(g, gradients[i]);
    types.push_back(gradients[i].variable.dtype);
    shapes.push_back(gradients[i].variable.shape);
    are_sparse.push_back(std::holds_alternative<IndexedSlices>(gradients[i].gradient));
  }
  const auto beside_variables = g.ColocationScope(shard.first);
  shard.group = g.AddOp("WeirReplicaGroup", {},
                        {{"dtypes", types},
                         {"shapes", shapes},
                         {"are_sparse", are_sparse},
                         {"num_replicas", int64_t{options_.total_num_replicas}},
                         {"replicas_to_aggregate", int64_t{options_.replicas_to_aggregate}},
                         {"order", std::string(options_.order == ReduceOrder::kByRank ? "RANK" : "ARRIVAL")},
                         {"on_loss", std::string(TextOf(options_.on_loss))},
                         {"min_replicas", int64_t{options_.min_replicas}},
                         {"shared_name", absl::StrCat(kName, "/", shard.first->name())}},
                        "group", where);
  shard.contribute =
      g.AddNode("WeirReplicaContribute", {shard.group, identity, list.tensors}, {}, "contribute", where);
  shard.aggregate = g.AddNode("WeirReplicaAggregate", {shard.group, identity, update},
                              {{"T", list.types}, {"shapes", list.shapes}}, "aggregate", where);
}

// The gradients as the shards' aggregates give them.
std::vector<GradientAndVariable> MeansOf(const std::vector<GradientAndVariable>& gradients,
                                         const std::vector<Shard>& shards) {
  std::vector<GradientAndVariable> means = gradients;
  for (const Shard& shard : shards) {
    int output = 1;  // after the mark
    for (const size_t i : shard.gradients) {
      const Output values = shard.aggregate->output(output++);
      const auto* const rows = std::get_if<IndexedSlices>(&gradients[i].gradient);
      if (rows == nullptr) {
        means[i].gradient = values;
      } else {
        means[i].gradient = IndexedSlices{values, shard.aggregate->output(output++), rows->dense_shape};
      }
    }
  }
  return means;
}

// One node of this op for each shard.
std::vector<Node*> OnEach(GraphBuilder& g, const std::vector<Shard>& shards, const char* op, const char* name,
                          const std::function<std::vector<InputArg>(const Shard&)>& operands,
                          const AttrMap& attrs, SourceLocation where) {
  std::vector<Node*> nodes;
  for (const Shard& shard : shards) {
    const auto beside_variables = g.ColocationScope(shard.first);
    nodes.push_back(g.AddNode(op, operands(shard), attrs, name, where));
  }
  return nodes;
}

// The worker's part of a step: it keeps what the groups have told it.
Node* Note(GraphBuilder& g, const std::vector<Node*>& told_by, Output identity, const char* name,
           SourceLocation where) {
  if (!g.ok()) return nullptr;
  std::vector<Output> marks;
  for (Node* const node : told_by) marks.push_back(node->output(0));
  const auto beside_identity = g.ColocationScope(identity.node);
  return g.AddNode("WeirReplicaNote", {marks}, {{"identity", identity.node->name()}}, name, where);
}

absl::StatusOr<Node*> SyncReplicasOptimizer::ApplyGradients(GraphBuilder& g,
                                                            const std::vector<GradientAndVariable>& gradients,
                                                            const ModelVariable& global_step,
                                                            SourceLocation where) {
  WEIR_RETURN_IF_ERROR(Check(g, where));
  std::vector<Shard> shards = ShardsOf(gradients);
  std::vector<std::string>& collection = g.graph().collections()[kSyncReplicasCollection];
  if (!global_step.handle || !collection.empty()) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat(
                   name(), collection.empty() ? ": needs a global step" : ": this graph has one already")),
               where);
    return g.status();
  }
  if (shards.empty()) return optimizer_->ApplyGradients(g, gradients, global_step, where);  // its error

  Fed fed;
  Output identity;
  {
    const auto scope = g.NameScope(kName);
    fed = MakeFed(g, where);
    if (g.ok() && !fed.life.node->control_inputs().empty()) {
      // The chief's driver would do that as well, and all others wait for it in their steps.
      g.SetError(absl::InvalidArgumentError(absl::StrCat(
                     name(),
                     ": must be the outermost optimizer, and outside of control scopes: here all that "
                     "it adds would wait for '",
                     fed.life.node->control_inputs()[0]->name(), "'")),
                 where);
    }
    identity = g.AddOp("WeirReplicaIdentity", {fed.life}, {}, "identity", where);
    for (Shard& shard : shards) MakeGroup(g, gradients, identity, fed.update, shard, where);
  }
  if (!g.ok()) return g.status();

  // No update before all shards have their means: a step is applied everywhere or nowhere.
  std::vector<Node*> aggregates;
  for (const Shard& shard : shards) aggregates.push_back(shard.aggregate);
  Node* update = nullptr;
  {
    const auto after_all = g.ControlScope(aggregates);
    WEIR_ASSIGN_OR_RETURN(update,
                          optimizer_->ApplyGradients(g, MeansOf(gradients, shards), global_step, where));
  }

  const auto scope = g.NameScope(kName);
  const auto self = [&](const Shard& shard) { return std::vector<InputArg>{shard.group, identity}; };
  const auto on_all = [&](const char* op, const char* name, const auto& operands, const AttrMap& attrs) {
    return Group(g, OnEach(g, shards, op, name, operands, attrs, where), {.name = absl::StrCat(name, "_all")},
                 where);
  };
  const auto leave = [&](const char* name, const char* why) {
    return on_all("WeirReplicaLeave", name, self, {{"why", std::string(why)}});
  };
  std::vector<Node*> contributions;
  for (const Shard& shard : shards) contributions.push_back(shard.contribute);
  Node* const train = Note(g, contributions, identity, "train", where);
  Node* release = nullptr;
  {
    const auto after_update = g.ControlScope({update});
    const auto mark = [](const Shard& shard) {
      return std::vector<InputArg>{shard.group, shard.aggregate->output(0)};
    };
    release = on_all("WeirReplicaRelease", "release", mark, {});
  }
  const auto restored = [&](const Shard& shard) {
    return std::vector<InputArg>{shard.group, identity, global_step.value};
  };
  Node* const join =
      Note(g, OnEach(g, shards, "WeirReplicaJoin", "join", self, {}, where), identity, "joined", where);
  const std::map<SyncReplicasNode, Node*> nodes = {
      {SyncReplicasNode::kLife, fed.life.node},
      {SyncReplicasNode::kUpdateNumber, fed.update.node},
      {SyncReplicasNode::kJoin, join},
      {SyncReplicasNode::kReset, on_all("WeirReplicaReset", "reset", restored, {})},
      {SyncReplicasNode::kUpdate, release},
      {SyncReplicasNode::kStop, leave("stop", "STOP")},
      {SyncReplicasNode::kFinish, leave("finish", "FINISH")},
      {SyncReplicasNode::kEnd, leave("end", "END")},
      {SyncReplicasNode::kClose, leave("close", "CLOSE")}};
  // The rank alone says whose driver: nothing need be fed.
  const Output chief =
      g.AddOp("WeirReplicaIdentity", {Const(g, int64_t{0}, {}, where)}, {}, "chief_in_any_life", where);
  const auto of_driver = [&](const char* name, const char* why) {
    const auto operands = [&](const Shard& shard) { return std::vector<InputArg>{shard.group, chief}; };
    return OnEach(g, shards, "WeirReplicaLeave", name, operands, {{"why", std::string(why)}}, where);
  };
  std::vector<Node*> pauses = of_driver("pause", "PAUSE");
  const std::vector<Node*> resumes = of_driver("resume", "RESUME");
  pauses.insert(pauses.end(), resumes.begin(), resumes.end());
  const std::vector<Node*> stays = OnEach(g, shards, "WeirReplicaStay", "stay", self, {}, where);
  const auto group = [](const Shard& shard) { return std::vector<InputArg>{shard.group}; };
  const std::vector<Node*> awaited = OnEach(g, shards, "WeirReplicaAwaited", "awaited", group, {}, where);
  if (!g.ok()) return g.status();
  std::vector<std::string>& names = g.graph().collections()[kSyncReplicasCollection];
  for (const auto& [what, node] : nodes) names.push_back(node->name());
  for (Node* const stay : stays) names.push_back(stay->name());
  for (Node* const node : awaited) names.push_back(node->name());
  std::vector<std::string>& of_pauses = g.graph().collections()[kPausesUpdatesCollection];
  for (Node* const node : pauses) of_pauses.push_back(node->name());
  g.graph().collections()["train_op"] = {train->name()};
  return train;
}

}  // namespace

std::unique_ptr<Optimizer> SyncReplicas(std::unique_ptr<Optimizer> optimizer,
                                        const SyncReplicasOptions& options) {
  return std::make_unique<SyncReplicasOptimizer>(std::move(optimizer), options);
}

}  // namespace weir
