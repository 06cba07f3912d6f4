// Sets: the last dimension of a tensor, dense or sparse, holds sets; the others, the group, say which.
// Results are sparse, with the elements of each set in order.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/sparse/sparse_view.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

enum class Operation { kAMinusB, kBMinusA, kIntersection, kUnion };

absl::StatusOr<Operation> OperationOf(const KernelConstruction& construction) {
  const auto& text = construction.attr<std::string>("set_operation");
  const std::string name = absl::AsciiStrToLower(text);
  if (name == "a-b") return Operation::kAMinusB;
  if (name == "b-a") return Operation::kBMinusA;
  if (name == "intersection") return Operation::kIntersection;
  if (name == "union") return Operation::kUnion;
  return absl::InvalidArgumentError(absl::StrCat("Invalid set_operation ", text, "."));
}

// The sets of one input: its elements in the order of their groups and, in each group, of their values. Each
// of them is there once. Beside the input it takes a number for each element.
template <typename T>
class Sets {
 public:
  static absl::StatusOr<Sets> OfDense(KernelContext& context, const Tensor& tensor) {
    const Shape& shape = tensor.shape();
    if (shape.rank() < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("Shape ", shape.ToString(), " has rank ", shape.rank(), " < 2"));
    }
    Sets sets(tensor, {shape.dims().begin(), shape.dims().end() - 1});
    sets.row_size_ = shape.dim(shape.rank() - 1);
    WEIR_RETURN_IF_ERROR(sets.Sort(context));
    return sets;
  }
  static absl::StatusOr<Sets> OfSparse(KernelContext& context, const SparseView& view) {
    Sets sets(view.values(), {view.dims().begin(), view.dims().end() - 1});
    sets.view_ = view;
    WEIR_RETURN_IF_ERROR(sets.Sort(context));
    return sets;
  }

  // The dimensions but the last, which say which set.
  const Dims& group_dims() const { return group_dims_; }
  int64_t count() const { return count_; }
  const T& value(int64_t k) const { return ValueOf(At(k)); }
  bool AreInOneGroup(int64_t k, int64_t l) const { return CompareGroups(At(k), At(l)) == 0; }
  void GetGroup(int64_t k, Dims* group) const {
    if (view_) {
      const auto index = GroupIndex(At(k));
      group->assign(index.begin(), index.end());
      return;
    }
    group->resize(group_dims_.size());
    int64_t rest = At(k) / row_size_;
    for (size_t d = group_dims_.size(); d-- > 0; rest /= group_dims_[d]) (*group)[d] = rest % group_dims_[d];
  }

 private:
  Sets(const Tensor& values, Dims group_dims) : values_(values), group_dims_(std::move(group_dims)) {}

  absl::Status Sort(KernelContext& context) {
    const int64_t count = values_.num_elements();
    WEIR_ASSIGN_OR_RETURN(order_, context.AllocateTemporary(DType::kInt64, Shape({count})));
    int64_t* const begin = order_.flat<int64_t>().data();
    int64_t* end = begin;
    for (int64_t i = 0; i < count; ++i) {
      if (IsInside(i)) *end++ = i;
    }
    std::sort(begin, end, [this](int64_t i, int64_t j) {
      const int order = CompareGroups(i, j);
      return order != 0 ? order < 0 : ValueOf(i) < ValueOf(j);
    });
    end = std::unique(begin, end, [this](int64_t i, int64_t j) {
      return CompareGroups(i, j) == 0 && ValueOf(i) == ValueOf(j);
    });
    count_ = end - begin;
    return absl::OkStatus();
  }

  // The number of element k in the input.
  int64_t At(int64_t k) const { return order_.flat<int64_t>()[k]; }

  // Of element i of the input.
  const T& ValueOf(int64_t i) const { return values_.flat<T>()[i]; }
  absl::Span<const int64_t> GroupIndex(int64_t i) const { return view_->index(i).first(group_dims_.size()); }
  int CompareGroups(int64_t i, int64_t j) const {
    if (view_) return CompareIndices(GroupIndex(i), GroupIndex(j));
    const int64_t a = i / row_size_, b = j / row_size_;
    return a < b ? -1 : a > b ? 1 : 0;
  }
  bool IsInside(int64_t i) const {
    if (!view_) return true;
    const auto at = GroupIndex(i);
    for (size_t d = 0; d < at.size(); ++d) {
      if (at[d] < 0 || at[d] >= group_dims_[d]) return false;
    }
    return true;
  }

  Tensor values_;
  Dims group_dims_;
  std::optional<SparseView> view_;  // of a sparse input
  int64_t row_size_ = 0;            // of a dense one
  Tensor order_;
  int64_t count_ = 0;
};

// One set after another.
template <typename T>
class SetCursor {
 public:
  explicit SetCursor(const Sets<T>& sets) : sets_(sets) { FindEnd(); }

  bool is_over() const { return begin_ == sets_.count(); }
  const Dims& group() const { return group_; }
  // Its elements are [begin, end).
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  void Next() {
    begin_ = end_;
    FindEnd();
  }

 private:
  void FindEnd() {
    if (is_over()) return;
    end_ = begin_ + 1;
    while (end_ < sets_.count() && sets_.AreInOneGroup(begin_, end_)) ++end_;
    sets_.GetGroup(begin_, &group_);
  }

  const Sets<T>& sets_;
  Dims group_;
  int64_t begin_ = 0, end_ = 0;
};

absl::Status CheckOrdered(const SparseView& view) {
  WEIR_RETURN_IF_ERROR(view.CheckInBounds());
  for (int64_t i = 1; i < view.count(); ++i) {
    const int order = CompareIndices(view.index(i - 1), view.index(i));
    if (order < 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("indices[", i, "] = ", IndexText(view.index(i)),
                     order == 0 ? " is repeated"
                                : " is out of order. Many sparse ops require sorted indices.\n    Use "
                                  "`tf.sparse.reorder` to create a correctly ordered copy."));
  }
  return absl::OkStatus();
}

// With validate_indices they must be in order; otherwise those outside of the shape belong to no set.
absl::StatusOr<SparseView> ReadView(const KernelContext& context, int first, bool validate) {
  WEIR_ASSIGN_OR_RETURN(SparseView view, SparseView::Read(context, first));
  if (view.rank() < 2) return absl::InvalidArgumentError(absl::StrCat("Invalid rank ", view.rank(), "."));
  if (validate) WEIR_RETURN_IF_ERROR(CheckOrdered(view));
  return view;
}

template <typename T>
absl::StatusOr<Sets<T>> ReadSparse(KernelContext& context, int first, bool validate) {
  WEIR_ASSIGN_OR_RETURN(const SparseView view, ReadView(context, first, validate));
  return Sets<T>::OfSparse(context, view);
}

// Whether an element is in the result, which both have (0), or only a (less than 0) or b (more).
bool Belongs(Operation operation, int order) {
  switch (operation) {
    case Operation::kAMinusB:
      return order < 0;
    case Operation::kBMinusA:
      return order > 0;
    case Operation::kIntersection:
      return order == 0;
    case Operation::kUnion:
      return true;
  }
  return false;
}

// Calls visit(group, k, value) for element k of each set of the result, in order.
template <typename T, typename Visit>
void ForEachElement(Operation operation, const Sets<T>& a, const Sets<T>& b, Visit visit) {
  SetCursor<T> in_a(a), in_b(b);
  while (!in_a.is_over() || !in_b.is_over()) {
    const int groups = in_a.is_over() ? 1 : in_b.is_over() ? -1 : CompareIndices(in_a.group(), in_b.group());
    const int64_t end_a = groups <= 0 ? in_a.end() : in_a.begin();
    const int64_t end_b = groups >= 0 ? in_b.end() : in_b.begin();
    int64_t i = in_a.begin(), j = in_b.begin(), k = 0;
    while (i < end_a || j < end_b) {
      const int order = i == end_a                 ? 1
                        : j == end_b               ? -1
                        : a.value(i) < b.value(j)  ? -1
                        : a.value(i) == b.value(j) ? 0
                                                   : 1;
      if (Belongs(operation, order)) {
        visit(groups <= 0 ? in_a.group() : in_b.group(), k++, order <= 0 ? a.value(i) : b.value(j));
      }
      i += order <= 0;
      j += order >= 0;
    }
    if (groups <= 0) in_a.Next();
    if (groups >= 0) in_b.Next();
  }
}

// Outputs 0 to 2: the sparse tensor of the sets. They are gone through twice: elements are counted before
// there is memory for them.
template <typename T>
absl::Status Write(KernelContext& context, Operation operation, const Sets<T>& a, const Sets<T>& b) {
  int64_t count = 0, largest = 0;
  ForEachElement(operation, a, b, [&](const Dims&, int64_t k, const T&) {
    ++count;
    largest = std::max(largest, k + 1);
  });
  Dims dims = a.group_dims();
  dims.push_back(largest);
  const auto rank = static_cast<int64_t>(dims.size());
  WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, Shape({count, rank})));
  WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, Shape({count})));
  int64_t* index = indices->flat<int64_t>().data();
  int64_t next = 0;
  ForEachElement(operation, a, b, [&](const Dims& group, int64_t k, const T& value) {
    index = std::copy(group.begin(), group.end(), index);
    *index++ = k;
    values->flat<T>()[next++] = value;
  });
  return SetShapeOutput(context, 2, dims);
}

// sets_a and sets_b say where the inputs are: a dense tensor is one input, a sparse one three.
template <bool a_is_sparse, bool b_is_sparse>
struct Inputs {
  template <typename T>
  class Kernel final : public weir::Kernel {
   public:
    static absl::StatusOr<std::unique_ptr<weir::Kernel>> Create(const KernelConstruction& construction) {
      WEIR_ASSIGN_OR_RETURN(const Operation operation, OperationOf(construction));
      return std::make_unique<Kernel>(operation, construction.attr<bool>("validate_indices"));
    }

    Kernel(Operation operation, bool validate) : operation_(operation), validate_(validate) {}

    absl::Status Compute(KernelContext& context) override {
      WEIR_ASSIGN_OR_RETURN(const Sets<T> a, (Read<a_is_sparse>(context, 0)));
      WEIR_ASSIGN_OR_RETURN(const Sets<T> b, (Read<b_is_sparse>(context, a_is_sparse ? 3 : 1)));
      if (a.group_dims() != b.group_dims()) {
        return absl::InvalidArgumentError(
            absl::StrCat("Mismatched shapes ", IndexText(a.group_dims()), " vs ", IndexText(b.group_dims())));
      }
      return Write(context, operation_, a, b);
    }

   private:
    template <bool is_sparse>
    absl::StatusOr<Sets<T>> Read(KernelContext& context, int first) const {
      if constexpr (is_sparse) return ReadSparse<T>(context, first, validate_);
      return Sets<T>::OfDense(context, context.input(first));
    }

    const Operation operation_;
    const bool validate_;
  };
};

template <typename T>
using DenseToDense = Inputs<false, false>::Kernel<T>;
template <typename T>
using DenseToSparse = Inputs<false, true>::Kernel<T>;
template <typename T>
using SparseToSparse = Inputs<true, true>::Kernel<T>;

template <typename T>
class SetSize final : public Kernel {
 public:
  explicit SetSize(const KernelConstruction& construction)
      : validate_(construction.attr<bool>("validate_indices")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const SparseView view, ReadView(context, 0, validate_));
    WEIR_RETURN_IF_ERROR(view.CheckInBounds());
    WEIR_ASSIGN_OR_RETURN(const Sets<T> all, Sets<T>::OfSparse(context, view));
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(all.group_dims()));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    const absl::Span<int32_t> sizes = output->flat<int32_t>();
    std::fill(sizes.begin(), sizes.end(), 0);
    for (SetCursor<T> set(all); !set.is_over(); set.Next()) {
      int64_t position = 0;
      for (size_t d = 0; d < set.group().size(); ++d) {
        position = position * all.group_dims()[d] + set.group()[d];
      }
      sizes[position] = static_cast<int32_t>(set.end() - set.begin());
    }
    return absl::OkStatus();
  }

 private:
  const bool validate_;
};

}  // namespace

void RegisterSetsKernels(DeviceKernels& kernels) {
  const auto types = Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, std::string>("T");
  kernels.Add<DenseToDense>("DenseToDenseSetOperation", types);
  kernels.Add<DenseToSparse>("DenseToSparseSetOperation", types);
  kernels.Add<SparseToSparse>("SparseToSparseSetOperation", types);
  kernels.Add<SetSize>("SetSize", types);
}

}  // namespace weir
