// Ops whose indices are coordinates of slices: gathering them, and putting updates there.
//
// A slice of an indexed tensor of shape [d0, d1, ...] is what the first `depth` coordinates leave: contiguous
// elements, at an offset that is computed once for every row of indices and checked before anything is read
// or written. With bad_indices_policy 'IGNORE' a row outside has no slice: it gathers zeros and updates
// nothing.
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/element_position.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr int64_t kNoSlice = -1;

absl::StatusOr<bool> IgnoresBadIndices(const KernelConstruction& construction) {
  const auto& policy = construction.attr<std::string>("bad_indices_policy");
  if (policy == "IGNORE") return true;
  if (policy.empty() || policy == "DEFAULT" || policy == "ERROR") return false;
  return absl::InvalidArgumentError(
      absl::StrCat("bad_indices_policy must be DEFAULT, ERROR or IGNORE, is '", policy, "'"));
}

// The slices of a tensor that the rows of `indices` name.
struct SliceList {
  int64_t count() const { return offsets.num_elements(); }
  int64_t offset(int64_t row) const { return offsets.flat<int64_t>()[row]; }

  Tensor offsets;    // in elements; kNoSlice for an ignored row
  int64_t size = 1;  // of a slice, in elements
  Dims dims;         // of all slices together: those of indices but the last, those of a slice
};

absl::Status CheckDepth(const Shape& indexed, const Shape& indices) {
  if (indices.rank() == 0)
    return absl::InvalidArgumentError("indices must be at least a vector, is a scalar");
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth <= indexed.rank()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("indices have ", depth, " coordinates for ", indexed.rank(),
                                                 " dimensions: indices is ", indices.ToString(),
                                                 ", indexed is ", indexed.ToString()));
}

// `kind` of shape is what errors call that of `indexed`.
absl::StatusOr<SliceList> ResolveSlices(KernelContext& context, const Shape& indexed, const Tensor& indices,
                                        bool ignores_bad_indices, absl::string_view kind = "shape") {
  WEIR_RETURN_IF_ERROR(CheckDepth(indexed, indices.shape()));
  const auto outer = indices.shape().dims().subspan(0, indices.shape().rank() - 1);
  const int depth = static_cast<int>(indices.shape().dim(indices.shape().rank() - 1));
  SliceList list;
  list.dims.assign(outer.begin(), outer.end());
  for (int i = depth; i < indexed.rank(); ++i) {
    list.size *= indexed.dim(i);
    list.dims.push_back(indexed.dim(i));
  }
  int64_t rows = 1;
  for (int64_t dim : outer) rows *= dim;
  WEIR_ASSIGN_OR_RETURN(list.offsets, context.AllocateTemporary(DType::kInt64, Shape({rows})));
  for (int64_t row = 0; row < rows; ++row) {
    int64_t offset = 0;
    bool is_inside = true;
    for (int d = 0; d < depth && is_inside; ++d) {
      const int64_t at = IntegerAt(indices, row * depth + d);
      is_inside = at >= 0 && at < indexed.dim(d);
      if (is_inside) offset = offset * indexed.dim(d) + at;
    }
    if (!is_inside && !ignores_bad_indices) {
      Dims found(depth);
      for (int d = 0; d < depth; ++d) found[d] = IntegerAt(indices, row * depth + d);
      return absl::InvalidArgumentError(absl::StrCat("indices", ElementPosition(outer, row), " = [",
                                                     absl::StrJoin(found, ","), "] does not index into ",
                                                     kind, " ", indexed.ToString()));
    }
    list.offsets.flat<int64_t>()[row] = is_inside ? offset * list.size : kNoSlice;
  }
  return list;
}

class GatherNd final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const bool ignores_bad_indices, IgnoresBadIndices(construction));
    return std::make_unique<GatherNd>(ignores_bad_indices);
  }
  explicit GatherNd(bool ignores_bad_indices) : ignores_bad_indices_(ignores_bad_indices) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& params = context.input(0);
    if (params.shape().rank() == 0) return absl::InvalidArgumentError("params must be at least a vector");
    WEIR_ASSIGN_OR_RETURN(const SliceList slices, ResolveSlices(context, params.shape(), context.input(1),
                                                                ignores_bad_indices_, "param shape"));
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(slices.dims));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const double cost = 5 + 0.1 * static_cast<double>(slices.size * DTypeSize(params.dtype()));
    context.threads().ParallelFor(slices.count(), cost, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        if (slices.offset(row) == kNoSlice) {
          ClearElements(*output, row * slices.size, slices.size);
        } else {
          CopyElements(params, slices.offset(row), *output, row * slices.size, slices.size);
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  const bool ignores_bad_indices_;
};

// What an update does to an element.
struct Assign {
  template <typename T>
  void operator()(T& element, const T& update) const {
    element = update;
  }
};
struct Increase {
  template <typename T>
  void operator()(T& element, const T& update) const {
    if constexpr (std::is_same_v<T, bool>) {
      element = element || update;
    } else if constexpr (std::is_same_v<T, std::string>) {
      element += update;
    } else {
      element = T(elementwise::Add()(ComputeType<T>(element), ComputeType<T>(update)));
    }
  }
};
struct Decrease {
  template <typename T>
  void operator()(T& element, const T& update) const {
    element = T(elementwise::Sub()(ComputeType<T>(element), ComputeType<T>(update)));
  }
};
// A NaN in the tensor stays; one in the updates is left out.
struct Lower {
  template <typename T>
  void operator()(T& element, const T& update) const {
    if (update < element) element = update;
  }
};
struct Raise {
  template <typename T>
  void operator()(T& element, const T& update) const {
    if (element < update) element = update;
  }
};

absl::Status CheckUpdates(const Tensor& indices, const Tensor& updates, const Shape& indexed,
                          const SliceList& slices) {
  if (updates.shape().dims() == absl::MakeConstSpan(slices.dims)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("updates must be [", absl::StrJoin(slices.dims, ","),
                                                 "] for indices ", indices.shape().ToString(), " into ",
                                                 indexed.ToString(), ", is ", updates.shape().ToString()));
}

template <typename T, typename Update>
void Apply(const SliceList& slices, const Tensor& updates, Tensor& output) {
  const T* from = updates.flat<T>().data();
  T* const to = output.flat<T>().data();
  for (int64_t row = 0; row < slices.count(); ++row, from += slices.size) {
    if (slices.offset(row) == kNoSlice) continue;
    T* const slice = to + slices.offset(row);
    for (int64_t i = 0; i < slices.size; ++i) Update()(slice[i], from[i]);
  }
}

template <typename K>
absl::StatusOr<std::unique_ptr<Kernel>> CreateScatter(const KernelConstruction& construction) {
  WEIR_ASSIGN_OR_RETURN(const bool ignores_bad_indices, IgnoresBadIndices(construction));
  return std::make_unique<K>(ignores_bad_indices);
}

template <typename T>
class ScatterNd final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    return CreateScatter<ScatterNd>(construction);
  }
  explicit ScatterNd(bool ignores_bad_indices) : ignores_bad_indices_(ignores_bad_indices) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(0);
    const Tensor& updates = context.input(1);
    if (context.input(2).shape().rank() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape must be a vector, is ", context.input(2).ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape, ReadShape(context.input(2), "shape"));
    WEIR_ASSIGN_OR_RETURN(const SliceList slices,
                          ResolveSlices(context, shape, indices, ignores_bad_indices_));
    WEIR_RETURN_IF_ERROR(CheckUpdates(indices, updates, shape, slices));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    ClearElements(*output, 0, output->num_elements());
    Apply<T, Increase>(slices, updates, *output);
    return absl::OkStatus();
  }

 private:
  const bool ignores_bad_indices_;
};

template <typename T, typename Update>
class ScatterInto final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    return CreateScatter<ScatterInto>(construction);
  }
  explicit ScatterInto(bool ignores_bad_indices) : ignores_bad_indices_(ignores_bad_indices) {}

  absl::Status Compute(KernelContext& context) override {
    const Shape shape = context.input(0).shape();
    WEIR_ASSIGN_OR_RETURN(const SliceList slices,
                          ResolveSlices(context, shape, context.input(1), ignores_bad_indices_));
    WEIR_RETURN_IF_ERROR(CheckUpdates(context.input(1), context.input(2), shape, slices));
    const void* const before = context.input(0).data();
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, shape));
    if (output->data() != before) CopyElements(context.input(0), 0, *output, 0, shape.num_elements());
    Apply<T, Update>(slices, context.input(2), *output);
    return absl::OkStatus();
  }

 private:
  const bool ignores_bad_indices_;
};

template <typename T>
using ScatterUpdate = ScatterInto<T, Assign>;
template <typename T>
using ScatterAdd = ScatterInto<T, Increase>;
template <typename T>
using ScatterSub = ScatterInto<T, Decrease>;
template <typename T>
using ScatterMin = ScatterInto<T, Lower>;
template <typename T>
using ScatterMax = ScatterInto<T, Raise>;

// ---- UnravelIndex ----

template <typename I>
absl::Status CheckDims(absl::Span<const I> dims) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] > 0) continue;
    return absl::InvalidArgumentError(
        dims[i] == 0
            ? absl::StrCat("Input dims cannot contain a dim of zero, but dims contains zero at index ", i)
            : absl::StrCat("Input dims cannot be negative. Got dim = ", dims[i], " at index ", i));
  }
  return absl::OkStatus();
}

// Unlike TensorFlow it refuses a negative index, which has no coordinates.
template <typename I>
class UnravelIndex final : public Kernel {
 public:
  explicit UnravelIndex(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor &indices = context.input(0), &dims = context.input(1);
    if (indices.shape().rank() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("The indices can only be scalar or vector, got \"", indices.shape().ToString(), "\""));
    }
    if (dims.shape().rank() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("The indices can only be 1-D, got \"", dims.shape().ToString(), "\" as dims"));
    }
    if (indices.num_elements() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("received empty tensor indices: ", indices.shape().ToString()));
    }
    const absl::Span<const I> sizes = dims.flat<I>();
    WEIR_RETURN_IF_ERROR(CheckDims(sizes));
    Dims rows = {dims.num_elements()};
    if (indices.shape().rank() == 1) rows.push_back(indices.num_elements());
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(rows));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    const int64_t count = indices.num_elements();
    I* const coordinates = output->flat<I>().data();
    for (int64_t i = 0; i < count; ++i) {
      I rest = indices.flat<I>()[i];
      for (int64_t d = dims.num_elements() - 1; d >= 0; --d) {
        coordinates[d * count + i] = rest % sizes[d];
        rest /= sizes[d];
      }
      if (rest == 0 && indices.flat<I>()[i] >= 0) continue;
      return absl::InvalidArgumentError(absl::StrCat("index is out of bound as with dims: indices[", i,
                                                     "] is ", indices.flat<I>()[i], ", dims is ",
                                                     dims.ToString()));
    }
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterCoordinatesKernels(DeviceKernels& kernels) {
  using C64 = std::complex<float>;
  using C128 = std::complex<double>;
  const auto numbers = Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                             uint16_t, uint32_t, uint64_t, C64, C128>("T");
  const auto reals = Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                           uint16_t, uint32_t, uint64_t>("T");
  kernels.Add<UnravelIndex>("UnravelIndex", Types<int32_t, int64_t>("Tidx"));
  kernels.Add<GatherNd>("GatherNd", {{"Tparams", AllDTypes()}});
  kernels.Add<ScatterNd>("ScatterNd", numbers);
  kernels.Add<ScatterNd>("ScatterNd", Types<bool, std::string>("T"));
  kernels.Add<ScatterAdd>("ScatterNdNonAliasingAdd", numbers);
  kernels.Add<ScatterAdd>("ScatterNdNonAliasingAdd", Types<bool>("T"));
  kernels.Add<ScatterUpdate>("TensorScatterUpdate", numbers);
  kernels.Add<ScatterUpdate>("TensorScatterUpdate", Types<bool, std::string>("T"));
  kernels.Add<ScatterAdd>("TensorScatterAdd", numbers);
  kernels.Add<ScatterSub>("TensorScatterSub", numbers);
  kernels.Add<ScatterMin>("TensorScatterMin", reals);
  kernels.Add<ScatterMax>("TensorScatterMax", reals);
}

}  // namespace weir
