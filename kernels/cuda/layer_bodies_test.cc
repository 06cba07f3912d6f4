// The bodies of pooling and batch normalization, through the whole way: tensors go to a recording device, the
// launches are enqueued, their bodies run on the host, the results come back. The largest are the CPU's
// exactly; batch normalization is near its definition in double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/nn/pool_loops.h"
#include "kernels/cpu/nn/window_geometry.h"
#include "kernels/cuda/batch_norm_launches.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/pool_launches.h"
#include "kernels/cuda/recording_cuda_api.h"
#include "kernels/cuda/test_host_kernels.h"

namespace weir {
namespace {

class LayerBodiesTest : public ::testing::Test {
 protected:
  LayerBodiesTest() : device_(std::move(MakeCudaDevices(api_, "localhost", 0, threads_)->devices.at(0))) {}

  Tensor There(const Tensor& host) { return *device_->FromHost(host); }
  Tensor Back(const Tensor& tensor) { return *device_->ToHost(tensor); }
  Tensor New(const Shape& shape, DType dtype = DType::kFloat32) {
    return *Tensor::Allocate(dtype, shape, device_->allocator());
  }
  CudaStream& stream() { return device_->stream(); }
  int NumLaunches(const std::string& name) const {
    int count = 0;
    for (const auto& launched : api_.launches()) count += launched.function.name == name;
    return count;
  }

  ThreadPool threads_{1};
  RecordingCudaApi api_;
  const HostKernels kernels_{api_};
  const std::unique_ptr<CudaDevice> device_;
};

// Few different numbers, so that the largest is often there twice, and sometimes NaN or infinite.
Tensor PoolOperand(const Shape& shape, uint32_t seed) {
  Tensor tensor(DType::kFloat32, shape);
  std::mt19937 random(seed);
  for (float& x : tensor.flat<float>()) {
    x = static_cast<float>(random() % 7) - 3;
    if (random() % 29 == 0) x = std::numeric_limits<float>::quiet_NaN();
    if (random() % 31 == 0) x = -std::numeric_limits<float>::infinity();
  }
  return tensor;
}

// The CPU may fuse a product and a sum.
void ExpectNear(const Tensor& found, const Tensor& expected, float most, const char* what) {
  ASSERT_EQ(found.shape(), expected.shape());
  for (int64_t i = 0; i < found.num_elements(); ++i) {
    const float a = found.flat<float>()[i], b = expected.flat<float>()[i];
    ASSERT_TRUE(a == b || (a != a && b != b) || std::abs(a - b) <= most)
        << what << " element " << i << ": " << a << ", the CPU has " << b;
  }
}

WindowGeometry RandomGeometry(std::mt19937& random) {
  WindowGeometry g;
  g.batch = 1 + random() % 3;
  g.channels = 1 + random() % 20;
  for (int i = 0; i < 2; ++i) {
    g.input[i] = 1 + random() % 9;
    g.window[i] = 1 + random() % 4;
    g.stride[i] = 1 + random() % 3;
    g.padding_before[i] = random() % 4;  // a window may lie outside of the input
    g.padding_after[i] = random() % 4;
    const int64_t rest = g.input[i] + g.padding_before[i] + g.padding_after[i] - g.window[i];
    g.output[i] = rest < 0 ? 0 : rest / g.stride[i] + 1;
  }
  return g;
}

TEST_F(LayerBodiesTest, PoolsAreTheCpus) {
  std::mt19937 random(1);
  const PoolLoops<float> cpu = PoolLoopsFor<float>();
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const WindowGeometry g = RandomGeometry(random);
    const Shape in = g.ImageShape(g.input, g.channels), out = g.ImageShape(g.output, g.channels);
    const Tensor x = PoolOperand(in, round), dy = PoolOperand(out, round + 1000);
    const Tensor x_there = There(x), dy_there = There(dy);
    Tensor max(DType::kFloat32, out), mean(DType::kFloat32, out);
    Tensor max_gradient(DType::kFloat32, in), mean_gradient(DType::kFloat32, in);
    std::memset(max_gradient.flat<float>().data(), 0, max_gradient.num_bytes());
    std::memset(mean_gradient.flat<float>().data(), 0, mean_gradient.num_bytes());
    const int64_t in_step = in.num_elements() / g.batch, out_step = out.num_elements() / g.batch;
    for (int64_t n = 0; n < g.batch; ++n) {
      const float* const image = x.flat<float>().data() + n * in_step;
      const float* const gradient = dy.flat<float>().data() + n * out_step;
      cpu.max(g, image, std::numeric_limits<float>::lowest(), max.flat<float>().data() + n * out_step);
      cpu.average(g, image, mean.flat<float>().data() + n * out_step);
      cpu.max_gradient(g, image, gradient, max_gradient.flat<float>().data() + n * in_step);
      cpu.average_gradient(g, gradient, mean_gradient.flat<float>().data() + n * in_step);
    }
    Tensor y = New(out), dx = New(in);
    ASSERT_TRUE(LaunchMaxPool(stream(), kernels_.table(), g, x_there, y).ok());
    ExpectNear(Back(y), max, 0, "MaxPool");
    ASSERT_TRUE(LaunchMaxPoolGrad(stream(), kernels_.table(), g, x_there, dy_there, dx).ok());
    ExpectNear(Back(dx), max_gradient, 0, "MaxPoolGrad");
    ASSERT_TRUE(LaunchAvgPool(stream(), kernels_.table(), g, x_there, y).ok());
    ExpectNear(Back(y), mean, 1e-6f, "AvgPool");
    ASSERT_TRUE(LaunchAvgPoolGrad(stream(), kernels_.table(), g, dy_there, dx).ok());
    ExpectNear(Back(dx), mean_gradient, 3e-6f, "AvgPoolGrad");
  }
}

// A tensor of channels, each with a mean far from 0 beside its deviation.
struct Channels {
  cuda::ChannelDims dims;
  std::vector<std::vector<double>> of;  // the elements of each, in the order of cuda::ChannelDims

  Channels(const cuda::ChannelDims& dims, const Tensor& tensor) : dims(dims), of(dims.channels) {
    for (int64_t c = 0; c < dims.channels; ++c) {
      for (int64_t o = 0; o < dims.outer; ++o) {
        for (int64_t i = 0; i < dims.inner; ++i) {
          of[c].push_back(tensor.flat<float>()[(o * dims.channels + c) * dims.inner + i]);
        }
      }
    }
  }
};

Tensor Floats(const Shape& shape, uint32_t seed, float around = 0) {
  Tensor tensor(DType::kFloat32, shape);
  std::mt19937 random(seed);
  for (float& x : tensor.flat<float>()) x = around + static_cast<float>(random() % 2000) / 1000 - 1;
  return tensor;
}

class BatchNormBodiesTest : public LayerBodiesTest, public ::testing::WithParamInterface<int> {
 protected:
  // One part, some parts, so many that they are put together in three turns; channels last and first.
  cuda::ChannelDims dims() const {
    const cuda::ChannelDims all[] = {{7, 3, 1}, {700, 5, 1}, {40000, 2, 1}, {3, 4, 50}, {30, 2, 1000}};
    return all[GetParam()];
  }
  Shape shape() const { return Shape({dims().outer, dims().channels, dims().inner}); }
  Shape vector() const { return Shape({dims().channels}); }
};

TEST_P(BatchNormBodiesTest, MomentsAndWhatIsNormalizedAreTheDefinition) {
  const Tensor x = Floats(shape(), 1, 50), scale = Floats(vector(), 2), offset = Floats(vector(), 3);
  const Tensor running = Floats(vector(), 4, 2);
  const cuda::BatchNormAttrs attrs = {.epsilon = 0.01f, .average_factor = 0.75f, .is_training = true};
  Tensor y = New(shape()), batch_mean = New(vector()), batch_variance = New(vector());
  Tensor mean = New(vector()), variance = New(vector());
  const Tensor x_there = There(x), scale_there = There(scale), offset_there = There(offset);
  const Tensor running_there = There(running);
  ASSERT_TRUE(LaunchBatchNorm(stream(), kernels_.table(), device_->allocator(), dims(), attrs,
                              {x_there, scale_there, offset_there, running_there, running_there, y,
                               batch_mean, batch_variance, mean, variance})
                  .ok());
  EXPECT_EQ(NumLaunches("BatchCombineMoments"), std::vector<int>({0, 1, 3, 1, 2})[GetParam()]);
  const Channels found(dims(), Back(y)), given(dims(), x);
  const Tensor means = Back(mean), variances = Back(variance);
  const Tensor batch_means = Back(batch_mean), batch_variances = Back(batch_variance);
  for (int64_t c = 0; c < dims().channels; ++c) {
    const double n = static_cast<double>(dims().count());
    double sum = 0, squares = 0;
    for (const double v : given.of[c]) sum += v;
    for (const double v : given.of[c]) squares += (v - sum / n) * (v - sum / n);
    ASSERT_NEAR(means.flat<float>()[c], sum / n, 1e-5);
    ASSERT_NEAR(variances.flat<float>()[c], squares / n, 1e-5);
    ASSERT_NEAR(batch_means.flat<float>()[c], 0.25 * running.flat<float>()[c] + 0.75 * sum / n, 1e-5);
    ASSERT_NEAR(batch_variances.flat<float>()[c], 0.25 * running.flat<float>()[c] + 0.75 * squares / (n - 1),
                1e-5);
    const double factor = scale.flat<float>()[c] / std::sqrt(squares / n + 0.01);
    for (size_t k = 0; k < given.of[c].size(); ++k) {
      ASSERT_NEAR(found.of[c][k], (given.of[c][k] - sum / n) * factor + offset.flat<float>()[c], 2e-5);
    }
  }
}

TEST_P(BatchNormBodiesTest, GradientsAreTheDefinition) {
  const Tensor x = Floats(shape(), 1, 50), dy = Floats(shape(), 2, 0.5f), scale = Floats(vector(), 3);
  const Tensor mean = Floats(vector(), 4, 50), variance = Floats(vector(), 5, 2);
  Tensor dx = New(shape()), dscale = New(vector()), doffset = New(vector());
  const Tensor x_there = There(x), dy_there = There(dy), scale_there = There(scale);
  const Tensor mean_there = There(mean), variance_there = There(variance);
  for (const bool is_training : {true, false}) {
    const cuda::BatchNormAttrs attrs = {.epsilon = 0.01f, .average_factor = 1, .is_training = is_training};
    ASSERT_TRUE(
        LaunchBatchNormGrad(stream(), kernels_.table(), device_->allocator(), dims(), attrs,
                            {dy_there, x_there, scale_there, mean_there, variance_there, dx, dscale, doffset})
            .ok());
    const Channels found(dims(), Back(dx)), given(dims(), x), gradient(dims(), dy);
    const Tensor found_scale = Back(dscale), found_offset = Back(doffset);
    for (int64_t c = 0; c < dims().channels; ++c) {
      const double n = static_cast<double>(dims().count()), center = mean.flat<float>()[c];
      const double widened = variance.flat<float>()[c] + 0.01;
      double sum = 0, product = 0;
      for (size_t k = 0; k < given.of[c].size(); ++k) {
        sum += gradient.of[c][k];
        product += gradient.of[c][k] * (given.of[c][k] - center);
      }
      ASSERT_NEAR(found_offset.flat<float>()[c] / n, sum / n, 1e-6);
      ASSERT_NEAR(found_scale.flat<float>()[c] / n, product / std::sqrt(widened) / n, 2e-6);
      for (size_t k = 0; k < given.of[c].size(); ++k) {
        double expected = gradient.of[c][k];
        if (is_training) expected -= sum / n + (given.of[c][k] - center) * product / n / widened;
        ASSERT_NEAR(found.of[c][k], expected * scale.flat<float>()[c] / std::sqrt(widened), 1e-5);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dims, BatchNormBodiesTest, ::testing::Range(0, 5));

// Another number of threads, another order of sums; the same number, the same bits.
TEST_F(LayerBodiesTest, BatchNormalizationIsTheSameEveryTime) {
  const Shape shape({5000, 7, 1}), vector({7});
  const Tensor x = There(Floats(shape, 1, 3)), scale = There(Floats(vector, 2));
  std::vector<Tensor> results;
  for (int i = 0; i < 2; ++i) {
    Tensor y = New(shape), a = New(vector), b = New(vector), c = New(vector), d = New(vector);
    ASSERT_TRUE(LaunchBatchNorm(stream(), kernels_.table(), device_->allocator(), {5000, 7, 1},
                                {.epsilon = 0.01f, .average_factor = 1, .is_training = true},
                                {x, scale, scale, scale, scale, y, a, b, c, d})
                    .ok());
    results.push_back(Back(y));
  }
  EXPECT_EQ(std::memcmp(results[0].data(), results[1].data(), results[0].num_bytes()), 0);
}

}  // namespace
}  // namespace weir
