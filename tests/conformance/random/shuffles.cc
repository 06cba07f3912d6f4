// Orders that are functions of seeds: what their ops refuse.
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {

void AddShufflesRecords(Suite& suite) {
  constexpr char kWhere[] = "compared with TensorFlow's orders: tests/interop/data_ops_interop_test.py";
  const Tensor key = Make(DType::kUint64, {1}, {3}), counter = Make(DType::kUint64, {2}, {4, 5});
  suite.Op("StatelessShuffle")
      .TestedElsewhere(kWhere)
      .Hostile({Longs({1, 2}), Make(DType::kUint64, {2}, {3, 4}), counter, Int(1)}, "key must")
      .Hostile({Longs({1, 2}), key, Make(DType::kUint64, {1}, {3}), Int(1)}, "counter")
      .Hostile({Longs({1, 2}), key, counter, Int(7)}, "alg");
  const Tensor seed = Longs({1, 2, 3});
  const AttrMap rounds = {{"rounds", 4}};
  suite.Op("RandomIndexShuffle")
      .TestedElsewhere(kWhere)
      .Hostile({Longs({1}), seed, Longs({0})}, "max_index must be >= index, but 0 < 1", rounds)
      .Hostile({Longs({-1}), seed, Longs({0})}, "index must be >= 0 but was -1", rounds)
      .Hostile({Longs({0}), seed, Longs({-2})}, "max_index must be >= 0 but was -2", rounds)
      .Hostile({Longs({0}), Longs({1, 2}), Longs({1})}, "seed must have shape [3] or [n,3], has [2]", rounds)
      .Hostile({Longs({0, 1}), seed, Longs({1, 2, 3})}, "must be as many", rounds)
      .Hostile({Longs({0}), seed, Longs({1})}, "rounds must be even", {{"rounds", 3}})
      .Hostile({Longs({0}), seed, Longs({1})}, "rounds must be even", {{"rounds", int64_t{1} << 40}});
}

}  // namespace weir::conformance
