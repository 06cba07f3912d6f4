#include "graph/graph_builder.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/node_of_graph.h"

namespace weir {

GraphBuilder::GraphBuilder(const OpRegistry& ops, DeviceSetter device_setter)
    : graph_(std::make_unique<Graph>(ops)), device_setter_(std::move(device_setter)) {}

void GraphBuilder::SetError(absl::Status status, SourceLocation where) {
  if (!status_.ok() || status.ok()) return;
  const std::string place = where.ToString();
  if (place.empty() || absl::StrContains(status.message(), "(at ")) {
    status_ = std::move(status);
  } else {
    status_ = absl::Status(status.code(), absl::StrCat(status.message(), " (at ", place, ")"));
  }
}

absl::StatusOr<std::unique_ptr<Graph>> GraphBuilder::Finish() {
  if (!ok()) return status_;
  auto empty = std::make_unique<Graph>(graph_->ops());
  status_ = absl::FailedPreconditionError("GraphBuilder: its graph was handed over by Finish");
  return std::exchange(graph_, std::move(empty));
}

Node* GraphBuilder::AddNode(absl::string_view op, std::vector<InputArg> inputs, AttrMap attrs,
                            absl::string_view name, SourceLocation where) {
  if (!ok()) return nullptr;
  NodeSpec spec;
  spec.op = std::string(op);
  spec.name = UniqueName(name.empty() ? op : name);
  spec.inputs = std::move(inputs);
  spec.control_inputs = control_;
  spec.attrs = std::move(attrs);
  spec.device = device_;
  spec.source = where;
  if (colocate_with_ != nullptr) {
    spec.attrs.emplace("_class", std::vector<std::string>{absl::StrCat("loc:@", colocate_with_->name())});
    spec.device = colocate_with_->requested_device();
  }
  absl::StatusOr<Node*> node = graph_->AddNode(std::move(spec));
  if (!node.ok()) {
    SetError(node.status(), where);
    return nullptr;
  }
  if (device_setter_ && colocate_with_ == nullptr) {
    absl::StatusOr<DeviceName> device = device_setter_(**node, (*node)->requested_device());
    if (!device.ok()) {
      SetError(device.status(), where);
      return nullptr;
    }
    graph_->SetRequestedDevice(*node, *std::move(device));
  }
  return *node;
}

Output GraphBuilder::AddOp(absl::string_view op, std::vector<InputArg> inputs, AttrMap attrs,
                           absl::string_view name, SourceLocation where) {
  Node* const node = AddNode(op, std::move(inputs), std::move(attrs), name, where);
  if (node == nullptr || node->num_outputs() > 0) return {node, 0};
  SetError(absl::InvalidArgumentError(absl::StrCat(node->Describe(), " has no output: add it by AddNode")),
           where);
  return {};
}

GraphBuilder::Scope GraphBuilder::NameScope(absl::string_view name) {
  std::string outer = name_scope_;
  name_scope_ = name.empty() ? "" : UniqueName(name);
  return Scope([this, outer] { name_scope_ = outer; });
}

GraphBuilder::Scope GraphBuilder::DeviceScope(absl::string_view device) {
  DeviceName outer = device_;
  absl::StatusOr<DeviceName> inner = DeviceName::Parse(device);
  if (inner.ok()) {
    device_ = inner->is_empty() ? DeviceName() : outer.OverriddenBy(*inner);
  } else {
    SetError(inner.status());
  }
  return Scope([this, outer] { device_ = outer; });
}

GraphBuilder::Scope GraphBuilder::ControlScope(std::vector<Node*> before) {
  std::vector<Node*> outer = control_;
  for (Node* node : before) {
    if (node != nullptr && std::find(control_.begin(), control_.end(), node) == control_.end()) {
      control_.push_back(node);
    }
  }
  return Scope([this, outer] { control_ = outer; });
}

GraphBuilder::Scope GraphBuilder::ClearControlScope() {
  std::vector<Node*> outer = std::move(control_);
  control_.clear();
  return Scope([this, outer] { control_ = outer; });
}

GraphBuilder::Scope GraphBuilder::ColocationScope(Node* with) {
  if (with != nullptr) SetError(CheckNodeOf(*graph_, *with));
  Node* outer = colocate_with_;
  colocate_with_ = with;
  return Scope([this, outer] { colocate_with_ = outer; });
}

GraphBuilder::RandomSeeds GraphBuilder::NextRandomSeeds(std::optional<int64_t> op_seed) {
  constexpr int64_t kDefaultGraphSeed = 87654321;  // TensorFlow's
  constexpr int64_t kMaxSeed = (int64_t{1} << 31) - 1;
  constexpr int64_t kInsteadOfZeros = kMaxSeed;  // two zeros would mean "random"
  if (!random_seed_ && !op_seed) return {};
  const auto reduced = [](int64_t seed) { return (seed % kMaxSeed + kMaxSeed) % kMaxSeed; };
  const RandomSeeds seeds = {reduced(random_seed_.value_or(kDefaultGraphSeed)),
                             reduced(op_seed ? *op_seed : num_random_ops_++)};
  return seeds.seed == 0 && seeds.seed2 == 0 ? RandomSeeds{0, kInsteadOfZeros} : seeds;
}

std::string GraphBuilder::UniqueName(absl::string_view name) {
  return UniqueFullName(name_scope_.empty() ? std::string(name) : absl::StrCat(name_scope_, "/", name));
}

std::string GraphBuilder::UniqueFullName(const std::string& full) {
  NoteNamesOfNodes();
  const std::string key = absl::AsciiStrToLower(full);
  int suffix = name_counts_[key]++;
  if (suffix == 0) return full;
  // A name made unique may itself have been asked for before.
  std::string ending;
  do {
    ending = absl::StrCat("_", suffix++);
  } while (name_counts_.contains(key + ending));
  name_counts_[key] = suffix;  // those below are taken
  name_counts_.emplace(key + ending, 1);
  return full + ending;
}

void GraphBuilder::NoteNamesOfNodes() {
  for (; num_noted_ < graph_->num_nodes(); ++num_noted_) {
    name_counts_.emplace(absl::AsciiStrToLower(graph_->node(num_noted_)->name()), 1);
  }
}

}  // namespace weir
