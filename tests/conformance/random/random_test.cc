// The expected values are TensorFlow 2.21's (CPU, v1 graph mode): sess.run of
// tf.raw_ops.OP(shape=[...], dtype=..., seed=7, seed2=11), once or twice in one session.
#include <cmath>
#include <limits>
#include <map>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/random/philox.h"
#include "kernels/cpu/random/shuffle.h"
#include "kernels/cpu/register_kernels.h"
#include "tests/conformance/kernel_under_test.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

// The last elements of a tensor, as many as were written down.
template <typename T>
void ExpectTail(const Tensor& tensor, std::vector<double> expected, double tolerance,
                absl::string_view what) {
  ASSERT_TRUE(tensor.is_valid()) << what;
  const absl::Span<const T> values = tensor.flat<T>().last(expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(values[i]), expected[i], tolerance) << what << " " << i;
  }
}

class RandomKernelsTest : public ::testing::Test {
 protected:
  KernelUnderTest Op(const std::string& op, DType dtype, int64_t seed = 7, int64_t seed2 = 11) {
    return KernelUnderTest(host_, op, {DType::kInt32}, {{"dtype", dtype}, {"seed", seed}, {"seed2", seed2}});
  }
  static Tensor ShapeOf(int32_t size) { return Tensor::Vector<int32_t>({size}); }

  // Two runs of seven elements: six of each were written down.
  template <typename T>
  void ExpectRuns(const std::string& op, std::vector<double> first, std::vector<double> second,
                  double tolerance) {
    KernelUnderTest kernel = Op(op, DTypeOf<T>);
    ExpectTail<T>(kernel.Get({ShapeOf(7)}), std::move(first), tolerance, op + " first run");
    ExpectTail<T>(kernel.Get({ShapeOf(7)}), std::move(second), tolerance, op + " second run");
  }

  TestHost host_{RegisterRandomKernels};
};

// Known answer of the generator itself: counter and key all ones (Random123's kat_vectors, philox4x32 10).
TEST(PhiloxTest, ZeroVector) {
  Philox bits(0, 0);
  EXPECT_EQ(bits.Next(), (Philox::Block{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
}

TEST(PhiloxTest, SkippingIsCallingNext) {
  Philox one_by_one(3, 4), skipping(3, 4);
  for (int i = 0; i < 1000; ++i) one_by_one.Next();
  skipping.Skip(1000);
  EXPECT_EQ(one_by_one.Next(), skipping.Next());
  Philox carried(3, 4), twice(3, 4);  // across 64 bits of the counter
  carried.Skip(~uint64_t{0});
  carried.Skip(3);
  twice.Skip(~uint64_t{0} - 5);
  twice.Skip(8);
  EXPECT_EQ(carried.Next(), twice.Next());
}

TEST_F(RandomKernelsTest, UniformIsTensorFlows) {
  ExpectRuns<float>("RandomUniform",
                    {0.0994875431, 0.569126487, 0.584228158, 0.465823054, 0.277059317, 0.929268837},
                    {0.135036469, 0.889000177, 0.234727621, 0.0844038725, 0.155187368, 0.528963327}, 1e-8);
  ExpectRuns<double>("RandomUniform",
                     {0.553012663, 0.726584668, 0.434150818, 0.109339368, 0.761203777, 0.295974411},
                     {0.1120016, 0.675231591, 0.231706984, 0.70981214, 0.876599103, 0.252056666}, 1e-9);
  ExpectRuns<Half>("RandomUniform",
                   {0.001953125, 0.284179688, 0.997070312, 0.0224609375, 0.669921875, 0.5703125},
                   {0.21875, 0.689453125, 0.888671875, 0.436523438, 0.294921875, 0.267578125}, 1e-8);
  ExpectRuns<Bfloat16>("RandomUniform", {0.015625, 0.2734375, 0.9765625, 0.1796875, 0.359375, 0.5625},
                       {0.75, 0.515625, 0.109375, 0.4921875, 0.359375, 0.140625}, 0);
}

TEST_F(RandomKernelsTest, NormalIsTensorFlows) {
  ExpectRuns<float>("RandomStandardNormal",
                    {2.22495437, -0.536034465, -0.916499913, 1.21825969, -0.209146068, 0.271791041},
                    {0.483394563, 0.482861817, 0.0464777499, 1.84054554, 1.24766827, -1.12634444}, 1e-6);
  ExpectRuns<double>("RandomStandardNormal",
                     {-1.73472849, 0.321329628, -0.731811309, -2.09873716, 0.147985993, 0.491461232},
                     {1.55908601, 0.880379991, 0.101637443, -0.579540995, 0.591305426, -0.557738949}, 1e-8);
  ExpectRuns<Half>("RandomStandardNormal",
                   {2.22460938, -0.536132812, -0.916503906, 1.21777344, -0.209106445, 0.271728516},
                   {0.483398438, 0.482910156, 0.0464782715, 1.84082031, 1.24804688, -1.12597656}, 2e-3);
}

TEST_F(RandomKernelsTest, TruncatedNormalIsTensorFlows) {
  ExpectRuns<float>("TruncatedNormal",
                    {-0.536034465, -0.916499913, 1.21825969, 1.05315435, 0.175725877, -0.567189634},
                    {0.483394563, 0.482861817, 0.0464777499, 0.541251302, -0.623560607, 0.263105452}, 1e-6);
  ExpectRuns<double>("TruncatedNormal",
                     {-1.73472849, 0.276355419, 0.0391776802, 1.09003328, 0.322015966, -0.485658054},
                     {1.55908601, 0.43744471, 1.22299271, 0.50422619, 0.70036191, 0.327925471}, 1e-8);
}

TEST_F(RandomKernelsTest, ManyElementsOnSeveralThreadsAreTensorFlows) {
  KernelUnderTest truncated = Op("TruncatedNormal", DType::kFloat32);
  ExpectTail<float>(truncated.Get({ShapeOf(10001)}), {-1.75531578, -0.717557132, -0.229483172, 0.465323389},
                    1e-6, "first");
  ExpectTail<float>(truncated.Get({ShapeOf(10001)}), {0.198634937, 1.31303215, 0.475645095, -1.09437037},
                    1e-6, "second");
  KernelUnderTest normal = Op("RandomStandardNormal", DType::kFloat32);
  ExpectTail<float>(normal.Get({ShapeOf(10001)}), {0.954934061, -1.39967453, 0.656891823, 0.233369797}, 1e-6,
                    "first");
  ExpectTail<float>(normal.Get({ShapeOf(10001)}), {0.372942716, 0.705515265, 0.560832441, 0.192395136}, 1e-6,
                    "second");
}

// seed=-1, seed2=2**40+3
TEST_F(RandomKernelsTest, SeedsOf64Bits) {
  ExpectTail<float>(Op("RandomUniform", DType::kFloat32, -1, (int64_t{1} << 40) + 3).Get({ShapeOf(6)}),
                    {0.969093323, 0.776764393, 0.106738806, 0.255972505, 0.606015801, 0.821165681}, 1e-8,
                    "uniform");
}

template <typename T>
std::vector<Tensor> UniformInts(TestHost& host, T low, T high) {
  KernelUnderTest op(host, "RandomUniformInt", {DType::kInt32, DTypeOf<T>, DTypeOf<T>},
                     {{"seed", int64_t{7}}, {"seed2", int64_t{11}}});
  const Tensor shape = Tensor::Vector<int32_t>({7});
  return {op.Get({shape, Tensor::Scalar(low), Tensor::Scalar(high)}),
          op.Get({shape, Tensor::Scalar(low), Tensor::Scalar(high)})};
}

// tf.raw_ops.RandomUniformInt(shape=[7], minval=-50, maxval=1000000, seed=7, seed2=11)
TEST_F(RandomKernelsTest, IntegersAreTensorFlows) {
  const std::vector<Tensor> narrow = UniformInts<int32_t>(host_, -50, 1000000);
  ExpectTail<int32_t>(narrow[0], {674604, 787927, 834307, 883587, 847592, 216878}, 0, "int32");
  ExpectTail<int32_t>(narrow[1], {842084, 419952, 623214, 142593, 627580, 901556}, 0, "int32 again");
  const std::vector<Tensor> wide = UniformInts<int64_t>(host_, -50, 1000000);
  ExpectTail<int64_t>(wide[0], {133549, 967219, 445066, 299282, 514696, 447015}, 0, "int64");
  ExpectTail<int64_t>(wide[1], {961196, 353673, 819642, 183131, 178196, 227876}, 0, "int64 again");
}

// tf.raw_ops.OP(shape=[5], seed=[7, -3], dtype=...)
template <typename T>
Tensor Stateless(TestHost& host, const std::string& op, DType seed_type = DType::kInt64) {
  KernelUnderTest kernel(host, op, {DType::kInt32, seed_type}, {{"dtype", DTypeOf<T>}});
  const Tensor seed =
      seed_type == DType::kInt64 ? Tensor::Vector<int64_t>({7, -3}) : Tensor::Vector<int32_t>({7, -3});
  return kernel.Get({Tensor::Vector<int32_t>({5}), seed});
}

TEST_F(RandomKernelsTest, StatelessUniformIsTensorFlows) {
  const std::vector<double> floats = {0x1.bd12d8p-2, 0x1.0b5ecp-4, 0x1.7ec72p-1, 0x1.30ab4p-3, 0x1.2df87cp-1};
  ExpectTail<float>(Stateless<float>(host_, "StatelessRandomUniform"), floats, 0, "float");
  ExpectTail<float>(Stateless<float>(host_, "StatelessRandomUniform", DType::kInt32), floats, 0,
                    "int32 seed");
  ExpectTail<double>(Stateless<double>(host_, "StatelessRandomUniform"),
                     {0x1.e896ce8216bd8p-2, 0x1.f639102261568p-1, 0x1.6fc3ea751c30ap-1, 0x1.b510b191125a8p-2,
                      0x1.38f46f8c21ad0p-3},
                     0, "double");
  ExpectTail<Half>(Stateless<Half>(host_, "StatelessRandomUniform"),
                   {0x1.2d8p-1, 0x1.7bp-1, 0x1.c8p-2, 0x1.5ap-1, 0x1.0f8p-1}, 0, "half");
  ExpectTail<Bfloat16>(Stateless<Bfloat16>(host_, "StatelessRandomUniform"),
                       {0x1.6cp-1, 0x1.d8p-1, 0x1.2p-1, 0x1.ap-2, 0x1.fp-3}, 0, "bfloat16");
}

TEST_F(RandomKernelsTest, StatelessNormalIsTensorFlows) {
  ExpectTail<float>(Stateless<float>(host_, "StatelessRandomNormal"),
                    {0x1.078bb2p-1, 0x1.2f1108p+0, 0x1.3a239p-1, 0x1.cff78cp-2, 0x1.dcee0cp-1}, 1e-6,
                    "float");
  ExpectTail<double>(Stateless<double>(host_, "StatelessRandomNormal"),
                     {-0x1.2a35fbcdd7934p-3, 0x1.35301e5e4fb27p+0, 0x1.71a8cac473633p-2,
                      -0x1.753f8b5c9a60dp-1, -0x1.03afc364dec71p+0},
                     1e-12, "double");
  ExpectTail<float>(Stateless<float>(host_, "StatelessTruncatedNormal"),
                    {0x1.078bb2p-1, 0x1.2f1108p+0, 0x1.3a239p-1, 0x1.cff78cp-2, 0x1.032d88p+0}, 1e-6,
                    "float");
  ExpectTail<double>(Stateless<double>(host_, "StatelessTruncatedNormal"),
                     {-0x1.2a35fbcdd7934p-3, 0x1.35301e5e4fb27p+0, -0x1.2768e2cd10406p-2,
                      -0x1.24170be9e6750p-3, 0x1.54b0c0e948c51p-1},
                     1e-12, "double");
}

// Of the integers from -10 to 1000, and of all.
TEST_F(RandomKernelsTest, StatelessIntegersAreTensorFlows) {
  KernelUnderTest narrow(host_, "StatelessRandomUniformInt",
                         {DType::kInt32, DType::kInt64, DType::kInt32, DType::kInt32}, {});
  ExpectTail<int32_t>(narrow.Get({Tensor::Vector<int32_t>({5}), Tensor::Vector<int64_t>({7, -3}),
                                  Tensor::Scalar<int32_t>(-10), Tensor::Scalar<int32_t>(1000)}),
                      {717, 232, 638, 98, 27}, 0, "int32");
  KernelUnderTest wide(host_, "StatelessRandomUniformInt",
                       {DType::kInt32, DType::kInt64, DType::kInt64, DType::kInt64}, {});
  ExpectTail<int64_t>(wide.Get({Tensor::Vector<int32_t>({5}), Tensor::Vector<int64_t>({7, -3}),
                                Tensor::Scalar<int64_t>(-10), Tensor::Scalar<int64_t>(1000)}),
                      {609, 306, 101, 148, 592}, 0, "int64");
  ExpectTail<int32_t>(Stateless<int32_t>(host_, "StatelessRandomUniformFullInt"),
                      {2125963867, 973626102, 694137288, -2129458508, 969637407}, 0, "all of int32");
  ExpectTail<uint32_t>(Stateless<uint32_t>(host_, "StatelessRandomUniformFullInt"),
                       {2125963867, 973626102, 694137288, 2165508788, 969637407}, 0, "all of uint32");
  const Tensor all = Stateless<int64_t>(host_, "StatelessRandomUniformFullInt");
  EXPECT_EQ(all.flat<int64_t>()[0], 4181692268747924059);
  EXPECT_EQ(all.flat<int64_t>()[4], -2371071146355166744);
  EXPECT_EQ(Stateless<uint64_t>(host_, "StatelessRandomUniformFullInt").flat<uint64_t>()[4],
            16075672927354384872u);
}

// tf.raw_ops.RandomShuffle(value=[0...], seed=7, seed2=11), of nine numbers and of seven rows.
TEST_F(RandomKernelsTest, ShufflesAreTensorFlows) {
  const AttrMap seeds = {{"seed", int64_t{7}}, {"seed2", int64_t{11}}};
  KernelUnderTest vector(host_, "RandomShuffle", {DType::kInt32}, seeds);
  const Tensor numbers = Tensor::Vector<int32_t>({0, 1, 2, 3, 4, 5, 6, 7, 8});
  ExpectTail<int32_t>(vector.Get({numbers}), {2, 3, 1, 6, 0, 7, 5, 4, 8}, 0, "first");
  ExpectTail<int32_t>(vector.Get({numbers}), {3, 7, 6, 5, 8, 2, 0, 4, 1}, 0, "second");
  ExpectTail<int32_t>(vector.Get({numbers}), {4, 2, 0, 3, 6, 5, 7, 1, 8}, 0, "third");

  KernelUnderTest matrix(host_, "RandomShuffle", {DType::kInt64}, seeds);
  Tensor rows(DType::kInt64, {7, 2});
  for (int64_t i = 0; i < 14; ++i) rows.flat<int64_t>()[i] = i;
  ExpectTail<int64_t>(matrix.Get({rows}), {10, 11, 6, 7, 8, 9, 4, 5, 12, 13, 0, 1, 2, 3}, 0, "rows");
  ExpectTail<int64_t>(matrix.Get({rows}), {10, 11, 0, 1, 8, 9, 6, 7, 4, 5, 12, 13, 2, 3}, 0, "rows again");
  EXPECT_EQ(rows.flat<int64_t>()[0], 0) << "the input must stay as it is";
}

TEST_F(RandomKernelsTest, ShufflesOfAnything) {
  const Tensor words = Tensor::Vector<std::string>({"a", "b", "c", "d"});
  KernelUnderTest op(host_, "RandomShuffle", {DType::kString}, {});
  const Tensor shuffled = op.Get({words});
  EXPECT_THAT(shuffled.flat<std::string>(), ::testing::UnorderedElementsAre("a", "b", "c", "d"));
  for (const Shape& shape : {Shape(), Shape({0}), Shape({1, 3}), Shape({3, 0})}) {
    KernelUnderTest small(host_, "RandomShuffle", {DType::kBool}, {});
    EXPECT_EQ(small.Get({Tensor(DType::kBool, shape)}).shape(), shape);
  }
}

// All orders of four come equally often: chi-square of 24 cells. A value beyond 50 has a probability of
// 0.001.
TEST_F(RandomKernelsTest, ShufflesAreFair) {
  KernelUnderTest op(host_, "RandomShuffle", {DType::kInt32}, {{"seed", int64_t{5}}});
  constexpr int kRuns = 4800;
  std::map<std::vector<int32_t>, int> counts;
  for (int i = 0; i < kRuns; ++i) {
    const Tensor order = op.Get({Tensor::Vector<int32_t>({0, 1, 2, 3})});
    ++counts[{order.flat<int32_t>().begin(), order.flat<int32_t>().end()}];
  }
  ASSERT_EQ(counts.size(), 24);
  double chi_square = 0;
  for (const auto& [order, count] : counts) chi_square += std::pow(count - kRuns / 24.0, 2) / (kRuns / 24.0);
  EXPECT_LT(chi_square, 50);
}

// Logits of three rows: the logarithms of 0.1 0.2 0.3 0.4, of the same backwards, and of four quarters.
Tensor Logits(DType dtype, int64_t num_rows = 3) {
  constexpr double kProbabilities[] = {0.1, 0.2, 0.3, 0.4, 0.4, 0.3, 0.2, 0.1, 0.25, 0.25, 0.25, 0.25};
  Tensor logits(dtype, {num_rows, 4});
  for (int64_t i = 0; i < logits.num_elements(); ++i) {
    if (dtype == DType::kFloat32) logits.flat<float>()[i] = static_cast<float>(std::log(kProbabilities[i]));
    if (dtype == DType::kFloat64) logits.flat<double>()[i] = std::log(kProbabilities[i]);
  }
  return logits;
}

// tf.raw_ops.Multinomial(logits=..., num_samples=7, seed=7, seed2=11), run twice. TensorFlow's numbers depend
// on its number of threads where rows are many; a few rows go to one thread.
TEST_F(RandomKernelsTest, ClassesAreTensorFlows) {
  const AttrMap seeds = {{"seed", int64_t{7}}, {"seed2", int64_t{11}}};
  KernelUnderTest floats(host_, "Multinomial", {DType::kFloat32, DType::kInt32}, seeds);
  const std::vector<Tensor> rows = {Logits(DType::kFloat32), Tensor::Scalar<int32_t>(7)};
  ExpectTail<int64_t>(floats.Get(rows), {1, 2, 3, 2, 1, 3, 1, 0, 0, 1, 0, 0, 1, 1, 2, 2, 3, 3, 3, 2, 1}, 0,
                      "first");
  ExpectTail<int64_t>(floats.Get(rows), {2, 2, 2, 1, 3, 3, 3, 3, 1, 1, 0, 3, 1, 0, 3, 3, 1, 2, 0, 2, 2}, 0,
                      "second");
  KernelUnderTest doubles(host_, "Multinomial", {DType::kFloat64, DType::kInt32}, seeds);
  const std::vector<Tensor> of_double = {Logits(DType::kFloat64), Tensor::Scalar<int32_t>(5)};
  ExpectTail<int64_t>(doubles.Get(of_double), {1, 2, 3, 2, 1, 2, 0, 0, 0, 1, 0, 0, 2, 2, 2}, 0, "double");
  ExpectTail<int64_t>(doubles.Get(of_double), {2, 2, 2, 1, 3, 3, 2, 3, 1, 1, 0, 3, 2, 1, 3}, 0,
                      "double again");
  AttrMap int32_seeds = seeds;
  int32_seeds["output_dtype"] = DType::kInt32;
  KernelUnderTest one(host_, "Multinomial", {DType::kFloat32, DType::kInt32}, int32_seeds);
  const std::vector<Tensor> one_row = {Logits(DType::kFloat32, 1), Tensor::Scalar<int32_t>(9)};
  ExpectTail<int32_t>(one.Get(one_row), {1, 2, 3, 2, 1, 3, 1, 0, 2}, 0, "int32");
  ExpectTail<int32_t>(one.Get(one_row), {2, 3, 2, 2, 2, 3, 2, 3, 1}, 0, "int32 again");
  KernelUnderTest stateless(host_, "StatelessMultinomial", {DType::kFloat32, DType::kInt32, DType::kInt64},
                            {});
  for (int i = 0; i < 2; ++i) {
    ExpectTail<int64_t>(stateless.Get({Logits(DType::kFloat32), Tensor::Scalar<int32_t>(5),
                                       Tensor::Vector<int64_t>({7, -3})}),
                        {2, 3, 3, 2, 1, 3, 1, 1, 2, 2, 3, 2, 1, 3, 3}, 0, "stateless");
  }
}

// Many rows, on several threads: every row follows its probabilities, whoever computes it.
TEST_F(RandomKernelsTest, ClassesFollowTheirProbabilities) {
  constexpr int64_t kRows = 64, kSamples = 2001;
  Tensor logits(DType::kFloat32, {kRows, 3});
  for (int64_t i = 0; i < kRows; ++i) {
    logits.flat<float>()[3 * i] = std::log(0.2f);
    logits.flat<float>()[3 * i + 1] = -std::numeric_limits<float>::infinity();
    logits.flat<float>()[3 * i + 2] = std::log(0.8f);
  }
  const auto draw = [&] {
    KernelUnderTest op(host_, "Multinomial", {DType::kFloat32, DType::kInt32}, {{"seed", int64_t{3}}});
    return op.Get({logits, Tensor::Scalar<int32_t>(kSamples)});
  };
  const Tensor classes = draw(), again = draw();
  for (int64_t row = 0; row < kRows; ++row) {
    int counts[3] = {};
    for (int64_t i = row * kSamples; i < (row + 1) * kSamples; ++i) {
      ASSERT_EQ(classes.flat<int64_t>()[i], again.flat<int64_t>()[i]);
      ++counts[classes.flat<int64_t>()[i]];
    }
    EXPECT_EQ(counts[1], 0) << "an impossible class";
    // Five standard deviations.
    EXPECT_NEAR(counts[0], 0.2 * kSamples, 5 * std::sqrt(0.16 * kSamples)) << "row " << row;
  }
}

// tf.raw_ops.RandomGamma(shape=[3], alpha=[0.3, 1, 2.5], seed=7, seed2=11), run twice.
TEST_F(RandomKernelsTest, GammaIsTensorFlows) {
  const std::vector<double> first = {2.3290788300909242e-02, 1.6406489874670305,     1.3266413239869657,
                                     7.2912289958578916e-02, 1.3432752825041629,     5.3671853801168696,
                                     1.2721840875699665e-03, 2.1876772371560974e-01, 3.3697176126458857};
  const std::vector<double> second = {1.4386178724288445e-05, 8.2320452968377866e-01, 6.2349273648314230e-01,
                                      1.0116809371441417e-02, 3.0374454325777001e-01, 2.5312279816553862,
                                      1.4060164828930550,     1.1118151119887467,     2.0430626519277890};
  const AttrMap seeds = {{"seed", int64_t{7}}, {"seed2", int64_t{11}}};
  const Tensor shape = Tensor::Vector<int32_t>({3});
  KernelUnderTest doubles(host_, "RandomGamma", {DType::kInt32, DType::kFloat64}, seeds);
  const Tensor alpha = Tensor::Vector<double>({0.3, 1, 2.5});
  ExpectTail<double>(doubles.Get({shape, alpha}), first, 1e-13, "double");
  ExpectTail<double>(doubles.Get({shape, alpha}), second, 1e-13, "double again");
  KernelUnderTest floats(host_, "RandomGamma", {DType::kInt32, DType::kFloat32}, seeds);
  ExpectTail<float>(floats.Get({shape, Tensor::Vector<float>({0.3f, 1, 2.5f})}), first, 1e-6, "float");
  KernelUnderTest halves(host_, "RandomGamma", {DType::kInt32, DType::kHalf}, seeds);
  ExpectTail<Half>(halves.Get({shape, Tensor::Vector<Half>({Half(0.3f), Half(1), Half(2.5f)})}), first, 3e-3,
                   "half");
}

// The key and counter of seed [7, -3], and what ops make of them: tf.raw_ops.OP(shape=..., key=...,
// counter=..., alg=1).
TEST_F(RandomKernelsTest, KeysAndCountersAreTensorFlows) {
  KernelUnderTest of_seed(host_, "StatelessRandomGetKeyCounterAlg", {DType::kInt64}, {});
  auto made = of_seed.Run({Tensor::Vector<int64_t>({7, -3})});
  ASSERT_TRUE(made.ok()) << made.status();
  const Tensor key = (*made)[0], counter = (*made)[1], algorithm = (*made)[2];
  EXPECT_THAT(key.flat<uint64_t>(), ::testing::ElementsAre(13399541416664089238u));
  EXPECT_THAT(counter.flat<uint64_t>(), ::testing::ElementsAre(0, 2845039061138926877u));
  EXPECT_EQ(algorithm.scalar<int32_t>(), 1);
  const std::vector<DType> inputs = {DType::kInt32, DType::kUint64, DType::kUint64, DType::kInt32};
  const auto sample = [&](const std::string& op, DType dtype) {
    KernelUnderTest kernel(host_, op, inputs, {{"dtype", dtype}});
    return kernel.Get({ShapeOf(5), key, counter, algorithm});
  };
  ExpectTail<float>(
      sample("StatelessRandomUniformV2", DType::kFloat32),
      {0.4346421957015991, 0.06527590751647949, 0.7476129531860352, 0.14876413345336914, 0.5897864103317261},
      0, "uniform");
  ExpectTail<double>(
      sample("StatelessRandomNormalV2", DType::kFloat64),
      {-0.1456107780640622, 1.2077654819729078, 0.36099545311012377, -0.7290004301586933, -1.014400684477348},
      1e-14, "normal");
  ExpectTail<float>(
      sample("StatelessTruncatedNormalV2", DType::kFloat32),
      {0.5147376656532288, 1.1838536262512207, 0.6135525703430176, 0.4530927538871765, 1.012413501739502},
      1e-6, "truncated");
  const Tensor all = sample("StatelessRandomUniformFullIntV2", DType::kInt64);
  EXPECT_EQ(all.flat<int64_t>()[0], 4181692268747924059);
  EXPECT_EQ(all.flat<int64_t>()[2], 6028316063551946271);
  KernelUnderTest integers(
      host_, "StatelessRandomUniformIntV2",
      {DType::kInt32, DType::kUint64, DType::kUint64, DType::kInt32, DType::kInt32, DType::kInt32}, {});
  ExpectTail<int32_t>(integers.Get({ShapeOf(5), key, counter, algorithm, Tensor::Scalar<int32_t>(2),
                                    Tensor::Scalar<int32_t>(1000)}),
                      {317, 258, 346, 486, 569}, 0, "integers");
  KernelUnderTest gamma(host_, "StatelessRandomGammaV3",
                        {DType::kInt32, DType::kUint64, DType::kUint64, DType::kInt32, DType::kFloat64}, {});
  ExpectTail<double>(gamma.Get({Tensor::Vector<int32_t>({2, 3}), key, counter, algorithm,
                                Tensor::Vector<double>({0.3, 1, 2.5})}),
                     {0.898354297763221, 0.7506440757967686, 3.8481372165136847, 0.807345693838978,
                      0.4434295716306229, 1.7996482139847105},
                     1e-13, "gamma");
}

// tf.raw_ops.StatelessRandomBinomial(shape=[4, 6], seed=[7, -3], ...), and with float counts and half
// samples.
TEST_F(RandomKernelsTest, BinomialIsTensorFlows) {
  const Tensor seed = Tensor::Vector<int64_t>({7, -3});
  KernelUnderTest of_doubles(host_, "StatelessRandomBinomial",
                             {DType::kInt32, DType::kInt64, DType::kFloat64, DType::kFloat64},
                             {{"dtype", DType::kInt64}});
  ExpectTail<int64_t>(
      of_doubles.Get({Tensor::Vector<int32_t>({4, 6}), seed, Tensor::Vector<double>({10, 100, 1e6, 40, 5, 0}),
                      Tensor::Vector<double>({.3, .6, .25, .1, 1.5, .5})}),
      {5, 55, 249667, 2, 5, 0, 1, 56, 250291, 3, 5, 0, 2, 59, 249697, 7, 5, 0, 2, 59, 250283, 4, 5, 0}, 0,
      "doubles");
  KernelUnderTest of_floats(host_, "StatelessRandomBinomial",
                            {DType::kInt32, DType::kInt64, DType::kFloat32, DType::kFloat32},
                            {{"dtype", DType::kFloat32}});
  ExpectTail<float>(
      of_floats.Get({Tensor::Vector<int32_t>({3, 2, 2}), seed,
                     Tensor::FromSpan<float>(Shape({2, 1}), {10, 100}), Tensor::Vector<float>({.3f, .6f})}),
      {5, 5, 31, 57, 1, 6, 31, 64, 2, 7, 26, 57}, 0, "floats");
  // Neither has a distribution: TensorFlow draws for the first without end.
  const double nan = std::numeric_limits<double>::quiet_NaN();
  KernelUnderTest to_doubles(host_, "StatelessRandomBinomial",
                             {DType::kInt32, DType::kInt64, DType::kFloat64, DType::kFloat64},
                             {{"dtype", DType::kFloat64}});
  for (const Tensor& drawn : {to_doubles.Get({Tensor::Vector<int32_t>({1}), seed,
                                              Tensor::Vector<double>({nan}), Tensor::Scalar(0.5)}),
                              to_doubles.Get({Tensor::Vector<int32_t>({1}), seed, Tensor::Scalar(5.0),
                                              Tensor::Vector<double>({nan})})}) {
    EXPECT_TRUE(std::isnan(drawn.flat<double>()[0]));
  }
}

// tf.raw_ops.StatelessRandomPoisson(shape=[3, 5], seed=[7, -3], ...) and RandomPoissonV2(shape=[3], seed=7,
// seed2=11, ...), run twice.
TEST_F(RandomKernelsTest, PoissonIsTensorFlows) {
  const Tensor rates = Tensor::Vector<double>({0.5, 4, 10, 50, 1000});
  KernelUnderTest stateless(host_, "StatelessRandomPoisson", {DType::kInt32, DType::kInt64, DType::kFloat64},
                            {{"dtype", DType::kInt64}});
  ExpectTail<int64_t>(
      stateless.Get({Tensor::Vector<int32_t>({3, 5}), Tensor::Vector<int64_t>({7, -3}), rates}),
      {1, 3, 11, 55, 1039, 0, 5, 11, 45, 956, 0, 1, 7, 55, 1010}, 0, "stateless");
  KernelUnderTest stateful(host_, "RandomPoissonV2", {DType::kInt32, DType::kFloat64},
                           {{"dtype", DType::kFloat32}, {"seed", int64_t{7}}, {"seed2", int64_t{11}}});
  ExpectTail<float>(stateful.Get({ShapeOf(3), rates}),
                    {0, 4, 10, 50, 1005, 0, 6, 5, 48, 977, 0, 5, 5, 58, 1016}, 0, "first");
  ExpectTail<float>(stateful.Get({ShapeOf(3), rates}),
                    {0, 6, 5, 55, 1020, 0, 4, 11, 56, 1054, 0, 7, 8, 59, 962}, 0, "second");
}

// TensorFlow draws without end for rates whose samples no integer of the dtype holds.
TEST_F(RandomKernelsTest, PoissonEndsForAnyRate) {
  KernelUnderTest op(host_, "RandomPoissonV2", {DType::kInt32, DType::kFloat64},
                     {{"dtype", DType::kInt32}, {"seed", int64_t{1}}});
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor samples = op.Get({ShapeOf(1), Tensor::Vector<double>({-1, 1e30, infinity, -infinity})});
  EXPECT_EQ(samples.flat<int32_t>()[0], 0);
  EXPECT_EQ(samples.flat<int32_t>()[1], std::numeric_limits<int32_t>::max());
}

// Mean and variance of the gamma distribution are alpha; five standard errors.
TEST_F(RandomKernelsTest, GammaHasItsMoments) {
  KernelUnderTest op(host_, "RandomGamma", {DType::kInt32, DType::kFloat64}, {{"seed", int64_t{1}}});
  const std::initializer_list<double> alpha_list = {0.1, 0.9, 1, 4, 100};
  const std::vector<double> alphas = alpha_list;
  constexpr int32_t kSamples = 20000;
  const Tensor samples = op.Get({Tensor::Vector<int32_t>({kSamples}), Tensor::Vector<double>(alpha_list)});
  for (size_t k = 0; k < alphas.size(); ++k) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < kSamples; ++i) {
      const double x =
          samples.flat<double>()[i * static_cast<int64_t>(alphas.size()) + static_cast<int64_t>(k)];
      ASSERT_GE(x, 0);
      sum += x;
      squares += (x - alphas[k]) * (x - alphas[k]);
    }
    const double a = alphas[k];
    EXPECT_NEAR(sum / kSamples, a, 5 * std::sqrt(a / kSamples)) << a;
    EXPECT_NEAR(squares / kSamples, a, 5 * std::sqrt((2 * a * a + 6 * a) / kSamples)) << a;
  }
}

TEST_F(RandomKernelsTest, GammaOfWhatHasNoDistribution) {
  KernelUnderTest op(host_, "RandomGamma", {DType::kInt32, DType::kFloat32}, {{"seed", int64_t{1}}});
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor samples =
      op.Get({Tensor::Vector<int32_t>({1}), Tensor::Vector<float>({-1, std::nanf(""), 0, inf})});
  EXPECT_TRUE(std::isnan(samples.flat<float>()[0]));
  EXPECT_TRUE(std::isnan(samples.flat<float>()[1]));
  EXPECT_EQ(samples.flat<float>()[2], 0);
  EXPECT_EQ(samples.flat<float>()[3], inf);
  EXPECT_EQ(op.Get({Tensor::Vector<int32_t>({2}), Tensor(DType::kFloat32, {0})}).shape(), Shape({2, 0}));
}

TEST_F(RandomKernelsTest, WithoutSeedsEveryKernelDiffers) {
  const Tensor a = Op("RandomUniform", DType::kFloat64, 0, 0).Get({ShapeOf(4)});
  const Tensor b = Op("RandomUniform", DType::kFloat64, 0, 0).Get({ShapeOf(4)});
  EXPECT_NE(a.flat<double>()[0], b.flat<double>()[0]);
}

TEST_F(RandomKernelsTest, ConcurrentStepsGetDifferentStretches) {
  KernelUnderTest op = Op("RandomUniform", DType::kFloat64);
  constexpr int kThreads = 4, kRuns = 50;
  std::vector<std::vector<double>> seen(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRuns; ++i) seen[t].push_back(op.Get({ShapeOf(1)}).flat<double>()[0]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<double, int> counts;
  for (const auto& values : seen) {
    for (double value : values) ++counts[value];
  }
  EXPECT_EQ(counts.size(), kThreads * kRuns);
}

TEST_F(RandomKernelsTest, BadArgumentsAreErrors) {
  KernelUnderTest uniform = Op("RandomUniform", DType::kFloat32);
  EXPECT_EQ(uniform.Run({Tensor::Vector<int32_t>({2, -1})}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(uniform.Run({Tensor::Scalar<int32_t>(2)}).status().message()),
              HasSubstr("shape must be a vector"));
  KernelUnderTest integers(host_, "RandomUniformInt", {DType::kInt32, DType::kInt32, DType::kInt32});
  EXPECT_THAT(std::string(integers.Run({ShapeOf(3), Tensor::Scalar<int32_t>(5), Tensor::Scalar<int32_t>(5)})
                              .status()
                              .message()),
              HasSubstr("minval must be less than maxval: 5 >= 5"));
}

// A shuffle of 2^32 slices divided by the lower half of that number, which is 0.
TEST(DrawBelowTest, ANumberBelowMoreThanAWordCanName) {
  Philox bits(7, 11), same(7, 11);
  Words words(bits), one_by_one(same);
  EXPECT_EQ(DrawBelow(1000, words), one_by_one.Next() % 1000);
  EXPECT_EQ(DrawBelow(UINT32_MAX, words), one_by_one.Next() % UINT32_MAX);
  for (const uint64_t count : {uint64_t{1} << 32, (uint64_t{1} << 33) + 5}) {
    const uint64_t high = one_by_one.Next();
    EXPECT_EQ(DrawBelow(count, words), (high << 32 | one_by_one.Next()) % count);
  }
}

}  // namespace
}  // namespace weir
