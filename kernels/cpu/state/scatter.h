// Changing slices of variables in place.
//
// A scatter checks all indices before it writes, and applies slices one after another: an index that is named
// twice gets both.
#pragma once

#include <complex>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/state/row_indices.h"
#include "kernels/cpu/state/slices.h"
#include "kernels/cpu/state/variable_update.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"

namespace weir::scatter {

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
    WEIR_RETURN_IF_ERROR(CheckHasRows(tensor.shape()));
    return SlicesOfRows(context, tensor.shape(), indices);
  }

  // Rows may all be changed by one scalar.
  absl::Status CheckShape(const Slices& slices, const Tensor& updates, const Tensor& tensor,
                          absl::string_view name) const {
    return CheckSliceUpdates(tensor, name, slices.dims, updates, kind_ == Kind::kRows);
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
    WEIR_ASSIGN_OR_RETURN(Tensor next, TensorToWriteInPart(variable, context.device()));
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

using RealNumbers = Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                          uint32_t, uint64_t>;
using Numbers = Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                      uint32_t, uint64_t, std::complex<float>, std::complex<double>>;

}  // namespace weir::scatter
