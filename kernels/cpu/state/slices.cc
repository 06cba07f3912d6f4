// Slices of variables by index: reading some, and changing some in place.
//
// A gather copies under the variable's lock and keeps no reference to its buffer, so that updates of other
// slices still run in place. A scatter checks all indices before it writes, and applies slices one after
// another: an index that is named twice gets both.
#include <complex>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/cpu/state/row_indices.h"
#include "kernels/cpu/state/variable_kernels.h"
#include "kernels/cpu/state/variable_update.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/with_dtype.h"

namespace weir {
namespace {

// Some slices of a variable, each of `inner` elements.
struct Slices {
  int64_t offset(int64_t i) const { return static_cast<const int64_t*>(offsets.data())[i]; }

  Tensor offsets;     // int64: where each slice begins in the variable; kIgnored for none
  int64_t inner = 0;  // elements
  Dims dims;          // of all slices together: what a gather gives and a scatter takes
};
constexpr int64_t kIgnored = -1;

int64_t Product(absl::Span<const int64_t> dims) {
  int64_t product = 1;
  for (int64_t dim : dims) product *= dim;
  return product;
}

// Slices along dimension `batch_dims` of `shape`; batches of indices choose in batches of the variable.
absl::StatusOr<Slices> SlicesOfRows(KernelContext& context, const Shape& shape, const Tensor& indices,
                                    int64_t batch_dims = 0) {
  const auto dims = shape.dims(), index_dims = indices.shape().dims();
  if (batch_dims < 0 || batch_dims >= shape.rank() || batch_dims > indices.shape().rank() ||
      index_dims.subspan(0, batch_dims) != dims.subspan(0, batch_dims)) {
    return absl::InvalidArgumentError(absl::StrCat("indices ", indices.shape().ToString(),
                                                   " cannot choose slices of a variable ", shape.ToString(),
                                                   " with ", batch_dims, " batch dimensions"));
  }
  const int64_t limit = dims[batch_dims];
  WEIR_RETURN_IF_ERROR(CheckRowIndices(indices, limit));
  Slices slices{.inner = Product(dims.subspan(batch_dims + 1))};
  slices.dims.assign(index_dims.begin(), index_dims.end());
  slices.dims.insert(slices.dims.end(), dims.begin() + batch_dims + 1, dims.end());
  const int64_t count = indices.num_elements();
  WEIR_ASSIGN_OR_RETURN(slices.offsets, context.AllocateTemporary(DType::kInt64, Shape({count})));
  if (count == 0) return slices;
  const int64_t per_batch = count / Product(dims.subspan(0, batch_dims));
  int64_t* const offsets = slices.offsets.flat<int64_t>().data();
  for (int64_t i = 0; i < count; ++i) {
    offsets[i] = (i / per_batch * limit + IntegerAt(indices, i)) * slices.inner;
  }
  return slices;
}

// What to do with coordinates outside of the variable.
enum class BadIndices { kError, kIgnore };

absl::Status NotInside(const Tensor& indices, int64_t slice, int depth, const Shape& shape) {
  std::vector<int64_t> found;
  for (int d = 0; d < depth; ++d) found.push_back(IntegerAt(indices, slice * depth + d));
  return absl::InvalidArgumentError(absl::StrCat("indices ", slice, " = [", absl::StrJoin(found, ","),
                                                 "] is not inside of a variable ", shape.ToString()));
}

// The last dimension of the indices holds coordinates in the first dimensions of the variable.
absl::StatusOr<Slices> SlicesAtCoordinates(KernelContext& context, const Shape& shape, const Tensor& indices,
                                           BadIndices bad) {
  const int rank = indices.shape().rank();
  if (rank == 0) return absl::InvalidArgumentError("indices must be at least a vector, is a scalar");
  if (indices.shape().dim(rank - 1) > shape.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("indices ", indices.shape().ToString(), " have ",
                                                   indices.shape().dim(rank - 1),
                                                   " coordinates, the variable is ", shape.ToString()));
  }
  const int depth = static_cast<int>(indices.shape().dim(rank - 1));
  const auto dims = shape.dims(), index_dims = indices.shape().dims().subspan(0, rank - 1);
  Slices slices{.inner = Product(dims.subspan(depth))};
  slices.dims.assign(index_dims.begin(), index_dims.end());
  slices.dims.insert(slices.dims.end(), dims.begin() + depth, dims.end());
  WEIR_ASSIGN_OR_RETURN(const Shape of_offsets, Shape::FromDims(index_dims));
  const int64_t count = of_offsets.num_elements();
  WEIR_ASSIGN_OR_RETURN(slices.offsets, context.AllocateTemporary(DType::kInt64, Shape({count})));
  int64_t* const offsets = slices.offsets.flat<int64_t>().data();
  for (int64_t i = 0; i < count; ++i) {
    int64_t row = 0;
    bool is_inside = true;
    for (int d = 0; d < depth; ++d) {
      const int64_t index = IntegerAt(indices, i * depth + d);
      is_inside = is_inside && index >= 0 && index < dims[d];
      if (is_inside) row = row * dims[d] + index;
    }
    // No coordinates name the whole variable, which may be empty.
    if (!is_inside && bad == BadIndices::kError) return NotInside(indices, i, depth, shape);
    offsets[i] = is_inside ? row * slices.inner : kIgnored;
  }
  return slices;
}

absl::Status CheckRead(const Variable& variable, absl::string_view name, DType dtype)
    ABSL_SHARED_LOCKS_REQUIRED(variable.mutex) {
  if (!variable.tensor.is_valid()) return UninitializedVariable(name);
  if (variable.dtype == dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("variable '", name, "' holds ", DTypeName(variable.dtype),
                                                 ", asked for as ", DTypeName(dtype)));
}

absl::Status CopySlices(KernelContext& context, const Tensor& tensor, const Slices& slices) {
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(slices.dims));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  const int64_t inner = slices.inner;
  const double cost = 3 + 0.1 * static_cast<double>(inner) * static_cast<double>(DTypeSize(tensor.dtype()));
  WithElementType(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* const from = static_cast<const T*>(tensor.data());
    T* const to = static_cast<T*>(output->data());
    context.threads().ParallelFor(slices.offsets.num_elements(), cost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if constexpr (std::is_trivially_copyable_v<T>) {
          std::memcpy(to + i * inner, from + slices.offset(i), inner * sizeof(T));
        } else {
          std::copy_n(from + slices.offset(i), inner, to + i * inner);
        }
      }
    });
  });
  return absl::OkStatus();
}

class Gather final : public Kernel {
 public:
  explicit Gather(const KernelConstruction& construction)
      : batch_dims_(construction.attr<int64_t>("batch_dims")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const NamedVariable source, LookupVariable(context, 0));
    const Variable& variable = *source.variable;
    absl::ReaderMutexLock lock(&variable.mutex);
    WEIR_RETURN_IF_ERROR(CheckRead(variable, source.name, context.output_type(0)));
    WEIR_ASSIGN_OR_RETURN(const Slices slices,
                          SlicesOfRows(context, variable.tensor.shape(), context.input(1), batch_dims_));
    return CopySlices(context, variable.tensor, slices);
  }

 private:
  const int64_t batch_dims_;
};

absl::Status GatherNd(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const NamedVariable source, LookupVariable(context, 0));
  const Variable& variable = *source.variable;
  absl::ReaderMutexLock lock(&variable.mutex);
  WEIR_RETURN_IF_ERROR(CheckRead(variable, source.name, context.output_type(0)));
  WEIR_ASSIGN_OR_RETURN(const Slices slices, SlicesAtCoordinates(context, variable.tensor.shape(),
                                                                 context.input(1), BadIndices::kError));
  return CopySlices(context, variable.tensor, slices);
}

absl::Status ShapeOfVariable(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const NamedVariable source, LookupVariable(context, 0));
  const Variable& variable = *source.variable;
  absl::ReaderMutexLock lock(&variable.mutex);
  if (!variable.tensor.is_valid()) return UninitializedVariable(source.name);
  const Shape& shape = variable.tensor.shape();
  for (const int64_t dim : shape.dims()) {
    if (context.output_type(0) == DType::kInt64 || dim <= std::numeric_limits<int32_t>::max()) continue;
    return absl::InvalidArgumentError(absl::StrCat("the shape of variable '", source.name, "' is ",
                                                   shape.ToString(), ", which does not fit into int32"));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape({shape.rank()})));
  WriteIntegers(shape.dims(), *output);
  return absl::OkStatus();
}

// ---- Changing ----

// The second operand takes the place of the first.
struct Replace {
  template <typename T>
  T operator()(const T&, const T& y) const {
    return y;
  }
};

template <typename Op, typename T>
T Combine(const T& x, const T& y) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
    return T(Op()(static_cast<float>(x), static_cast<float>(y)));
  } else {
    return Op()(x, y);
  }
}

// Only whole numbers cannot be divided by zero.
template <typename Op, typename T>
absl::Status CheckOperands(const Tensor& updates) {
  if constexpr (std::is_same_v<Op, elementwise::Div> && std::is_integral_v<T>) {
    for (const T& value : updates.flat<T>()) {
      if (value == 0) return absl::InvalidArgumentError("updates divide integers by zero");
    }
  }
  return absl::OkStatus();
}

// How a kernel finds its slices: by rows, or by coordinates.
class Scatter : public Kernel {
 protected:
  enum class Kind { kRows, kCoordinates };

  explicit Scatter(BadIndices bad, Kind kind) : bad_(bad), kind_(kind) {}

  absl::StatusOr<Slices> Find(KernelContext& context, const Tensor& tensor) const {
    const Tensor& indices = context.input(1);
    if (kind_ == Kind::kCoordinates) return SlicesAtCoordinates(context, tensor.shape(), indices, bad_);
    if (tensor.shape().rank() == 0) {
      return absl::InvalidArgumentError("the variable must have at least one dimension, is a scalar");
    }
    return SlicesOfRows(context, tensor.shape(), indices);
  }

  // Rows may all be changed by one scalar.
  absl::Status CheckShape(const Slices& slices, const Tensor& updates, const Tensor& tensor,
                          absl::string_view name) const {
    if (kind_ == Kind::kRows && updates.shape().is_scalar()) return absl::OkStatus();
    if (updates.shape().dims() == absl::MakeConstSpan(slices.dims)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("updates must be [", absl::StrJoin(slices.dims, ","),
                                                   "] to change slices of variable '", name, "', which is ",
                                                   TypeString(tensor.dtype(), tensor.shape()), ", is ",
                                                   TypeString(updates.dtype(), updates.shape())));
  }

 private:
  const BadIndices bad_;
  const Kind kind_;
};

template <typename Op, typename T, bool by_coordinates>
class ScatterInto final : public Scatter {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    BadIndices bad = BadIndices::kError;
    if constexpr (by_coordinates) {
      const std::string& policy = construction.attr<std::string>("bad_indices_policy");
      if (policy == "IGNORE") {
        bad = BadIndices::kIgnore;
      } else if (!policy.empty() && policy != "DEFAULT" && policy != "ERROR") {
        return absl::InvalidArgumentError(
            absl::StrCat("bad_indices_policy must be '', DEFAULT, ERROR or IGNORE, is '", policy, "'"));
      }
    }
    return std::make_unique<ScatterInto>(bad);
  }

  explicit ScatterInto(BadIndices bad) : Scatter(bad, by_coordinates ? Kind::kCoordinates : Kind::kRows) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const NamedVariable target, LookupVariable(context, 0));
    const Tensor& updates = context.input(2);
    Variable& variable = *target.variable;
    absl::MutexLock lock(&variable.mutex);
    Tensor& tensor = variable.tensor;
    WEIR_RETURN_IF_ERROR(CheckRead(variable, target.name, updates.dtype()));
    WEIR_ASSIGN_OR_RETURN(const Slices slices, Find(context, tensor));
    WEIR_RETURN_IF_ERROR(CheckShape(slices, updates, tensor, target.name));
    if constexpr (!std::is_same_v<Op, Replace>) {
      const absl::Status status = CheckOperands<Op, T>(updates);
      if (!status.ok()) return status;
    }
    if (slices.offsets.num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(Tensor next, TensorToWriteInPart(variable, context.device().allocator()));
    Apply(slices, updates, next);
    tensor = std::move(next);
    return absl::OkStatus();
  }

 private:
  static void Apply(const Slices& slices, const Tensor& updates, Tensor& tensor) {
    const T* const changes = static_cast<const T*>(updates.data());
    T* const values = static_cast<T*>(tensor.data());
    const bool is_scalar = !by_coordinates && updates.shape().is_scalar();
    for (int64_t i = 0; i < slices.offsets.num_elements(); ++i) {
      if (slices.offset(i) == kIgnored) continue;
      T* const slice = values + slices.offset(i);
      for (int64_t j = 0; j < slices.inner; ++j) {
        slice[j] = Combine<Op, T>(slice[j], changes[is_scalar ? 0 : i * slices.inner + j]);
      }
    }
  }
};

// Replaces slices of any dtype: elements of one size are copied alike.
template <bool by_coordinates>
absl::StatusOr<std::unique_ptr<Kernel>> CreateReplace(const KernelConstruction& construction) {
  absl::StatusOr<std::unique_ptr<Kernel>> kernel;
  WithElementType(construction.input_type(2), [&](auto tag) {
    kernel = ScatterInto<Replace, typename decltype(tag)::Type, by_coordinates>::Create(construction);
  });
  return kernel;
}

template <typename T>
using RowsAdd = ScatterInto<elementwise::Add, T, false>;
template <typename T>
using RowsSub = ScatterInto<elementwise::Sub, T, false>;
template <typename T>
using RowsMul = ScatterInto<elementwise::Mul, T, false>;
template <typename T>
using RowsDiv = ScatterInto<elementwise::Div, T, false>;
template <typename T>
using RowsMin = ScatterInto<elementwise::Minimum, T, false>;
template <typename T>
using RowsMax = ScatterInto<elementwise::Maximum, T, false>;
template <typename T>
using NdAdd = ScatterInto<elementwise::Add, T, true>;
template <typename T>
using NdSub = ScatterInto<elementwise::Sub, T, true>;
template <typename T>
using NdMin = ScatterInto<elementwise::Minimum, T, true>;
template <typename T>
using NdMax = ScatterInto<elementwise::Maximum, T, true>;

using RealNumbers = Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                          uint32_t, uint64_t>;
using Numbers = Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                      uint32_t, uint64_t, std::complex<float>, std::complex<double>>;

}  // namespace

void RegisterSliceKernels(DeviceKernels& kernels) {
  kernels.Add<Gather>("ResourceGather", {{"dtype", AllDTypes()}});
  kernels.Add<&GatherNd>("ResourceGatherNd", {{"dtype", AllDTypes()}});
  kernels.Add<&ShapeOfVariable>("VariableShape");
  const Numbers numbers("dtype"), nd_numbers("T");
  const RealNumbers real("dtype"), nd_real("T");
  kernels.Add<RowsAdd>("ResourceScatterAdd", numbers);
  kernels.Add<RowsSub>("ResourceScatterSub", numbers);
  kernels.Add<RowsMul>("ResourceScatterMul", numbers);
  kernels.Add<RowsDiv>("ResourceScatterDiv", numbers);
  kernels.Add<RowsMin>("ResourceScatterMin", real);
  kernels.Add<RowsMax>("ResourceScatterMax", real);
  kernels.Register("ResourceScatterUpdate", {{"dtype", AllDTypes()}}, &CreateReplace<false>);
  kernels.Add<NdAdd>("ResourceScatterNdAdd", nd_numbers);
  kernels.Add<NdSub>("ResourceScatterNdSub", nd_numbers);
  kernels.Add<NdMin>("ResourceScatterNdMin", nd_real);
  kernels.Add<NdMax>("ResourceScatterNdMax", nd_real);
  kernels.Register("ResourceScatterNdUpdate", {{"T", AllDTypes()}}, &CreateReplace<true>);
}

}  // namespace weir
