// Groups of replicas: what their ops refuse. distributed/sync_replicas_test.cc has the rest.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using D = DType;
using Code = absl::StatusCode;
using Types = std::vector<DType>;
using Shapes = std::vector<PartialShape>;

constexpr char kElsewhere[] = "state: kernels/cpu/data_flow/replica_group_test.cc";

void AddHostileHandles(OpRecord& record, std::vector<CaseInput> others, const AttrMap& attrs = {}) {
  const auto with = [&others](Tensor handle) {
    std::vector<CaseInput> inputs = {std::move(handle)};
    inputs.insert(inputs.end(), others.begin(), others.end());
    return inputs;
  };
  record.Hostile(with(MissingHandle()), "weights", attrs)
      .Hostile(with(NoHandles()), "must be one resource handle", attrs)
      .Hostile(with(HandleOf(Floats({2}))), "must be a handle of a ReplicaGroup", attrs);
}

AttrMap GroupAttrs(Types types, Shapes shapes, std::vector<bool> are_sparse) {
  return {{"dtypes", std::move(types)},
          {"shapes", std::move(shapes)},
          {"are_sparse", std::move(are_sparse)},
          {"num_replicas", int64_t{2}},
          {"replicas_to_aggregate", int64_t{2}}};
}

}  // namespace

void AddReplicasRecords(Suite& suite) {
  suite.Op("WeirReplicaGroup")
      .TestedElsewhere(kElsewhere)
      .Hostile({}, "must be as many", GroupAttrs({D::kFloat32}, {Shape({2}), Shape({3})}, {false}))
      .Hostile({}, "must be as many", GroupAttrs({D::kFloat32}, {Shape({2})}, {false, true}))
      .Hostile({}, "dtypes[0] is int32", GroupAttrs({D::kInt32}, {Shape({2})}, {false}));
  suite.Op("WeirReplicaIdentity").TestedElsewhere(kElsewhere).Hostile({Longs({1, 2})}, "life");
  suite.Op("WeirReplicaNote")
      .TestedElsewhere(kElsewhere)
      .Hostile({std::vector<Tensor>{Longs({1, 2})}}, "marks", {{"identity", std::string("identity")}});
  const Tensor identity = Longs({1, 7, 0});
  for (const char* op : {"WeirReplicaStay", "WeirReplicaJoin"}) {
    AddHostileHandles(suite.Op(op).TestedElsewhere(kElsewhere), {identity});
  }
  AddHostileHandles(suite.Op("WeirReplicaLeave").TestedElsewhere(kElsewhere), {identity},
                    {{"why", std::string("END")}});
  AddHostileHandles(suite.Op("WeirReplicaContribute").TestedElsewhere(kElsewhere),
                    {identity, std::vector<Tensor>{Floats({2})}});
  AddHostileHandles(suite.Op("WeirReplicaAwaited").TestedElsewhere(kElsewhere), {});
  const Tensor one = Tensor::Scalar(int64_t{1});
  AddHostileHandles(suite.Op("WeirReplicaAggregate").TestedElsewhere(kElsewhere), {identity, one},
                    {{"T", Types{D::kFloat32}}, {"shapes", Shapes{Shape({2})}}});
  AddHostileHandles(suite.Op("WeirReplicaRelease").TestedElsewhere(kElsewhere), {one});
  AddHostileHandles(suite.Op("WeirReplicaReset").TestedElsewhere(kElsewhere), {identity, one});
}

}  // namespace weir::conformance
