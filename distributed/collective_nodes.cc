#include "distributed/collective_nodes.h"

#include <string>

#include "absl/strings/match.h"
#include "ops/standard_ops.h"

namespace weir {

int64_t CollectiveNodes::NextInstance(const GraphBuilder& g) {
  int64_t count = 0;
  for (const std::unique_ptr<Node>& node : g.graph().nodes()) {
    count += absl::StartsWith(node->op_name(), "Collective") || node->attrs().count("instance_key") > 0;
  }
  return count;
}

AttrMap CollectiveNodes::NextAttrs() {
  return {{"group_size", int64_t{size_}}, {"group_key", group_key_}, {"instance_key", next_instance_++}};
}

AttrMap CollectiveNodes::ReductionAttrs(Reduction reduction, bool averages) {
  AttrMap attrs = NextAttrs();
  const char* const merge_ops[] = {"Add", "Mul", "Min", "Max", "Adasum"};
  attrs["merge_op"] = std::string(merge_ops[static_cast<int>(reduction)]);
  attrs["final_op"] = std::string(averages && reduction == Reduction::kSum ? "Div" : "Id");
  return attrs;
}

// TensorFlow's op, where it does what is asked for.
Output CollectiveNodes::AllReduce(GraphBuilder& g, Output x, Reduction reduction, bool averages,
                                  SourceLocation where) {
  if (!g.ok() || !x) return {};
  AttrMap attrs = ReductionAttrs(reduction, averages);
  if (reduction == Reduction::kAdasum) {
    return g.AddOp("WeirAllReduce", {x}, std::move(attrs), "AllReduce", where);
  }
  attrs["subdiv_offsets"] = std::vector<int64_t>{0};
  return g.AddOp("CollectiveReduce", {x}, std::move(attrs), "AllReduce", where);
}

Output CollectiveNodes::ReduceScatter(GraphBuilder& g, Output x, Reduction reduction, bool averages,
                                      SourceLocation where) {
  if (!g.ok() || !x) return {};
  return g.AddOp("WeirReduceScatter", {x}, ReductionAttrs(reduction, averages), "ReduceScatter", where);
}

Node* CollectiveNodes::AllToAll(GraphBuilder& g, Output x, Output splits, SourceLocation where) {
  if (!g.ok() || !x) return nullptr;
  if (!splits) splits = Const(g, Tensor(DType::kInt64, Shape({0})), {}, where);
  return g.AddNode("WeirAllToAll", {x, splits}, NextAttrs(), "AllToAll", where);
}

Node* CollectiveNodes::Barrier(GraphBuilder& g, SourceLocation where) {
  return g.ok() ? g.AddNode("WeirBarrier", {}, NextAttrs(), "Barrier", where) : nullptr;
}

Output CollectiveNodes::Join(GraphBuilder& g, SourceLocation where) {
  return g.ok() ? g.AddOp("WeirJoin", {}, NextAttrs(), "Join", where) : Output();
}

Output CollectiveNodes::AllGather(GraphBuilder& g, Output x, SourceLocation where) {
  if (!g.ok() || !x) return {};
  AttrMap attrs = NextAttrs();
  attrs["shape"] = PartialShape();
  return g.AddOp("CollectiveGather", {x}, std::move(attrs), "AllGather", where);
}

Output CollectiveNodes::Broadcast(GraphBuilder& g, Output x, bool sends, SourceLocation where) {
  if (!g.ok() || !x) return {};
  AttrMap attrs = NextAttrs();
  attrs["shape"] = x.shape();
  if (sends) return g.AddOp("CollectiveBcastSend", {x}, std::move(attrs), "Broadcast", where);
  attrs["T"] = x.dtype();
  return g.AddOp("CollectiveBcastRecv", {}, std::move(attrs), "Broadcast", where);
}

Node* CollectiveNodes::BeginUpdates(GraphBuilder& g, SourceLocation where) {
  return g.ok() ? g.AddNode("WeirBeginUpdates", {}, NextAttrs(), "BeginUpdates", where) : nullptr;
}

Node* CollectiveNodes::EndUpdates(GraphBuilder& g, const Node* begin, SourceLocation where) {
  if (!g.ok() || begin == nullptr) return nullptr;
  return g.AddNode("WeirEndUpdates", {}, begin->attrs(), "EndUpdates", where);
}

}  // namespace weir
