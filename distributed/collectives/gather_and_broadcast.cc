#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "distributed/collectives/collective.h"
#include "distributed/collectives/placement.h"
#include "distributed/collectives/segments.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// More than any tensor has; what a hostile shape makes us note before its bytes have come stays small.
constexpr int64_t kMaxTensorBytes = int64_t{1} << 40;

Segments SegmentsOf(int64_t num_bytes) { return {num_bytes, Collective::kSegmentBytes}; }

// The tensor that a part belongs to. InvalidArgument when the part does not fit it.
struct Source {
  Shape shape;
  Segments segments;
};
absl::StatusOr<Source> SourceOf(int from, DType dtype, const CollectivePart& part, size_t num_bytes) {
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", from, " sent ", num_bytes, " bytes as segment ",
                                                   part.segment, " of ", DTypeName(dtype), "[",
                                                   absl::StrJoin(part.dims, ","), "]: ", what));
  };
  if (part.phase != CollectivePart::kContribution) return wrong("another phase was to come");
  const absl::StatusOr<Shape> shape = Shape::FromDims(part.dims);
  if (!shape.ok()) return wrong(shape.status().message());
  const auto element = static_cast<int64_t>(DTypeSize(dtype));
  if (shape->num_elements() > kMaxTensorBytes / element) return wrong("it is too large");
  const Segments segments = SegmentsOf(shape->num_elements() * element);
  if (part.segment < 0 || part.segment >= segments.count()) return wrong("it has no such segment");
  if (static_cast<int64_t>(num_bytes) != segments.size(part.segment)) {
    return wrong(absl::StrCat("it should be ", segments.size(part.segment), " bytes"));
  }
  return Source{*shape, segments};
}

// Which segments of a tensor have come.
struct Arrival {
  Source source;
  Placement placement;
  std::vector<bool> has_come;
  int64_t num_awaited = 0;             // have not come
  int64_t num_missing = 0;             // are not in their place
  std::map<int64_t, Payload> waiting;  // segments that have no place yet

  explicit Arrival(Source whole)
      : source(std::move(whole)),
        placement(source.segments.count()),
        has_come(source.segments.count()),
        num_awaited(source.segments.count()),
        num_missing(source.segments.count()) {}
};

void AppendSegments(int to, const Tensor& tensor, int64_t first_byte, const std::vector<int64_t>& dims,
                    int64_t num_bytes, std::vector<Collective::Outgoing>* all) {
  const Segments segments = SegmentsOf(num_bytes);
  for (int64_t i = 0; i < segments.count(); ++i) {
    all->push_back({to,
                    {CollectivePart::kContribution, i, dims},
                    Payload::OfTensor(tensor, first_byte + segments.offset(i), segments.size(i))});
  }
}

std::vector<int64_t> DimsOf(const Tensor& tensor) {
  return {tensor.shape().dims().begin(), tensor.shape().dims().end()};
}

// Every rank sends rows to every other one; they are joined in the order of ranks.
class RowExchange final : public Collective {
 public:
  // Rows [first[r], first[r] + count[r]) of the input go to rank r.
  RowExchange(RankOf self, Tensor input, std::vector<int64_t> first, std::vector<int64_t> count,
              Allocator& allocator)
      : self_(self),
        input_(std::move(input)),
        first_(std::move(first)),
        count_(std::move(count)),
        row_dims_(input_.shape().dims().begin() + 1, input_.shape().dims().end()),
        row_bytes_(RowBytes(input_)),
        allocator_(allocator),
        arrivals_(self.size),
        num_unknown_(self.size - 1) {
    // One that sends itself everything needs no copy.
    if (self.size == 1) output_ = input_;
  }

  std::vector<Outgoing> Start() override {
    std::vector<Outgoing> all;
    for (int to = 0; to < self_.size; ++to) {
      if (to == self_.rank) continue;
      AppendSegments(to, input_, first_[to] * row_bytes_, DimsWith(count_[to]), count_[to] * row_bytes_,
                     &all);
    }
    return all;
  }

  Payload Place(int from, const CollectivePart& part, size_t num_bytes) override {
    if (!Check(from, part, num_bytes).ok()) return Payload();
    absl::MutexLock lock(&mutex_);
    std::optional<Arrival>& arrival = arrivals_[from];
    if (!output_ || !arrival || arrival->source.shape.dims() != absl::MakeConstSpan(part.dims) ||
        arrival->has_come[part.segment]) {
      return Payload();
    }
    return arrival->placement.Give(part.segment, output_->buffer(), PlaceOfLocked(from, part.segment),
                                   num_bytes);
  }

  absl::StatusOr<std::vector<Outgoing>> Receive(int from, const CollectivePart& part,
                                                Payload bytes) override {
    WEIR_ASSIGN_OR_RETURN(Source source, Check(from, part, bytes.num_bytes()));
    WEIR_RETURN_IF_ERROR(AwaitPlace(from, std::move(source), part.segment, bytes));
    char* place = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      std::optional<Arrival>& arrival = arrivals_[from];
      if (arrival->has_come[part.segment]) return std::vector<Outgoing>();
      arrival->has_come[part.segment] = true;
      --arrival->num_awaited;
      if (output_) {
        place = PlaceOfLocked(from, part.segment);
      } else {
        arrival->waiting[part.segment] = std::move(bytes);
      }
    }
    if (place == nullptr) {
      WEIR_RETURN_IF_ERROR(MakeOutputIfAllAreKnown());
      return std::vector<Outgoing>();
    }
    if (bytes.data() != place) std::copy_n(bytes.data(), bytes.num_bytes(), place);
    absl::MutexLock lock(&mutex_);
    --arrivals_[from]->num_missing;
    return std::vector<Outgoing>();
  }

  bool Awaits(int rank) const override {
    absl::MutexLock lock(&mutex_);
    return AwaitsLocked(rank);
  }

  bool is_complete() const override {
    absl::MutexLock lock(&mutex_);
    if (!output_ || is_copying_) return false;
    for (int rank = 0; rank < self_.size; ++rank) {
      if (rank != self_.rank && (!arrivals_[rank] || arrivals_[rank]->num_missing > 0)) return false;
    }
    return true;
  }

  absl::StatusOr<Tensor> result() const override {
    absl::MutexLock lock(&mutex_);
    return *output_;
  }

  bool keeps_what_comes() const override {
    absl::MutexLock lock(&mutex_);
    return !output_;
  }

  std::vector<int64_t> splits() const override {
    absl::MutexLock lock(&mutex_);
    std::vector<int64_t> splits;
    for (int rank = 0; rank < self_.size; ++rank) splits.push_back(NumRowsLocked(rank));
    return splits;
  }

 private:
  static int64_t RowBytes(const Tensor& input) {
    uint64_t bytes = DTypeSize(input.dtype());  // wraps around only where there are no rows
    for (const int64_t dim : input.shape().dims().subspan(1)) bytes *= static_cast<uint64_t>(dim);
    return static_cast<int64_t>(bytes);
  }

  std::vector<int64_t> DimsWith(int64_t num_rows) const {
    std::vector<int64_t> dims = {num_rows};
    dims.insert(dims.end(), row_dims_.begin(), row_dims_.end());
    return dims;
  }

  absl::StatusOr<Source> Check(int from, const CollectivePart& part, size_t num_bytes) const {
    if (from < 0 || from >= self_.size || from == self_.rank) {
      return absl::InvalidArgumentError(absl::StrCat("rows of rank ", from));
    }
    if (part.dims.size() != row_dims_.size() + 1 ||
        !std::equal(row_dims_.begin(), row_dims_.end(), part.dims.begin() + 1)) {
      return absl::InvalidArgumentError(absl::StrCat("rows of [", absl::StrJoin(row_dims_, ","),
                                                     "] were to come, but rank ", from, " sent [",
                                                     absl::StrJoin(part.dims, ","), "]"));
    }
    return SourceOf(from, input_.dtype(), part, num_bytes);
  }

  // Before a segment is noted. A repetition of one that is noted waits for nothing.
  absl::Status AwaitPlace(int from, Source source, int64_t segment, const Payload& bytes) {
    std::optional<Placement> placement;
    {
      absl::MutexLock lock(&mutex_);
      std::optional<Arrival>& arrival = arrivals_[from];
      if (!arrival) {
        arrival.emplace(std::move(source));
        --num_unknown_;
      } else if (!(arrival->source.shape == source.shape)) {
        return absl::InvalidArgumentError(absl::StrCat("rank ", from, " sent segments of ",
                                                       source.shape.ToString(), " and of ",
                                                       arrival->source.shape.ToString()));
      }
      const bool is_in_place = output_ && bytes.data() == PlaceOfLocked(from, segment);
      if (is_in_place || arrival->has_come[segment]) return absl::OkStatus();
      placement = arrival->placement;
    }
    return placement->Close(segment);
  }

  bool AwaitsLocked(int rank) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return rank != self_.rank && (!arrivals_[rank] || arrivals_[rank]->num_awaited > 0);
  }
  // Preconditions of both: the rows of all ranks are known.
  int64_t NumRowsLocked(int rank) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return rank == self_.rank ? count_[rank] : arrivals_[rank]->source.shape.dim(0);
  }
  char* PlaceOfLocked(int from, int64_t segment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    int64_t row = 0;
    for (int rank = 0; rank < from; ++rank) row += NumRowsLocked(rank);
    return static_cast<char*>(output_->data()) + row * row_bytes_ + SegmentsOf(0).offset(segment);
  }

  // Copies there what was waiting, and this rank's own rows.
  absl::Status MakeOutputIfAllAreKnown() {
    struct Copy {
      Payload bytes;
      char* place = nullptr;
    };
    std::vector<Copy> copies;
    {
      absl::MutexLock lock(&mutex_);
      if (num_unknown_ > 0 || output_) return absl::OkStatus();
      int64_t num_rows = 0;
      for (int rank = 0; rank < self_.size; ++rank) {
        if (__builtin_add_overflow(num_rows, NumRowsLocked(rank), &num_rows)) {
          return absl::InvalidArgumentError("the ranks have more rows than can be counted");
        }
      }
      WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(DimsWith(num_rows)));
      WEIR_ASSIGN_OR_RETURN(output_, Tensor::Allocate(input_.dtype(), shape, allocator_));
      is_copying_ = true;
      for (int rank = 0; rank < self_.size; ++rank) {
        if (rank == self_.rank) {
          const int64_t num_bytes = count_[rank] * row_bytes_;
          copies.push_back(
              {Payload::OfTensor(input_, first_[rank] * row_bytes_, num_bytes), PlaceOfLocked(rank, 0)});
          continue;
        }
        Arrival& arrival = *arrivals_[rank];
        for (auto& [segment, bytes] : std::exchange(arrival.waiting, {})) {
          copies.push_back({std::move(bytes), PlaceOfLocked(rank, segment)});
          --arrival.num_missing;
        }
      }
    }
    for (Copy& copy : copies) {
      if (copy.bytes.num_bytes() > 0) std::copy_n(copy.bytes.data(), copy.bytes.num_bytes(), copy.place);
      copy.bytes = Payload();  // it is not kept until all have been copied
    }
    absl::MutexLock lock(&mutex_);
    is_copying_ = false;
    return absl::OkStatus();
  }

  const RankOf self_;
  const Tensor input_;
  const std::vector<int64_t> first_, count_;
  const std::vector<int64_t> row_dims_;
  const int64_t row_bytes_;
  Allocator& allocator_;
  mutable absl::Mutex mutex_;
  std::vector<std::optional<Arrival>> arrivals_ ABSL_GUARDED_BY(mutex_);  // by rank, once its rows are known
  int num_unknown_ ABSL_GUARDED_BY(mutex_);
  std::optional<Tensor> output_ ABSL_GUARDED_BY(mutex_);  // once the rows of all are known
  bool is_copying_ ABSL_GUARDED_BY(mutex_) = false;
};

class Broadcast final : public Collective {
 public:
  Broadcast(RankOf self, int root, DType dtype, Tensor input, Allocator& allocator)
      : self_(self), root_(root), dtype_(dtype), input_(std::move(input)), allocator_(allocator) {}

  std::vector<Outgoing> Start() override {
    std::vector<Outgoing> all;
    if (self_.rank != root_) return all;
    const std::vector<int64_t> dims = DimsOf(input_);
    for (int to = 0; to < self_.size; ++to) {
      if (to == root_) continue;
      AppendSegments(to, input_, 0, dims, static_cast<int64_t>(input_.num_bytes()), &all);
    }
    return all;
  }

  Payload Place(int from, const CollectivePart& part, size_t num_bytes) override {
    const absl::StatusOr<Source> source = Check(from, part, num_bytes);
    if (!source.ok()) return Payload();
    absl::MutexLock lock(&mutex_);
    if (!ExpectLocked(*source).ok() || arrival_->has_come[part.segment]) return Payload();
    return arrival_->placement.Give(part.segment, output_.buffer(), PlaceOfLocked(part.segment), num_bytes);
  }

  absl::StatusOr<std::vector<Outgoing>> Receive(int from, const CollectivePart& part,
                                                Payload bytes) override {
    WEIR_ASSIGN_OR_RETURN(const Source source, Check(from, part, bytes.num_bytes()));
    WEIR_RETURN_IF_ERROR(AwaitPlace(source, part.segment, bytes));
    char* place = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      if (arrival_->has_come[part.segment]) return std::vector<Outgoing>();
      arrival_->has_come[part.segment] = true;
      place = PlaceOfLocked(part.segment);
    }
    if (bytes.data() != place) std::copy_n(bytes.data(), bytes.num_bytes(), place);
    absl::MutexLock lock(&mutex_);
    --arrival_->num_missing;
    return std::vector<Outgoing>();
  }

  bool Awaits(int rank) const override { return rank == root_ && !is_complete(); }

  bool is_complete() const override {
    absl::MutexLock lock(&mutex_);
    return self_.rank == root_ || (arrival_ && arrival_->num_missing == 0);
  }

  absl::StatusOr<Tensor> result() const override {
    absl::MutexLock lock(&mutex_);
    return self_.rank == root_ ? input_ : output_;
  }

 private:
  absl::StatusOr<Source> Check(int from, const CollectivePart& part, size_t num_bytes) const {
    if (from != root_ || self_.rank == root_) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", from, " sent a part of a broadcast from rank ", root_));
    }
    return SourceOf(from, dtype_, part, num_bytes);
  }

  // Before a segment is noted. A repetition of one that is noted waits for nothing.
  absl::Status AwaitPlace(const Source& source, int64_t segment, const Payload& bytes) {
    std::optional<Placement> placement;
    {
      absl::MutexLock lock(&mutex_);
      WEIR_RETURN_IF_ERROR(ExpectLocked(source));
      if (arrival_->has_come[segment] || bytes.data() == PlaceOfLocked(segment)) return absl::OkStatus();
      placement = arrival_->placement;
    }
    return placement->Close(segment);
  }

  // The first part says what the tensor is.
  absl::Status ExpectLocked(const Source& source) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!arrival_) {
      WEIR_ASSIGN_OR_RETURN(output_, Tensor::Allocate(dtype_, source.shape, allocator_));
      arrival_.emplace(source);
    }
    if (arrival_->source.shape == source.shape) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("rank ", root_, " sent segments of ",
                                                   source.shape.ToString(), " and of ",
                                                   arrival_->source.shape.ToString()));
  }
  char* PlaceOfLocked(int64_t segment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return static_cast<char*>(output_.data()) + SegmentsOf(0).offset(segment);
  }

  const RankOf self_;
  const int root_;
  const DType dtype_;
  const Tensor input_;
  Allocator& allocator_;
  mutable absl::Mutex mutex_;
  std::optional<Arrival> arrival_ ABSL_GUARDED_BY(mutex_);
  Tensor output_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Collective> MakeAllGather(RankOf self, Tensor input, Allocator& allocator) {
  const int64_t num_rows = input.shape().dim(0);
  return std::make_unique<RowExchange>(self, std::move(input), std::vector<int64_t>(self.size),
                                       std::vector<int64_t>(self.size, num_rows), allocator);
}

absl::StatusOr<std::unique_ptr<Collective>> MakeAllToAll(RankOf self, Tensor input,
                                                         std::vector<int64_t> splits, Allocator& allocator) {
  const int64_t num_rows = input.shape().dim(0);
  if (splits.empty()) {
    if (num_rows % self.size != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(num_rows, " rows cannot be divided evenly among ", self.size, " ranks: give splits"));
    }
    splits.assign(self.size, num_rows / self.size);
  }
  if (splits.size() != static_cast<size_t>(self.size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an all-to-all of ", self.size, " ranks is given ", splits.size(), " splits"));
  }
  std::vector<int64_t> first;
  int64_t sum = 0;
  for (const int64_t split : splits) {
    first.push_back(sum);
    if (split < 0 || __builtin_add_overflow(sum, split, &sum)) {
      return absl::InvalidArgumentError(absl::StrCat("an all-to-all is given a split of ", split, " rows"));
    }
  }
  if (sum != num_rows) {
    return absl::InvalidArgumentError(absl::StrCat("the splits of an all-to-all add up to ", sum,
                                                   ", but the input has ", num_rows, " rows"));
  }
  return std::make_unique<RowExchange>(self, std::move(input), std::move(first), std::move(splits),
                                       allocator);
}

std::unique_ptr<Collective> MakeBroadcast(RankOf self, int root, DType dtype, Tensor input,
                                          Allocator& allocator) {
  return std::make_unique<Broadcast>(self, root, dtype, std::move(input), allocator);
}

}  // namespace weir
