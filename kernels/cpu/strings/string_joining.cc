// StringJoin, ReduceJoin and UnsortedSegmentJoin.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/strings/string_budget.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// Joins the parts in `separator`, asking for room first.
absl::Status Join(const std::vector<absl::string_view>& parts, const std::string& separator,
                  StringBudget& budget, std::string& joined) {
  int64_t num_bytes = 0;
  for (const absl::string_view part : parts) num_bytes += static_cast<int64_t>(part.size());
  if (!parts.empty()) {
    int64_t between = 0;
    if (!MultiplyWithoutOverflow(static_cast<int64_t>(separator.size()),
                                 static_cast<int64_t>(parts.size()) - 1, &between)) {
      between = INT64_MAX / 2;
    }
    num_bytes += between;
  }
  WEIR_RETURN_IF_ERROR(budget.Take(num_bytes));
  joined = absl::StrJoin(parts, separator);
  return absl::OkStatus();
}

class StringJoin final : public Kernel {
 public:
  explicit StringJoin(const KernelConstruction& construction)
      : separator_(construction.attr<std::string>("separator")) {}

  absl::Status Compute(KernelContext& context) override {
    Shape shape;
    for (int i = 0; i < context.num_inputs(); ++i) {
      const Shape& input = context.input(i).shape();
      if (input.is_scalar()) continue;
      if (!shape.is_scalar() && input != shape) {
        return absl::InvalidArgumentError(
            absl::StrCat("Input shapes do not match: ", shape.ToString(), " vs. ", input.ToString()));
      }
      shape = input;
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    StringBudget budget(context);
    std::vector<absl::string_view> parts(context.num_inputs());
    for (int64_t k = 0; k < shape.num_elements(); ++k) {
      for (int i = 0; i < context.num_inputs(); ++i) {
        const Tensor& input = context.input(i);
        parts[i] = input.flat<std::string>()[input.shape().is_scalar() ? 0 : k];
      }
      WEIR_RETURN_IF_ERROR(Join(parts, separator_, budget, output->flat<std::string>()[k]));
    }
    return absl::OkStatus();
  }

 private:
  const std::string separator_;
};

// The positions that a nest of loops visits, the last one innermost.
std::vector<int64_t> Positions(const Dims& sizes, const Dims& strides) {
  // Or outer loops would be gone through for nothing: of [2^40,0] elements there may be without any memory.
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return {};
  std::vector<int64_t> positions = {0};
  for (size_t loop = 0; loop < sizes.size(); ++loop) {
    std::vector<int64_t> finer;
    finer.reserve(positions.size() * sizes[loop]);
    for (const int64_t position : positions) {
      for (int64_t i = 0; i < sizes[loop]; ++i) finer.push_back(position + i * strides[loop]);
    }
    positions = std::move(finer);
  }
  return positions;
}

class ReduceJoin final : public Kernel {
 public:
  explicit ReduceJoin(const KernelConstruction& construction)
      : separator_(construction.attr<std::string>("separator")),
        keep_dims_(construction.attr<bool>("keep_dims")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    const int rank = input.shape().rank();
    WEIR_ASSIGN_OR_RETURN(const std::vector<int> axes, ReadAxes(context.input(1), rank));

    Dims strides(rank);
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; --i) {
      strides[i] = stride;
      stride *= std::max<int64_t>(input.shape().dim(i), 1);
    }
    Dims dims, kept_sizes, kept_strides, joined_sizes, joined_strides;
    for (int i = 0; i < rank; ++i) {
      const bool is_joined = std::find(axes.begin(), axes.end(), i) != axes.end();
      if (!is_joined) {
        kept_sizes.push_back(input.shape().dim(i));
        kept_strides.push_back(strides[i]);
      }
      if (!is_joined || keep_dims_) dims.push_back(is_joined ? 1 : input.shape().dim(i));
    }
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {  // the first one is innermost
      joined_sizes.push_back(input.shape().dim(*axis));
      joined_strides.push_back(strides[*axis]);
    }

    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const std::vector<int64_t> offsets = Positions(joined_sizes, joined_strides);
    const std::vector<int64_t> starts = Positions(kept_sizes, kept_strides);
    StringBudget budget(context);
    std::vector<absl::string_view> parts(offsets.size());
    const auto strings = input.flat<std::string>();
    for (size_t k = 0; k < starts.size(); ++k) {
      for (size_t i = 0; i < offsets.size(); ++i) parts[i] = strings[starts[k] + offsets[i]];
      WEIR_RETURN_IF_ERROR(Join(parts, separator_, budget, output->flat<std::string>()[k]));
    }
    return absl::OkStatus();
  }

 private:
  // In the order given: it is the order in which strings are joined.
  static absl::StatusOr<std::vector<int>> ReadAxes(const Tensor& indices, int rank) {
    std::vector<int> axes;
    for (const int32_t index : indices.flat<int32_t>()) {
      if (index < -rank || index >= rank) {
        return absl::OutOfRangeError(
            absl::StrCat("Invalid reduction dimension ", index, " for input with ", rank, " dimension(s)"));
      }
      const int axis = index < 0 ? index + rank : index;
      if (std::find(axes.begin(), axes.end(), axis) != axes.end()) {
        return absl::InvalidArgumentError(absl::StrCat("Duplicate reduction dimension ", index));
      }
      axes.push_back(axis);
    }
    return axes;
  }

  const std::string separator_;
  const bool keep_dims_;
};

template <typename Id, typename Count>
class UnsortedSegmentJoin final : public Kernel {
 public:
  explicit UnsortedSegmentJoin(const KernelConstruction& construction)
      : separator_(construction.attr<std::string>("separator")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_RETURN_IF_ERROR(Check(input.shape(), context.input(1).shape(), context.input(2)));
    const int64_t num_segments = context.input(2).scalar<Count>();
    const auto ids = context.input(1).flat<Id>();
    Dims dims = {num_segments};
    int64_t per_slice = 1;
    for (int d = context.input(1).shape().rank(); d < input.shape().rank(); ++d) {
      dims.push_back(input.shape().dim(d));
      per_slice *= input.shape().dim(d);
    }
    std::vector<int64_t> order(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] >= num_segments) {
        return absl::InvalidArgumentError(absl::StrCat(
            "segment_ids are not allowed to exceed num_segments or to have negative values: segment_ids[", i,
            "] is ", ids[i], ", num_segments ", num_segments));
      }
      order[i] = static_cast<int64_t>(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return ids[a] < ids[b]; });

    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    StringBudget budget(context);
    std::vector<absl::string_view> parts;
    for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      const int64_t segment = ids[order[begin]];
      while (end < order.size() && ids[order[end]] == segment) ++end;
      for (int64_t k = 0; k < per_slice; ++k) {
        parts.clear();
        for (size_t i = begin; i < end; ++i) {
          parts.push_back(input.flat<std::string>()[order[i] * per_slice + k]);
        }
        std::string& joined = output->flat<std::string>()[segment * per_slice + k];
        WEIR_RETURN_IF_ERROR(Join(parts, separator_, budget, joined));
      }
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Check(const Shape& input, const Shape& ids, const Tensor& num_segments) {
    if (ids.is_scalar()) return absl::InvalidArgumentError("Segment_id cannot have rank 0");
    if (ids.rank() > input.rank()) {
      return absl::OutOfRangeError(absl::StrCat("Invalid segment_id rank ", ids.rank(), " for input with ",
                                                input.rank(), " dimension(s)"));
    }
    for (int d = 0; d < ids.rank(); ++d) {
      if (ids.dim(d) == input.dim(d)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "Segment dimension is ", ids.dim(d), " while input dimension is ", input.dim(d), " in rank ", d));
    }
    if (!num_segments.shape().is_scalar()) {
      return absl::InvalidArgumentError("Number of segments must be a scalar");
    }
    if (num_segments.scalar<Count>() < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("Number of segments must be non-negative but got ", num_segments.scalar<Count>()));
    }
    return absl::OkStatus();
  }

  const std::string separator_;
};

}  // namespace

void RegisterStringJoiningKernels(DeviceKernels& kernels) {
  kernels.Add<StringJoin>("StringJoin");
  kernels.Add<ReduceJoin>("ReduceJoin");
  kernels.Add<UnsortedSegmentJoin>("UnsortedSegmentJoin", Types<int32_t, int64_t>("Tindices"),
                                   Types<int32_t, int64_t>("Tnumsegments"));
}

}  // namespace weir
