// Staging areas: tests/interop compares what they do with TensorFlow; here is what they refuse.
#include <string>
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {

void AddStagingRecords(Suite& suite) {
  const char kElsewhere[] = "state: tests/interop/ops_interop_test.py";
  using Dtypes = std::vector<DType>;
  const Dtypes two = {DType::kFloat32, DType::kInt32};
  const AttrMap area = {{"dtypes", two}, {"shared_name", "area"}};
  AttrMap small = area;
  small["memory_limit"] = 4;
  small["shared_name"] = "small";
  suite.Op("Stage")
      .TestedElsewhere(kElsewhere)
      .Hostile({std::vector<Tensor>{Floats({2}), Int(1)}}, "with combined size of '12' bytes", small,
               absl::StatusCode::kResourceExhausted);
  const AttrMap texts = {{"dtypes", Dtypes{DType::kString}}, {"shared_name", "texts"}, {"memory_limit", 900}};
  suite.Op("Stage").Hostile({std::vector<Tensor>{Strings({1}, {std::string(900, 'x')})}},
                            "bytes into Staging Area with a memory limit of '900'", texts,
                            absl::StatusCode::kResourceExhausted);
  suite.Op("Unstage").TestedElsewhere(kElsewhere).CannotFail();
  suite.Op("StagePeek")
      .TestedElsewhere(kElsewhere)
      .Hostile({Ints({1, 2})}, "index must be a scalar", area)
      .Hostile({Int(-1)}, "index must be at least 0, is -1", area);
  suite.Op("StageSize").TestedElsewhere(kElsewhere).CannotFail();
  suite.Op("StageClear").TestedElsewhere(kElsewhere).CannotFail();
  const Tensor key = Tensor::Scalar<int64_t>(1);
  for (const std::string kind : {"Map", "OrderedMap"}) {
    const std::vector<Tensor> one = {Floats({2})}, both = {Floats({2}), Int(1)},
                              turned = {Int(1), Floats({2})};
    suite.Op(kind + "Stage")
        .TestedElsewhere(kElsewhere)
        .Hostile({Longs({1}), Ints({0, 1}), both}, "key must be an int64 scalar", area)
        .Hostile({key, Ints({1, 0}), turned}, "Indices are not strictly ordered", area)
        .Hostile({key, Ints({0, 0}), both}, "Indices are not strictly ordered", area)
        .Hostile({key, Ints({0}), both}, "there are 2 tensors", area)
        .Hostile({key, Ints({2}), one}, "Index '2' for key '1' was out of bounds '2'", area)
        .Hostile({key, Ints({-1}), one}, "Index '-1'", area)
        .Hostile({key, Ints({1}), one}, "tensor 0 of the tuple is float, must be int32", area)
        .Hostile({key, Ints({0, 1}), both}, "with combined size of '12' bytes", small,
                 absl::StatusCode::kResourceExhausted);
    for (const char* op : {"Unstage", "Peek"}) {
      suite.Op(kind + op)
          .TestedElsewhere(kElsewhere)
          .Hostile({Longs({1}), Ints({0, 1})}, "key must be an int64 scalar", area)
          .Hostile({key, Ints({0})}, "there are 2 tensors", area)
          .Hostile({key, Ints({1, 0})}, "Indices are not strictly ordered", area);
    }
    suite.Op(kind + "UnstageNoKey")
        .TestedElsewhere(kElsewhere)
        .Hostile({Ints({0})}, "there are 2 tensors", area)
        .Hostile({Ints({1, 0})}, "Indices are not strictly ordered", area);
    for (const char* op : {"Size", "IncompleteSize", "Clear"})
      suite.Op(kind + op).TestedElsewhere(kElsewhere).CannotFail();
  }
}

}  // namespace weir::conformance
