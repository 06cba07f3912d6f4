#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "distributed/collectives/collective.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// A tensor over the bytes that came. They are aligned: the transport put them into a buffer of their own.
absl::StatusOr<Tensor> TensorOf(int from, DType dtype, const CollectivePart& part, const Payload& bytes) {
  const absl::StatusOr<Shape> shape = Shape::FromDims(part.dims);
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", from, " sent ", bytes.num_bytes(), " bytes as ",
                                                   DTypeName(dtype), " of rank ", part.dims.size(), ": ",
                                                   what));
  };
  if (!shape.ok()) return wrong(shape.status().message());
  if (static_cast<uint64_t>(shape->num_elements()) > SIZE_MAX / DTypeSize(dtype) ||
      static_cast<size_t>(shape->num_elements()) * DTypeSize(dtype) != bytes.num_bytes()) {
    return wrong(absl::StrCat("it should be ", shape->ToString()));
  }
  if (bytes.num_bytes() == 0) return Tensor::Allocate(dtype, *shape);
  return Tensor(dtype, *shape, bytes.buffer(), bytes.byte_offset());
}

// Each of some ranks sends one tensor, whole.
class WholeTensors : public Collective {
 public:
  absl::StatusOr<std::vector<Outgoing>> Receive(int from, const CollectivePart& part,
                                                Payload bytes) override {
    if (from < 0 || from >= self_.size || part.phase != CollectivePart::kContribution || part.segment != 0) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", from, " sent segment ", part.segment,
                                                     ", phase ", part.phase,
                                                     ", of a collective of whole tensors"));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor tensor, TensorOf(from, dtype_, part, bytes));
    absl::MutexLock lock(&mutex_);
    if (!is_missing_[from]) return std::vector<Outgoing>();
    is_missing_[from] = false;
    --num_missing_;
    tensors_[from] = std::move(tensor);
    return std::vector<Outgoing>();
  }

  bool Awaits(int rank) const override {
    absl::MutexLock lock(&mutex_);
    return is_missing_[rank];
  }

  bool is_complete() const override {
    absl::MutexLock lock(&mutex_);
    return num_missing_ == 0;
  }

 protected:
  WholeTensors(RankOf self, DType dtype)
      : self_(self), dtype_(dtype), tensors_(self.size), is_missing_(self.size), num_missing_(0) {}

  void ExpectFrom(int rank) {
    absl::MutexLock lock(&mutex_);
    is_missing_[rank] = true;
    ++num_missing_;
  }

  std::vector<Outgoing> ToOthers(const Tensor& tensor) const {
    std::vector<Outgoing> all;
    for (int to = 0; to < self_.size; ++to) {
      if (to == self_.rank) continue;
      all.push_back({to,
                     {CollectivePart::kContribution, 0,
                      std::vector<int64_t>(tensor.shape().dims().begin(), tensor.shape().dims().end())},
                     Payload::OfTensor(tensor)});
    }
    return all;
  }

  const RankOf self_;
  const DType dtype_;
  mutable absl::Mutex mutex_;
  std::vector<Tensor> tensors_ ABSL_GUARDED_BY(mutex_);  // by rank

 private:
  std::vector<bool> is_missing_ ABSL_GUARDED_BY(mutex_);
  int num_missing_ ABSL_GUARDED_BY(mutex_);
};

class AllGather final : public WholeTensors {
 public:
  AllGather(RankOf self, Tensor input, Allocator& allocator)
      : WholeTensors(self, input.dtype()), input_(std::move(input)), allocator_(allocator) {
    for (int rank = 0; rank < self.size; ++rank) {
      if (rank != self.rank) ExpectFrom(rank);
    }
    absl::MutexLock lock(&mutex_);
    tensors_[self.rank] = input_;
  }

  std::vector<Outgoing> Start() override { return ToOthers(input_); }

  absl::StatusOr<Tensor> result() const override {
    absl::MutexLock lock(&mutex_);
    std::vector<int64_t> dims(input_.shape().dims().begin(), input_.shape().dims().end());
    dims[0] = 0;
    for (int rank = 0; rank < self_.size; ++rank) {
      const Shape& shape = tensors_[rank].shape();
      if (shape.rank() != static_cast<int>(dims.size()) ||
          !std::equal(dims.begin() + 1, dims.end(), shape.dims().begin() + 1)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "an all-gather joins tensors along dimension 0: their other dimensions must be the same, but "
            "rank ",
            self_.rank, " has ", input_.shape().ToString(), " and rank ", rank, " ", shape.ToString()));
      }
      if (__builtin_add_overflow(dims[0], shape.dim(0), &dims[0])) {
        return absl::InvalidArgumentError("an all-gather has more rows than can be counted");
      }
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_ASSIGN_OR_RETURN(Tensor output, Tensor::Allocate(dtype_, shape, allocator_));
    char* next = static_cast<char*>(output.data());
    for (const Tensor& tensor : tensors_) {
      if (tensor.num_bytes() == 0) continue;
      next = std::copy_n(static_cast<const char*>(tensor.data()), tensor.num_bytes(), next);
    }
    return output;
  }

 private:
  const Tensor input_;
  Allocator& allocator_;
};

class Broadcast final : public WholeTensors {
 public:
  Broadcast(RankOf self, int root, DType dtype, Tensor input)
      : WholeTensors(self, dtype), root_(root), input_(std::move(input)) {
    if (self.rank != root) ExpectFrom(root);
  }

  std::vector<Outgoing> Start() override {
    return self_.rank == root_ ? ToOthers(input_) : std::vector<Outgoing>();
  }

  absl::StatusOr<Tensor> result() const override {
    absl::MutexLock lock(&mutex_);
    return self_.rank == root_ ? input_ : tensors_[root_];
  }

 private:
  const int root_;
  const Tensor input_;
};

}  // namespace

std::unique_ptr<Collective> MakeAllGather(RankOf self, Tensor input, Allocator& allocator) {
  return std::make_unique<AllGather>(self, std::move(input), allocator);
}

std::unique_ptr<Collective> MakeBroadcast(RankOf self, int root, DType dtype, Tensor input) {
  return std::make_unique<Broadcast>(self, root, dtype, std::move(input));
}

}  // namespace weir
