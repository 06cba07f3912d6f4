// The distinct elements of tensors. Elements are equal as numbers are: 0 and -0 are one, each NaN is another.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// For how many elements room is made before any is seen to be distinct.
constexpr int64_t kMostReserved = 1 << 14;

// How many elements are looked at before it is seen whether the step is over.
constexpr int64_t kBetweenLooks = 1 << 16;

// How many slices of so many elements that are.
int64_t SlicesBetweenLooks(int64_t elements) {
  return std::max<int64_t>(1, kBetweenLooks / std::max<int64_t>(1, elements));
}

template <typename T>
bool IsNan(const T& element) {
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, std::string>)
    return false;
  else
    return std::isnan(static_cast<double>(element));
}

template <typename T>
size_t HashOfElement(const T& element) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
    return absl::HashOf(static_cast<float>(element));
  } else {
    return absl::HashOf(element);
  }
}

// Indices are written into int32 tensors too.
absl::Status CheckIndicesFit(DType index_type, int64_t count) {
  if (index_type == DType::kInt64 || count <= std::numeric_limits<int32_t>::max()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("x has ", count, " elements, too many for int32 indices"));
}

// A tensor as [outer, count, inner]: slice i is [:, i, :].
template <typename T>
struct Slices {
  Slices(const Tensor& tensor, int axis)
      : elements(tensor.flat<T>().data()), count(tensor.shape().dim(axis)) {
    for (int i = 0; i < axis; ++i) outer *= tensor.shape().dim(i);
    for (int i = axis + 1; i < tensor.shape().rank(); ++i) inner *= tensor.shape().dim(i);
    if (tensor.num_elements() == 0) outer = 0;  // it may have been any number
  }

  const T& at(int64_t o, int64_t slice, int64_t i) const { return elements[(o * count + slice) * inner + i]; }

  // A slice with a NaN is no other one: its place tells it apart, or all of them would have one hash.
  size_t Hash(int64_t slice) const {
    if (outer == 1 && inner == 1) {
      return IsNan(elements[slice]) ? absl::HashOf(slice) : HashOfElement(elements[slice]);
    }
    size_t hash = 0;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        if (IsNan(at(o, slice, i))) return absl::HashOf(slice);
        hash = absl::HashOf(hash, HashOfElement(at(o, slice, i)));
      }
    }
    return hash;
  }

  bool AreEqual(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        if (!(at(o, a, i) == at(o, b, i))) return false;
      }
    }
    return true;
  }

  const T* elements;
  int64_t outer = 1, count, inner = 1;
};

absl::StatusOr<int> AxisOf(KernelContext& context) {
  const Shape& x = context.input(0).shape();
  if (context.num_inputs() > 1) {
    const Tensor& axis = context.input(1);
    if (axis.shape().rank() != 1 || axis.num_elements() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("axis must be a vector of at most one element, is ", axis.ToString()));
    }
    if (axis.num_elements() == 1) return ReadAxis(axis, x.rank(), "axis");
  }
  if (x.rank() != 1) return absl::InvalidArgumentError(absl::StrCat("x must be a vector, is ", x.ToString()));
  return 0;
}

// All four ops: those with an axis have a second input, those with counts a third output.
template <typename T>
class Unique final : public Kernel {
 public:
  explicit Unique(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const int axis, AxisOf(context));
    const Slices<T> slices(x, axis);
    WEIR_RETURN_IF_ERROR(CheckIndicesFit(context.output_type(1), slices.count));
    WEIR_ASSIGN_OR_RETURN(Tensor indices, context.AllocateTemporary(DType::kInt64, Shape({slices.count})));

    std::vector<int64_t> first_places, counts;  // one for each distinct slice
    const int64_t between_looks = SlicesBetweenLooks(slices.outer * slices.inner);
    const auto number_slices = [&](auto& numbers, const auto& key_of) {
      int64_t next_look = 0;
      for (int64_t i = 0; i < slices.count; ++i) {
        if (i == next_look) {
          if (context.cancellation().is_cancelled()) return;
          next_look += between_looks;
        }
        const auto [found, is_new] = numbers.try_emplace(key_of(i), first_places.size());
        if (is_new) {
          first_places.push_back(i);
          counts.push_back(0);
        }
        ++counts[found->second];
        indices.flat<int64_t>()[i] = found->second;
      }
    };
    const bool is_vector = slices.outer == 1 && slices.inner == 1;
    if constexpr (std::is_integral_v<T>) {
      if (is_vector) {
        absl::flat_hash_map<T, int64_t> numbers;
        numbers.reserve(std::min(slices.count, kMostReserved));
        number_slices(numbers, [&](int64_t i) { return slices.elements[i]; });
      }
    }
    if (!is_vector || !std::is_integral_v<T>) {
      const auto hash = [&](int64_t slice) { return slices.Hash(slice); };
      const auto equal = [&](int64_t a, int64_t b) { return slices.AreEqual(a, b); };
      absl::flat_hash_map<int64_t, int64_t, decltype(hash), decltype(equal)> numbers(0, hash, equal);
      number_slices(numbers, [](int64_t i) { return i; });
    }

    if (context.cancellation().is_cancelled()) return context.cancellation().reason();
    const auto num_distinct = static_cast<int64_t>(first_places.size());
    Dims dims(x.shape().dims().begin(), x.shape().dims().end());
    dims[axis] = num_distinct;
    WEIR_ASSIGN_OR_RETURN(Tensor * y, context.AllocateOutput(0, Shape(absl::MakeConstSpan(dims))));
    if (is_vector) {
      T* const distinct = y->flat<T>().data();
      for (int64_t k = 0; k < num_distinct; ++k) distinct[k] = slices.elements[first_places[k]];
    }
    for (int64_t o = 0; o < slices.outer && !is_vector; ++o) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      for (int64_t k = 0; k < num_distinct; ++k) {
        CopyElements(x, (o * slices.count + first_places[k]) * slices.inner, *y,
                     (o * num_distinct + k) * slices.inner, slices.inner);
      }
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * idx, context.AllocateOutput(1, indices.shape()));
    WriteIntegers(indices.flat<int64_t>(), *idx);
    if (context.num_outputs() == 2) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(Tensor * count, context.AllocateOutput(2, Shape({num_distinct})));
    WriteIntegers(counts, *count);
    return absl::OkStatus();
  }
};

template <typename T>
class ListDiff final : public Kernel {
 public:
  explicit ListDiff(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    for (int i = 0; i < 2; ++i) {
      if (context.input(i).shape().rank() == 1) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(i == 0 ? "x" : "y", " must be a vector, is ", context.input(i).shape().ToString()));
    }
    WEIR_RETURN_IF_ERROR(CheckIndicesFit(context.output_type(1), x.num_elements()));
    const auto equal = [](const T& a, const T& b) { return a == b; };
    absl::flat_hash_set<T, decltype(&HashOfElement<T>), decltype(equal)> excluded(0, &HashOfElement<T>,
                                                                                  equal);
    const auto left_out = context.input(1).flat<T>();
    for (int64_t i = 0; i < context.input(1).num_elements(); ++i) {
      if (i % kBetweenLooks == 0 && context.cancellation().is_cancelled()) {
        return context.cancellation().reason();
      }
      if (!IsNan(left_out[i])) excluded.insert(left_out[i]);  // no element of x is equal to a NaN
    }

    std::vector<int64_t> places;
    const auto elements = x.flat<T>();
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      if (i % kBetweenLooks == 0 && context.cancellation().is_cancelled()) {
        return context.cancellation().reason();
      }
      if (!excluded.contains(elements[i])) places.push_back(i);
    }
    const Shape shape({static_cast<int64_t>(places.size())});
    WEIR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    for (size_t k = 0; k < places.size(); ++k) out->flat<T>()[k] = elements[places[k]];
    WEIR_ASSIGN_OR_RETURN(Tensor * idx, context.AllocateOutput(1, shape));
    WriteIntegers(places, *idx);
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterUniqueKernels(DeviceKernels& kernels) {
  const auto elements = Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                              uint16_t, uint32_t, uint64_t, bool, std::string>("T");
  kernels.Add<Unique>("Unique", elements);
  kernels.Add<Unique>("UniqueV2", elements);
  kernels.Add<Unique>("UniqueWithCounts", elements);
  kernels.Add<Unique>("UniqueWithCountsV2", elements);
  kernels.Add<ListDiff>("ListDiff", elements);
}

}  // namespace weir
