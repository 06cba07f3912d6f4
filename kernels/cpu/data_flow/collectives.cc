// Collectives of replicas: the ops whose group is the device's Communicator.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/communicator.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// What every collective node says of its group.
struct GroupAttrs {
  int64_t size = 0;
  Communicator::Key key;
};

absl::StatusOr<GroupAttrs> AttrsOf(const KernelConstruction& construction) {
  const GroupAttrs attrs = {
      construction.attr<int64_t>("group_size"),
      {construction.attr<int64_t>("group_key"), construction.attr<int64_t>("instance_key")}};
  if (attrs.size < 1) {
    return absl::InvalidArgumentError(absl::StrCat("group_size must be at least 1, is ", attrs.size));
  }
  return attrs;
}

class Collective : public AsyncKernel {
 public:
  Collective(const KernelConstruction& construction, GroupAttrs attrs)
      : name_(construction.node().name()), attrs_(attrs) {}

  void ComputeAsync(KernelContext& context, Done done) final {
    absl::StatusOr<RefPtr<Communicator>> communicator = Find(context);
    if (!communicator.ok()) return done(communicator.status());
    const Communicator::Call call = {name_, attrs_.key, &context.cancellation(),
                                     &context.device().allocator()};
    Start(**communicator, call, context, [&context, done = std::move(done)](absl::StatusOr<Tensor> result) {
      if (result.ok()) context.set_output(0, *std::move(result));
      done(result.status());
    });
  }

 private:
  virtual void Start(Communicator& communicator, const Communicator::Call& call, KernelContext& context,
                     Communicator::Done done) = 0;

  absl::StatusOr<RefPtr<Communicator>> Find(KernelContext& context) const {
    absl::StatusOr<RefPtr<Communicator>> found =
        context.resources().Lookup<Communicator>(Communicator::kContainer, Communicator::kName);
    if (!found.ok()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "a collective of ", attrs_.size, " replicas, but ", context.device().name().ToString(),
          " belongs to no group of replicas: only workers of a cluster without parameter servers do"));
    }
    if ((*found)->size() != attrs_.size) {
      return absl::InvalidArgumentError(
          absl::StrCat("group_size is ", attrs_.size, ", but the group has ", (*found)->size(), " ranks"));
    }
    return found;
  }

  const std::string name_;
  const GroupAttrs attrs_;
};

class Reduce final : public Collective {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const GroupAttrs attrs, AttrsOf(construction));
    return std::make_unique<Reduce>(construction, attrs);
  }

  Reduce(const KernelConstruction& construction, GroupAttrs attrs)
      : Collective(construction, attrs),
        reduction_(ReductionOf(construction.attr<std::string>("merge_op"))),
        divides_(construction.attr<std::string>("final_op") == "Div") {}

 private:
  // The schema allows no other.
  static Reduction ReductionOf(const std::string& merge_op) {
    if (merge_op == "Min") return Reduction::kMin;
    if (merge_op == "Max") return Reduction::kMax;
    return merge_op == "Mul" ? Reduction::kProduct : Reduction::kSum;
  }

  void Start(Communicator& communicator, const Communicator::Call& call, KernelContext& context,
             Communicator::Done done) override {
    communicator.AllReduce(call, context.input(0), reduction_, divides_, std::move(done));
  }

  const Reduction reduction_;
  const bool divides_;
};

absl::Status CheckShape(const Tensor& tensor, const PartialShape& shape, absl::string_view what) {
  if (shape.IsCompatibleWith(tensor.shape())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the attr shape is ", shape.ToString(), ", but ", what,
                                                 " has ", tensor.shape().ToString()));
}

// The result must have the shape that the attr says.
Communicator::Done Checked(const PartialShape& shape, Communicator::Done done) {
  return [shape, done = std::move(done)](absl::StatusOr<Tensor> result) {
    absl::Status status = result.ok() ? CheckShape(*result, shape, "what came") : result.status();
    done(status.ok() ? std::move(result) : absl::StatusOr<Tensor>(std::move(status)));
  };
}

class Gather final : public Collective {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const GroupAttrs attrs, AttrsOf(construction));
    return std::make_unique<Gather>(construction, attrs);
  }

  Gather(const KernelConstruction& construction, GroupAttrs attrs)
      : Collective(construction, attrs), shape_(construction.attr<PartialShape>("shape")) {}

 private:
  void Start(Communicator& communicator, const Communicator::Call& call, KernelContext& context,
             Communicator::Done done) override {
    communicator.AllGather(call, context.input(0), Checked(shape_, std::move(done)));
  }

  const PartialShape shape_;
};

// TensorFlow's graphs do not say which rank sends: the one whose node is a BcastSend. The ranks find out who
// it is by gathering who sends, and then it sends.
template <bool sends>
class Broadcast final : public Collective {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const GroupAttrs attrs, AttrsOf(construction));
    return std::make_unique<Broadcast>(construction, attrs);
  }

  Broadcast(const KernelConstruction& construction, GroupAttrs attrs)
      : Collective(construction, attrs),
        dtype_(construction.output_type(0)),
        shape_(construction.attr<PartialShape>("shape")) {}

 private:
  void Start(Communicator& communicator, const Communicator::Call& call, KernelContext& context,
             Communicator::Done done) override {
    Tensor input;
    if (sends) {
      input = context.input(0);
      if (absl::Status status = CheckShape(input, shape_, "the input"); !status.ok()) return done(status);
    }
    Tensor senders(DType::kInt32, Shape({1}));
    senders.flat<int32_t>()[0] = sends;
    communicator.AllGather(
        call, senders,
        [this, held = RefPtr<Communicator>::Share(&communicator), call, input,
         done = std::move(done)](absl::StatusOr<Tensor> found) {
          if (!found.ok()) return done(found.status());
          const absl::Span<const int32_t> flags = std::as_const(*found).flat<int32_t>();
          const auto root = std::find(flags.begin(), flags.end(), 1);
          if (std::count(flags.begin(), flags.end(), 1) != 1) {
            return done(absl::InvalidArgumentError(absl::StrCat("a broadcast needs one rank that sends, ",
                                                                std::count(flags.begin(), flags.end(), 1),
                                                                " of ", flags.size(), " do")));
          }
          held->Broadcast(call, static_cast<int>(root - flags.begin()), dtype_, input, Checked(shape_, done));
        });
  }

  const DType dtype_;
  const PartialShape shape_;
};

}  // namespace

void RegisterCollectivesKernels(DeviceKernels& kernels) {
  using D = DType;
  kernels.Add<Reduce>("CollectiveReduce",
                      {{"T", {D::kBfloat16, D::kHalf, D::kFloat32, D::kFloat64, D::kInt32, D::kInt64}}});
  kernels.Add<Gather>("CollectiveGather",
                      {{"T", {D::kHalf, D::kFloat32, D::kFloat64, D::kInt32, D::kInt64}}});
  const DeviceKernels::TypeAttrs sent = {
      {"T", {D::kBool, D::kHalf, D::kFloat32, D::kFloat64, D::kInt32, D::kInt64}}};
  kernels.Add<Broadcast<true>>("CollectiveBcastSend", sent);
  kernels.Add<Broadcast<false>>("CollectiveBcastRecv", sent);
}

}  // namespace weir
