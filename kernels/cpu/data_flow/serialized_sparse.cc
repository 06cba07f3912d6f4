// Sparse tensors on their way through queues, batches and input pipelines: written into strings or variants,
// or kept in a map under a number. A sparse tensor is indices [count, rank], values [count], shape [rank].
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/interchange/serialized_tensor.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/held_tensor.h"
#include "kernels/cpu/data_flow/variant_value.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr int64_t kMostDims = 254;  // of a shape, as TensorFlow has it

struct SparseParts {
  Tensor indices, values, shape;

  int64_t count() const { return values.num_elements(); }
  int64_t rank() const { return shape.num_elements(); }
};

absl::Status Check(const SparseParts& sparse, absl::string_view what) {
  const bool fits = sparse.indices.dtype() == DType::kInt64 && sparse.shape.dtype() == DType::kInt64 &&
                    sparse.indices.shape().rank() == 2 && sparse.values.shape().rank() == 1 &&
                    sparse.shape.shape().rank() == 1 &&
                    sparse.indices.shape().dim(0) == sparse.values.num_elements() &&
                    sparse.indices.shape().dim(1) == sparse.shape.num_elements();
  if (fits) return absl::OkStatus();
  const auto text = [](const Tensor& tensor) { return TypeString(tensor.dtype(), tensor.shape()); };
  return absl::InvalidArgumentError(
      absl::StrCat(what, " must be int64 indices [count,rank], values [count] and an int64 shape [rank], is ",
                   text(sparse.indices), ", ", text(sparse.values), ", ", text(sparse.shape)));
}

absl::StatusOr<SparseParts> Input(const KernelContext& context) {
  SparseParts sparse = {context.input(0), context.input(1), context.input(2)};
  WEIR_RETURN_IF_ERROR(Check(sparse, "the sparse tensor"));
  return sparse;
}

// ---- Rows of a sparse tensor, and the whole of many ----

// The elements of each row, which is a sparse tensor of one dimension less. InvalidArgument for an element
// outside of all rows.
absl::StatusOr<std::vector<SparseParts>> RowsOf(KernelContext& context, const SparseParts& sparse) {
  if (sparse.rank() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("Rank of input SparseTensor should be > 1, but saw rank: ", sparse.rank()));
  }
  const auto dims = sparse.shape.flat<int64_t>();
  const int64_t rank = sparse.rank(), num_rows = dims[0];
  if (num_rows < 0)
    return absl::InvalidArgumentError(absl::StrCat("the shape has a dimension of ", num_rows));
  // What follows takes about as much for each row, outside of what the device counts.
  constexpr int64_t kWordsOfRow = 24;
  WEIR_RETURN_IF_ERROR(
      context.AllocateTemporary(DType::kInt64, Shape({std::min(num_rows, int64_t{1} << 50), kWordsOfRow}))
          .status());
  std::vector<std::vector<int64_t>> members(num_rows);
  const auto at = sparse.indices.flat<int64_t>();
  for (int64_t i = 0; i < sparse.count(); ++i) {
    const int64_t row = at[i * rank];
    if (row < 0 || row >= num_rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("element ", i, " is in row ", row, ", there are ", num_rows));
    }
    members[row].push_back(i);
  }
  Tensor row_shape(DType::kInt64, Shape({rank - 1}));
  std::copy(dims.begin() + 1, dims.end(), row_shape.flat<int64_t>().begin());
  std::vector<SparseParts> rows;
  rows.reserve(num_rows);
  for (const std::vector<int64_t>& row : members) {
    const auto count = static_cast<int64_t>(row.size());
    SparseParts part;
    WEIR_ASSIGN_OR_RETURN(part.indices, context.AllocateTemporary(DType::kInt64, Shape({count, rank - 1})));
    WEIR_ASSIGN_OR_RETURN(part.values, context.AllocateTemporary(sparse.values.dtype(), Shape({count})));
    int64_t* next = part.indices.flat<int64_t>().data();
    for (int64_t k = 0; k < count; ++k) {
      next = std::copy(&at[row[k] * rank + 1], &at[row[k] * rank] + rank, next);
      CopyElements(sparse.values, row[k], part.values, k, 1);
    }
    part.shape = row_shape;
    rows.push_back(std::move(part));
  }
  return rows;
}

// Outputs 0 to 2: the sparse tensors stacked, in new first dimensions `leading`; the others are as long as
// the longest. InvalidArgument for other dtypes or ranks than the first one's, and for more dimensions or
// elements than a shape can have.
absl::Status Stack(KernelContext& context, const std::vector<SparseParts>& parts,
                   absl::Span<const int64_t> leading) {
  const int64_t rank = parts[0].rank(), num_leading = static_cast<int64_t>(leading.size());
  if (rank > kMostDims - num_leading) {
    return absl::InvalidArgumentError(absl::StrCat("the result would have ", num_leading, " + ", rank,
                                                   " dimensions; at most ", kMostDims, " are possible"));
  }
  int64_t count = 0;
  std::vector<int64_t> dims(rank, 0);
  for (size_t i = 0; i < parts.size(); ++i) {
    WEIR_RETURN_IF_ERROR(Check(parts[i], absl::StrCat("SparseTensor[", i, "]")));
    if (parts[i].rank() != rank) {
      return absl::InvalidArgumentError(
          absl::StrCat("Inconsistent rank across SparseTensors: rank prior to SparseTensor[", i,
                       "] was: ", rank, " but rank of SparseTensor[", i, "] is: ", parts[i].rank()));
    }
    if (parts[i].values.dtype() != context.output_type(1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("Requested SparseTensor of type ", DTypeName(context.output_type(1)),
                       " but SparseTensor[", i, "].values.dtype() == ", DTypeName(parts[i].values.dtype())));
    }
    if (parts[i].count() > std::numeric_limits<int64_t>::max() - count) {
      return absl::InvalidArgumentError(
          absl::StrCat(parts.size(), " SparseTensors have more elements than a shape can have"));
    }
    count += parts[i].count();
    for (int64_t d = 0; d < rank; ++d) dims[d] = std::max(dims[d], parts[i].shape.flat<int64_t>()[d]);
  }
  WEIR_ASSIGN_OR_RETURN(const Shape indices_shape, Shape::FromDims({count, num_leading + rank}));
  WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, indices_shape));
  WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, Shape({count})));
  WEIR_ASSIGN_OR_RETURN(Tensor * shape, context.AllocateOutput(2, Shape({num_leading + rank})));
  int64_t* next = indices->flat<int64_t>().data();
  int64_t first = 0;
  std::vector<int64_t> prefix(num_leading);
  for (size_t i = 0; i < parts.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    for (int64_t d = num_leading - 1; d >= 0; --d) {
      prefix[d] = rest % leading[d];
      rest /= leading[d];
    }
    const auto at = parts[i].indices.flat<int64_t>();
    for (int64_t k = 0; k < parts[i].count(); ++k) {
      next = std::copy(prefix.begin(), prefix.end(), next);
      next = std::copy_n(at.begin() + k * rank, rank, next);
    }
    CopyElements(parts[i].values, 0, *values, first, parts[i].count());
    first += parts[i].count();
  }
  auto out = std::copy(leading.begin(), leading.end(), shape->flat<int64_t>().begin());
  std::copy(dims.begin(), dims.end(), out);
  return absl::OkStatus();
}

// ---- Strings and variants ----

absl::Status WriteParts(const SparseParts& sparse, int64_t first, Tensor& output) {
  for (const Tensor* part : {&sparse.indices, &sparse.values, &sparse.shape}) {
    if (output.dtype() == DType::kString) {
      WEIR_ASSIGN_OR_RETURN(output.flat<std::string>()[first++], SerializeTensorContent(*part));
    } else {
      WEIR_ASSIGN_OR_RETURN(const int depth, DepthAround(*part));
      ResourceHandle handle;
      handle.resource = MakeRef<HeldTensor>(*part, depth + 1);
      output.flat<ResourceHandle>()[first++] = std::move(handle);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ReadPart(const KernelContext& context, const Tensor& input, int64_t position) {
  if (input.dtype() == DType::kString) {
    return ParseTensor(input.flat<std::string>()[position], context.allocator());
  }
  const ResourceHandle& element = input.flat<ResourceHandle>()[position];
  if (const auto* held = dynamic_cast<const HeldTensor*>(element.resource.get())) return held->tensor();
  return absl::InvalidArgumentError(
      absl::StrCat("element ", position, " of serialized_sparse holds no tensor"));
}

absl::Status ComputeSerializeSparse(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const SparseParts sparse, Input(context));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape({3})));
  return WriteParts(sparse, 0, *output);
}

absl::Status ComputeSerializeManySparse(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const SparseParts sparse, Input(context));
  WEIR_ASSIGN_OR_RETURN(const std::vector<SparseParts> rows, RowsOf(context, sparse));
  WEIR_ASSIGN_OR_RETURN(Tensor * output,
                        context.AllocateOutput(0, Shape({static_cast<int64_t>(rows.size()), 3})));
  for (size_t i = 0; i < rows.size(); ++i) {
    WEIR_RETURN_IF_ERROR(WriteParts(rows[i], 3 * static_cast<int64_t>(i), *output));
  }
  return absl::OkStatus();
}

absl::Status ComputeDeserializeSparse(KernelContext& context) {
  const Tensor& input = context.input(0);
  const Shape& shape = input.shape();
  if (shape.rank() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("Serialized sparse should have non-zero rank but received shape ", shape.ToString()));
  }
  if (shape.dim(shape.rank() - 1) != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Serialized sparse should have 3 as the last dimension but received shape ", shape.ToString()));
  }
  if (input.num_elements() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Must have at least 1 serialized SparseTensor, but input matrix has 0 rows: ", shape.ToString()));
  }
  std::vector<SparseParts> parts(input.num_elements() / 3);
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto first = static_cast<int64_t>(3 * i);
    WEIR_ASSIGN_OR_RETURN(parts[i].indices, ReadPart(context, input, first));
    WEIR_ASSIGN_OR_RETURN(parts[i].values, ReadPart(context, input, first + 1));
    WEIR_ASSIGN_OR_RETURN(parts[i].shape, ReadPart(context, input, first + 2));
  }
  return Stack(context, parts, shape.dims().first(shape.rank() - 1));
}

// ---- Maps ----

// Sparse tensors under numbers, each taken out once.
class SparseTensorsMap final : public Resource {
 public:
  static constexpr char kTypeName[] = "SparseTensorsMap";

  explicit SparseTensorsMap(std::string name) : name_(std::move(name)) {}
  std::string ToString() const override { return absl::StrCat("SparseTensorsMap '", name_, "'"); }

  int64_t Add(SparseParts sparse) {
    const absl::MutexLock lock(&mutex_);
    tensors_.emplace(next_, std::move(sparse));
    return next_++;
  }
  // All of them, or none and InvalidArgument.
  absl::StatusOr<std::vector<SparseParts>> Take(absl::Span<const int64_t> handles) {
    const absl::MutexLock lock(&mutex_);
    std::vector<SparseParts> taken;
    for (const int64_t handle : handles) {
      const auto found = tensors_.find(handle);
      if (found == tensors_.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("Unable to find SparseTensor: ", handle, " in map: ", name_));
      }
      taken.push_back(found->second);
    }
    for (const int64_t handle : handles) tensors_.erase(handle);
    return taken;
  }

 private:
  const std::string name_;
  absl::Mutex mutex_;
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<int64_t, SparseParts> tensors_ ABSL_GUARDED_BY(mutex_);
};

// A kernel with the map that its attrs or its node name.
class MapKernel : public Kernel {
 public:
  explicit MapKernel(const KernelConstruction& construction)
      : container_(construction.attr<std::string>("container")),
        name_(construction.attr<std::string>("shared_name").empty()
                  ? construction.node().name()
                  : construction.attr<std::string>("shared_name")) {}

 protected:
  absl::StatusOr<RefPtr<SparseTensorsMap>> FindOrMake(KernelContext& context) const {
    return context.resources().LookupOrCreate<SparseTensorsMap>(
        container_, name_, [this] { return MakeRef<SparseTensorsMap>(name_); });
  }
  absl::StatusOr<RefPtr<SparseTensorsMap>> Find(KernelContext& context) const {
    return context.resources().Lookup<SparseTensorsMap>(container_, name_);
  }

 private:
  const std::string container_, name_;
};

class AddSparse final : public MapKernel {
 public:
  using MapKernel::MapKernel;
  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(SparseParts sparse, Input(context));
    WEIR_ASSIGN_OR_RETURN(const RefPtr<SparseTensorsMap> map, FindOrMake(context));
    context.set_output(0, Tensor::Scalar<int64_t>(map->Add(std::move(sparse))));
    return absl::OkStatus();
  }
};

class AddManySparse final : public MapKernel {
 public:
  using MapKernel::MapKernel;
  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const SparseParts sparse, Input(context));
    WEIR_ASSIGN_OR_RETURN(std::vector<SparseParts> rows, RowsOf(context, sparse));
    WEIR_ASSIGN_OR_RETURN(Tensor * handles,
                          context.AllocateOutput(0, Shape({static_cast<int64_t>(rows.size())})));
    WEIR_ASSIGN_OR_RETURN(const RefPtr<SparseTensorsMap> map, FindOrMake(context));
    for (size_t i = 0; i < rows.size(); ++i) handles->flat<int64_t>()[i] = map->Add(std::move(rows[i]));
    return absl::OkStatus();
  }
};

class TakeManySparse final : public MapKernel {
 public:
  using MapKernel::MapKernel;
  absl::Status Compute(KernelContext& context) override {
    const Tensor& handles = context.input(0);
    if (handles.shape().rank() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("sparse_handles should be a vector but received shape ", handles.shape().ToString()));
    }
    if (handles.num_elements() == 0) {
      return absl::InvalidArgumentError(
          "Must have at least 1 serialized SparseTensor, but sparse_handles is empty");
    }
    WEIR_ASSIGN_OR_RETURN(const RefPtr<SparseTensorsMap> map, Find(context));
    WEIR_ASSIGN_OR_RETURN(const std::vector<SparseParts> parts, map->Take(handles.flat<int64_t>()));
    return Stack(context, parts, handles.shape().dims());
  }
};

}  // namespace

void RegisterSerializedSparseKernels(DeviceKernels& kernels) {
  kernels.Add<&ComputeSerializeSparse>("SerializeSparse");
  kernels.Add<&ComputeSerializeManySparse>("SerializeManySparse");
  kernels.Add<&ComputeDeserializeSparse>("DeserializeSparse");
  kernels.Add<AddSparse>("AddSparseToTensorsMap");
  kernels.Add<AddManySparse>("AddManySparseToTensorsMap");
  kernels.Add<TakeManySparse>("TakeManySparseFromTensorsMap");
}

}  // namespace weir
