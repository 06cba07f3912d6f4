#include "session/executor/state_order.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/runtime_ops.h"

namespace weir {
namespace {

constexpr char kHandleOp[] = "VarHandleOp";
constexpr char kReadOp[] = "ReadVariableOp";

// What a handle stands for. Two nodes may share a variable by its name.
std::string KeyOf(const Node& handle) {
  const auto text = [&handle](absl::string_view attr) {
    const AttrValue* const value = handle.FindAttr(attr);
    const std::string* const found = value == nullptr ? nullptr : value->get_if<std::string>();
    return found == nullptr ? std::string() : *found;
  };
  const std::string shared_name = text("shared_name");
  return absl::StrCat(text("container"), "/", shared_name.empty() ? handle.name() : shared_name);
}

class StateOrder {
 public:
  StateOrder(absl::Span<const StateAccess> instructions, absl::Span<const int32_t> writers)
      : instructions_(instructions),
        writers_(writers),
        follows_(instructions.size()),
        waits_(instructions.size(), false) {}

  std::optional<std::vector<std::vector<int32_t>>> Find() {
    for (int32_t i = 0; i < static_cast<int32_t>(instructions_.size()); ++i) {
      const StateAccess& at = instructions_[i];
      waits_[i] = at.may_wait || std::any_of(at.predecessors.begin(), at.predecessors.end(),
                                             [this](int32_t before) { return waits_[before]; });
      if (!Add(i)) return std::nullopt;
    }
    for (std::vector<int32_t>& before : follows_) {
      std::sort(before.begin(), before.end());
      before.erase(std::unique(before.begin(), before.end()), before.end());
    }
    return std::move(follows_);
  }

 private:
  struct State {
    int32_t last_write = -1;
    std::vector<int32_t> reads;  // since then; also of values that were read
  };

  bool Add(int32_t i) {
    const StateAccess& at = instructions_[i];
    const std::string& op = at.node->op_name();
    const bool is_transfer = op == kSendOp || op == kRetvalOp || op == kArgOp;
    if (op == kHandleOp || is_transfer || at.may_wait) return true;
    bool has_handle = false;
    for (size_t k = 0; k < at.inputs.size() && k < static_cast<size_t>(at.node->num_inputs()); ++k) {
      const int32_t writer = writers_[at.inputs[k]];
      if (at.node->input_type(static_cast<int>(k)) != DType::kResource) {
        if (writer >= 0) ReadValue(writer, i);
        continue;
      }
      if (writer < 0 || instructions_[writer].node->op_name() != kHandleOp) return false;
      has_handle = true;
      Touch(&states_[KeyOf(*instructions_[writer].node)], i, !OnlyReadsVariable(op));
    }
    const bool is_random = at.node->FindAttr("seed") != nullptr;
    if (at.node->op().is_stateful() && !has_handle && !is_random) Touch(&world_, i, true);
    return true;
  }

  // Of a value that is the variable's own buffer.
  void ReadValue(int32_t writer, int32_t i) {
    const StateAccess& read = instructions_[writer];
    if (read.node->op_name() != kReadOp || read.inputs.empty()) return;
    const int32_t handle = writers_[read.inputs[0]];
    if (handle >= 0) states_[KeyOf(*instructions_[handle].node)].reads.push_back(i);
  }

  void Touch(State* state, int32_t i, bool writes) {
    Follow(i, state->last_write);
    if (!writes) return state->reads.push_back(i);
    for (const int32_t read : state->reads) Follow(i, read);
    state->reads.clear();
    state->last_write = i;
  }

  void Follow(int32_t i, int32_t before) {
    if (before < 0 || before == i || waits_[before]) return;
    follows_[i].push_back(before);
  }

  const absl::Span<const StateAccess> instructions_;
  const absl::Span<const int32_t> writers_;
  std::vector<std::vector<int32_t>> follows_;
  std::vector<bool> waits_;
  absl::flat_hash_map<std::string, State> states_;
  State world_;
};

}  // namespace

bool OnlyReadsVariable(absl::string_view op) {
  return op == kReadOp || op == "ResourceGather" || op == "ResourceGatherNd" || op == "VariableShape" ||
         op == "VarIsInitializedOp";
}

std::optional<std::vector<std::vector<int32_t>>> FindStateOrder(absl::Span<const StateAccess> instructions,
                                                                absl::Span<const int32_t> writers) {
  return StateOrder(instructions, writers).Find();
}

}  // namespace weir
