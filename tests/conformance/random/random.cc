// Random ops give what TensorFlow gives for the same seeds: random_test.cc has its numbers. Here is what they
// refuse.
#include <limits>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

const int64_t kWide = int64_t{1} << 40;

// Bad shapes; `further` inputs come behind them.
OpRecord& AddSampler(Suite& suite, const std::string& op, const std::vector<CaseInput>& further,
                     const AttrMap& attrs) {
  OpRecord& record = suite.Op(op).TestedElsewhere(
      "compared with TensorFlow's numbers: tests/conformance/random/random_test.cc");
  const auto with_shape = [&](const Tensor& shape) {
    std::vector<CaseInput> inputs = {shape};
    inputs.insert(inputs.end(), further.begin(), further.end());
    return inputs;
  };
  return record.Hostile(with_shape(Ints({2, -1})), "shape", attrs)
      .Hostile(with_shape(Longs({kWide, kWide})), "shape", attrs)
      .Hostile(with_shape(Int(2)), "shape must be a vector", attrs)
      .OutOfMemory(with_shape(Longs({kWide})), attrs);
}

void AddChoices(Suite& suite) {
  constexpr char kWhere[] = "compared with TensorFlow's numbers: tests/conformance/random/random_test.cc";
  suite.Op("RandomShuffle").TestedElsewhere(kWhere).CannotFail();
  for (const char* op : {"Multinomial", "StatelessMultinomial"}) {
    OpRecord& record =
        suite.Op(op).TestedElsewhere(kWhere).NoKernelFor("T", kIntegers, "TensorFlow has none either");
    const bool is_stateless = record.op() == "StatelessMultinomial";
    const auto inputs = [&](const Tensor& logits, const Tensor& num_samples) {
      std::vector<CaseInput> all = {logits, num_samples};
      if (is_stateless) all.push_back(Longs({1, 2}));
      return all;
    };
    const Tensor logits = Sample(DType::kFloat32, {2, 3});
    record.Hostile(inputs(Sample(DType::kFloat32, {3}), Int(2)), "logits must be a matrix, is [3]")
        .Hostile(inputs(logits, Int(-1)), "num_samples must not be negative, is -1")
        .Hostile(inputs(logits, Ints({1})), "num_samples must be a scalar, is [1]")
        .Hostile(inputs(Tensor(DType::kFloat32, {2, 0}), Int(2)), "logits must have a class, is [2,0]")
        .OutOfMemory(inputs(logits, Int(std::numeric_limits<int32_t>::max())));
    if (is_stateless) record.Hostile({logits, Int(2), Longs({1})}, "seed must have shape [2], has [1]");
  }
}

}  // namespace

void AddRandomRecords(Suite& suite) {
  AddChoices(suite);
  const AttrMap floats = {{"dtype", DType::kFloat32}};
  for (const char* op : {"RandomUniform", "RandomStandardNormal", "TruncatedNormal"}) {
    AddSampler(suite, op, {}, floats);
  }
  AddSampler(suite, "RandomUniformInt", {Int(0), Int(3)}, {})
      .Hostile({Ints({2}), Int(3), Int(3)}, "minval must be less than maxval")
      .Hostile({Ints({2}), Int(3), Ints({})}, "maxval must be a scalar")
      .Hostile({Ints({2}), Ints({1, 2}), Int(3)}, "minval must be a scalar");

  for (const char* op : {"StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"}) {
    AddSampler(suite, op, {Longs({1, 2})}, floats)
        .Hostile({Ints({2}), Longs({1})}, "seed must have shape [2], has [1]", floats)
        .Hostile({Ints({2}), Make(DType::kInt32, {1, 2}, {1, 2})}, "seed must have shape [2]", floats);
  }
  AddSampler(suite, "StatelessRandomUniformFullInt", {Longs({1, 2})}, {{"dtype", DType::kInt32}})
      .Hostile({Ints({2}), Int(1)}, "seed must have shape [2]", {{"dtype", DType::kInt32}})
      .NoKernelFor("Tseed", {DType::kUint32, DType::kUint64}, "TensorFlow refuses them in the step");
  AddSampler(suite, "StatelessRandomUniformInt", {Longs({1, 2}), Int(0), Int(3)}, {})
      .Hostile({Ints({2}), Longs({1, 2, 3}), Int(0), Int(3)}, "seed must have shape [2]")
      .Hostile({Ints({2}), Longs({1, 2}), Int(3), Int(3)}, "minval must be less than maxval: 3 >= 3")
      .Hostile({Ints({2}), Longs({1, 2}), Int(3), Ints({4})}, "maxval must be a scalar, is [1]")
      .Hostile({Ints({2}), Longs({1, 2}), Ints({}), Int(3)}, "minval must be a scalar, is [0]");
}

}  // namespace weir::conformance
