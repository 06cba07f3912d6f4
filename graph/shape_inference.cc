#include "graph/shape_inference.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int kMaxLookBack = 16;  // how far values are followed through the graph; deeper chains stay unknown
constexpr int64_t kMaxLookups = 100000;  // nodes and values looked at for one shape; beyond, it stays unknown

// The constant behind an output, through nodes that only pass a value on.
std::optional<Tensor> ConstantValue(Output output) {
  for (int hops = 0; hops < kMaxLookBack && output.node != nullptr; ++hops) {
    const Node& node = *output.node;
    if (node.op_name() == "Const") return node.attr<Tensor>("value");
    if (node.op_name() != "Identity" && node.op_name() != "StopGradient") return std::nullopt;
    output = node.input(0);
  }
  return std::nullopt;
}

template <typename T>
std::vector<int64_t> Widened(const Tensor& tensor) {
  const auto values = tensor.flat<T>();
  return std::vector<int64_t>(values.begin(), values.end());
}

// The values of a tensor of one of the dtypes that indices have.
std::optional<std::vector<int64_t>> ToIntegers(const Tensor& tensor) {
  if (tensor.dtype() == DType::kInt16) return Widened<int16_t>(tensor);
  if (tensor.dtype() == DType::kInt32) return Widened<int32_t>(tensor);
  if (tensor.dtype() == DType::kInt64) return Widened<int64_t>(tensor);
  return std::nullopt;
}

std::optional<std::vector<int64_t>> ConstantIntegers(Output output) {
  std::optional<Tensor> constant = ConstantValue(output);
  return constant ? ToIntegers(*constant) : std::nullopt;
}

// Finds the values of an integer vector (or scalar) as far as they can be known, kUnknownDim elsewhere;
// nullopt when not even the length is known, and for a matrix.
class IntegerLookup {
 public:
  using Values = std::optional<std::vector<int64_t>>;

  Values Find(const Output& output, int depth = 0) {
    if (depth > kMaxLookBack || output.node == nullptr || !Spend(1)) return std::nullopt;
    const PartialShape& shape = output.shape();
    if (shape.rank() > 1) return std::nullopt;
    Values values = FromOp(output, depth + 1);
    if (values) return Spend(values->size()) ? values : std::nullopt;
    if (shape.rank() == 1 && shape.dim(0) != PartialShape::kUnknownDim && shape.dim(0) <= 254) {
      return std::vector<int64_t>(shape.dim(0), PartialShape::kUnknownDim);
    }
    return std::nullopt;
  }

 private:
  // A graph can concatenate one node many times over, so that there are more paths than nodes.
  bool Spend(int64_t cost) {
    budget_ -= std::min(cost, budget_ + 1);
    return budget_ >= 0;
  }

  // What the ops know that make or pass on the value.
  Values FromOp(const Output& output, int depth) {
    const Node& node = *output.node;
    const std::string& op = node.op_name();
    if (op == "Const") return ToIntegers(node.attr<Tensor>("value"));
    if (op == "Identity" || op == "ExpandDims") return Find(node.input(0), depth);
    if (op == "Cast") return FromCast(node, depth);
    if (op == "Shape" || op == "ShapeN") return DimsOf(node.input(op == "Shape" ? 0 : output.index).shape());
    if (op == "Pack") return FromPack(node, depth);
    if (op == "ConcatV2") return FromConcat(node, depth);
    if (op == "StridedSlice") return FromStridedSlice(node, depth);
    return std::nullopt;
  }

  static Values DimsOf(const PartialShape& shape) {
    if (!shape.has_rank()) return std::nullopt;
    return std::vector<int64_t>(shape.dims().begin(), shape.dims().end());
  }

  // A cast from one type of indices to the other keeps values; any other may change them.
  Values FromCast(const Node& node, int depth) {
    const auto is_index = [](DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; };
    if (!is_index(node.input_type(0)) || !is_index(node.output_type(0))) return std::nullopt;
    Values values = Find(node.input(0), depth);
    if (values && node.output_type(0) == DType::kInt32) {
      for (int64_t& value : *values) {
        if (value != static_cast<int32_t>(value)) value = PartialShape::kUnknownDim;
      }
    }
    return values;
  }

  Values FromPack(const Node& node, int depth) {
    std::vector<int64_t> values;
    for (const Output& input : node.inputs()) {
      const Values part = Find(input, depth);
      values.push_back(part && part->size() == 1 ? (*part)[0] : PartialShape::kUnknownDim);
    }
    return values;
  }

  Values FromConcat(const Node& node, int depth) {
    std::vector<int64_t> values;
    for (int i = 0; i + 1 < node.num_inputs(); ++i) {
      const Values part = Find(node.input(i), depth);
      if (!part) return std::nullopt;
      values.insert(values.end(), part->begin(), part->end());
    }
    return values;
  }

  // x[begin:end:1] or x[begin] of a vector, with constant bounds.
  Values FromStridedSlice(const Node& node, int depth) {
    if (node.input(0).shape().rank() != 1) return std::nullopt;
    const Values input = Find(node.input(0), depth);
    const Values begin = ConstantIntegers(node.input(1)), end = ConstantIntegers(node.input(2)),
                 stride = ConstantIntegers(node.input(3));
    if (!input || !begin || !end || !stride) return std::nullopt;
    if (begin->size() != 1 || end->size() != 1 || *stride != std::vector<int64_t>{1}) return std::nullopt;
    if (node.attr<int64_t>("ellipsis_mask") != 0 || node.attr<int64_t>("new_axis_mask") != 0) {
      return std::nullopt;
    }
    const int64_t size = input->size();
    const auto clamp = [size](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
    const int64_t first = node.attr<int64_t>("begin_mask") & 1 ? 0 : clamp((*begin)[0]);
    int64_t last = node.attr<int64_t>("end_mask") & 1 ? size : clamp((*end)[0]);
    if (node.attr<int64_t>("shrink_axis_mask") & 1) last = std::min(first + 1, size);
    if (first >= last) return std::vector<int64_t>();
    return std::vector<int64_t>(input->begin() + first, input->begin() + last);
  }

  int64_t budget_ = kMaxLookups;
};

}  // namespace

ShapeInference::ShapeInference(const Op& op, const AttrMap& attrs, absl::Span<const Output> inputs,
                               int num_outputs)
    : op_(op), attrs_(attrs), inputs_(inputs), outputs_(num_outputs), resources_(num_outputs) {}

std::optional<Tensor> ShapeInference::input_constant(int index) const {
  return ConstantValue(inputs_[index]);
}

std::optional<std::vector<int64_t>> ShapeInference::input_integers(int index) const {
  return ConstantIntegers(inputs_[index]);
}

absl::StatusOr<PartialShape> ShapeInference::InputAsShape(int index) const {
  std::optional<std::vector<int64_t>> dims = IntegerLookup().Find(inputs_[index]);
  if (!dims) return PartialShape();
  absl::StatusOr<PartialShape> shape = PartialShape::FromDims(*dims);
  if (!shape.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(input_name(index), ": ", shape.status().message()));
  }
  return shape;
}

const std::optional<ResourceType>& ShapeInference::input_resource(int index) const {
  return inputs_[index].node->resource_type(inputs_[index].index);
}

std::string ShapeInference::input_name(int index) const {
  for (const ArgDef& arg : op_.inputs()) {
    int64_t count = 1;
    if (!arg.number_attr.empty()) count = attr<int64_t>(arg.number_attr);
    if (!arg.type_list_attr.empty()) count = attr<std::vector<DType>>(arg.type_list_attr).size();
    if (index < count) return arg.is_list() ? absl::StrCat(arg.name, "[", index, "]") : arg.name;
    index -= static_cast<int>(count);
  }
  return absl::StrCat("input ", index);
}

absl::StatusOr<PartialShape> ShapeInference::WithRank(int index, int rank) const {
  const PartialShape& shape = input(index);
  if (!shape.has_rank()) return PartialShape::OfRank(rank);
  if (shape.rank() == rank) return shape;
  return absl::InvalidArgumentError(
      absl::StrCat(input_name(index), " must have rank ", rank, ", is ", shape.ToString()));
}

absl::StatusOr<PartialShape> ShapeInference::WithRankAtLeast(int index, int rank) const {
  const PartialShape& shape = input(index);
  if (!shape.has_rank() || shape.rank() >= rank) return shape;
  return absl::InvalidArgumentError(
      absl::StrCat(input_name(index), " must have at least rank ", rank, ", is ", shape.ToString()));
}

absl::StatusOr<int64_t> ShapeInference::MergeDims(int64_t a, int64_t b) const {
  if (a == kUnknown) return b;
  if (b == kUnknown || a == b) return a;
  return absl::InvalidArgumentError(absl::StrCat("dimensions ", a, " and ", b, " differ"));
}

absl::StatusOr<PartialShape> ShapeInference::Broadcast(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank() || !b.has_rank()) return PartialShape();
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims(rank);
  for (int i = 0; i < rank; ++i) {
    const int at_a = i - (rank - a.rank()), at_b = i - (rank - b.rank());
    const int64_t x = at_a < 0 ? 1 : a.dim(at_a), y = at_b < 0 ? 1 : b.dim(at_b);
    if (x == 1 || y == 1) {
      dims[i] = x == 1 ? y : x;
    } else if (x == kUnknown || y == kUnknown) {
      dims[i] = x == kUnknown ? y : x;  // what is unknown must be 1 or the known size
    } else if (x == y) {
      dims[i] = x;
    } else {
      return absl::InvalidArgumentError(absl::StrCat("shapes ", a.ToString(), " and ", b.ToString(),
                                                     " do not broadcast: ", x, " meets ", y));
    }
  }
  return PartialShape::FromDims(dims);
}

absl::Status UnchangedShape(ShapeInference& inference) {
  for (int i = 0; i < inference.num_outputs(); ++i) inference.set_output(i, inference.input(0));
  return absl::OkStatus();
}

absl::Status BroadcastBinaryShape(ShapeInference& inference) {
  WEIR_ASSIGN_OR_RETURN(PartialShape shape,
                        ShapeInference::Broadcast(inference.input(0), inference.input(1)));
  inference.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::StatusOr<PartialShape> MergeInputs(ShapeInference& s, int begin, int end) {
  PartialShape merged = s.input(begin);
  for (int i = begin + 1; i < end; ++i) {
    auto both = merged.MergeWith(s.input(i));
    if (!both.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("shapes differ: ", s.input_name(begin), " is ",
                                                     merged.ToString(), ", ", s.input_name(i), " is ",
                                                     s.input(i).ToString()));
    }
    merged = *std::move(both);
  }
  return merged;
}

absl::Status MergedShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(PartialShape merged, MergeInputs(s, 0, s.num_inputs()));
  s.set_output(0, std::move(merged));
  return absl::OkStatus();
}

absl::Status ScalarShape(ShapeInference& inference) {
  for (int i = 0; i < inference.num_outputs(); ++i) inference.set_output(i, Shape());
  return absl::OkStatus();
}

absl::Status UnknownShape(ShapeInference&) { return absl::OkStatus(); }

absl::Status NoOutputs(ShapeInference&) { return absl::OkStatus(); }

absl::StatusOr<WindowExtent> SlideWindow(int64_t input, int64_t window, int64_t stride, int64_t dilation,
                                         absl::string_view padding, int64_t explicit_before,
                                         int64_t explicit_after) {
  if (stride < 1 || dilation < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("stride and dilation must be at least 1, are ", stride, " and ", dilation));
  }
  if (window == PartialShape::kUnknownDim || input == PartialShape::kUnknownDim) {
    return WindowExtent{.size = PartialShape::kUnknownDim};
  }
  int64_t effective = 0;
  if (window < 1 || __builtin_mul_overflow(window - 1, dilation, &effective) ||
      __builtin_add_overflow(effective, 1, &effective)) {
    return absl::InvalidArgumentError(
        absl::StrCat("no window has size ", window, " and dilation ", dilation));
  }
  const auto too_far = [&] {
    return absl::InvalidArgumentError(absl::StrCat("the end of a window of ", effective, " with stride ",
                                                   stride, " and padding ", padding,
                                                   " does not fit into 64 bits"));
  };
  WindowExtent extent;
  if (padding == "SAME") {
    extent.size = input / stride + (input % stride != 0 ? 1 : 0);
    int64_t end = 0;  // of the last window, which begins inside the input
    if (__builtin_add_overflow(std::max<int64_t>(0, extent.size - 1) * stride, effective, &end))
      return too_far();
    const int64_t needed = std::max<int64_t>(0, end - input);
    extent.padding_before = needed / 2;
    extent.padding_after = needed - needed / 2;
    return extent;
  }
  const bool is_explicit = padding == "EXPLICIT";
  extent.padding_before = is_explicit ? explicit_before : 0;
  extent.padding_after = is_explicit ? explicit_after : 0;
  if (extent.padding_before < 0 || extent.padding_after < 0) {
    return absl::InvalidArgumentError(absl::StrCat("padding must be at least 0, is ", extent.padding_before,
                                                   " and ", extent.padding_after));
  }
  int64_t padded = 0;
  if (__builtin_add_overflow(input, extent.padding_before, &padded) ||
      __builtin_add_overflow(padded, extent.padding_after, &padded)) {
    return too_far();
  }
  if (padded < effective) {
    return absl::InvalidArgumentError(
        absl::StrCat("a window of ", effective, " does not fit into ", padded, " with padding ", padding));
  }
  extent.size = (padded - effective) / stride + 1;
  return extent;
}

}  // namespace weir
