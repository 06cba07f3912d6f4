// Collectives: what they refuse without a group. distributed/horovod_graph_test.cc has the rest.
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

AttrMap Group(int64_t size) { return {{"group_size", size}, {"group_key", 1}, {"instance_key", 2}}; }

AttrMap With(AttrMap attrs, const AttrMap& more) {
  for (const auto& [name, value] : more) attrs[name] = value;
  return attrs;
}

}  // namespace

void AddCollectivesRecords(Suite& suite) {
  constexpr char kAlone[] = "belongs to no group of replicas";
  constexpr auto kNoGroup = absl::StatusCode::kFailedPrecondition;
  const AttrMap sum = {{"merge_op", "Add"}, {"final_op", "Id"}, {"subdiv_offsets", std::vector<int64_t>{0}}};
  const AttrMap shape = {{"shape", PartialShape({2})}};
  suite.Op("CollectiveReduce")
      .TestedElsewhere("state: distributed/horovod_graph_test.cc")
      .Hostile({Floats({2})}, kAlone, With(Group(2), sum), kNoGroup)
      .Hostile({Floats({2})}, "group_size must be at least 1, is 0", With(Group(0), sum));
  for (const char* op : {"CollectiveGather", "CollectiveBcastSend"}) {
    suite.Op(op)
        .TestedElsewhere("state: distributed/horovod_graph_test.cc")
        .Hostile({Floats({2})}, kAlone, With(Group(2), shape), kNoGroup)
        .Hostile({Floats({2})}, "group_size must be at least 1, is -1", With(Group(-1), shape));
  }
  suite.Op("CollectiveBcastRecv")
      .TestedElsewhere("state: distributed/horovod_graph_test.cc")
      .Hostile({}, kAlone, With(With(Group(2), shape), {{"T", DType::kFloat32}}), kNoGroup);
  const auto scalar = [](int32_t value) { return Tensor::Scalar<int32_t>(value); };
  for (const char* op : {"CollectiveReduceV2", "CollectiveGatherV2"}) {
    const AttrMap attrs = absl::string_view(op) == "CollectiveReduceV2"
                              ? AttrMap{{"merge_op", "Add"}, {"final_op", "Id"}}
                              : AttrMap();
    suite.Op(op)
        .TestedElsewhere("state: distributed/horovod_graph_test.cc")
        .Hostile({Floats({2}), scalar(2), scalar(1), scalar(3), std::vector<Tensor>()}, kAlone, attrs,
                 kNoGroup)
        .Hostile({Floats({2}), scalar(0), scalar(1), scalar(3), std::vector<Tensor>()},
                 "group_size must be at least 1, is 0", attrs);
  }
  for (const char* op : {"WeirAllReduce", "WeirReduceScatter"}) {
    suite.Op(op)
        .TestedElsewhere("state: distributed/horovod_graph_test.cc")
        .Hostile({Floats({2})}, kAlone, With(Group(2), {{"merge_op", "Add"}, {"final_op", "Id"}}), kNoGroup);
  }
  suite.Op("WeirAllToAll")
      .TestedElsewhere("state: distributed/horovod_graph_test.cc")
      .Hostile({Floats({2}), Tensor::Vector<int64_t>({1, 1})}, kAlone, Group(2), kNoGroup);
  for (const char* op : {"WeirBarrier", "WeirJoin", "WeirBeginUpdates", "WeirEndUpdates"}) {
    suite.Op(op)
        .TestedElsewhere("state: distributed/horovod_graph_test.cc")
        .Hostile({}, kAlone, Group(2), kNoGroup);
  }
}

}  // namespace weir::conformance
