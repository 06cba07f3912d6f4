// Datasets of several elements made one: Batch, ParallelBatch, PaddedBatch, and Unbatch, which takes them
// apart.
//
// A batch is made of copies; an iterator holds the elements of one batch. A parallel batch is computed by
// whoever asks for it, as any other.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/held_elements.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/data/rows.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

int64_t NumBatches(int64_t count, int64_t batch_size, bool drops_remainder) {
  if (count < 0) return count;
  return count / batch_size + (!drops_remainder && count % batch_size != 0 ? 1 : 0);
}

constexpr char kHolder[] = "a batch";

// Gathers up to `batch_size` elements; fewer at the end.
absl::StatusOr<HeldElements> Gather(IteratorContext& context, Iterator& input, size_t num_components,
                                    int64_t batch_size) {
  HeldElements elements(num_components, kHolder);
  while (elements.size() < batch_size) {
    if (context.cancellation.is_cancelled()) return context.cancellation.reason();
    Element element;
    WEIR_ASSIGN_OR_RETURN(const bool has_element, input.Next(context, &element));
    if (!has_element) break;
    WEIR_RETURN_IF_ERROR(elements.Add(std::move(element), context.allocator()));
  }
  return elements;
}

// `D` says how elements become a batch: absl::StatusOr<Element> D::Join(elements, allocator).
template <typename D>
class BatchIterator final : public IteratorOverInput {
 public:
  BatchIterator(RefPtr<const D> dataset, IteratorPtr input)
      : IteratorOverInput(std::move(input)), dataset_(std::move(dataset)) {}

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override {
    if (is_over_) return false;
    const size_t num_components = dataset_->input().signature().types.size();
    WEIR_ASSIGN_OR_RETURN(const HeldElements held,
                          Gather(context, *input_, num_components, dataset_->batch_size()));
    const bool is_whole = held.size() == dataset_->batch_size();
    is_over_ = !is_whole;
    if (held.size() == 0 || (!is_whole && dataset_->drops_remainder())) return false;
    WEIR_ASSIGN_OR_RETURN(*element, dataset_->Join(held.elements(), context.allocator()));
    return true;
  }
  absl::Status Save(IteratorContext& context, PositionWriter& position) override {
    position.Add(int64_t{is_over_});
    return IteratorOverInput::Save(context, position);
  }
  absl::Status Restore(IteratorContext& context, PositionReader& position) override {
    WEIR_ASSIGN_OR_RETURN(is_over_, position.NextNumber(0, 1));
    return IteratorOverInput::Restore(context, position);
  }

 private:
  const RefPtr<const D> dataset_;
  bool is_over_ = false;
};

class BatchDataset final : public DatasetOverInput<BatchDataset, BatchIterator<BatchDataset>> {
 public:
  BatchDataset(Signature signature, DatasetPtr input, int64_t batch_size, bool drops_remainder)
      : DatasetOverInput(std::move(signature), std::move(input)),
        batch_size_(batch_size),
        drops_remainder_(drops_remainder) {}
  int64_t cardinality() const override {
    return NumBatches(input().cardinality(), batch_size_, drops_remainder_);
  }
  int64_t batch_size() const { return batch_size_; }
  bool drops_remainder() const { return drops_remainder_; }
  absl::StatusOr<Element> Join(const std::vector<Element>& elements, Allocator& allocator) const {
    return Stack(elements, allocator);
  }

  absl::Status CheckAnyOrder() const override {
    if (drops_remainder_) return input().CheckAnyOrder();
    return absl::FailedPreconditionError(
        "BatchDataset does not support global shuffling with `drop_remainder=False`.");
  }

 private:
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    const int64_t count = input().cardinality();
    if (count < 0) return input().Get(context, index);  // an error
    const int64_t begin = index * batch_size_;
    HeldElements held(input().signature().types.size(), kHolder);
    for (int64_t i = begin; i - begin < batch_size_ && i < count; ++i) {
      if (context.cancellation.is_cancelled()) return context.cancellation.reason();
      WEIR_ASSIGN_OR_RETURN(Element element, input().Get(context, i));
      WEIR_RETURN_IF_ERROR(held.Add(std::move(element), context.allocator()));
    }
    return Stack(held.elements(), context.allocator());
  }

  const int64_t batch_size_;
  const bool drops_remainder_;
};

// Each component has a shape, -1 where the longest element says the size, and a value to fill up with.
class PaddedBatchDataset final
    : public DatasetOverInput<PaddedBatchDataset, BatchIterator<PaddedBatchDataset>> {
 public:
  PaddedBatchDataset(Signature signature, DatasetPtr input, int64_t batch_size, bool drops_remainder,
                     std::vector<PartialShape> shapes, Element padding)
      : DatasetOverInput(std::move(signature), std::move(input)),
        batch_size_(batch_size),
        drops_remainder_(drops_remainder),
        shapes_(std::move(shapes)),
        padding_(std::move(padding)) {}
  int64_t cardinality() const override {
    return NumBatches(input().cardinality(), batch_size_, drops_remainder_);
  }
  int64_t batch_size() const { return batch_size_; }
  bool drops_remainder() const { return drops_remainder_; }

  absl::StatusOr<Element> Join(const std::vector<Element>& elements, Allocator& allocator) const {
    Element batch;
    for (size_t component = 0; component < shapes_.size(); ++component) {
      WEIR_ASSIGN_OR_RETURN(Tensor rows, JoinComponent(elements, component, allocator));
      batch.push_back(std::move(rows));
    }
    return batch;
  }

 private:
  absl::StatusOr<Tensor> JoinComponent(const std::vector<Element>& elements, size_t component,
                                       Allocator& allocator) const {
    const PartialShape& wanted = shapes_[component];
    std::vector<int64_t> dims = {static_cast<int64_t>(elements.size())};
    for (int d = 0; d < wanted.rank(); ++d) dims.push_back(std::max<int64_t>(wanted.dim(d), 0));
    for (const Element& element : elements) {
      const Shape& shape = element[component].shape();
      if (shape.rank() != wanted.rank()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "All elements in a batch must have the same rank as the padded shape for component", component,
            ": expected rank ", wanted.rank(), " got element with rank ", shape.rank()));
      }
      for (int d = 0; d < wanted.rank(); ++d) {
        if (wanted.dim(d) < 0) {
          dims[d + 1] = std::max(dims[d + 1], shape.dim(d));
        } else if (shape.dim(d) > wanted.dim(d)) {
          return absl::DataLossError(
              absl::StrCat("Attempted to pad to a smaller size than the input element."));
        }
      }
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_ASSIGN_OR_RETURN(Tensor rows, Tensor::Allocate(elements[0][component].dtype(), shape, allocator));
    FillElements(padding_[component], rows, 0, rows.num_elements());
    const absl::Span<const int64_t> row_dims = absl::MakeConstSpan(dims).subspan(1);
    const Dims strides = RowMajorStrides(row_dims);
    const int64_t row_size = rows.num_elements() / static_cast<int64_t>(elements.size());
    for (size_t i = 0; i < elements.size(); ++i) {
      const Tensor& element = elements[i][component];
      CopyCorner(element, rows, static_cast<int64_t>(i) * row_size, strides);
    }
    return rows;
  }

  // The element becomes the first corner of a row.
  static void CopyCorner(const Tensor& element, Tensor& rows, int64_t offset, const Dims& strides) {
    const absl::Span<const int64_t> dims = element.shape().dims();
    if (element.num_elements() == 0) return;
    const int64_t line = dims.empty() ? 1 : dims.back();
    std::vector<int64_t> index(dims.empty() ? 0 : dims.size() - 1, 0);
    for (int64_t from = 0; from < element.num_elements(); from += line) {
      int64_t to = offset;
      for (size_t d = 0; d < index.size(); ++d) to += index[d] * strides[d];
      CopyElements(element, from, rows, to, line);
      for (size_t d = index.size(); d-- > 0;) {
        if (++index[d] < dims[d]) break;
        index[d] = 0;
      }
    }
  }

  const int64_t batch_size_;
  const bool drops_remainder_;
  const std::vector<PartialShape> shapes_;
  const Element padding_;
};

// The rows of each element, one after another.
class UnbatchDataset;
class UnbatchIterator final : public IteratorOverInput {
 public:
  UnbatchIterator(RefPtr<const UnbatchDataset> dataset, IteratorPtr input)
      : IteratorOverInput(std::move(input)), dataset_(std::move(dataset)) {}

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override {
    while (next_ >= num_rows_) {
      if (context.cancellation.is_cancelled()) return context.cancellation.reason();
      Element batch;
      WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, &batch));
      if (!has_element) return false;
      WEIR_RETURN_IF_ERROR(Begin(std::move(batch)));
    }
    element->clear();
    for (const Tensor& tensor : batch_) {
      WEIR_ASSIGN_OR_RETURN(Tensor row, RowOf(tensor, next_, context.allocator()));
      element->push_back(std::move(row));
    }
    ++next_;
    return true;
  }
  absl::Status Save(IteratorContext& context, PositionWriter& position) override {
    position.Add(next_);
    position.Add(next_ < num_rows_ ? batch_ : Element());
    return IteratorOverInput::Save(context, position);
  }
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  absl::Status Begin(Element batch) {
    if (batch.empty()) return absl::InvalidArgumentError("Unbatching an element without components");
    for (const Tensor& tensor : batch) {
      if (tensor.shape().is_scalar()) {
        return absl::InvalidArgumentError("Input element must have a non-zero rank to be unbatched");
      }
      if (tensor.shape().dim(0) == batch[0].shape().dim(0)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("Input element must have the same batch size in each component. Component 0 had size ",
                       batch[0].shape().dim(0), " but another component had size ", tensor.shape().dim(0)));
    }
    batch_ = std::move(batch);
    num_rows_ = batch_[0].shape().dim(0);
    next_ = 0;
    return absl::OkStatus();
  }

  const RefPtr<const UnbatchDataset> dataset_;
  Element batch_;
  int64_t num_rows_ = 0;
  int64_t next_ = 0;
};

class UnbatchDataset final : public DatasetOverInput<UnbatchDataset, UnbatchIterator> {
 public:
  using DatasetOverInput::DatasetOverInput;
  int64_t cardinality() const override {
    const int64_t batches = input().cardinality();
    if (batches < 0) return batches;
    for (const PartialShape& shape : input().signature().shapes) {
      if (shape.rank() < 1 || shape.dim(0) < 0) continue;
      if (shape.dim(0) == 0) return kUnknown;
      return batches > INT64_MAX / shape.dim(0) ? INT64_MAX : batches * shape.dim(0);
    }
    return kUnknown;
  }
};

absl::Status UnbatchIterator::Restore(IteratorContext& context, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(const int64_t next, position.NextNumber(0, INT64_MAX));
  WEIR_ASSIGN_OR_RETURN(Element batch,
                        position.NextElement(dataset_->input().signature().types, /*may_be_empty=*/true));
  num_rows_ = next_ = 0;
  if (!batch.empty()) {
    WEIR_RETURN_IF_ERROR(Begin(std::move(batch)));
    next_ = next;
  }
  return IteratorOverInput::Restore(context, position);
}

absl::Status CheckBatchSize(int64_t batch_size) {
  if (batch_size > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("Batch size must be greater than zero.");
}

// Inputs: dataset, batch_size, with num_parallel_calls perhaps, and drop_remainder, or not.
class Batch final : public DatasetKernel {
 public:
  explicit Batch(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    WEIR_ASSIGN_OR_RETURN(const int64_t batch_size, ReadInteger(context.input(1), "batch_size"));
    WEIR_RETURN_IF_ERROR(CheckBatchSize(batch_size));
    bool drops_remainder = false;
    if (context.num_inputs() > 2) {
      const Tensor& last = context.input(context.num_inputs() - 1);
      if (last.num_elements() != 1) return absl::InvalidArgumentError("drop_remainder must be a scalar");
      drops_remainder = last.scalar<bool>();
    }
    return SetDataset<BatchDataset>(context, signature, std::move(input), batch_size, drops_remainder);
  }
};

class PaddedBatch final : public DatasetKernel {
 public:
  explicit PaddedBatch(const KernelConstruction& construction)
      : DatasetKernel(construction), num_components_(static_cast<int>(construction.attr<int64_t>("N"))) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    WEIR_ASSIGN_OR_RETURN(const int64_t batch_size, ReadInteger(context.input(1), "batch_size"));
    WEIR_RETURN_IF_ERROR(CheckBatchSize(batch_size));
    if (num_components_ != static_cast<int>(signature.types.size())) {
      return absl::InvalidArgumentError(absl::StrCat("Number of padded shapes (", num_components_,
                                                     ") must match the number of components in the input "
                                                     "dataset's elements (",
                                                     signature.types.size(), ")"));
    }
    std::vector<PartialShape> shapes;
    Element padding;
    for (int i = 0; i < num_components_; ++i) {
      const Tensor& shape = context.input(2 + i);
      if (shape.shape().rank() != 1) {
        return absl::InvalidArgumentError("All padded shapes must be vectors");
      }
      WEIR_ASSIGN_OR_RETURN(const Dims dims, ReadIntegers(shape, "padded_shapes"));
      WEIR_ASSIGN_OR_RETURN(PartialShape partial, PartialShape::FromDims(dims));
      shapes.push_back(std::move(partial));
      padding.push_back(context.input(2 + num_components_ + i));
      if (padding.back().shape().is_scalar()) continue;
      return absl::InvalidArgumentError("All padding values must be scalars");
    }
    const Tensor& last = context.input(context.num_inputs() - 1);
    if (last.num_elements() != 1) return absl::InvalidArgumentError("drop_remainder must be a scalar");
    return SetDataset<PaddedBatchDataset>(context, signature, std::move(input), batch_size,
                                          last.scalar<bool>(), std::move(shapes), std::move(padding));
  }

  const int num_components_;
};

class Unbatch final : public DatasetKernel {
 public:
  explicit Unbatch(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    return SetDataset<UnbatchDataset>(context, signature, std::move(input));
  }
};

}  // namespace

void RegisterBatchesKernels(DeviceKernels& kernels) {
  kernels.Add<Batch>("BatchDataset");
  kernels.Add<Batch>("BatchDatasetV2");
  kernels.Add<Batch>("ParallelBatchDataset");
  kernels.Add<PaddedBatch>("PaddedBatchDatasetV2");
  kernels.Add<Unbatch>("UnbatchDataset");
}

}  // namespace weir
