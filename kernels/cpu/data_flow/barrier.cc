// Barrier: tuples whose components come one by one under a key, and which are taken when they are whole,
// those whose keys came first before the others. Nothing here holds a thread while it waits.
//
// The handle is what TensorFlow's is: a vector of its container and its name. A barrier has no limit of its
// own; what it holds was inserted and not taken.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/named_resource.h"
#include "kernels/cpu/data_flow/waiting_line.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/device_kernels.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

using MaybeStatus = std::optional<absl::Status>;  // nullopt: not yet

class Barrier final : public Resource {
 public:
  static constexpr char kTypeName[] = "Barrier";

  struct Spec {
    std::string name;
    std::vector<DType> types;
    std::vector<PartialShape> shapes;
  };
  struct Tuple {
    int64_t index = 0;  // of the insertion that brought the key
    std::string key;
    std::vector<Tensor> components;  // one that has not come is invalid
  };
  using Incomplete = absl::flat_hash_map<std::string, Tuple>;  // by key

  explicit Barrier(Spec spec) : spec_(std::move(spec)) {}

  std::string ToString() const override { return absl::StrCat("Barrier '", spec_.name, "'"); }
  const Spec& spec() const { return spec_; }
  absl::Status CheckIsA(const Spec& spec) const {
    if (spec.types == spec_.types && spec.shapes == spec_.shapes) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("Shared barrier '", spec_.name,
                     "' has other component types or shapes than those that were "
                     "requested"));
  }

  void Run(Cancellation& cancellation, absl::string_view verb, WaitingLine::Attempt attempt,
           WaitingLine::Done done) {
    line_.Run(RefPtr<Barrier>::Share(this), cancellation, absl::StrCat(verb, " of ", ToString()),
              std::move(attempt), std::move(done));
  }
  absl::Status RunNow(const WaitingLine::Attempt& attempt) { return line_.RunNow(attempt); }

  // ---- Attempts, under the line's lock ----

  // Row i of `values` is component `component` of the tuple of key i.
  absl::Status Insert(const Tensor& keys, const Tensor& values, int component, Allocator& allocator) {
    const int64_t count = keys.num_elements();
    if (is_closed_ && (is_cancelled_ || (count > 0 && incomplete_.empty()))) {
      return absl::CancelledError(absl::StrCat(
          "Barrier ", spec_.name, " is closed.  Pending enqueues cancelled: ", int{is_cancelled_},
          ".  Number of new insertions: ", count, ".  Number of incomplete keys: ", incomplete_.size(), "."));
    }
    bool has_new_keys = false;
    absl::Status status;
    for (int64_t i = 0; i < count && status.ok(); ++i) {
      status = InsertOne(keys.flat<std::string>()[i], values, i, component, allocator, &has_new_keys);
    }
    if (has_new_keys) ++next_index_;
    return status;
  }

  // The first `count` whole tuples; fewer when the barrier is closed and `may_be_fewer`. `is_first`: of the
  // attempts of one call.
  MaybeStatus Take(int64_t count, bool may_be_fewer, bool is_first, std::vector<Tuple>* taken) {
    const auto num_ready = static_cast<int64_t>(ready_.size());
    if (is_closed_ && num_ready < count) {
      const bool takes_what_is_there = may_be_fewer && (is_first || incomplete_.empty());
      const int64_t wanted = takes_what_is_there ? std::min(count, num_ready) : count;
      const int64_t available =
          takes_what_is_there ? num_ready : num_ready + static_cast<int64_t>(incomplete_.size());
      if (available < std::max<int64_t>(wanted, 1)) {
        return absl::OutOfRangeError(absl::StrCat("Barrier '", spec_.name,
                                                  "' is closed and has insufficient elements (requested ",
                                                  wanted, ", total size ", available, ")"));
      }
      count = wanted;
    }
    if (num_ready < count) return std::nullopt;
    for (int64_t i = 0; i < count; ++i) {
      taken->push_back(std::move(ready_.begin()->second));
      ready_.erase(ready_.begin());
    }
    return absl::OkStatus();
  }

  // `dropped` gets what nobody takes any more, to be destroyed without the line's lock: a variant may hold
  // another one.
  absl::Status Close(bool cancels, Incomplete* dropped) {
    if (is_closed_ && (is_cancelled_ || !cancels)) {
      return absl::CancelledError(absl::StrCat("Barrier '", spec_.name, "' is already closed."));
    }
    is_closed_ = true;
    is_cancelled_ = cancels;
    if (cancels) incomplete_.swap(*dropped);
    return absl::OkStatus();
  }

  int64_t num_ready() const { return static_cast<int64_t>(ready_.size()); }
  int64_t num_incomplete() const { return static_cast<int64_t>(incomplete_.size()); }

 private:
  absl::Status InsertOne(const std::string& key, const Tensor& values, int64_t row, int component,
                         Allocator& allocator, bool* has_new_keys) {
    auto found = incomplete_.find(key);
    if (found == incomplete_.end()) {
      if (is_closed_) {
        return absl::CancelledError(
            absl::StrCat("Barrier ", spec_.name, " is closed, but attempted to insert a brand new key: ", key,
                         ".  Pending enqueues cancelled: ", int{is_cancelled_}, ".  Insertion index: ", row,
                         ".  Number of incomplete keys: ", incomplete_.size(), "."));
      }
      *has_new_keys = true;
      found =
          incomplete_.emplace(key, Tuple{next_index_, key, std::vector<Tensor>(spec_.types.size())}).first;
    }
    Tensor& place = found->second.components[component];
    if (place.is_valid()) {
      return absl::InvalidArgumentError(absl::StrCat("Key ", key, " already has a value for component ",
                                                     component, " in barrier ", spec_.name));
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(values.shape().dims().subspan(1)));
    WEIR_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(values.dtype(), shape, allocator));
    CopyElements(values, row * shape.num_elements(), value, 0, shape.num_elements());
    place = std::move(value);
    const std::vector<Tensor>& all = found->second.components;
    if (!std::all_of(all.begin(), all.end(), [](const Tensor& tensor) { return tensor.is_valid(); })) {
      return absl::OkStatus();
    }
    ready_.emplace(std::make_pair(found->second.index, num_completed_++), std::move(found->second));
    incomplete_.erase(found);
    return absl::OkStatus();
  }

  const Spec spec_;
  WaitingLine line_;
  bool is_closed_ = false;
  bool is_cancelled_ = false;
  int64_t next_index_ = std::numeric_limits<int64_t>::min();
  int64_t num_completed_ = 0;
  Incomplete incomplete_;
  std::map<std::pair<int64_t, int64_t>, Tuple> ready_;  // by index, then in the order of completion
};

using BarrierRef = RefPtr<Barrier>;

absl::StatusOr<Barrier::Spec> SpecOf(const KernelConstruction& construction) {
  const std::string& shared_name = construction.attr<std::string>("shared_name");
  Barrier::Spec spec = {.name = shared_name.empty() ? construction.node().name() : shared_name,
                        .types = construction.attr<std::vector<DType>>("component_types"),
                        .shapes = construction.attr<std::vector<PartialShape>>("shapes")};
  const bool are_known = std::all_of(spec.shapes.begin(), spec.shapes.end(),
                                     [](const PartialShape& shape) { return shape.is_fully_known(); });
  if (spec.shapes.size() != spec.types.size() || !are_known) {
    return absl::InvalidArgumentError("All of the component shapes must be specified");
  }
  if (construction.attr<int64_t>("capacity") == -1) return spec;
  return absl::InvalidArgumentError(
      "Barrier only accepts capacity=-1.  Feed the inputs to your Barrier through a queue to enforce a "
      "limited "
      "capacity.");
}

absl::StatusOr<std::unique_ptr<Kernel>> CreateHandle(const KernelConstruction& construction) {
  WEIR_ASSIGN_OR_RETURN(const Barrier::Spec spec, SpecOf(construction));
  return NamedResourceHandle<Barrier>::Create(construction, spec);
}

absl::StatusOr<BarrierRef> BarrierOf(const KernelContext& context) {
  return LookupNamedResource<Barrier>(context);
}

class InsertMany final : public Kernel {
 public:
  explicit InsertMany(const KernelConstruction& construction)
      : component_(construction.attr<int64_t>("component_index")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const BarrierRef barrier, BarrierOf(context));
    const Barrier::Spec& spec = barrier->spec();
    const auto num_components = static_cast<int64_t>(spec.types.size());
    if (component_ < 0 || component_ >= num_components) {
      return absl::InvalidArgumentError(absl::StrCat("The component ID is out of range ", component_,
                                                     " > num_components (= ", num_components, ")"));
    }
    const auto component = static_cast<int>(component_);
    const Tensor &keys = context.input(1), &values = context.input(2);
    if (keys.shape().rank() != 1 || values.shape().is_scalar() ||
        values.shape().dim(0) != keys.num_elements()) {
      return absl::InvalidArgumentError(
          absl::StrCat("keys must be a vector, and values a row for each key; are ", keys.shape().ToString(),
                       " and ", values.shape().ToString()));
    }
    if (keys.num_elements() > 0 && values.num_elements() == 0) {
      return absl::InvalidArgumentError(absl::StrCat("Tensors with no elements are not supported ", spec.name,
                                                     ": received shape ", values.shape().ToString()));
    }
    if (values.dtype() != spec.types[component]) {
      return absl::InvalidArgumentError(absl::StrCat("component ", component, " of ", barrier->ToString(),
                                                     " is ", DTypeName(spec.types[component]), ", not ",
                                                     DTypeName(values.dtype())));
    }
    const absl::Span<const int64_t> row = values.shape().dims().subspan(1);
    if (row != spec.shapes[component].dims()) {
      return absl::InvalidArgumentError(absl::StrCat("Shape mismatch in tuple component ", component + 2,
                                                     ". Expected ", spec.shapes[component].ToString(),
                                                     ", got rows of ", values.shape().ToString()));
    }
    Allocator& allocator = context.allocator();
    return barrier->RunNow([&] { return barrier->Insert(keys, values, component, allocator); });
  }

 private:
  const int64_t component_;
};

class TakeMany final : public AsyncKernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    if (construction.attr<int64_t>("timeout_ms") != -1) {
      return absl::InvalidArgumentError("Timeout not supported yet.");
    }
    return std::make_unique<TakeMany>(construction);
  }
  explicit TakeMany(const KernelConstruction& construction)
      : types_(construction.attr<std::vector<DType>>("component_types")),
        may_be_fewer_(construction.attr<bool>("allow_small_batch")) {}

  void ComputeAsync(KernelContext& context, Done done) override {
    if (absl::Status status = Start(context, done); !status.ok()) done(std::move(status));
  }

 private:
  absl::Status Start(KernelContext& context, const Done& done) const {
    WEIR_ASSIGN_OR_RETURN(const BarrierRef barrier, BarrierOf(context));
    if (!context.input(1).shape().is_scalar()) {
      return absl::InvalidArgumentError("num_elements must be a scalar.");
    }
    WEIR_ASSIGN_OR_RETURN(const int64_t count, ReadInteger(context.input(1), "num_elements"));
    if (count < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(barrier->ToString(), " requested ", count, " < 0 elements"));
    }
    if (types_ != barrier->spec().types) {
      return absl::InvalidArgumentError(
          absl::StrCat("the components of ", barrier->ToString(), " are of other types than the outputs"));
    }
    const auto taken = std::make_shared<std::vector<Barrier::Tuple>>();
    const auto is_first = std::make_shared<bool>(true);
    const auto attempt = [barrier = barrier.get(), taken, is_first, count, fewer = may_be_fewer_] {
      return barrier->Take(count, fewer, std::exchange(*is_first, false), taken.get());
    };
    barrier->Run(context.cancellation(), "take", attempt,
                 [&context, spec = &barrier->spec(), barrier, taken, done](absl::Status status) {
                   if (status.ok()) status = SetOutputs(context, *spec, *taken);
                   done(std::move(status));
                 });
    return absl::OkStatus();
  }

  static absl::Status SetOutputs(KernelContext& context, const Barrier::Spec& spec,
                                 const std::vector<Barrier::Tuple>& tuples) {
    const auto count = static_cast<int64_t>(tuples.size());
    WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, Shape({count})));
    WEIR_ASSIGN_OR_RETURN(Tensor * keys, context.AllocateOutput(1, Shape({count})));
    for (int64_t i = 0; i < count; ++i) {
      indices->flat<int64_t>()[i] = tuples[i].index;
      keys->flat<std::string>()[i] = tuples[i].key;
    }
    for (size_t c = 0; c < spec.types.size(); ++c) {
      const absl::Span<const int64_t> row = spec.shapes[c].dims();
      std::vector<int64_t> dims = {count};
      dims.insert(dims.end(), row.begin(), row.end());
      WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
      WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(static_cast<int>(c) + 2, shape));
      for (int64_t i = 0; i < count; ++i) {
        const Tensor& value = tuples[i].components[c];
        CopyElements(value, 0, *values, i * value.num_elements(), value.num_elements());
      }
    }
    return absl::OkStatus();
  }

  const std::vector<DType> types_;
  const bool may_be_fewer_;
};

class Close final : public Kernel {
 public:
  explicit Close(const KernelConstruction& construction)
      : cancels_(construction.attr<bool>("cancel_pending_enqueues")) {}
  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const BarrierRef barrier, BarrierOf(context));
    Barrier::Incomplete dropped;
    return barrier->RunNow([&] { return barrier->Close(cancels_, &dropped); });
  }

 private:
  const bool cancels_;
};

template <int64_t (Barrier::*count)() const>
absl::Status ComputeCount(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const BarrierRef barrier, BarrierOf(context));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape()));
  return barrier->RunNow([&] {
    output->flat<int32_t>()[0] = static_cast<int32_t>((barrier.get()->*count)());
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterBarrierKernels(DeviceKernels& kernels) {
  kernels.Register("Barrier", {}, &CreateHandle);
  kernels.Add<InsertMany>("BarrierInsertMany");
  kernels.Add<TakeMany>("BarrierTakeMany");
  kernels.Add<Close>("BarrierClose");
  kernels.Add<&ComputeCount<&Barrier::num_ready>>("BarrierReadySize");
  kernels.Add<&ComputeCount<&Barrier::num_incomplete>>("BarrierIncompleteSize");
}

}  // namespace weir
