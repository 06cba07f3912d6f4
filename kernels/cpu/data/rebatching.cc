// Datasets of batches cut anew: into equal parts (Rebatch), into the sizes that are asked for (RebatchV2);
// and sparse batches of dense elements (DenseToSparseBatch).
//
// An iterator holds the batch that it cuts, or the elements of the batch that it makes.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/held_elements.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/data_flow/held_tensor.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr char kHolder[] = "a batch";

// Rows [begin, end) of a tensor.
struct Rows {
  const Tensor* tensor;
  int64_t begin;
  int64_t end;
};

// The rows one after another. InvalidArgument unless the rows are of one shape. Precondition: at least one.
absl::StatusOr<Tensor> Concatenated(const std::vector<Rows>& pieces, Allocator& allocator) {
  const Tensor& first = *pieces[0].tensor;
  std::vector<int64_t> dims(first.shape().dims().begin(), first.shape().dims().end());
  dims[0] = 0;
  for (const Rows& piece : pieces) {
    dims[0] += piece.end - piece.begin;
    const absl::Span<const int64_t> row = piece.tensor->shape().dims().subspan(1);
    if (row == first.shape().dims().subspan(1)) continue;
    return absl::InvalidArgumentError(absl::StrCat("Cannot batch rows of different shapes: those of ",
                                                   first.shape().ToString(), " and of ",
                                                   piece.tensor->shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  WEIR_ASSIGN_OR_RETURN(Tensor rows, Tensor::Allocate(first.dtype(), shape, allocator));
  const int64_t row_size = dims[0] == 0 ? 0 : shape.num_elements() / dims[0];
  int64_t next = 0;
  for (const Rows& piece : pieces) {
    const int64_t count = (piece.end - piece.begin) * row_size;
    CopyElements(*piece.tensor, piece.begin * row_size, rows, next, count);
    next += count;
  }
  return rows;
}

// Cuts each batch into num_replicas parts, of which the last may be smaller, or empty.
class RebatchDataset;
class RebatchIterator final : public IteratorOverInput {
 public:
  RebatchIterator(RefPtr<const RebatchDataset> dataset, IteratorPtr input)
      : IteratorOverInput(std::move(input)), dataset_(std::move(dataset)) {}

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
  absl::Status Save(IteratorContext& context, PositionWriter& position) override {
    position.Add(part_);
    position.Add(part_ == 0 ? Element() : batch_);
    return IteratorOverInput::Save(context, position);
  }
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  static absl::Status CheckBatch(const Element& batch) {
    for (size_t i = 0; i < batch.size(); ++i) {
      if (!batch[i].shape().is_scalar()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("Cannot rebatch dataset: All components must have at least one dimension. Perhaps "
                       "your input dataset is not batched? Component ",
                       i, " is scalar."));
    }
    return absl::OkStatus();
  }

  const RefPtr<const RebatchDataset> dataset_;
  Element batch_;
  int64_t part_ = 0;  // the next one of the batch; 0: the next batch's first
};

class RebatchDataset final : public DatasetOverInput<RebatchDataset, RebatchIterator> {
 public:
  RebatchDataset(Signature signature, DatasetPtr input, int64_t num_parts)
      : DatasetOverInput(std::move(signature), std::move(input)), num_parts_(num_parts) {}
  int64_t cardinality() const override { return kUnknown; }
  int64_t num_parts() const { return num_parts_; }

 private:
  const int64_t num_parts_;
};

absl::StatusOr<bool> RebatchIterator::Next(IteratorContext& context, Element* element) {
  if (part_ == 0) {
    Element batch;
    WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, &batch));
    if (!has_element) return false;
    WEIR_RETURN_IF_ERROR(CheckBatch(batch));
    batch_ = std::move(batch);
  }
  Element part;
  for (const Tensor& whole : batch_) {
    const int64_t num_rows = whole.shape().dim(0);
    const int64_t size = num_rows / dataset_->num_parts() + (num_rows % dataset_->num_parts() == 0 ? 0 : 1);
    // Parts behind the last row are empty; their number may be anything.
    const int64_t begin = size == 0 || part_ > num_rows / size ? num_rows : std::min(part_ * size, num_rows);
    const int64_t end = begin + std::min(size, num_rows - begin);
    WEIR_ASSIGN_OR_RETURN(Tensor rows, Concatenated({{&whole, begin, end}}, context.allocator()));
    part.push_back(std::move(rows));
  }
  part_ = (part_ + 1) % dataset_->num_parts();
  if (part_ == 0) batch_.clear();
  *element = std::move(part);
  return true;
}

absl::Status RebatchIterator::Restore(IteratorContext& context, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(part_, position.NextNumber(0, dataset_->num_parts() - 1));
  WEIR_ASSIGN_OR_RETURN(
      batch_, position.NextElement(dataset_->input().signature().types, /*may_be_empty=*/part_ == 0));
  WEIR_RETURN_IF_ERROR(CheckBatch(batch_));
  return IteratorOverInput::Restore(context, position);
}

// Batches of the sizes that are asked for, in turn, of the rows of all batches.
class ResizedDataset;
class ResizedIterator final : public IteratorOverInput {
 public:
  ResizedIterator(RefPtr<const ResizedDataset> dataset, IteratorPtr input)
      : IteratorOverInput(std::move(input)), dataset_(std::move(dataset)) {}

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
  absl::Status Save(IteratorContext& context, PositionWriter& position) override {
    position.Add(static_cast<int64_t>(next_size_));
    position.Add(int64_t{is_over_});
    position.Add(next_row_);
    position.Add(batch_);
    return IteratorOverInput::Save(context, position);
  }
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  static absl::Status CheckBatch(const Element& batch);
  int64_t num_rows() const { return batch_.empty() ? 0 : batch_[0].shape().dim(0); }

  const RefPtr<const ResizedDataset> dataset_;
  size_t next_size_ = 0;
  bool is_over_ = false;
  Element batch_;
  int64_t next_row_ = 0;  // of the batch
};

class ResizedDataset final : public DatasetOverInput<ResizedDataset, ResizedIterator> {
 public:
  ResizedDataset(Signature signature, DatasetPtr input, std::vector<int64_t> sizes, bool drops_remainder)
      : DatasetOverInput(std::move(signature), std::move(input)),
        sizes_(std::move(sizes)),
        drops_remainder_(drops_remainder) {}
  int64_t cardinality() const override { return kUnknown; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  bool drops_remainder() const { return drops_remainder_; }

  // A batch without rows.
  absl::StatusOr<Element> Nothing(Allocator& allocator) const {
    Element element;
    const std::vector<PartialShape> shapes = ShapesOf(signature());
    for (size_t i = 0; i < shapes.size(); ++i) {
      std::vector<int64_t> dims = {0};
      for (int d = 1; d < shapes[i].rank(); ++d) dims.push_back(std::max<int64_t>(shapes[i].dim(d), 0));
      WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
      WEIR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(signature().types[i], shape, allocator));
      element.push_back(std::move(tensor));
    }
    return element;
  }

 private:
  const std::vector<int64_t> sizes_;
  const bool drops_remainder_;
};

absl::Status ResizedIterator::CheckBatch(const Element& batch) {
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].shape().is_scalar()) {
      return absl::InvalidArgumentError("Input element must have a non-scalar value in each component.");
    }
    if (batch[i].shape().dim(0) == batch[0].shape().dim(0)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "Input element must have the same batch size in each component. Component 0 had size ",
        batch[0].shape().dim(0), " but component ", i, " had size, ", batch[i].shape().dim(0), "."));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ResizedIterator::Next(IteratorContext& context, Element* element) {
  if (is_over_) return false;
  const int64_t wanted = dataset_->sizes()[next_size_];
  // Those that the rows are of.
  HeldElements batches(dataset_->input().signature().types.size(), kHolder);
  std::vector<std::pair<int64_t, int64_t>> rows;
  int64_t size = 0;
  while (size < wanted) {
    if (context.cancellation.is_cancelled()) return context.cancellation.reason();
    if (next_row_ >= num_rows()) {
      Element batch;
      WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, &batch));
      is_over_ = !has_element;
      if (is_over_) break;
      WEIR_RETURN_IF_ERROR(CheckBatch(batch));
      batch_ = std::move(batch);
      next_row_ = 0;
      if (num_rows() == 0 && batches.size() > 0) continue;
    }
    const int64_t end = next_row_ + std::min(wanted - size, num_rows() - next_row_);
    WEIR_RETURN_IF_ERROR(batches.Add(batch_, context.allocator()));
    rows.emplace_back(next_row_, end);
    size += end - next_row_;
    next_row_ = end;
  }
  next_size_ = (next_size_ + 1) % dataset_->sizes().size();
  if ((size == 0 && wanted > 0) || (size < wanted && dataset_->drops_remainder())) return false;
  if (wanted == 0) {
    WEIR_ASSIGN_OR_RETURN(*element, dataset_->Nothing(context.allocator()));
    return true;
  }
  Element joined;
  for (size_t component = 0; component < batches[0].size(); ++component) {
    std::vector<Rows> pieces;
    for (size_t i = 0; i < rows.size(); ++i) {
      pieces.push_back({&batches[i][component], rows[i].first, rows[i].second});
    }
    WEIR_ASSIGN_OR_RETURN(Tensor tensor, Concatenated(pieces, context.allocator()));
    joined.push_back(std::move(tensor));
  }
  *element = std::move(joined);
  return true;
}

absl::Status ResizedIterator::Restore(IteratorContext& context, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(next_size_,
                        position.NextNumber(0, static_cast<int64_t>(dataset_->sizes().size()) - 1));
  WEIR_ASSIGN_OR_RETURN(is_over_, position.NextNumber(0, 1));
  WEIR_ASSIGN_OR_RETURN(next_row_, position.NextNumber(0, INT64_MAX));
  WEIR_ASSIGN_OR_RETURN(batch_,
                        position.NextElement(dataset_->input().signature().types, /*may_be_empty=*/true));
  WEIR_RETURN_IF_ERROR(CheckBatch(batch_));
  return IteratorOverInput::Restore(context, position);
}

// batch_size elements as the values of one sparse tensor, whose rows have the shape row_shape, -1 where the
// largest element says the size.
class SparseBatchDataset;
class SparseBatchIterator final : public IteratorOverInput {
 public:
  SparseBatchIterator(RefPtr<const SparseBatchDataset> dataset, IteratorPtr input)
      : IteratorOverInput(std::move(input)), dataset_(std::move(dataset)) {}
  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;

 private:
  const RefPtr<const SparseBatchDataset> dataset_;
};

class SparseBatchDataset final : public DatasetOverInput<SparseBatchDataset, SparseBatchIterator> {
 public:
  SparseBatchDataset(DType dtype, DatasetPtr input, int64_t batch_size, PartialShape row_shape)
      : DatasetOverInput({{DType::kVariant}, {PartialShape()}}, std::move(input)),
        dtype_(dtype),
        batch_size_(batch_size),
        row_shape_(std::move(row_shape)) {}
  int64_t cardinality() const override {
    const int64_t all = input().cardinality();
    return all < 0 ? all : all / batch_size_ + (all % batch_size_ == 0 ? 0 : 1);
  }
  int64_t batch_size() const { return batch_size_; }

  // Indices, values and dense shape.
  absl::StatusOr<Element> Join(const std::vector<Element>& elements, Allocator& allocator) const {
    const int rank = row_shape_.rank();
    int64_t num_values = 0;
    std::vector<int64_t> dense_dims = {static_cast<int64_t>(elements.size())};
    for (int d = 0; d < rank; ++d) dense_dims.push_back(std::max<int64_t>(row_shape_.dim(d), 0));
    for (const Element& element : elements) {
      const Shape& shape = element[0].shape();
      WEIR_RETURN_IF_ERROR(CheckElementShape(shape));
      num_values += shape.num_elements();
      for (int d = 0; d < rank; ++d) {
        if (row_shape_.dim(d) < 0) dense_dims[d + 1] = std::max(dense_dims[d + 1], shape.dim(d));
      }
    }
    WEIR_ASSIGN_OR_RETURN(const Shape indices_shape, Shape::FromDims({num_values, rank + 1}));
    WEIR_ASSIGN_OR_RETURN(Tensor indices, Tensor::Allocate(DType::kInt64, indices_shape, allocator));
    WEIR_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(dtype_, Shape({num_values}), allocator));
    WEIR_ASSIGN_OR_RETURN(Tensor dense_shape, Tensor::Allocate(DType::kInt64, Shape({rank + 1}), allocator));
    std::copy(dense_dims.begin(), dense_dims.end(), dense_shape.flat<int64_t>().begin());
    int64_t next = 0;
    for (size_t i = 0; i < elements.size(); ++i) {
      const Tensor& element = elements[i][0];
      CopyElements(element, 0, values, next, element.num_elements());
      for (int64_t k = 0; k < element.num_elements(); ++k, ++next) {
        int64_t* const index = indices.flat<int64_t>().data() + next * (rank + 1);
        index[0] = static_cast<int64_t>(i);
        int64_t rest = k;
        for (int d = rank; d-- > 0;) {
          index[d + 1] = rest % element.shape().dim(d);
          rest /= element.shape().dim(d);
        }
      }
    }
    return Element{std::move(indices), std::move(values), std::move(dense_shape)};
  }

 private:
  absl::Status CheckElementShape(const Shape& shape) const {
    bool is_compatible = shape.rank() == row_shape_.rank();
    bool is_larger = false;
    for (int d = 0; is_compatible && d < shape.rank(); ++d) {
      is_larger |= row_shape_.dim(d) >= 0 && shape.dim(d) > row_shape_.dim(d);
    }
    if (is_compatible && !is_larger) return absl::OkStatus();
    if (is_compatible) {
      return absl::DataLossError(absl::StrCat("Input element had shape (", shape.ToString(),
                                              ") that is larger than the row shape (", row_shape_.ToString(),
                                              ")."));
    }
    return absl::InvalidArgumentError(absl::StrCat("Input element had shape (", shape.ToString(),
                                                   ") that is incompatible with the row shape (",
                                                   row_shape_.ToString(), ")."));
  }

  const DType dtype_;
  const int64_t batch_size_;
  const PartialShape row_shape_;
};

absl::StatusOr<bool> SparseBatchIterator::Next(IteratorContext& context, Element* element) {
  HeldElements elements(1, kHolder);
  while (elements.size() < dataset_->batch_size()) {
    if (context.cancellation.is_cancelled()) return context.cancellation.reason();
    Element next;
    WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, &next));
    if (!has_element) break;
    WEIR_RETURN_IF_ERROR(elements.Add(std::move(next), context.allocator()));
  }
  if (elements.size() == 0) return false;
  WEIR_ASSIGN_OR_RETURN(const Element parts, dataset_->Join(elements.elements(), context.allocator()));
  Tensor variants(DType::kVariant, Shape({3}));
  for (size_t i = 0; i < parts.size(); ++i) {
    WEIR_ASSIGN_OR_RETURN(const int depth, DepthAround(parts[i]));
    variants.flat<ResourceHandle>()[i].resource = MakeRef<HeldTensor>(parts[i], depth);
  }
  *element = {std::move(variants)};
  return true;
}

class Rebatch final : public DatasetKernel {
 public:
  explicit Rebatch(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    WEIR_ASSIGN_OR_RETURN(const int64_t num_replicas, ReadInteger(context.input(1), "num_replicas"));
    if (num_replicas <= 0) return absl::InvalidArgumentError("num_replicas must be greater than zero.");
    return SetDataset<RebatchDataset>(context, signature, std::move(input), num_replicas);
  }
};

class Resize final : public DatasetKernel {
 public:
  explicit Resize(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    const Tensor& given = context.input(1);
    if (given.shape().rank() > 1) {
      return absl::InvalidArgumentError("`batch_sizes` must be a scalar or a vector.");
    }
    std::vector<int64_t> sizes(given.flat<int64_t>().begin(), given.flat<int64_t>().end());
    if (sizes.empty() || std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; })) {
      return absl::InvalidArgumentError(
          absl::StrCat("`batch_sizes` must be one or more sizes from 0 on, is ", given.ToString(8)));
    }
    const Tensor& last = context.input(2);
    if (last.num_elements() != 1) return absl::InvalidArgumentError("drop_remainder must be a scalar");
    return SetDataset<ResizedDataset>(context, signature, std::move(input), std::move(sizes),
                                      last.scalar<bool>());
  }
};

// The attrs say what the parts of the sparse tensors are, so they are not read.
absl::Status MakeSparseBatches(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0));
  if (input->signature().types.size() != 1) {
    return absl::InvalidArgumentError(
        "DenseToSparseBatchDataset only supports inputs with a single component.");
  }
  WEIR_ASSIGN_OR_RETURN(const int64_t batch_size, ReadInteger(context.input(1), "batch_size"));
  if (batch_size <= 0) return absl::InvalidArgumentError("Batch size must be greater than zero.");
  if (context.input(2).shape().rank() != 1) {
    return absl::InvalidArgumentError("row_shape must be a vector");
  }
  WEIR_ASSIGN_OR_RETURN(const Dims dims, ReadIntegers(context.input(2), "row_shape"));
  for (const int64_t dim : dims) {
    if (dim < -1) return absl::InvalidArgumentError(absl::StrCat("Dimension ", dim, " must be >= -1"));
  }
  WEIR_ASSIGN_OR_RETURN(PartialShape row_shape, PartialShape::FromDims(dims));
  const DType dtype = input->signature().types[0];
  return SetDataset<SparseBatchDataset>(context, dtype, std::move(input), batch_size, std::move(row_shape));
}

}  // namespace

void RegisterRebatchingKernels(DeviceKernels& kernels) {
  for (const char* op : {"RebatchDataset", "ExperimentalRebatchDataset"}) kernels.Add<Rebatch>(op);
  kernels.Add<Resize>("RebatchDatasetV2");
  for (const char* op : {"DenseToSparseBatchDataset", "ExperimentalDenseToSparseBatchDataset"}) {
    kernels.Add<&MakeSparseBatches>(op);
  }
}

}  // namespace weir
