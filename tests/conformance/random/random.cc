// Random ops give what TensorFlow gives for the same seeds: random_test.cc has its numbers. Here is what they
// refuse.
#include <limits>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

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

Tensor Key(std::vector<double> words) {
  const auto count = static_cast<int64_t>(words.size());
  return Make(DType::kUint64, {count}, std::move(words));
}

void AddKeyed(Suite& suite) {
  constexpr char kWhere[] = "compared with TensorFlow's numbers: tests/conformance/random/random_test.cc";
  const Tensor key = Key({7}), counter = Key({1, 2});
  struct Sampler {
    const char* op;
    DType dtype;
    std::vector<CaseInput> further;
  };
  const std::vector<Sampler> samplers = {
      {"StatelessRandomUniformV2", DType::kFloat32, {}},
      {"StatelessRandomNormalV2", DType::kFloat32, {}},
      {"StatelessTruncatedNormalV2", DType::kFloat32, {}},
      {"StatelessRandomUniformFullIntV2", DType::kUint64, {}},
      {"StatelessRandomUniformIntV2", DType::kInt32, {Int(0), Int(3)}},
  };
  for (const Sampler& sampler : samplers) {
    const AttrMap attrs = {{"dtype", sampler.dtype}};
    std::vector<CaseInput> further = {key, counter, Int(1)};
    further.insert(further.end(), sampler.further.begin(), sampler.further.end());
    OpRecord& record = AddSampler(suite, sampler.op, further, attrs);
    const auto with = [&](Tensor k, Tensor c, Tensor algorithm) {
      std::vector<CaseInput> inputs = {Ints({2}), std::move(k), std::move(c), std::move(algorithm)};
      inputs.insert(inputs.end(), sampler.further.begin(), sampler.further.end());
      return inputs;
    };
    record.Hostile(with(Key({1, 2}), counter, Int(1)), "key must", attrs)
        .Hostile(with(key, Key({1}), Int(1)), "counter must be a vector of at least 2", attrs)
        .Hostile(with(key, Make(DType::kUint64, {1, 2}, {1, 2}), Int(1)), "counter must", attrs)
        .Hostile(with(key, counter, Int(2)), "Unsupported algorithm id: 2", attrs)
        .Hostile(with(key, counter, Ints({1})), "alg", attrs);
  }
  suite.Op("StatelessRandomUniformIntV2")
      .Hostile({Ints({2}), key, counter, Int(1), Int(3), Int(3)}, "minval must be less than maxval: 3 >= 3")
      .Hostile({Ints({2}), key, counter, Int(1), Int(3), Ints({4})}, "maxval must be a scalar, is [1]");
  for (const char* op : {"StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg"}) {
    suite.Op(op).TestedElsewhere(kWhere).Hostile({Longs({1})}, "seed must");
  }
  suite.Op("StatelessRandomGetAlg").TestedElsewhere(kWhere).CannotFail();

  suite.Op("StatelessRandomGammaV3")
      .TestedElsewhere(kWhere)
      .Hostile({Ints({3}), key, counter, Int(1), Floats({2})}, "must end with broadcasted shape")
      .Hostile({Ints({2, 3, -1}), key, counter, Int(1), Floats({})}, "shape")
      .Hostile({Ints({2}), Key({1, 2}), counter, Int(1), Floats({2})}, "key must")
      .Hostile({Ints({2}), key, counter, Int(5), Floats({2})}, "Unsupported algorithm id: 5")
      .OutOfMemory({Longs({kWide}), key, counter, Int(1), Floats({})});
  for (const char* op : {"RandomPoisson", "RandomPoissonV2"}) {
    suite.Op(op)
        .TestedElsewhere(kWhere)
        .Hostile({Ints({2, -1}), Floats({2})}, "shape")
        .Hostile({Int(2), Floats({2})}, "shape must be a vector")
        .OutOfMemory({Longs({kWide}), Floats({2})});
  }
  const Tensor seed = Longs({1, 2});
  suite.Op("StatelessRandomBinomial")
      .TestedElsewhere(kWhere)
      .NoKernelFor("T", {DType::kInt32, DType::kInt64}, "TensorFlow has none either")
      .Hostile({Ints({3}), seed, Floats({2}), Floats({})}, "must end with broadcasted shape")
      .Hostile({Ints({3}), seed, Floats({2}), Floats({3})},
               "must have compatible batch dimensions: [2] vs. [3]")
      .Hostile({Ints({2}), Longs({1}), Floats({2}), Floats({})}, "seed must")
      .OutOfMemory({Longs({kWide}), seed, Floats({}), Floats({})});
  suite.Op("StatelessRandomPoisson")
      .TestedElsewhere(kWhere)
      .Hostile({Ints({3}), Longs({1, 2}), Floats({2})}, "must end with broadcasted shape",
               {{"dtype", DType::kInt32}})
      .Hostile({Ints({2}), Longs({1}), Floats({2})}, "seed must", {{"dtype", DType::kInt32}})
      .OutOfMemory({Longs({kWide}), Longs({1, 2}), Floats({})}, {{"dtype", DType::kInt32}});
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
  AddKeyed(suite);
  AddSampler(suite, "StatelessRandomUniformInt", {Longs({1, 2}), Int(0), Int(3)}, {})
      .Hostile({Ints({2}), Longs({1, 2, 3}), Int(0), Int(3)}, "seed must have shape [2]")
      .Hostile({Ints({2}), Longs({1, 2}), Int(3), Int(3)}, "minval must be less than maxval: 3 >= 3")
      .Hostile({Ints({2}), Longs({1, 2}), Int(3), Ints({4})}, "maxval must be a scalar, is [1]")
      .Hostile({Ints({2}), Longs({1, 2}), Ints({}), Int(3)}, "minval must be a scalar, is [0]");
}

}  // namespace weir::conformance
