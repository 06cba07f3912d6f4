// Datasets of what is in tensors: a range of numbers, one element, the rows of tensors, of a sparse tensor.
#include <limits>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data/dataset.h"
#include "kernels/cpu/data/list_dataset.h"
#include "kernels/cpu/data/rows.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

absl::StatusOr<Tensor> NumberOf(DType dtype, int64_t number, Allocator& allocator) {
  WEIR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, Shape(), allocator));
  const bool is_numeric = WithNumericType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (requires { static_cast<T>(number); }) {
      tensor.flat<T>()[0] = static_cast<T>(number);
    } else {
      tensor.flat<T>()[0] = T(static_cast<float>(number));
    }
  });
  if (is_numeric) return tensor;
  return absl::InvalidArgumentError(absl::StrCat("Unsupported data type: ", DTypeName(dtype)));
}

// Gives so many elements, each by its number.
class NumberedDataset : public Dataset {
 public:
  NumberedDataset(Signature signature, int64_t count) : Dataset(std::move(signature)), count_(count) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext&) const final {
    return IteratorPtr(new NumberedIterator(RefPtr<const NumberedDataset>::Share(this)));
  }
  int64_t cardinality() const override { return count_; }
  absl::Status CheckAnyOrder() const override { return absl::OkStatus(); }

 private:
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const final {
    return Numbered(index, context.allocator());
  }

  class NumberedIterator final : public Iterator {
   public:
    explicit NumberedIterator(RefPtr<const NumberedDataset> dataset) : dataset_(std::move(dataset)) {}

    absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override {
      if (next_ >= dataset_->count_) return false;
      WEIR_ASSIGN_OR_RETURN(*element, dataset_->Numbered(next_++, context.allocator()));
      return true;
    }
    absl::Status Save(IteratorContext&, PositionWriter& position) override {
      position.Add(next_);
      return absl::OkStatus();
    }
    absl::Status Restore(IteratorContext&, PositionReader& position) override {
      WEIR_ASSIGN_OR_RETURN(next_, position.NextNumber(0, dataset_->count_));
      return absl::OkStatus();
    }

   private:
    const RefPtr<const NumberedDataset> dataset_;
    int64_t next_ = 0;
  };

  // Precondition: 0 <= index < count.
  virtual absl::StatusOr<Element> Numbered(int64_t index, Allocator& allocator) const = 0;

  const int64_t count_;
};

class RangeDataset final : public NumberedDataset {
 public:
  RangeDataset(Signature signature, int64_t start, int64_t step, int64_t count)
      : NumberedDataset(std::move(signature), count), start_(start), step_(step) {}

  // How many numbers lie in [start, stop); saturates.
  static int64_t Count(int64_t start, int64_t stop, int64_t step) {
    const bool is_empty = step > 0 ? start >= stop : start <= stop;
    if (is_empty) return 0;
    const uint64_t distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                       : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
    const uint64_t stride =
        step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
    const uint64_t count = (distance - 1) / stride + 1;
    return static_cast<int64_t>(
        std::min<uint64_t>(count, static_cast<uint64_t>(std::numeric_limits<int64_t>::max())));
  }

 private:
  absl::StatusOr<Element> Numbered(int64_t index, Allocator& allocator) const override {
    const uint64_t number = static_cast<uint64_t>(start_) + static_cast<uint64_t>(index) * step_;
    WEIR_ASSIGN_OR_RETURN(Tensor tensor,
                          NumberOf(signature().types[0], static_cast<int64_t>(number), allocator));
    return Element{std::move(tensor)};
  }

  const int64_t start_;
  const int64_t step_;
};

class Range final : public DatasetKernel {
 public:
  explicit Range(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(const int64_t start, ReadInteger(context.input(0), "start"));
    WEIR_ASSIGN_OR_RETURN(const int64_t stop, ReadInteger(context.input(1), "stop"));
    WEIR_ASSIGN_OR_RETURN(const int64_t step, ReadInteger(context.input(2), "step"));
    if (step == 0) return absl::InvalidArgumentError("step must be a non-zero integer.");
    if (signature.types.size() != 1) {
      return absl::InvalidArgumentError("a range has one component");
    }
    return SetDataset<RangeDataset>(context, signature, start, step, RangeDataset::Count(start, stop, step));
  }
};

Element InputsFrom(const KernelContext& context, int first) {
  Element inputs;
  for (int i = first; i < context.num_inputs(); ++i) inputs.push_back(context.input(i));
  return inputs;
}

class TensorDataset final : public NumberedDataset {
 public:
  TensorDataset(Signature signature, Element element)
      : NumberedDataset(std::move(signature), 1), element_(std::move(element)) {}

 private:
  absl::StatusOr<Element> Numbered(int64_t, Allocator&) const override { return element_; }

  const Element element_;
};

class OneElement final : public DatasetKernel {
 public:
  explicit OneElement(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    return SetDataset<TensorDataset>(context, signature, InputsFrom(context, 0));
  }
};

// Inputs: the components of one element after another.
class ListOfTensors final : public DatasetKernel {
 public:
  explicit ListOfTensors(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    const size_t size = signature.types.size();
    Element components = InputsFrom(context, 0);
    if (components.size() % size != 0) {
      return absl::InvalidArgumentError(absl::StrCat("The tensors of a list are ", components.size(),
                                                     ": no elements of ", size, " components"));
    }
    HeldElements elements(size, "a list");
    for (size_t i = 0; i < components.size(); i += size) {
      const auto begin = components.begin() + static_cast<int64_t>(i);
      Element element(begin, begin + static_cast<int64_t>(size));
      WEIR_RETURN_IF_ERROR(CheckElement(signature, element));
      WEIR_RETURN_IF_ERROR(elements.Add(std::move(element), context.allocator()));
    }
    return SetDataset<ListDataset>(context, signature, std::move(elements));
  }
};

class TensorSliceDataset final : public NumberedDataset {
 public:
  TensorSliceDataset(Signature signature, Element components)
      : NumberedDataset(std::move(signature), components[0].shape().dim(0)),
        components_(std::move(components)) {}

 private:
  absl::StatusOr<Element> Numbered(int64_t index, Allocator& allocator) const override {
    Element element;
    for (const Tensor& component : components_) {
      WEIR_ASSIGN_OR_RETURN(Tensor row, RowOf(component, index, allocator));
      element.push_back(std::move(row));
    }
    return element;
  }

  const Element components_;
};

class TensorSlices final : public DatasetKernel {
 public:
  explicit TensorSlices(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    Element components = InputsFrom(context, 0);
    for (size_t i = 0; i < components.size(); ++i) {
      if (components[i].shape().is_scalar()) {
        return absl::InvalidArgumentError(absl::StrCat("Unexpected scalar input component ", i));
      }
      if (components[i].shape().dim(0) == components[0].shape().dim(0)) continue;
      return absl::InvalidArgumentError(absl::StrCat("component ", i, " has ", components[i].shape().dim(0),
                                                     " rows, component 0 has ",
                                                     components[0].shape().dim(0)));
    }
    return SetDataset<TensorSliceDataset>(context, signature, std::move(components));
  }
};

// The rows of a sparse tensor, each a sparse tensor of one rank less: indices, values and dense shape.
class SparseRowsDataset final : public NumberedDataset {
 public:
  SparseRowsDataset(Signature signature, Tensor indices, Tensor values, Tensor dense_shape,
                    std::vector<int64_t> first_of_row)
      : NumberedDataset(std::move(signature), static_cast<int64_t>(dense_shape.flat<int64_t>()[0])),
        indices_(std::move(indices)),
        values_(std::move(values)),
        dense_shape_(std::move(dense_shape)),
        starts_(std::move(first_of_row)) {}

  static absl::Status Create(KernelContext& context) {
    const Tensor &indices = context.input(0), &values = context.input(1), &dense_shape = context.input(2);
    const bool has_ranks = indices.shape().rank() == 2 && values.shape().rank() == 1 &&
                           dense_shape.shape().rank() == 1 && dense_shape.num_elements() > 0;
    if (!has_ranks || indices.shape().dim(0) != values.num_elements() ||
        indices.shape().dim(1) != dense_shape.num_elements()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Number of rows of indices must match first dimension of values: indices are ",
                       Text(indices.shape()), ", values ", Text(values.shape()), ", dense_shape ",
                       Text(dense_shape.shape())));
    }
    const int64_t rank = dense_shape.num_elements(), num_rows = dense_shape.flat<int64_t>()[0];
    if (num_rows < 0) return absl::InvalidArgumentError(absl::StrCat("dense_shape begins with ", num_rows));
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      const int64_t row = indices.flat<int64_t>()[i * rank];
      if (row < 0 || row >= num_rows) {
        return absl::InvalidArgumentError(
            absl::StrCat("indices[", i, ",0] = ", row, " is not in [0, ", num_rows, ")"));
      }
      if (!rows.empty() && row < rows.back()) {
        return absl::UnimplementedError(
            "The SparseTensor must be ordered in the batch dimension; handling arbitrarily ordered input is "
            "not currently supported.");
      }
      rows.push_back(row);
    }
    Signature signature = {{DType::kInt64, values.dtype(), DType::kInt64},
                           {PartialShape({-1, rank - 1}), PartialShape({-1}), PartialShape({rank - 1})}};
    return SetDataset<SparseRowsDataset>(context, std::move(signature), indices, values, dense_shape,
                                         std::move(rows));
  }

 private:
  absl::StatusOr<Element> Numbered(int64_t index, Allocator& allocator) const override {
    const auto [begin, end] = std::equal_range(starts_.begin(), starts_.end(), index);
    const int64_t first = begin - starts_.begin(), count = end - begin;
    const int64_t rank = dense_shape_.num_elements();
    WEIR_ASSIGN_OR_RETURN(Tensor indices,
                          Tensor::Allocate(DType::kInt64, Shape({count, rank - 1}), allocator));
    WEIR_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(values_.dtype(), Shape({count}), allocator));
    WEIR_ASSIGN_OR_RETURN(Tensor shape, Tensor::Allocate(DType::kInt64, Shape({rank - 1}), allocator));
    for (int64_t i = 0; i < count; ++i) {
      CopyElements(indices_, (first + i) * rank + 1, indices, i * (rank - 1), rank - 1);
    }
    CopyElements(values_, first, values, 0, count);
    CopyElements(dense_shape_, 1, shape, 0, rank - 1);
    return Element{std::move(indices), std::move(values), std::move(shape)};
  }

  const Tensor indices_;
  const Tensor values_;
  const Tensor dense_shape_;
  const std::vector<int64_t> starts_;  // the row of each value
};

}  // namespace

void RegisterDatasetSourcesKernels(DeviceKernels& kernels) {
  kernels.Add<Range>("RangeDataset");
  kernels.Add<OneElement>("TensorDataset");
  kernels.Add<ListOfTensors>("ListDataset");
  kernels.Add<TensorSlices>("TensorSliceDataset");
  kernels.Add<&SparseRowsDataset::Create>("SparseTensorSliceDataset");
}

}  // namespace weir
