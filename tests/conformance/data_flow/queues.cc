// Queues: what their ops refuse without one. session/queues_test.cc has the rest.
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
using Shapes = std::vector<PartialShape>;
using Types = std::vector<DType>;

AttrMap QueueAttrs(Types types, Shapes shapes, int64_t capacity = 3) {
  return {{"component_types", std::move(types)}, {"shapes", std::move(shapes)}, {"capacity", capacity}};
}

// What no op on a queue takes in place of its handle.
void AddHostileHandles(OpRecord& record, std::vector<CaseInput> others, const AttrMap& attrs = {}) {
  const auto inputs = [&others](Tensor handle) {
    std::vector<CaseInput> all = {std::move(handle)};
    all.insert(all.end(), others.begin(), others.end());
    return all;
  };
  record.Hostile(inputs(MissingHandle()), "weights", attrs)
      .Hostile(inputs(NoHandles()), "must be one resource handle", attrs)
      .Hostile(inputs(HandleOf(Floats({2}))), "must be a handle of a Queue", attrs);
}

void AddQueues(Suite& suite) {
  const AttrMap two_types = QueueAttrs({D::kFloat32, D::kInt32}, {Shape({2})});
  const AttrMap half_known = QueueAttrs({D::kFloat32}, {*PartialShape::FromDims({-1, 2})});
  for (const char* op : {"FIFOQueueV2", "PaddingFIFOQueueV2", "RandomShuffleQueueV2", "PriorityQueueV2"}) {
    suite.Op(op)
        .TestedElsewhere("state: session/queues_test.cc")
        .Hostile({}, "must have as many shapes", two_types)
        .Hostile({}, "capacity must be at most", QueueAttrs({D::kFloat32}, {Shape()}, int64_t{1} << 31));
  }
  suite.Op("FIFOQueueV2").Hostile({}, "size in each dimension, one is [?,2]", half_known);
  suite.Op("PaddingFIFOQueueV2")
      .Hostile({}, "must have a known rank", QueueAttrs({D::kFloat32}, {PartialShape()}))
      .Hostile({}, "must have as many shapes", QueueAttrs({D::kFloat32}, {}));
  for (const int64_t minimum : {-1, 3}) {
    AttrMap attrs = QueueAttrs({D::kFloat32}, {});
    attrs["min_after_dequeue"] = minimum;
    suite.Op("RandomShuffleQueueV2").Hostile({}, "min_after_dequeue must be", attrs);
  }
}

void AddEnqueues(Suite& suite) {
  for (const char* op : {"QueueEnqueueV2", "QueueEnqueueManyV2"}) {
    const std::vector<CaseInput> components = {std::vector<Tensor>{Floats({5, 2})}};
    OpRecord& record = suite.Op(op).TestedElsewhere("state: session/queues_test.cc");
    record.Hostile({MissingHandle(), components[0]}, "timeout_ms must be -1, is 10", {{"timeout_ms", 10}});
    AddHostileHandles(record, components);
  }
}

void AddDequeues(Suite& suite) {
  const AttrMap types = {{"component_types", Types{D::kFloat32}}};
  for (const char* op : {"QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2"}) {
    const std::vector<CaseInput> count =
        op == absl::string_view("QueueDequeueV2") ? std::vector<CaseInput>{} : std::vector<CaseInput>{Int(2)};
    AttrMap with_timeout = types;
    with_timeout["timeout_ms"] = 10;
    std::vector<CaseInput> inputs = {MissingHandle()};
    inputs.insert(inputs.end(), count.begin(), count.end());
    OpRecord& record = suite.Op(op).TestedElsewhere("state: session/queues_test.cc");
    record.Hostile(inputs, "timeout_ms must be -1, is 10", with_timeout);
    AddHostileHandles(record, count, types);
  }
}

void AddTheOthers(Suite& suite) {
  OpRecord& close = suite.Op("QueueCloseV2").TestedElsewhere("state: session/queues_test.cc");
  AddHostileHandles(close, {});
  for (const char* op : {"QueueIsClosedV2", "QueueSizeV2"}) {
    AddHostileHandles(suite.Op(op).TestedElsewhere("state: session/queues_test.cc"), {});
  }
}

}  // namespace

void AddQueuesRecords(Suite& suite) {
  AddQueues(suite);
  AddEnqueues(suite);
  AddDequeues(suite);
  AddTheOthers(suite);
}

}  // namespace weir::conformance
