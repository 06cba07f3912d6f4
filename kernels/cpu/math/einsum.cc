// Einsum, by copies and products of matrices.
//
// Of two inputs, labels are batch (both inputs and the output have them), contracted (both inputs have them),
// or free (one input and the output have them); those of one input alone are summed over first. Each operand
// becomes a batch of matrices, free times contracted; the product's axes then go where the output wants them.
#include <algorithm>
#include <complex>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/einsum_equation.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/math/batch_product.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// By label. Strides are in elements; a diagonal's is the sum of those of its axes.
using Sizes = std::map<int, int64_t>;
using Strides = std::map<int, int64_t>;

bool Contains(const AxisLabels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

Strides StridesOf(const AxisLabels& labels, const Sizes& sizes) {
  Strides strides;
  int64_t stride = 1;
  for (size_t i = labels.size(); i-- > 0;) {
    strides[labels[i]] += stride;
    stride *= sizes.at(labels[i]);
  }
  return strides;
}

int64_t NumElements(const AxisLabels& labels, const Sizes& sizes) {
  int64_t count = 1;
  for (const int label : labels) count *= sizes.at(label);
  return count;
}

// A tensor as an equation sees it.
struct Operand {
  Tensor tensor;
  AxisLabels labels;  // each once
  Strides strides;

  bool has(int label) const { return Contains(labels, label); }
};

// to[i...] += from[i...] for all values of the labels; a label without a stride stands still.
template <typename T>
void AddStrided(const AxisLabels& labels, const Sizes& sizes, const Strides& from_strides, const T* from,
                const Strides& to_strides, T* to) {
  struct Loop {
    int64_t size, from, to, index;
  };
  const auto stride_of = [](const Strides& strides, int label) {
    const auto found = strides.find(label);
    return found == strides.end() ? 0 : found->second;
  };
  std::vector<Loop> loops;
  for (const int label : labels) {
    loops.push_back({sizes.at(label), stride_of(from_strides, label), stride_of(to_strides, label), 0});
    if (loops.back().size == 0) return;
  }
  if (loops.empty()) loops.push_back({1, 0, 0, 0});
  const Loop inner = loops.back();
  loops.pop_back();
  while (true) {
    for (int64_t i = 0; i < inner.size; ++i) {
      to[i * inner.to] = elementwise::Add()(to[i * inner.to], from[i * inner.from]);
    }
    size_t at = loops.size();
    for (; at > 0; --at) {  // the next values of the outer labels, as an odometer counts
      Loop& loop = loops[at - 1];
      from += loop.from;
      to += loop.to;
      if (++loop.index < loop.size) break;
      from -= loop.index * loop.from;
      to -= loop.index * loop.to;
      loop.index = 0;
    }
    if (at == 0) return;
  }
}

// The operand with its axes in that order; what is not wanted is summed over. The operand's own memory where
// it is so already.
template <typename T>
absl::StatusOr<Tensor> Arrange(KernelContext& context, const Operand& operand, const AxisLabels& wanted,
                               const Sizes& sizes) {
  const Strides dense = StridesOf(wanted, sizes);
  const bool is_arranged =
      wanted.size() == operand.labels.size() && std::all_of(wanted.begin(), wanted.end(), [&](int label) {
        return sizes.at(label) == 1 || operand.strides.at(label) == dense.at(label);
      });
  if (is_arranged) return operand.tensor;
  WEIR_ASSIGN_OR_RETURN(Tensor result,
                        context.AllocateTemporary(DTypeOf<T>, Shape({NumElements(wanted, sizes)})));
  std::fill_n(result.flat<T>().data(), result.num_elements(), T(0));
  AxisLabels all = wanted;
  for (const int label : operand.labels) {
    if (!Contains(all, label)) all.push_back(label);
  }
  AddStrided(all, sizes, operand.strides, operand.tensor.flat<T>().data(), dense, result.flat<T>().data());
  return result;
}

AxisLabels Join(std::initializer_list<AxisLabels> lists) {
  AxisLabels all;
  for (const AxisLabels& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

template <typename T>
class Einsum final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(EinsumEquation equation,
                          EinsumEquation::Parse(construction.attr<std::string>("equation")));
    if (static_cast<int>(equation.inputs().size()) != construction.node().num_inputs()) {
      return absl::InvalidArgumentError(absl::StrCat("the equation has ", equation.inputs().size(),
                                                     " inputs, the node ", construction.node().num_inputs()));
    }
    return std::make_unique<Einsum>(std::move(equation));
  }
  explicit Einsum(EinsumEquation equation) : equation_(std::move(equation)) {}

  absl::Status Compute(KernelContext& context) override {
    std::vector<AxisLabels> labels;
    Sizes sizes;
    for (int i = 0; i < context.num_inputs(); ++i) {
      WEIR_ASSIGN_OR_RETURN(AxisLabels own, LabelsOfInput(context, i));
      WEIR_RETURN_IF_ERROR(MergeSizes(context, i, own, sizes));
      labels.push_back(std::move(own));
    }
    WEIR_ASSIGN_OR_RETURN(const AxisLabels output_labels, equation_.OutputLabels(labels));
    Dims dims;
    for (const int label : output_labels) dims.push_back(sizes.at(label));
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(Tensor result, WideOutput(context, *output));
    std::fill_n(result.flat<Wide>().data(), result.num_elements(), Wide(0));
    std::vector<Operand> operands;
    for (int i = 0; i < context.num_inputs(); ++i) {
      WEIR_ASSIGN_OR_RETURN(Operand operand, MakeOperand(context, i, labels[i], sizes));
      operands.push_back(std::move(operand));
    }
    const Strides to = StridesOf(output_labels, sizes);
    if (operands.size() == 1) {
      AddStrided(operands[0].labels, sizes, operands[0].strides,
                 operands[0].tensor.template flat<Wide>().data(), to, result.flat<Wide>().data());
    } else {
      WEIR_RETURN_IF_ERROR(Multiply(context, operands[0], operands[1], output_labels, sizes, to, result));
    }
    Narrow(context, result, output);
    return absl::OkStatus();
  }

 private:
  using Wide = ComputeType<T>;

  absl::StatusOr<AxisLabels> LabelsOfInput(KernelContext& context, int i) const {
    absl::StatusOr<AxisLabels> labels =
        EinsumEquation::LabelsOf(equation_.inputs()[i], context.input(i).shape().rank());
    if (labels.ok()) return labels;
    return absl::InvalidArgumentError(absl::StrCat("inputs[", i, "] is ", context.input(i).shape().ToString(),
                                                   ": ", labels.status().message()));
  }

  // Axes of one label have one size; those of an ellipsis may be 1 instead.
  static absl::Status MergeSizes(KernelContext& context, int i, const AxisLabels& labels, Sizes& sizes) {
    const Shape& shape = context.input(i).shape();
    for (size_t axis = 0; axis < labels.size(); ++axis) {
      const int64_t dim = shape.dim(static_cast<int>(axis));
      const auto [entry, is_new] = sizes.try_emplace(labels[axis], dim);
      if (is_new || entry->second == dim) continue;
      const bool broadcasts = IsEllipsisLabel(labels[axis]) && (dim == 1 || entry->second == 1);
      if (!broadcasts) {
        return absl::InvalidArgumentError(absl::StrCat("inputs[", i, "] is ", shape.ToString(),
                                                       ": dimension ", axis, " must be ", entry->second,
                                                       " as elsewhere"));
      }
      if (entry->second == 1) entry->second = dim;
    }
    return absl::OkStatus();
  }

  // Axes that broadcast are no axes of the operand: it is the same all along them.
  static absl::StatusOr<Operand> MakeOperand(KernelContext& context, int i, const AxisLabels& labels,
                                             const Sizes& sizes) {
    Operand operand;
    WEIR_ASSIGN_OR_RETURN(operand.tensor, Widen(context, context.input(i)));
    int64_t stride = 1;
    for (size_t axis = labels.size(); axis-- > 0;) {
      const int64_t dim = context.input(i).shape().dim(static_cast<int>(axis));
      if (dim == sizes.at(labels[axis])) {
        if (!operand.has(labels[axis])) operand.labels.insert(operand.labels.begin(), labels[axis]);
        operand.strides[labels[axis]] += stride;
      }
      stride *= dim;
    }
    return operand;
  }

  static absl::Status Multiply(KernelContext& context, const Operand& a, const Operand& b,
                               const AxisLabels& output, const Sizes& sizes, const Strides& to,
                               Tensor& result) {
    AxisLabels batch, contracted, free_a, free_b;
    for (const int label : a.labels) {
      const bool is_kept = Contains(output, label);
      if (b.has(label))
        (is_kept ? batch : contracted).push_back(label);
      else if (is_kept)
        free_a.push_back(label);
    }
    for (const int label : b.labels) {
      if (!a.has(label) && Contains(output, label)) free_b.push_back(label);
    }
    WEIR_ASSIGN_OR_RETURN(const Tensor left,
                          Arrange<Wide>(context, a, Join({batch, free_a, contracted}), sizes));
    const AxisLabels as_is = Join({batch, contracted, free_b}),
                     transposed = Join({batch, free_b, contracted});
    // In a product of matrices the second operand may be transposed for nothing.
    const bool is_transposed = !free_b.empty() && !contracted.empty() && b.labels == transposed;
    WEIR_ASSIGN_OR_RETURN(const Tensor right,
                          Arrange<Wide>(context, b, is_transposed ? transposed : as_is, sizes));
    const ProductShape product = {NumElements(free_a, sizes), NumElements(contracted, sizes),
                                  NumElements(free_b, sizes), false, is_transposed};
    const AxisLabels found = Join({batch, free_a, free_b});
    const Strides dense = StridesOf(found, sizes);
    const bool is_arranged = found == output;
    Tensor products = result;
    if (!is_arranged) {
      WEIR_ASSIGN_OR_RETURN(products,
                            context.AllocateTemporary(DTypeOf<Wide>, Shape({NumElements(found, sizes)})));
    }
    const auto same = [](int64_t i) { return i; };
    WEIR_RETURN_IF_ERROR(MultiplyBatches<Wide>(
        context, product, NumElements(batch, sizes), same, same, left.template flat<Wide>().data(),
        right.template flat<Wide>().data(), products.template flat<Wide>().data()));
    if (!is_arranged) {
      AddStrided(found, sizes, dense, products.template flat<Wide>().data(), to,
                 result.template flat<Wide>().data());
    }
    return absl::OkStatus();
  }

  const EinsumEquation equation_;
};

}  // namespace

void RegisterEinsumKernels(DeviceKernels& kernels) {
  kernels.Add<Einsum>(
      "Einsum",
      Types<float, double, Half, Bfloat16, int32_t, int64_t, std::complex<float>, std::complex<double>>("T"));
}

}  // namespace weir
