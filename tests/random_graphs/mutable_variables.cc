#include "tests/random_graphs/mutable_variables.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/register_ops.h"
#include "tests/random_graphs/catalogue.h"
#include "tests/random_graphs/interpreter.h"

namespace weir::random_graphs {
namespace {

const std::vector<std::string>& Rules() {
  static const auto* const rules = [] {
    auto* const list = new std::vector<std::string>;
    for (const char* dense :
         {"GradientDescent", "Adam", "AdamWithAmsgrad", "AdaMax", "AddSign", "PowerSign"}) {
      list->push_back(absl::StrCat("ResourceApply", dense));
    }
    for (const char* both :
         {"Momentum", "KerasMomentum", "Adagrad", "AdagradV2", "RMSProp", "CenteredRMSProp", "Adadelta",
          "Ftrl", "FtrlV2", "ProximalGradientDescent", "ProximalAdagrad"}) {
      list->push_back(absl::StrCat("ResourceApply", both));
      list->push_back(absl::StrCat("ResourceSparseApply", both));
    }
    return list;
  }();
  return *rules;
}

const std::vector<std::string>& RowScatters() {
  static const auto* const ops = new std::vector<std::string>{
      "ResourceScatterAdd", "ResourceScatterSub", "ResourceScatterUpdate", "ResourceScatterMul",
      "ResourceScatterDiv", "ResourceScatterMin", "ResourceScatterMax"};
  return *ops;
}

const std::vector<std::string>& NdScatters() {
  static const auto* const ops =
      new std::vector<std::string>{"ResourceScatterNdAdd", "ResourceScatterNdSub", "ResourceScatterNdUpdate",
                                   "ResourceScatterNdMin", "ResourceScatterNdMax"};
  return *ops;
}

// What a rule's scalars are, so that a few steps stay small.
double ScalarFor(const std::string& name) {
  static const auto* const values = new std::map<std::string, double>{
      {"alpha", 0.5},          {"lr", 0.125},      {"momentum", 0.75}, {"rho", 0.875},
      {"epsilon", 0.0625},     {"beta1", 0.75},    {"beta2", 0.875},   {"beta1_power", 0.5},
      {"beta2_power", 0.75},   {"beta", 0.75},     {"l1", 0.0625},     {"l2", 0.25},
      {"l2_shrinkage", 0.125}, {"lr_power", -0.5}, {"logbase", 0.5},   {"sign_decay", 0.875}};
  const auto found = values->find(name);
  return found == values->end() ? 0.5 : found->second;
}

bool HasRows(const MutableVariable& variable) {
  return variable.initial.rank() > 0 && variable.initial.size() > 0;
}

Index WithRows(Index dims, int64_t count) {
  dims[0] = count;
  return dims;
}

}  // namespace

MutableVariables::MutableVariables(GraphCase& graph_case, Pool& pool, Random& random)
    : case_(graph_case), pool_(pool), random_(random) {}

std::vector<std::string> MutableVariables::Ops() {
  std::vector<std::string> ops = {"ResourceGather", "ResourceGatherNd", "VariableShape"};
  for (const auto* list : {&RowScatters(), &NdScatters(), &Rules()}) {
    ops.insert(ops.end(), list->begin(), list->end());
  }
  return ops;
}

Node* MutableVariables::Use() {
  MutableVariable* const variable = Any();
  if (variable == nullptr || !g().ok()) return nullptr;
  auto after =
      g().ControlScope(variable->last == nullptr ? std::vector<Node*>{} : std::vector<Node*>{variable->last});
  const int64_t kind = random_.Below(100);
  const bool is_real = variable->dtype == DType::kFloat32 || variable->dtype == DType::kFloat64;
  Node* const node = kind < 42                         ? Read(*variable)
                     : kind < 50                       ? ReadPart(*variable)
                     : kind < 66 && is_real            ? Apply(*variable)
                     : kind < 76 && HasRows(*variable) ? Scatter(*variable)
                     : kind < 82 && HasRows(*variable) ? ScatterNd(*variable)
                                                       : Assign(*variable);
  if (node == nullptr) return nullptr;
  for (const Output& input : node->inputs()) {
    for (MutableVariable& used : all_) {
      if (used.handle != input) continue;
      used.last = node;
      used.is_touched = true;
    }
  }
  return node;
}

MutableVariable* MutableVariables::Any() {
  std::vector<size_t> models;  // all but slots
  for (size_t i = 0; i < all_.size(); ++i) {
    if (all_[i].slot_of.empty()) models.push_back(i);
  }
  if (!pool_.is_inside() && (models.empty() || random_.Chance(25))) {
    const DType dtype = PickDType(random_, random_graphs::Numbers());
    const double limit = IsFloating(dtype) ? 2 : 8;
    MutableVariable* const added = Add(dtype, Numbers(pool_.AnyDims(), dtype, -limit, limit));
    if (added == nullptr) return nullptr;
    models.push_back(all_.size() - 1);
  }
  return models.empty() ? nullptr : &all_[random_.Pick(models)];
}

Array MutableVariables::Numbers(const Index& dims, DType dtype, double low, double high) {
  Array array(dims);
  const int64_t scale = IsFloating(dtype) ? 16 : 1;
  for (int64_t i = 0; i < array.size(); ++i) {
    array[i] = static_cast<double>(
                   random_.Between(static_cast<int64_t>(low * scale), static_cast<int64_t>(high * scale))) /
               static_cast<double>(scale);
  }
  return array;
}

MutableVariable* MutableVariables::Add(DType dtype, Array initial, const std::string& slot_of) {
  auto clear = g().ClearControlScope();  // it is initialized before the first step
  MutableVariable variable = {.dtype = dtype, .initial = std::move(initial), .slot_of = slot_of};
  const std::string name = absl::StrCat("variable", all_.size());
  const Shape shape(absl::MakeConstSpan(variable.initial.dims()));
  variable.handle =
      g().AddOp("VarHandleOp", {}, {{"dtype", dtype}, {"shape", shape}, {"shared_name", name}}, name);
  const Output value =
      g().AddOp("Const", {}, {{"value", variable.initial.ToTensor(dtype)}, {"dtype", dtype}}, "initial");
  Node* const assign = g().AddNode("AssignVariableOp", {variable.handle, value}, {}, "initialize");
  if (!g().ok()) return nullptr;
  g().graph().AddControlInput(case_.initializer, assign);
  all_.push_back(std::move(variable));
  return &all_.back();
}

// ---- Reads ----

Node* MutableVariables::Read(MutableVariable& variable) {
  const Output value = g().AddOp("ReadVariableOp", {variable.handle}, {{"dtype", variable.dtype}}, "read");
  if (!value) return nullptr;
  Operand read = {value, variable.initial, /*varies=*/true};
  MaybeFeed(&read);
  pool_.Add(std::move(read));
  return value.node;
}

// Rows, slices or the shape.
Node* MutableVariables::ReadPart(MutableVariable& variable) {
  pool_.BeginNode();
  const int64_t kind = HasRows(variable) ? random_.Below(5) : 4;
  if (kind < 2) {
    const DType index = random_.Pick(Integers());
    const Operand indices = pool_.Between(index, 0, static_cast<double>(variable.initial.dim(0) - 1));
    if (indices.value.size() * variable.initial.size() / variable.initial.dim(0) > 100) return nullptr;
    Node* const node =
        g().AddNode("ResourceGather", {variable.handle, indices.output}, {{"dtype", variable.dtype}});
    if (node != nullptr) Offer(*node, {variable.initial, indices.value}, /*varies=*/true);
    return node;
  }
  if (kind < 4) {
    const Coordinates at = DrawCoordinates(pool_, variable.initial.dims(), /*distinct=*/false);
    Node* const node =
        g().AddNode("ResourceGatherNd", {variable.handle, at.output}, {{"dtype", variable.dtype}});
    if (node != nullptr) Offer(*node, {variable.initial, at.value}, /*varies=*/true);
    return node;
  }
  Node* const node =
      g().AddNode("VariableShape", {variable.handle}, {{"out_type", random_.Pick(Integers())}});
  if (node != nullptr) Offer(*node, {variable.initial}, /*varies=*/false);
  return node;
}

void MutableVariables::Offer(Node& node, std::vector<Array> inputs, bool varies) {
  const absl::StatusOr<std::vector<Array>> outputs = EvaluateReference(node, std::move(inputs));
  if (!outputs.ok()) return g().SetError(outputs.status());
  Operand read = {node.output(0), (*outputs)[0], varies};
  if (varies) MaybeFeed(&read);
  pool_.Add(std::move(read));
}

// What comes before a read runs also where its value is fed.
void MutableVariables::MaybeFeed(Operand* operand) {
  if (!pool_.is_inside() && random_.Chance(10)) pool_.FeedInterior(operand);
}

// ---- Writes ----

Node* MutableVariables::Assign(MutableVariable& variable) {
  pool_.BeginNode();
  const Operand value = pool_.OfShape(variable.dtype, variable.initial.dims());
  const char* const op =
      random_.Pick<const char*>({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"});
  return g().AddNode(op, {variable.handle, value.output});
}

Node* MutableVariables::Scatter(MutableVariable& variable) {
  pool_.BeginNode();
  const std::string& op = random_.Pick(RowScatters());
  const int64_t rows = variable.initial.dim(0);
  // Of a row that is written twice nobody knows the order.
  const Index dims =
      WithRows(variable.initial.dims(), op == "ResourceScatterUpdate" ? 1 : random_.Between(1, 3));
  const Output indices = DrawIndices(pool_, dims[0], 0, rows - 1);
  const Operand updates = op == "ResourceScatterDiv" ? pool_.OfShapeBetween(variable.dtype, dims, 1, 4)
                                                     : pool_.OfShape(variable.dtype, dims);
  return g().AddNode(op, {variable.handle, indices, updates.output});
}

Node* MutableVariables::ScatterNd(MutableVariable& variable) {
  pool_.BeginNode();
  const std::string& op = random_.Pick(NdScatters());
  const Coordinates at = DrawCoordinates(pool_, variable.initial.dims(), op == "ResourceScatterNdUpdate");
  const Operand updates = pool_.OfShape(variable.dtype, at.updates);
  return g().AddNode(op, {variable.handle, at.output, updates.output});
}

Output MutableVariables::Scalar(DType dtype, double value) {
  return g().AddOp("Const", {}, {{"value", Array({}, value).ToTensor(dtype)}, {"dtype", dtype}}, "scalar");
}

MutableVariable* MutableVariables::Slot(const MutableVariable& variable, const std::string& op,
                                        const std::string& input) {
  const std::string slot_of = absl::StrCat(variable.handle.name(), " ", op, " ", input);
  for (MutableVariable& slot : all_) {
    if (slot.slot_of == slot_of) return &slot;
  }
  if (pool_.is_inside()) return nullptr;
  // A mean square is larger than the square of the mean.
  const bool is_mean = input == "mg";
  return Add(variable.dtype,
             Numbers(variable.initial.dims(), variable.dtype, is_mean ? -0.25 : 0.25, is_mean ? 0.25 : 1),
             slot_of);
}

Node* MutableVariables::Apply(MutableVariable& model) {
  const MutableVariable variable = model;  // a new slot moves all of them
  pool_.BeginNode();
  const std::string& op = random_.Pick(Rules());
  const bool is_sparse = absl::StrContains(op, "Sparse");
  if (is_sparse && !HasRows(variable)) return nullptr;
  Index dims = variable.initial.dims();
  if (is_sparse) dims[0] = random_.Between(1, 3);
  std::vector<InputArg> inputs;
  std::vector<Node*> before;
  for (const ArgDef& arg : StandardOps().Find(op)->inputs()) {
    if (arg.name == "var") {
      inputs.push_back(variable.handle);
    } else if (arg.dtype == DType::kResource) {
      const MutableVariable* const slot = Slot(variable, op, arg.name);
      if (slot == nullptr) return nullptr;
      if (slot->last != nullptr) before.push_back(slot->last);
      inputs.push_back(slot->handle);
    } else if (arg.name == "grad" || arg.name == "delta") {
      inputs.push_back(pool_.OfShape(variable.dtype, dims).output);
    } else if (arg.name == "indices") {
      inputs.push_back(DrawIndices(pool_, dims[0], 0, variable.initial.dim(0) - 1));
    } else {
      inputs.push_back(Scalar(variable.dtype, ScalarFor(arg.name)));
    }
  }
  auto after = g().ControlScope(before);
  return g().AddNode(op, std::move(inputs));
}

}  // namespace weir::random_graphs
