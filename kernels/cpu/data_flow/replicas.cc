// Replicas in step: their group on a task that holds variables, and what steps do with it. Nothing here holds
// a thread while it waits.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/replica_group.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

using GroupRef = RefPtr<ReplicaGroup>;

absl::StatusOr<ReplicaGroup::Spec> SpecOf(const KernelConstruction& construction) {
  const auto& dtypes = construction.attr<std::vector<DType>>("dtypes");
  const auto& shapes = construction.attr<std::vector<PartialShape>>("shapes");
  const auto& are_sparse = construction.attr<std::vector<bool>>("are_sparse");
  if (shapes.size() != dtypes.size() || are_sparse.size() != dtypes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(dtypes.size(), " dtypes, ", shapes.size(), " shapes and ",
                                                   are_sparse.size(), " are_sparse must be as many"));
  }
  const std::string& shared_name = construction.attr<std::string>("shared_name");
  const std::string& on_loss = construction.attr<std::string>("on_loss");
  ReplicaGroup::Spec spec;
  spec.name = shared_name.empty() ? construction.node().name() : shared_name;
  spec.num_replicas = construction.attr<int64_t>("num_replicas");
  spec.replicas_to_aggregate = construction.attr<int64_t>("replicas_to_aggregate");
  spec.min_replicas = construction.attr<int64_t>("min_replicas");
  spec.on_loss = on_loss == "SHRINK" ? ReplicaGroup::OnLoss::kShrink
                 : on_loss == "WAIT" ? ReplicaGroup::OnLoss::kWait
                                     : ReplicaGroup::OnLoss::kFail;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const DType dtype = dtypes[i];
    if (dtype != DType::kFloat32 && dtype != DType::kFloat64 && dtype != DType::kHalf &&
        dtype != DType::kBfloat16) {
      return absl::InvalidArgumentError(
          absl::StrCat("dtypes[", i, "] is ", DTypeName(dtype), ": gradients are floating point"));
    }
    spec.gradients.push_back({.dtype = dtype,
                              .shape = shapes[i],
                              .is_sparse = are_sparse[i],
                              .order = construction.attr<std::string>("order") == "RANK"
                                           ? GradientSum::Order::kByRank
                                           : GradientSum::Order::kArrival,
                              .sorts_rows = true});
  }
  return spec;
}

// In the place of the running job's group, for a replica whose graph has another one. Only what the replica
// asks for next says who it is.
class RefusedGroup final : public Resource {
 public:
  RefusedGroup(GroupRef group, absl::Status why) : group_(std::move(group)), why_(std::move(why)) {}
  ReplicaGroup& group() const { return *group_; }
  const absl::Status& why() const { return why_; }
  std::string ToString() const override { return absl::StrCat("refused ", group_->ToString()); }

 private:
  const GroupRef group_;
  const absl::Status why_;
};

// The handle is made once, and holds the group. Every worker's graph has it, so it is shared by its name.
class GroupHandle final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const ReplicaGroup::Spec spec, SpecOf(construction));
    ResourceHandle handle;
    handle.device = construction.device().name().ToString();
    handle.container = construction.attr<std::string>("container");
    handle.name = spec.name;
    handle.type_name = ReplicaGroup::kTypeName;
    WEIR_ASSIGN_OR_RETURN(GroupRef group,
                          construction.device().resources().LookupOrCreate<ReplicaGroup>(
                              handle.container, handle.name, [&spec]() -> absl::StatusOr<GroupRef> {
                                return GroupRef(new ReplicaGroup(spec));
                              }));
    absl::Status fits = group->CheckIsA(spec);
    if (fits.ok()) {
      handle.resource = std::move(group);
    } else {
      handle.resource = RefPtr<Resource>(new RefusedGroup(std::move(group), std::move(fits)));
    }
    return std::make_unique<GroupHandle>(std::move(handle));
  }

  explicit GroupHandle(ResourceHandle handle) : handle_(Tensor::Scalar(std::move(handle))) {}

  absl::Status Compute(KernelContext& context) override {
    context.set_output(0, handle_);
    return absl::OkStatus();
  }

 private:
  const Tensor handle_;
};

// The mark that a replica was told last, kept with the identity's node for one session: a new session has
// none, and joins first.
class ToldMark final : public NodeState {
 public:
  std::atomic<int64_t> mark{0};
};

absl::StatusOr<std::shared_ptr<ToldMark>> ToldMarkOf(const KernelConstruction& construction,
                                                     const std::string& identity) {
  if (construction.session() == nullptr) return std::make_shared<ToldMark>();
  return construction.session()->FindOrCreate<ToldMark>(construction.device().name().ToString(), identity,
                                                        [] { return std::make_shared<ToldMark>(); });
}

// The rank of a replica is its task's: the chief's 0, a worker's index + 1.
class ReplicaIdentity final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(std::shared_ptr<ToldMark> told,
                          ToldMarkOf(construction, construction.node().name()));
    const DeviceName& device = construction.device().name();
    const bool is_chief = device.job == "chief" || device.job == "master";
    return std::make_unique<ReplicaIdentity>(is_chief ? 0 : device.task.value_or(0) + 1, std::move(told));
  }

  ReplicaIdentity(int64_t rank, std::shared_ptr<ToldMark> told) : rank_(rank), told_(std::move(told)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const int64_t life, ReadInteger(context.input(0), "life"));
    WEIR_ASSIGN_OR_RETURN(Tensor * identity, context.AllocateOutput(0, {3}));
    const auto numbers = identity->flat<int64_t>();
    numbers[0] = rank_;
    numbers[1] = life;
    numbers[2] = told_->mark;
    return absl::OkStatus();
  }

 private:
  const int64_t rank_;
  const std::shared_ptr<ToldMark> told_;
};

// Notes the mark that all groups gave; none when they differ.
class NoteMarks final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(std::shared_ptr<ToldMark> told,
                          ToldMarkOf(construction, construction.attr<std::string>("identity")));
    return std::make_unique<NoteMarks>(std::move(told));
  }

  explicit NoteMarks(std::shared_ptr<ToldMark> told) : told_(std::move(told)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(int64_t mark, ReadInteger(context.input(0), "marks[0]"));
    for (int i = 1; i < context.num_inputs(); ++i) {
      WEIR_ASSIGN_OR_RETURN(const int64_t other, ReadInteger(context.input(i), "marks"));
      if (other != mark) mark = 0;
    }
    told_->mark = mark;
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<ToldMark> told_;
};

absl::StatusOr<ReplicaGroup::Identity> IdentityOf(const KernelContext& context) {
  const Tensor& identity = context.input(1);
  if (identity.num_elements() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("identity must be a rank, a life and a mark, is ", identity.ToString()));
  }
  const auto numbers = identity.flat<int64_t>();
  if (numbers[0] < 0) {
    return absl::InvalidArgumentError(absl::StrCat("the rank of a replica is ", numbers[0]));
  }
  return ReplicaGroup::Identity{.rank = numbers[0], .life = numbers[1], .mark = numbers[2]};
}

// That of input 0. Input 1, if it is an identity, says who was refused.
absl::StatusOr<GroupRef> GroupOf(const KernelContext& context, bool has_identity = true) {
  WEIR_ASSIGN_OR_RETURN(const ResourceHandle* const handle, HandleInput(context, 0));
  const auto* const refused = dynamic_cast<const RefusedGroup*>(handle->resource.get());
  if (refused == nullptr) return LookupResource<ReplicaGroup>(context, 0);
  if (has_identity) {
    WEIR_ASSIGN_OR_RETURN(const ReplicaGroup::Identity identity, IdentityOf(context));
    refused->group().NoteRefusal(identity.rank, refused->why().message());
  }
  return refused->why();
}

// An operation of the replica of input 1 on the group of input 0 that may wait.
class GroupOperation : public AsyncKernel {
 public:
  void ComputeAsync(KernelContext& context, Done done) final {
    absl::StatusOr<GroupRef> group = GroupOf(context);
    if (!group.ok()) return done(group.status());
    const absl::StatusOr<ReplicaGroup::Identity> identity = IdentityOf(context);
    if (!identity.ok()) return done(identity.status());
    const ReplicaGroup::Caller caller = {context.cancellation(), context.allocator(), context.threads(),
                                         context.step_threads()};
    Start(**group, context, caller, *identity,
          [this, &context, done = std::move(done)](absl::StatusOr<ReplicaGroup::Answer> answer) {
            if (!answer.ok()) return done(answer.status());
            done(SetOutputs(context, *std::move(answer)));
          });
  }

 private:
  virtual void Start(ReplicaGroup& group, KernelContext& context, const ReplicaGroup::Caller& caller,
                     ReplicaGroup::Identity identity, ReplicaGroup::Done done) = 0;
  virtual absl::Status SetOutputs(KernelContext& context, ReplicaGroup::Answer answer) {
    if (context.num_outputs() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(Tensor * mark, context.AllocateOutput(0, {}));
    mark->flat<int64_t>()[0] = answer.mark;
    return absl::OkStatus();
  }
};

class Stay final : public GroupOperation {
 public:
  explicit Stay(const KernelConstruction&) {}

 private:
  void Start(ReplicaGroup& group, KernelContext&, const ReplicaGroup::Caller& caller,
             ReplicaGroup::Identity identity, ReplicaGroup::Done done) override {
    group.Stay(caller, identity, std::move(done));
  }
};

class Join final : public GroupOperation {
 public:
  explicit Join(const KernelConstruction&) {}

 private:
  void Start(ReplicaGroup& group, KernelContext&, const ReplicaGroup::Caller& caller,
             ReplicaGroup::Identity identity, ReplicaGroup::Done done) override {
    group.Join(caller, identity, std::move(done));
  }
};

// Gradients as a list of tensors: a dense one is its values, rows are their values and their indices.
std::vector<DType> TensorTypes(const ReplicaGroup::Spec& spec) {
  std::vector<DType> types;
  for (const GradientSum::Spec& gradient : spec.gradients) {
    types.push_back(gradient.dtype);
    if (gradient.is_sparse) types.push_back(DType::kInt64);
  }
  return types;
}

absl::Status CheckTypes(const std::vector<DType>& types, const ReplicaGroup::Spec& spec) {
  const std::vector<DType> expected = TensorTypes(spec);
  if (types == expected) return absl::OkStatus();
  const auto text = [](const std::vector<DType>& dtypes) {
    return absl::StrJoin(dtypes, ", ",
                         [](std::string* out, DType type) { absl::StrAppend(out, DTypeName(type)); });
  };
  return absl::InvalidArgumentError(
      absl::StrCat("T is (", text(types), "), gradients of '", spec.name, "' are (", text(expected), ")"));
}

class Contribute final : public GroupOperation {
 public:
  explicit Contribute(const KernelConstruction& construction)
      : types_(construction.attr<std::vector<DType>>("T")) {}

 private:
  void Start(ReplicaGroup& group, KernelContext& context, const ReplicaGroup::Caller& caller,
             ReplicaGroup::Identity identity, ReplicaGroup::Done done) override {
    if (absl::Status status = CheckTypes(types_, group.spec()); !status.ok()) return done(std::move(status));
    std::vector<StagedGradient> gradients;
    int input = 2;
    for (const GradientSum::Spec& spec : group.spec().gradients) {
      StagedGradient& gradient = gradients.emplace_back();
      gradient.values = context.input(input++);
      if (spec.is_sparse) gradient.indices = context.input(input++);
    }
    group.Contribute(caller, identity, gradients, std::move(done));
  }

  const std::vector<DType> types_;
};

class Aggregate final : public GroupOperation {
 public:
  explicit Aggregate(const KernelConstruction& construction)
      : types_(construction.attr<std::vector<DType>>("T")) {}

 private:
  void Start(ReplicaGroup& group, KernelContext& context, const ReplicaGroup::Caller& caller,
             ReplicaGroup::Identity identity, ReplicaGroup::Done done) override {
    if (absl::Status status = CheckTypes(types_, group.spec()); !status.ok()) return done(std::move(status));
    const absl::StatusOr<int64_t> update = ReadInteger(context.input(2), "update");
    if (!update.ok()) return done(update.status());
    group.Aggregate(caller, identity, *update, std::move(done));
  }
  absl::Status SetOutputs(KernelContext& context, ReplicaGroup::Answer answer) override {
    WEIR_ASSIGN_OR_RETURN(Tensor * mark, context.AllocateOutput(0, {}));
    mark->flat<int64_t>()[0] = answer.mark;
    int output = 1;
    for (StagedGradient& gradient : answer.gradients) {
      context.set_output(output++, std::move(gradient.values));
      if (gradient.indices.is_valid()) context.set_output(output++, std::move(gradient.indices));
    }
    return absl::OkStatus();
  }

  const std::vector<DType> types_;
};

absl::Status Release(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const GroupRef group, GroupOf(context, /*has_identity=*/false));
  WEIR_ASSIGN_OR_RETURN(const int64_t mark, ReadInteger(context.input(1), "mark"));
  return group->Release(mark);
}

absl::Status Reset(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const GroupRef group, GroupOf(context));
  WEIR_ASSIGN_OR_RETURN(const ReplicaGroup::Identity chief, IdentityOf(context));
  WEIR_ASSIGN_OR_RETURN(const int64_t step, ReadInteger(context.input(2), "global_step"));
  group->Reset(chief.life, step);
  return absl::OkStatus();
}

absl::Status FindAwaited(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const GroupRef group, GroupOf(context, /*has_identity=*/false));
  const ReplicaGroup::Awaited awaited = group->FindAwaited();
  context.set_output(0, Tensor::Scalar(awaited.mark));
  context.set_output(1, Tensor::Scalar(awaited.text));
  return absl::OkStatus();
}

class Leave final : public Kernel {
 public:
  explicit Leave(const KernelConstruction& construction) {
    const std::string& why = construction.attr<std::string>("why");
    pauses_ = why == "PAUSE";
    resumes_ = why == "RESUME";
    why_ = why == "STOP"     ? ReplicaGroup::Leaving::kStop
           : why == "FINISH" ? ReplicaGroup::Leaving::kFinish
           : why == "END"    ? ReplicaGroup::Leaving::kEnd
                             : ReplicaGroup::Leaving::kClose;
  }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const GroupRef group, GroupOf(context));
    WEIR_ASSIGN_OR_RETURN(const ReplicaGroup::Identity identity, IdentityOf(context));
    if (pauses_) return group->Pause(identity.rank);
    if (resumes_) {
      group->Resume(identity.rank);
    } else {
      group->Leave(identity, why_);
    }
    return absl::OkStatus();
  }

 private:
  bool pauses_ = false, resumes_ = false;  // the driver alone, for a while
  ReplicaGroup::Leaving why_;
};

}  // namespace

void RegisterReplicasKernels(DeviceKernels& kernels) {
  kernels.Add<GroupHandle>("WeirReplicaGroup");
  kernels.Add<ReplicaIdentity>("WeirReplicaIdentity");
  kernels.Add<NoteMarks>("WeirReplicaNote");
  kernels.Add<Stay>("WeirReplicaStay");
  kernels.Add<Join>("WeirReplicaJoin");
  kernels.Add<Contribute>("WeirReplicaContribute");
  kernels.Add<Aggregate>("WeirReplicaAggregate");
  kernels.Add<&Release>("WeirReplicaRelease");
  kernels.Add<&Reset>("WeirReplicaReset");
  kernels.Add<Leave>("WeirReplicaLeave");
  kernels.Add<&FindAwaited>("WeirReplicaAwaited");
}

}  // namespace weir
