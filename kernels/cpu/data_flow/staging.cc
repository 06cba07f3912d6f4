// Staging areas: tuples of tensors that one step leaves and another takes, in order or by a key.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/waiting_line.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using Tuple = std::vector<Tensor>;                // a tensor that is not there is invalid
using MaybeStatus = std::optional<absl::Status>;  // nullopt: not yet

constexpr char kArea[] = "staging area";

// What limits an area: 0 for no limit.
struct Limits {
  int64_t capacity = 0, num_bytes = 0;
};

// With the characters of strings, as in TensorFlow.
int64_t BytesOf(const Tuple& tuple) {
  int64_t num_bytes = 0;
  for (const Tensor& tensor : tuple) {
    if (!tensor.is_valid()) continue;
    num_bytes += static_cast<int64_t>(tensor.num_bytes());
    if (tensor.dtype() != DType::kString) continue;
    for (const std::string& text : tensor.flat<std::string>()) num_bytes += static_cast<int64_t>(text.size());
  }
  return num_bytes;
}

// Tuples in the order of their keys. An area without keys numbers its tuples. What is guarded by the line's
// lock is what its attempts touch.
class StagingArea final : public Resource {
 public:
  static constexpr char kTypeName[] = "StagingArea";

  StagingArea(std::string name, Limits limits) : name_(std::move(name)), limits_(limits) {}
  std::string ToString() const override { return absl::StrCat(kArea, " '", name_, "'"); }

  void Run(Cancellation& cancellation, absl::string_view verb, WaitingLine::Attempt attempt,
           WaitingLine::Done done) {
    line_.Run(RefPtr<StagingArea>::Share(this), cancellation, absl::StrCat(verb, " of ", ToString()),
              std::move(attempt), std::move(done));
  }
  absl::Status RunNow(const WaitingLine::Attempt& attempt) { return line_.RunNow(attempt); }

  // ---- Attempts, under the line's lock ----

  // A tuple behind all others.
  MaybeStatus Append(const Tuple& tuple) {
    Tuple none;  // no two have one key
    MaybeStatus status = Put(next_key_, AllIndices(tuple), tuple, tuple.size(), &none);
    if (status && status->ok()) ++next_key_;
    return status;
  }

  // Tensors of the tuple of `key`, which has `size` of them. It can be taken when all are there. As in
  // TensorFlow, the first tuple of a key stays: another one goes to `*removed`, for the caller to drop as
  // what Clear gives.
  MaybeStatus Put(int64_t key, const std::vector<int32_t>& indices, const Tuple& tensors, size_t size,
                  Tuple* removed) {
    const int64_t num_bytes = BytesOf(tensors);
    if (limits_.num_bytes > 0 && num_bytes > limits_.num_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("Attempted to insert tensors with combined size of '", num_bytes,
                       "' bytes into Staging Area with a memory limit of '", limits_.num_bytes, "'."));
    }
    const bool is_whole = indices.size() == size;
    if (is_whole && limits_.capacity > 0 && static_cast<int64_t>(complete_.size()) >= limits_.capacity) {
      return std::nullopt;
    }
    if (limits_.num_bytes > 0 && num_bytes_ > limits_.num_bytes - num_bytes) return std::nullopt;
    return PutNow(key, indices, tensors, size, removed);
  }

  // The tensors at `indices` of the tuple of `key`; of any when that is null, and `key` is then set.
  MaybeStatus Get(std::optional<int64_t>& key, const std::vector<int32_t>& indices, bool takes,
                  Tuple* tensors) {
    const auto found = key ? complete_.find(*key) : complete_.begin();
    if (found == complete_.end()) return std::nullopt;
    return GetFrom(found, key, indices, takes, tensors);
  }

  // The tuple at a place of an area without keys.
  MaybeStatus PeekAt(int64_t place, const std::vector<int32_t>& indices, Tuple* tensors) {
    if (place >= static_cast<int64_t>(complete_.size())) return std::nullopt;
    std::optional<int64_t> key;
    return GetFrom(std::next(complete_.begin(), place), key, indices, /*takes=*/false, tensors);
  }

  // Tuples in the order of their keys.
  using Tuples = std::map<int64_t, Tuple>;
  struct Contents {
    Tuples complete, incomplete;
  };

  // What was there goes to `removed`, for the caller to drop without the lock: a variant that dies may let a
  // mutex go, which completes what waits for it in other steps, and they may want this area.
  absl::Status Clear(Contents* removed) {
    removed->complete.swap(complete_);
    removed->incomplete.swap(incomplete_);
    num_bytes_ = 0;
    return absl::OkStatus();
  }
  int64_t num_complete() const { return static_cast<int64_t>(complete_.size()); }
  int64_t num_incomplete() const { return static_cast<int64_t>(incomplete_.size()); }

 private:
  static std::vector<int32_t> AllIndices(const Tuple& tuple) {
    std::vector<int32_t> indices(tuple.size());
    for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int32_t>(i);
    return indices;
  }

  static absl::Status OutOfBounds(int64_t key, int32_t index, size_t size) {
    return absl::InvalidArgumentError(
        absl::StrCat("Index '", index, "' for key '", key, "' was out of bounds '", size, "'."));
  }

  absl::Status PutNow(int64_t key, const std::vector<int32_t>& indices, const Tuple& tensors, size_t size,
                      Tuple* removed) {
    const bool is_whole = indices.size() == size;
    const auto begun = incomplete_.find(key);
    Tuple tuple = !is_whole && begun != incomplete_.end() ? begun->second : Tuple(size);
    for (size_t i = 0; i < indices.size(); ++i) {
      const int32_t index = indices[i];
      if (index < 0 || static_cast<size_t>(index) >= tuple.size())
        return OutOfBounds(key, index, tuple.size());
      if (tuple[index].is_valid()) {
        return absl::InvalidArgumentError(absl::StrCat("The tensor for index '", index, "' for key '", key,
                                                       "' was already initialized '", tuple.size(), "'."));
      }
      tuple[index] = tensors[i];
    }
    num_bytes_ += BytesOf(tensors);
    const bool is_complete =
        std::all_of(tuple.begin(), tuple.end(), [](const Tensor& t) { return t.is_valid(); });
    if (!is_complete) {
      incomplete_[key] = std::move(tuple);
      return absl::OkStatus();
    }
    if (!is_whole && begun != incomplete_.end()) incomplete_.erase(begun);
    if (complete_.count(key) == 0) {
      complete_.emplace(key, std::move(tuple));
    } else {
      num_bytes_ -= BytesOf(tuple);
      *removed = std::move(tuple);
    }
    return absl::OkStatus();
  }

  absl::Status GetFrom(Tuples::iterator found, std::optional<int64_t>& key,
                       const std::vector<int32_t>& indices, bool takes, Tuple* tensors) {
    Tuple& tuple = found->second;
    for (const int32_t index : indices) {
      if (index < 0 || static_cast<size_t>(index) >= tuple.size()) {
        return OutOfBounds(found->first, index, tuple.size());
      }
      if (!tuple[index].is_valid()) {
        return absl::InvalidArgumentError(absl::StrCat("Tensor at index '", index, "' for key '",
                                                       found->first, "' has already been removed."));
      }
    }
    key = found->first;
    for (const int32_t index : indices) tensors->push_back(tuple[index]);
    if (!takes) return absl::OkStatus();
    num_bytes_ -= BytesOf(*tensors);
    for (const int32_t index : indices) tuple[index] = Tensor();
    const bool is_empty =
        std::none_of(tuple.begin(), tuple.end(), [](const Tensor& t) { return t.is_valid(); });
    if (is_empty) complete_.erase(found);
    return absl::OkStatus();
  }

  const std::string name_;
  const Limits limits_;
  WaitingLine line_;
  Tuples complete_, incomplete_;
  int64_t num_bytes_ = 0, next_key_ = 0;
};

using AreaRef = RefPtr<StagingArea>;

// A kernel with the area that its attrs or its node name. The first that comes decides the limits.
class AreaOf {
 public:
  explicit AreaOf(const KernelConstruction& construction)
      : container_(construction.attr<std::string>("container")),
        name_(construction.attr<std::string>("shared_name").empty()
                  ? construction.node().name()
                  : construction.attr<std::string>("shared_name")),
        limits_{construction.attr<int64_t>("capacity"), construction.attr<int64_t>("memory_limit")},
        dtypes_(construction.attr<std::vector<DType>>("dtypes")) {}

  absl::StatusOr<AreaRef> Find(KernelContext& context) const {
    return context.resources().LookupOrCreate<StagingArea>(
        container_, name_, [this] { return MakeRef<StagingArea>(name_, limits_); });
  }
  const std::vector<DType>& dtypes() const { return dtypes_; }

 private:
  const std::string container_, name_;
  const Limits limits_;
  const std::vector<DType> dtypes_;
};

absl::Status CheckDType(const Tensor& tensor, size_t index, DType dtype) {
  if (tensor.dtype() == dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tensor ", index, " of the tuple is ",
                                                 DTypeName(tensor.dtype()), ", must be ", DTypeName(dtype)));
}

absl::StatusOr<int64_t> ReadKey(const Tensor& tensor) {
  if (tensor.shape().is_scalar()) return tensor.scalar<int64_t>();
  return absl::InvalidArgumentError(
      absl::StrCat("key must be an int64 scalar, is ", tensor.shape().ToString()));
}

// A vector that rises.
absl::StatusOr<std::vector<int32_t>> ReadIndices(const Tensor& tensor, size_t count) {
  const auto values = tensor.flat<int32_t>();
  if (values.size() != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("indices are ", tensor.shape().ToString(), ", there are ", count, " tensors"));
  }
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i - 1] >= values[i]) return absl::InvalidArgumentError("Indices are not strictly ordered");
  }
  return std::vector<int32_t>(values.begin(), values.end());
}

Tuple InputsFrom(const KernelContext& context, int first) {
  Tuple tuple;
  for (int i = first; i < context.num_inputs(); ++i) tuple.push_back(context.input(i));
  return tuple;
}

absl::Status SetOutputs(KernelContext& context, int first, const Tuple& tuple) {
  if (static_cast<int>(tuple.size()) != context.num_outputs() - first) {
    return absl::InvalidArgumentError(
        absl::StrCat("Mismatch stage/unstage: ", tuple.size(), " vs. ", context.num_outputs() - first));
  }
  for (size_t i = 0; i < tuple.size(); ++i) {
    const int output = first + static_cast<int>(i);
    WEIR_RETURN_IF_ERROR(CheckDType(tuple[i], i, context.output_type(output)));
    context.set_output(output, tuple[i]);
  }
  return absl::OkStatus();
}

// ---- Areas in order ----

class Stage final : public AsyncKernel {
 public:
  explicit Stage(const KernelConstruction& construction) : area_(construction) {}

  void ComputeAsync(KernelContext& context, Done done) override {
    absl::StatusOr<AreaRef> area = area_.Find(context);
    if (!area.ok()) return done(area.status());
    const auto tuple = std::make_shared<Tuple>(InputsFrom(context, 0));
    (*area)->Run(
        context.cancellation(), "stage", [area = area->get(), tuple] { return area->Append(*tuple); },
        std::move(done));
  }

 private:
  const AreaOf area_;
};

std::vector<int32_t> FirstIndices(size_t count) {
  std::vector<int32_t> indices(count);
  for (size_t i = 0; i < count; ++i) indices[i] = static_cast<int32_t>(i);
  return indices;
}

// With input 0, a place, looks at what is there; otherwise takes the first tuple.
template <bool takes>
class Unstage final : public AsyncKernel {
 public:
  explicit Unstage(const KernelConstruction& construction) : area_(construction) {}

  void ComputeAsync(KernelContext& context, Done done) override {
    absl::StatusOr<AreaRef> found = area_.Find(context);
    if (!found.ok()) return done(found.status());
    int64_t place = 0;
    if (!takes) {
      const absl::StatusOr<int64_t> index = ReadInteger(context.input(0), "index");
      if (!index.ok()) return done(index.status());
      place = *index;
      if (place < 0) {
        return done(absl::InvalidArgumentError(absl::StrCat("index must be at least 0, is ", place)));
      }
    }
    const auto tuple = std::make_shared<Tuple>();
    const auto attempt = [area = found->get(), tuple, place, indices = FirstIndices(area_.dtypes().size())] {
      std::optional<int64_t> any;
      return takes ? area->Get(any, indices, takes, tuple.get()) : area->PeekAt(place, indices, tuple.get());
    };
    (*found)->Run(context.cancellation(), takes ? "unstage" : "peek", attempt,
                  [&context, tuple, done = std::move(done)](absl::Status status) {
                    if (status.ok()) status = SetOutputs(context, 0, *tuple);
                    done(std::move(status));
                  });
  }

 private:
  const AreaOf area_;
};

// ---- Areas with keys ----

class MapStage final : public AsyncKernel {
 public:
  explicit MapStage(const KernelConstruction& construction) : area_(construction) {}

  void ComputeAsync(KernelContext& context, Done done) override {
    if (absl::Status status = Start(context, done); !status.ok()) done(std::move(status));
  }

 private:
  absl::Status Start(KernelContext& context, const Done& done) const {
    WEIR_ASSIGN_OR_RETURN(const int64_t key, ReadKey(context.input(0)));
    const auto tuple = std::make_shared<Tuple>(InputsFrom(context, 2));
    WEIR_ASSIGN_OR_RETURN(const std::vector<int32_t> indices, ReadIndices(context.input(1), tuple->size()));
    const size_t size = area_.dtypes().size();
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < 0 || static_cast<size_t>(indices[i]) >= size) {
        return absl::InvalidArgumentError(
            absl::StrCat("Index '", indices[i], "' for key '", key, "' was out of bounds '", size, "'."));
      }
      WEIR_RETURN_IF_ERROR(CheckDType((*tuple)[i], i, area_.dtypes()[indices[i]]));
    }
    WEIR_ASSIGN_OR_RETURN(const AreaRef area, area_.Find(context));
    const auto removed = std::make_shared<Tuple>();
    area->Run(
        context.cancellation(), "stage",
        [area = area.get(), key, indices, tuple, size, removed] {
          return area->Put(key, indices, *tuple, size, removed.get());
        },
        done);
    return absl::OkStatus();
  }

  const AreaOf area_;
};

enum class Source { kKey, kAny };

template <Source source, bool takes>
class MapUnstage final : public AsyncKernel {
 public:
  explicit MapUnstage(const KernelConstruction& construction) : area_(construction) {}

  void ComputeAsync(KernelContext& context, Done done) override {
    if (absl::Status status = Start(context, done); !status.ok()) done(std::move(status));
  }

 private:
  struct Found {
    std::optional<int64_t> key;
    Tuple tuple;
  };

  absl::Status Start(KernelContext& context, const Done& done) const {
    constexpr bool kHasKey = source == Source::kKey;
    const auto result = std::make_shared<Found>();
    if constexpr (kHasKey) {
      WEIR_ASSIGN_OR_RETURN(result->key, ReadKey(context.input(0)));
    }
    const int first_output = kHasKey ? 0 : 1;
    WEIR_ASSIGN_OR_RETURN(const std::vector<int32_t> indices,
                          ReadIndices(context.input(kHasKey ? 1 : 0),
                                      static_cast<size_t>(context.num_outputs() - first_output)));
    WEIR_ASSIGN_OR_RETURN(const AreaRef area, area_.Find(context));
    const auto finish = [&context, result, first_output, done](absl::Status status) {
      if (status.ok()) status = SetOutputs(context, first_output, result->tuple);
      if (status.ok() && first_output == 1) context.set_output(0, Tensor::Scalar<int64_t>(*result->key));
      done(std::move(status));
    };
    area->Run(
        context.cancellation(), takes ? "unstage" : "peek",
        [area = area.get(), indices, result] {
          return area->Get(result->key, indices, takes, &result->tuple);
        },
        finish);
    return absl::OkStatus();
  }

  const AreaOf area_;
};

// ---- Both ----

template <int64_t (StagingArea::*count)() const>
class AreaSize final : public Kernel {
 public:
  explicit AreaSize(const KernelConstruction& construction) : area_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const AreaRef area, area_.Find(context));
    int64_t size = 0;
    WEIR_RETURN_IF_ERROR(area->RunNow([&] {
      size = ((*area).*count)();
      return absl::OkStatus();
    }));
    context.set_output(0, Tensor::Scalar(static_cast<int32_t>(size)));
    return absl::OkStatus();
  }

 private:
  const AreaOf area_;
};

class ClearArea final : public Kernel {
 public:
  explicit ClearArea(const KernelConstruction& construction) : area_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const AreaRef area, area_.Find(context));
    StagingArea::Contents removed;
    return area->RunNow([&] { return area->Clear(&removed); });
  }

 private:
  const AreaOf area_;
};

}  // namespace

void RegisterStagingKernels(DeviceKernels& kernels) {
  kernels.Add<Stage>("Stage");
  kernels.Add<Unstage</*takes=*/true>>("Unstage");
  kernels.Add<Unstage</*takes=*/false>>("StagePeek");
  kernels.Add<AreaSize<&StagingArea::num_complete>>("StageSize");
  kernels.Add<ClearArea>("StageClear");
  // Of those that are ordered the first key is the least; the others may give any, and give that one too.
  for (const char* kind : {"Map", "OrderedMap"}) {
    const auto op = [kind](const char* name) { return absl::StrCat(kind, name); };
    kernels.Add<MapStage>(op("Stage"));
    kernels.Add<MapUnstage<Source::kKey, /*takes=*/true>>(op("Unstage"));
    kernels.Add<MapUnstage<Source::kAny, /*takes=*/true>>(op("UnstageNoKey"));
    kernels.Add<MapUnstage<Source::kKey, /*takes=*/false>>(op("Peek"));
    kernels.Add<AreaSize<&StagingArea::num_complete>>(op("Size"));
    kernels.Add<AreaSize<&StagingArea::num_incomplete>>(op("IncompleteSize"));
    kernels.Add<ClearArea>(op("Clear"));
  }
}

}  // namespace weir
