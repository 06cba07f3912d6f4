// The expected values are TensorFlow 2.21's (CPU, v1 graph mode): sess.run of
// tf.raw_ops.OP(shape=[...], dtype=..., seed=7, seed2=11), once or twice in one session.
#include <cmath>
#include <map>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/random/philox.h"
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

}  // namespace
}  // namespace weir
