// Collectives of replicas: the ops whose group is the device's Communicator.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "kernels/communicator.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// What every collective node says of its group.
struct GroupAttrs {
  int64_t size = 0;
  Communicator::Key key;
  // Devices of this task that have such nodes in the step, or, where keys are inputs, may have them; nullopt
  // where that is not known.
  std::optional<int64_t> members_here;
};

absl::Status CheckSize(int64_t size) {
  if (size >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("group_size must be at least 1, is ", size));
}

absl::StatusOr<std::optional<int64_t>> MembersHere(const KernelConstruction& construction) {
  const AttrValue* const members = construction.node().FindAttr(kMembersHereAttr);
  if (members == nullptr) return std::nullopt;
  // No schema has it: a peer may send anything under its name.
  if (members->get_if<int64_t>() != nullptr) return members->get<int64_t>();
  return absl::InvalidArgumentError(absl::StrCat("attr '", kMembersHereAttr, "' is no integer"));
}

absl::StatusOr<GroupAttrs> AttrsOf(const KernelConstruction& construction) {
  GroupAttrs attrs = {construction.attr<int64_t>("group_size"),
                      {construction.attr<int64_t>("group_key"), construction.attr<int64_t>("instance_key")}};
  WEIR_ASSIGN_OR_RETURN(attrs.members_here, MembersHere(construction));
  WEIR_RETURN_IF_ERROR(CheckSize(attrs.size));
  return attrs;
}

// The same of an op whose group is its inputs 1 to 3.
absl::StatusOr<GroupAttrs> AttrsOf(const KernelContext& context, std::optional<int64_t> members_here) {
  int64_t values[3];
  for (int i = 0; i < 3; ++i) {
    const Tensor& input = context.input(i + 1);
    if (input.num_elements() != 1 || input.shape().rank() != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "group_size, group_key and instance_key must be scalars, one is ", input.shape().ToString()));
    }
    values[i] = input.scalar<int32_t>();
  }
  WEIR_RETURN_IF_ERROR(CheckSize(values[0]));
  return GroupAttrs{values[0], {values[1], values[2]}, members_here};
}

absl::StatusOr<RefPtr<Communicator>> FindCommunicator(KernelContext& context, const GroupAttrs& attrs) {
  const int64_t size = attrs.size, group_key = attrs.key.first;
  absl::StatusOr<RefPtr<Communicator>> found = context.resources().Lookup<Communicator>(
      Communicator::kContainer, Communicator::NameOfGroup(group_key));
  if (!found.ok() && group_key >= Communicator::kFirstDeviceGroup) {
    return absl::FailedPreconditionError(
        absl::StrCat("a collective of ", size, " devices, but ", context.device().name().ToString(),
                     " does not belong to their group: a MirroredStrategy of this process has to make it"));
  }
  if (!found.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a collective of ", size, " replicas, but ", context.device().name().ToString(),
        " belongs to no group of replicas: only workers of a cluster without parameter servers do"));
  }
  if ((*found)->size() != size) {
    return absl::InvalidArgumentError(
        absl::StrCat("group_size is ", size, ", but the group has ", (*found)->size(), " ranks"));
  }
  return found;
}

// Whether all of the collective's devices are this task's, as far as it is known: then they need no group
// that was formed before. A group of one is the replicas' where there is one.
bool MayBeAmongOwnDevices(const GroupAttrs& attrs, const absl::StatusOr<RefPtr<Communicator>>& replicas) {
  if (attrs.key.first >= Communicator::kFirstDeviceGroup) return false;
  const bool are_all_here = attrs.members_here == attrs.size && attrs.size > 1;
  return are_all_here || !replicas.ok();
}

absl::Status CheckMembers(const std::string& name, const GroupAttrs& attrs, const absl::Status& why_here) {
  if (!attrs.members_here.has_value() || *attrs.members_here == attrs.size) return absl::OkStatus();
  const std::string members = absl::StrCat(
      "collective '", name, "': group_size is ", attrs.size, ", but the step has nodes of group_key ",
      attrs.key.first, " and instance_key ", attrs.key.second, ", or whose keys are no constants, on ",
      *attrs.members_here, " of this task's devices");
  if (*attrs.members_here > attrs.size) return absl::InternalError(members);  // TensorFlow's code
  return absl::Status(why_here.code(), absl::StrCat(members, "; ", why_here.message()));
}

class Collective : public AsyncKernel {
 public:
  Collective(const KernelConstruction& construction, GroupAttrs attrs)
      : name_(construction.node().name()), attrs_(attrs), timeout_(TimeoutOf(construction.node())) {}

  void ComputeAsync(KernelContext& context, Done done) final {
    const absl::StatusOr<GroupAttrs> attrs = Group(context, attrs_);
    if (!attrs.ok()) return done(attrs.status());
    const Communicator::Call call = {.name = name_,
                                     .key = attrs->key,
                                     .cancellation = &context.cancellation(),
                                     .allocator = &context.allocator(),
                                     .timeout = timeout_};
    const absl::StatusOr<RefPtr<Communicator>> replicas = FindCommunicator(context, *attrs);
    const auto groups =
        context.resources().Lookup<PassingGroups>(Communicator::kContainer, PassingGroups::kName);
    if (!groups.ok() || !MayBeAmongOwnDevices(*attrs, replicas)) {
      if (!replicas.ok()) return done(replicas.status());
      return Start(**replicas, call, context, std::move(done));
    }
    const absl::Status fits = CheckMembers(name_, *attrs, replicas.status());
    if (!fits.ok()) return done(fits);
    (*groups)->Come(
        context.device().name().ToString(), attrs->size, call,
        [this, call, &context, done = std::move(done)](absl::StatusOr<RefPtr<Communicator>> found) {
          if (!found.ok()) return done(found.status());
          // Nobody else holds it.
          Done held = [communicator = *found, done](const absl::Status& status) { done(status); };
          StartAmongOwnDevices(**found, call, context, std::move(held));
        });
  }

 protected:
  // What most do with what comes.
  static Communicator::Done IntoOutput(KernelContext& context, Done done) {
    return [&context, done = std::move(done)](absl::StatusOr<Tensor> result) {
      if (result.ok()) context.set_output(0, *std::move(result));
      done(result.status());
    };
  }

 private:
  virtual void Start(Communicator& communicator, const Communicator::Call& call, KernelContext& context,
                     Done done) = 0;
  // `fixed`: what the node says.
  virtual absl::StatusOr<GroupAttrs> Group(const KernelContext&, const GroupAttrs& fixed) const {
    return fixed;
  }
  virtual void StartAmongOwnDevices(Communicator& communicator, const Communicator::Call& call,
                                    KernelContext& context, Done done) {
    Start(communicator, call, context, std::move(done));
  }

  // 0 means none, as in TensorFlow; Weir's own ops have no such attr.
  static absl::Duration TimeoutOf(const Node& node) {
    const AttrValue* const attr = node.FindAttr("timeout_seconds");
    const float seconds = attr == nullptr ? 0 : node.attr<float>("timeout_seconds");
    return seconds > 0 ? absl::Seconds(seconds) : absl::InfiniteDuration();
  }

  const std::string name_;
  const GroupAttrs attrs_;
  const absl::Duration timeout_;
};

// A kernel that is made from its node and the node's group.
template <typename Kernel>
absl::StatusOr<std::unique_ptr<weir::Kernel>> CreateWithGroup(const KernelConstruction& construction) {
  WEIR_ASSIGN_OR_RETURN(const GroupAttrs attrs, AttrsOf(construction));
  return std::make_unique<Kernel>(construction, attrs);
}

// The schemas allow no others.
Reduction ReductionOf(const KernelConstruction& construction) {
  const std::string& merge_op = construction.attr<std::string>("merge_op");
  if (merge_op == "Min") return Reduction::kMin;
  if (merge_op == "Max") return Reduction::kMax;
  if (merge_op == "Adasum") return Reduction::kAdasum;
  return merge_op == "Mul" ? Reduction::kProduct : Reduction::kSum;
}

bool Divides(const KernelConstruction& construction) {
  return construction.attr<std::string>("final_op") == "Div";
}

class Reduce : public Collective {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    return CreateWithGroup<Reduce>(construction);
  }

  Reduce(const KernelConstruction& construction, GroupAttrs attrs)
      : Collective(construction, attrs),
        reduction_(ReductionOf(construction)),
        divides_(Divides(construction)) {}

 private:
  void Start(Communicator& communicator, const Communicator::Call& call, KernelContext& context,
             Done done) override {
    communicator.AllReduce(call, context.input(0), reduction_, divides_,
                           IntoOutput(context, std::move(done)));
  }

  const Reduction reduction_;
  const bool divides_;
};

class ReduceV2 final : public Reduce {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    GroupAttrs attrs;  // the rest are inputs
    WEIR_ASSIGN_OR_RETURN(attrs.members_here, MembersHere(construction));
    return std::make_unique<ReduceV2>(construction, attrs);
  }
  using Reduce::Reduce;

 private:
  absl::StatusOr<GroupAttrs> Group(const KernelContext& context, const GroupAttrs& fixed) const override {
    return AttrsOf(context, fixed.members_here);
  }
};

// WeirAllReduce and WeirReduceScatter.
template <bool scatters>
class WiredReduce final : public Collective {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    return CreateWithGroup<WiredReduce>(construction);
  }

  WiredReduce(const KernelConstruction& construction, GroupAttrs attrs)
      : Collective(construction, attrs),
        reduction_(ReductionOf(construction)),
        divides_(Divides(construction)),
        wire_(WireOf(construction.attr<std::string>("wire"))) {}

 private:
  static DType WireOf(const std::string& wire) {
    if (wire == "half") return DType::kHalf;
    return wire == "bfloat16" ? DType::kBfloat16 : DType::kInvalid;
  }

  void Start(Communicator& communicator, const Communicator::Call& call, KernelContext& context,
             Done done) override {
    Communicator::Call wired = call;
    wired.wire = wire_;
    Communicator::Done into_output = IntoOutput(context, std::move(done));
    if (scatters) {
      communicator.ReduceScatter(wired, context.input(0), reduction_, divides_, std::move(into_output));
    } else {
      communicator.AllReduce(wired, context.input(0), reduction_, divides_, std::move(into_output));
    }
  }

  const Reduction reduction_;
  const bool divides_;
  const DType wire_;
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

// The attr `shape` is not looked at: TensorFlow's clients say [0], whatever the input is.
class Gather : public Collective {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    return CreateWithGroup<Gather>(construction);
  }
  using Collective::Collective;

 private:
  void Start(Communicator& communicator, const Communicator::Call& call, KernelContext& context,
             Done done) override {
    communicator.AllGather(call, context.input(0), IntoOutput(context, std::move(done)));
  }
  // There the inputs have one shape, as in TensorFlow. Those of Horovod's ranks may differ in their rows.
  void StartAmongOwnDevices(Communicator& communicator, const Communicator::Call& call,
                            KernelContext& context, Done done) override {
    const Tensor& input = context.input(0);
    if (input.shape().rank() == 0) return Start(communicator, call, context, std::move(done));  // its error
    communicator.AllGather(
        call, Tensor::Vector<int64_t>({input.shape().dim(0)}),
        [held = RefPtr<Communicator>::Share(&communicator), call, input, &context,
         done = std::move(done)](absl::StatusOr<Tensor> all) {
          if (!all.ok()) return done(all.status());
          const absl::Span<const int64_t> rows = std::as_const(*all).flat<int64_t>();
          const auto other = std::find_if(rows.begin(), rows.end(), [&](int64_t n) { return n != rows[0]; });
          if (other == rows.end()) return held->AllGather(call, input, IntoOutput(context, done));
          done(absl::InvalidArgumentError(
              absl::StrCat("collective '", call.name, "': device ", other - rows.begin(), " of ", rows.size(),
                           " brings ", *other, " rows, the first one ", rows[0], ": the inputs of group_key ",
                           call.key.first, ", instance_key ", call.key.second, " must have one shape")));
        });
  }
};

class GatherV2 final : public Gather {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    GroupAttrs attrs;  // the rest are inputs
    WEIR_ASSIGN_OR_RETURN(attrs.members_here, MembersHere(construction));
    return std::make_unique<GatherV2>(construction, attrs);
  }
  using Gather::Gather;

 private:
  absl::StatusOr<GroupAttrs> Group(const KernelContext& context, const GroupAttrs& fixed) const override {
    return AttrsOf(context, fixed.members_here);
  }
};

// TensorFlow's graphs do not say which rank sends: the one whose node is a BcastSend. The ranks find out who
// it is by gathering who sends, and then it sends.
template <bool sends>
class Broadcast final : public Collective {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    return CreateWithGroup<Broadcast>(construction);
  }

  Broadcast(const KernelConstruction& construction, GroupAttrs attrs)
      : Collective(construction, attrs),
        dtype_(construction.output_type(0)),
        shape_(construction.attr<PartialShape>("shape")) {}

 private:
  void Start(Communicator& communicator, const Communicator::Call& call, KernelContext& context,
             Done finished) override {
    Communicator::Done done = IntoOutput(context, std::move(finished));
    Tensor input;
    if (sends) {
      input = context.input(0);
      if (absl::Status status = CheckShape(input, shape_, "the input"); !status.ok()) return done(status);
    }
    // A rank that has joined puts in nothing, as one that receives.
    const Tensor senders =
        sends ? Tensor::Vector<int32_t>({communicator.rank()}) : Tensor(DType::kInt32, Shape({0}));
    communicator.AllGather(
        call, senders,
        [this, held = RefPtr<Communicator>::Share(&communicator), call, input,
         done = std::move(done)](absl::StatusOr<Tensor> found) {
          if (!found.ok()) return done(found.status());
          const absl::Span<const int32_t> roots = std::as_const(*found).flat<int32_t>();
          if (roots.size() != 1) {
            return done(absl::InvalidArgumentError(absl::StrCat("a broadcast needs one rank that sends, ",
                                                                roots.size(), " of ", held->size(), " do")));
          }
          held->Broadcast(call, roots[0], dtype_, input, Checked(shape_, done));
        });
  }

  const DType dtype_;
  const PartialShape shape_;
};

class AllToAll final : public Collective {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    return CreateWithGroup<AllToAll>(construction);
  }
  using Collective::Collective;

 private:
  void Start(Communicator& communicator, const Communicator::Call& call, KernelContext& context,
             Done done) override {
    const absl::Span<const int64_t> splits = context.input(1).flat<int64_t>();
    communicator.AllToAll(call, context.input(0), {splits.begin(), splits.end()},
                          [&context, done = std::move(done)](absl::StatusOr<Communicator::Exchanged> came) {
                            if (!came.ok()) return done(came.status());
                            context.set_output(0, std::move(came->rows));
                            const auto size = static_cast<int64_t>(came->splits.size());
                            context.set_output(1, Tensor::FromSpan<int64_t>(Shape({size}), came->splits));
                            done(absl::OkStatus());
                          });
  }
};

class Barrier final : public Collective {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    return CreateWithGroup<Barrier>(construction);
  }
  using Collective::Collective;

 private:
  void Start(Communicator& communicator, const Communicator::Call& call, KernelContext&, Done done) override {
    communicator.Barrier(call, std::move(done));
  }
};

class Join final : public Collective {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    return CreateWithGroup<Join>(construction);
  }
  using Collective::Collective;

 private:
  void Start(Communicator& communicator, const Communicator::Call& call, KernelContext& context,
             Done done) override {
    communicator.Join(call, [&context, done = std::move(done)](absl::StatusOr<int> last) {
      if (last.ok()) context.set_output(0, Tensor::Scalar<int32_t>(*last));
      done(last.status());
    });
  }
};

// WeirBeginUpdates and WeirEndUpdates.
template <bool begins>
class Updates final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    return CreateWithGroup<Updates>(construction);
  }
  Updates(const KernelConstruction& construction, GroupAttrs attrs)
      : name_(construction.node().name()), attrs_(attrs) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const RefPtr<Communicator> communicator, FindCommunicator(context, attrs_));
    const Communicator::Call call = {name_, attrs_.key, &context.cancellation()};
    if (begins) return communicator->BeginUpdates(call);
    communicator->EndUpdates(call);
    return absl::OkStatus();
  }

 private:
  const std::string name_;
  const GroupAttrs attrs_;
};

}  // namespace

void RegisterCollectivesKernels(DeviceKernels& kernels) {
  using D = DType;
  const DeviceKernels::TypeAttrs reduced = {
      {"T", {D::kBfloat16, D::kHalf, D::kFloat32, D::kFloat64, D::kInt32, D::kInt64}}};
  kernels.Add<Reduce>("CollectiveReduce", reduced);
  kernels.Add<ReduceV2>("CollectiveReduceV2", reduced);
  kernels.Add<WiredReduce<false>>("WeirAllReduce", reduced);
  kernels.Add<WiredReduce<true>>("WeirReduceScatter", reduced);
  const DeviceKernels::TypeAttrs gathered = {
      {"T", {D::kHalf, D::kFloat32, D::kFloat64, D::kInt32, D::kInt64}}};
  kernels.Add<Gather>("CollectiveGather", gathered);
  kernels.Add<GatherV2>("CollectiveGatherV2", gathered);
  const DeviceKernels::TypeAttrs sent = {
      {"T", {D::kBool, D::kHalf, D::kFloat32, D::kFloat64, D::kInt32, D::kInt64}}};
  kernels.Add<Broadcast<true>>("CollectiveBcastSend", sent);
  kernels.Add<Broadcast<false>>("CollectiveBcastRecv", sent);
  kernels.Add<AllToAll>("WeirAllToAll");
  kernels.Add<Barrier>("WeirBarrier");
  kernels.Add<Join>("WeirJoin");
  kernels.Add<Updates<true>>("WeirBeginUpdates");
  kernels.Add<Updates<false>>("WeirEndUpdates");
}

}  // namespace weir
