#include "kernels/cpu/data/pipeline_rewrites.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "graph/function_bodies.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data/function_parts.h"

namespace weir {
namespace {

using Node = Pipeline::Node;
using Input = Pipeline::Input;

constexpr int64_t kAutotune = -1;
// Of the functions that one rewrite puts together. A function that many datasets share is copied for each.
constexpr int64_t kMostBytesOfFused = int64_t{64} << 20;

bool IsParallelMap(const Node& node) { return node.op == "ParallelMapDatasetV2"; }
bool IsMap(const Node& node) { return node.op == "MapDataset" || IsParallelMap(node); }
bool IsFilter(const Node& node) { return node.op == "FilterDataset"; }

const char* FunctionAttr(const Node& node) { return IsMap(node) ? "f" : "predicate"; }

template <typename T>
std::optional<T> Attr(const Node& node, absl::string_view name) {
  const auto found = node.attrs.find(name);
  const T* const value = found == node.attrs.end() ? nullptr : found->second.get_if<T>();
  return value == nullptr ? std::nullopt : std::make_optional(*value);
}

// The attrs that have the same names and meaning.
AttrMap Kept(const Node& node, std::initializer_list<const char*> names) {
  AttrMap kept;
  for (const char* name : names) {
    const auto found = node.attrs.find(name);
    if (found != node.attrs.end()) kept.emplace(name, found->second);
  }
  return kept;
}

bool HasCaptured(const Node& node) {
  const auto types = Attr<std::vector<DType>>(node, "Targuments");
  return !types.has_value() || !types->empty();
}

class Rewriter {
 public:
  Rewriter(const OpRegistry& ops, Pipeline* pipeline) : ops_(ops), pipeline_(*pipeline) {}

  bool has_changed() const { return has_changed_; }

  absl::Status LeaveOutNoops();
  absl::Status FuseShuffleAndRepeat();
  absl::Status MakeMapsParallel();
  absl::Status FuseMaps();
  absl::Status FuseFilters();
  absl::Status FuseMapAndFilter();
  absl::Status FuseMapAndBatch();
  absl::Status MakeFiltersParallel();
  absl::Status AddPrefetch();

 private:
  // Each node of the beginning, those before that it is made of. `change` may add nodes.
  template <typename Change>
  absl::Status Each(Change change) {
    const size_t count = pipeline_.nodes.size();
    for (size_t i = 0; i < count; ++i) WEIR_RETURN_IF_ERROR(change(static_cast<int>(i)));
    return absl::OkStatus();
  }

  Node& At(int node) { return pipeline_.nodes[static_cast<size_t>(node)]; }
  // The node that makes the first input, or null.
  Node* InputOf(const Node& node) {
    return node.inputs.empty() || node.inputs[0].node < 0 ? nullptr : &At(node.inputs[0].node);
  }
  std::optional<int64_t> Number(const Node& node, size_t input) const {
    if (input >= node.inputs.size() || node.inputs[input].node >= 0) return std::nullopt;
    const Tensor& tensor = pipeline_.tensors[static_cast<size_t>(node.inputs[input].tensor)];
    if (tensor.dtype() != DType::kInt64 || tensor.num_elements() != 1) return std::nullopt;
    return tensor.flat<int64_t>()[0];
  }
  Input Scalar(int64_t number) { return pipeline_.Add(Tensor::Scalar<int64_t>(number)); }

  // Nothing where the node has no body.
  absl::StatusOr<std::optional<FunctionParts>> FunctionOf(const Node& node) const {
    const auto body = Attr<std::string>(node, BodyAttr(FunctionAttr(node)));
    if (!body.has_value()) return std::nullopt;
    WEIR_ASSIGN_OR_RETURN(FunctionParts parts, FunctionParts::FromBody(*body));
    return std::make_optional(std::move(parts));
  }
  absl::Status SetFunction(const FunctionParts& function, Node* node) const {
    const char* const attr = FunctionAttr(*node);
    WEIR_ASSIGN_OR_RETURN(std::string body, function.Body());
    node->attrs[attr] = FunctionName{"rewritten"};
    node->attrs[BodyAttr(attr)] = std::move(body);
    return absl::OkStatus();
  }

  // A function that has been put together, and is no attr yet.
  struct Fused {
    FunctionParts function;
    int64_t num_bytes = 0;  // of the bodies that it is made of
  };
  using Fuse = absl::StatusOr<FunctionParts> (*)(FunctionParts first, const FunctionParts& second);

  int64_t NumBodyBytes(const Node& node) const;
  // By how many nodes each is used, and as the root.
  std::vector<int> Uses() const;
  // Of those that are made anew, false when they would be too many.
  bool Charge(int64_t num_bytes);
  // The function of the node that `second` has as its first input and then its own, as its own, where they
  // fit. A chain is put together in memory, and a part that nothing else uses becomes a part of the next.
  absl::Status FuseInto(int second, Fuse fuse, bool (*fit)(const FunctionParts&, const FunctionParts&),
                        const std::vector<int>& uses);
  absl::Status SetFused();

  absl::StatusOr<bool> IsNoop(const Node& node) const;
  bool CanFuse(const Node& first, const Node& second) const;

  const OpRegistry& ops_;
  Pipeline& pipeline_;
  std::map<int, Fused> fused_;  // by node
  int64_t num_fused_bytes_ = 0;
  bool has_changed_ = false;
};

absl::StatusOr<bool> Rewriter::IsNoop(const Node& node) const {
  const std::optional<int64_t> count = Number(node, 1);
  if (count.has_value()) {
    if (node.op == "TakeDataset") return *count < 0;
    if (node.op == "SkipDataset") return *count == 0;
    if (node.op == "RepeatDataset" || node.op == "ShardDataset") return *count == 1;
  }
  if (!IsMap(node) || HasCaptured(node)) return false;
  WEIR_ASSIGN_OR_RETURN(const std::optional<FunctionParts> function, FunctionOf(node));
  return function.has_value() && function->GivesArguments() && !function->IsStateful(ops_);
}

absl::Status Rewriter::LeaveOutNoops() {
  std::vector<Input> stands_for;  // of each node
  const auto replace = [&](Input* input) {
    if (input->node >= 0 && input->node < static_cast<int>(stands_for.size())) {
      *input = stands_for[static_cast<size_t>(input->node)];
    }
  };
  WEIR_RETURN_IF_ERROR(Each([&](int i) -> absl::Status {
    Node& node = At(i);
    for (Input& input : node.inputs) replace(&input);
    WEIR_ASSIGN_OR_RETURN(const bool is_noop, IsNoop(node));
    stands_for.push_back(is_noop ? node.inputs[0] : Input{i, -1});
    if (is_noop) has_changed_ = true;
    return absl::OkStatus();
  }));
  replace(&pipeline_.root);
  return absl::OkStatus();
}

absl::Status Rewriter::FuseShuffleAndRepeat() {
  return Each([&](int i) {
    Node& repeat = At(i);
    const Node* const shuffle = InputOf(repeat);
    if (repeat.op != "RepeatDataset" || shuffle == nullptr || shuffle->op != "ShuffleDataset") {
      return absl::OkStatus();
    }
    // Two counts have other meanings there.
    const std::optional<int64_t> buffer_size = Number(*shuffle, 1), count = Number(repeat, 1);
    if (buffer_size.value_or(0) < 1 || (count.value_or(0) < 1 && count != kAutotune)) return absl::OkStatus();
    Node fused = {"ShuffleAndRepeatDataset",
                  Kept(*shuffle, {"output_types", "output_shapes", "reshuffle_each_iteration"}),
                  shuffle->inputs};
    fused.inputs.push_back(repeat.inputs[1]);
    repeat = std::move(fused);
    has_changed_ = true;
    return absl::OkStatus();
  });
}

absl::Status Rewriter::MakeMapsParallel() {
  return Each([&](int i) -> absl::Status {
    if (At(i).op != "MapDataset" || Attr<bool>(At(i), "force_synchronous").value_or(false)) {
      return absl::OkStatus();
    }
    WEIR_ASSIGN_OR_RETURN(const std::optional<FunctionParts> function, FunctionOf(At(i)));
    if (!function.has_value() || function->IsStateful(ops_)) return absl::OkStatus();
    Node& map = At(i);
    map.op = "ParallelMapDatasetV2";
    map.attrs.erase("force_synchronous");
    map.attrs["deterministic"] = "true";
    map.inputs.push_back(Scalar(kAutotune));
    has_changed_ = true;
    return absl::OkStatus();
  });
}

bool Rewriter::CanFuse(const Node& first, const Node& second) const {
  if (!IsMap(first) || first.op != second.op || HasCaptured(first) || HasCaptured(second)) return false;
  if (!IsParallelMap(first)) return true;
  // "default" is as good as "true" there, as in TensorFlow.
  const auto may_be_out_of_order = [](const Node& map) {
    return Attr<std::string>(map, "deterministic") == "false";
  };
  const auto is_unbounded = [](const Node& map) {
    return Attr<bool>(map, "use_unbounded_threadpool").value_or(false);
  };
  if (may_be_out_of_order(first) != may_be_out_of_order(second)) return false;
  if (is_unbounded(first) != is_unbounded(second)) return false;
  return Number(first, 1) == kAutotune && Number(second, 1) == kAutotune;
}

int64_t Rewriter::NumBodyBytes(const Node& node) const {
  const auto body = node.attrs.find(BodyAttr(FunctionAttr(node)));
  const std::string* const bytes = body == node.attrs.end() ? nullptr : body->second.get_if<std::string>();
  return bytes == nullptr ? 0 : static_cast<int64_t>(bytes->size());
}

std::vector<int> Rewriter::Uses() const {
  std::vector<int> uses(pipeline_.nodes.size());
  const auto count = [&](const Input& input) {
    if (input.node >= 0) ++uses[static_cast<size_t>(input.node)];
  };
  count(pipeline_.root);
  for (const Node& node : pipeline_.nodes) {
    for (const Input& input : node.inputs) count(input);
  }
  return uses;
}

bool Rewriter::Charge(int64_t num_bytes) {
  if (num_bytes > kMostBytesOfFused - num_fused_bytes_) return false;
  num_fused_bytes_ += num_bytes;
  return true;
}

absl::Status Rewriter::FuseInto(int second, Fuse fuse,
                                bool (*fit)(const FunctionParts&, const FunctionParts&),
                                const std::vector<int>& uses) {
  const int first = At(second).inputs[0].node;
  const auto known = fused_.find(first);
  const bool is_fused = known != fused_.end();
  const bool is_last_use = is_fused && uses[static_cast<size_t>(first)] == 1;
  Fused inner;
  if (!is_fused) {
    WEIR_ASSIGN_OR_RETURN(std::optional<FunctionParts> own, FunctionOf(At(first)));
    if (!own.has_value()) return absl::OkStatus();
    inner = {*std::move(own), NumBodyBytes(At(first))};
  }
  WEIR_ASSIGN_OR_RETURN(const std::optional<FunctionParts> outer, FunctionOf(At(second)));
  if (!outer.has_value() || !fit(is_fused ? known->second.function : inner.function, *outer)) {
    return absl::OkStatus();
  }
  const int64_t outer_bytes = NumBodyBytes(At(second));
  const int64_t inner_bytes = is_fused ? known->second.num_bytes : inner.num_bytes;
  if (!Charge(is_last_use ? outer_bytes : inner_bytes + outer_bytes)) return absl::OkStatus();
  if (is_fused) inner = is_last_use ? std::move(known->second) : known->second;
  if (is_last_use) fused_.erase(known);
  WEIR_ASSIGN_OR_RETURN(FunctionParts function, fuse(std::move(inner.function), *outer));
  fused_[second] = {std::move(function), inner_bytes + outer_bytes};
  At(second).inputs[0] = At(first).inputs[0];
  has_changed_ = true;
  return absl::OkStatus();
}

absl::Status Rewriter::SetFused() {
  for (const auto& [node, fused] : fused_) WEIR_RETURN_IF_ERROR(SetFunction(fused.function, &At(node)));
  fused_.clear();
  return absl::OkStatus();
}

absl::Status Rewriter::FuseMaps() {
  const std::vector<int> uses = Uses();
  const auto fit = [](const FunctionParts& inner, const FunctionParts& outer) {
    return inner.result_types == outer.argument_types;
  };
  WEIR_RETURN_IF_ERROR(Each([&](int i) -> absl::Status {
    const Node* const first = InputOf(At(i));
    if (first == nullptr || !CanFuse(*first, At(i))) return absl::OkStatus();
    const bool first_preserves = Attr<bool>(*first, "preserve_cardinality").value_or(false);
    WEIR_RETURN_IF_ERROR(FuseInto(i, &Composed, fit, uses));
    if (!fused_.contains(i)) return absl::OkStatus();
    At(i).attrs["preserve_cardinality"] =
        first_preserves && Attr<bool>(At(i), "preserve_cardinality").value_or(false);
    return absl::OkStatus();
  }));
  return SetFused();
}

absl::Status Rewriter::FuseFilters() {
  const std::vector<int> uses = Uses();
  const auto fit = [](const FunctionParts& inner, const FunctionParts& outer) {
    const std::vector<DType> verdict = {DType::kBool};
    return inner.result_types == verdict && outer.result_types == verdict &&
           inner.argument_types == outer.argument_types;
  };
  WEIR_RETURN_IF_ERROR(Each([&](int i) -> absl::Status {
    const Node* const first = InputOf(At(i));
    if (first == nullptr || !IsFilter(*first) || !IsFilter(At(i))) return absl::OkStatus();
    if (HasCaptured(*first) || HasCaptured(At(i))) return absl::OkStatus();
    return FuseInto(i, &Both, fit, uses);
  }));
  return SetFused();
}

absl::Status Rewriter::FuseMapAndFilter() {
  return Each([&](int i) -> absl::Status {
    const Node filter = At(i);
    if (!IsFilter(filter) || InputOf(filter) == nullptr || !IsMap(*InputOf(filter))) return absl::OkStatus();
    const Node map = *InputOf(filter);
    if (HasCaptured(map) || HasCaptured(filter)) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const auto function, FunctionOf(map));
    WEIR_ASSIGN_OR_RETURN(const auto predicate, FunctionOf(filter));
    auto types = Attr<std::vector<DType>>(map, "output_types");
    auto shapes = Attr<std::vector<PartialShape>>(map, "output_shapes");
    if (!function.has_value() || !predicate.has_value() || !types.has_value() || !shapes.has_value() ||
        function->result_types != predicate->argument_types || predicate->result_types.size() != 1) {
      return absl::OkStatus();
    }
    if (!Charge(NumBodyBytes(map) + NumBodyBytes(filter))) return absl::OkStatus();
    types->push_back(predicate->result_types[0]);
    shapes->push_back(PartialShape());
    const auto last = static_cast<int>(types->size()) - 1;

    Node with_verdict = map;
    WEIR_ASSIGN_OR_RETURN(const FunctionParts followed, Followed(*function, *predicate));
    WEIR_RETURN_IF_ERROR(SetFunction(followed, &with_verdict));
    with_verdict.attrs["output_types"] = *types;
    with_verdict.attrs["output_shapes"] = *shapes;

    Node by_verdict = filter;
    WEIR_RETURN_IF_ERROR(SetFunction(Selection(*types, last, last + 1), &by_verdict));
    by_verdict.attrs["output_types"] = *types;
    by_verdict.attrs["output_shapes"] = *shapes;
    by_verdict.inputs[0] = pipeline_.Add(std::move(with_verdict));

    Node without_verdict = {"MapDataset", Kept(filter, {"output_types", "output_shapes", "Targuments"}), {}};
    without_verdict.attrs["preserve_cardinality"] = true;
    WEIR_RETURN_IF_ERROR(SetFunction(Selection(*types, 0, last), &without_verdict));
    without_verdict.inputs = {pipeline_.Add(std::move(by_verdict))};
    At(i) = std::move(without_verdict);
    has_changed_ = true;
    return absl::OkStatus();
  });
}

absl::Status Rewriter::FuseMapAndBatch() {
  return Each([&](int i) {
    const Node batch = At(i);
    const bool has_remainder = batch.op == "BatchDatasetV2";
    if ((batch.op != "BatchDataset" && !has_remainder) || InputOf(batch) == nullptr ||
        !IsMap(*InputOf(batch))) {
      return absl::OkStatus();
    }
    const Node map = *InputOf(batch);
    Node fused = {"MapAndBatchDataset", Kept(batch, {"output_types", "output_shapes"}), map.inputs};
    for (auto& [name, value] : Kept(map, {"f", "Targuments", "preserve_cardinality"})) {
      fused.attrs[name] = value;
    }
    if (const auto body = Attr<std::string>(map, BodyAttr("f"))) fused.attrs[BodyAttr("f")] = *body;
    const Input num_calls = IsParallelMap(map) ? map.inputs.back() : Scalar(1);
    if (IsParallelMap(map)) fused.inputs.pop_back();
    fused.inputs.push_back(batch.inputs[1]);
    fused.inputs.push_back(num_calls);
    fused.inputs.push_back(has_remainder ? batch.inputs[2] : pipeline_.Add(Tensor::Scalar(false)));
    At(i) = std::move(fused);
    has_changed_ = true;
    return absl::OkStatus();
  });
}

absl::Status Rewriter::MakeFiltersParallel() {
  return Each([&](int i) -> absl::Status {
    if (!IsFilter(At(i))) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const auto predicate, FunctionOf(At(i)));
    if (!predicate.has_value() || predicate->IsStateful(ops_)) return absl::OkStatus();
    Node& filter = At(i);
    filter.op = "ParallelFilterDataset";
    filter.attrs["deterministic"] = "true";
    filter.inputs.push_back(Scalar(kAutotune));
    has_changed_ = true;
    return absl::OkStatus();
  });
}

absl::Status Rewriter::AddPrefetch() {
  int last = pipeline_.root.node;
  while (last >= 0 && (At(last).op == "OptionsDataset" || absl::EndsWith(At(last).op, "AssertNextDataset"))) {
    last = At(last).inputs[0].node;
  }
  if (last >= 0 && At(last).op == "PrefetchDataset") return absl::OkStatus();
  if (pipeline_.root.node < 0) return absl::OkStatus();
  Node prefetch = {"PrefetchDataset",
                   Kept(At(pipeline_.root.node), {"output_types", "output_shapes"}),
                   {pipeline_.root, Scalar(kAutotune)}};
  pipeline_.root = pipeline_.Add(std::move(prefetch));
  has_changed_ = true;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> Rewrite(const DatasetOptions& options, const OpRegistry& ops, Pipeline* pipeline) {
  Rewriter rewriter(ops, pipeline);
  // In TensorFlow's order.
  if (options.noop_elimination) WEIR_RETURN_IF_ERROR(rewriter.LeaveOutNoops());
  if (options.shuffle_and_repeat_fusion) WEIR_RETURN_IF_ERROR(rewriter.FuseShuffleAndRepeat());
  if (options.map_parallelization && options.autotune) WEIR_RETURN_IF_ERROR(rewriter.MakeMapsParallel());
  if (options.map_fusion) WEIR_RETURN_IF_ERROR(rewriter.FuseMaps());
  if (options.filter_fusion) WEIR_RETURN_IF_ERROR(rewriter.FuseFilters());
  if (options.map_and_filter_fusion) WEIR_RETURN_IF_ERROR(rewriter.FuseMapAndFilter());
  if (options.map_and_batch_fusion) WEIR_RETURN_IF_ERROR(rewriter.FuseMapAndBatch());
  if (options.filter_parallelization && options.autotune) {
    WEIR_RETURN_IF_ERROR(rewriter.MakeFiltersParallel());
  }
  if (options.inject_prefetch && options.autotune) WEIR_RETURN_IF_ERROR(rewriter.AddPrefetch());
  return rewriter.has_changed();
}

}  // namespace weir
