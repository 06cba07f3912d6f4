// Training steps in one process, and the time from the start of a process to the end of its first step.
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "examples/fashion_mnist/model.h"
#include "examples/wide_deep/model.h"
#include "ops/standard_ops.h"
#include "ops/training/adagrad.h"
#include "ops/training/adam.h"
#include "ops/variable.h"
#include "tests/benchmarks/benchmarks.h"
#include "tests/benchmarks/local_session.h"
#include "tests/benchmarks/mlp.h"
#include "tests/benchmarks/model_steps.h"

namespace weir::bench {
namespace {

// Numbers k >= 1 with probabilities proportional to k^-exponent (Devroye, Non-Uniform Random Variate
// Generation, 1986, X.6.1), modulo `rows`: a few values are very frequent, as in click logs.
Tensor ZipfIds(const Shape& shape, double exponent, int64_t rows) {
  Tensor ids(DType::kInt64, shape);
  std::mt19937_64 random(0);
  std::uniform_real_distribution<double> uniform;
  const double b = std::exp2(exponent - 1);
  for (int64_t& id : ids.flat<int64_t>()) {
    double k, t;
    do {
      k = std::floor(std::pow(1 - uniform(random), -1 / (exponent - 1)));
      t = std::pow(1 + 1 / k, exponent - 1);
    } while (k > 9e18 || uniform(random) * k * (t - 1) / (b - 1) > t / b);
    id = static_cast<int64_t>(k) % rows;
  }
  return ids;
}

}  // namespace

void MlpStep() {
  for (int batch : {32, 128}) MeasureMlpStep({}, batch);
}

void CnnStep() {
  constexpr int kBatch = 100;
  LocalSession local;
  GraphBuilder& g = local.graph;
  const Output images = Placeholder(g, DType::kFloat32, {kBatch, 784});
  const Output labels = Placeholder(g, DType::kInt32, {kBatch});
  const Output loss = SoftmaxLoss(g, examples::Cnn(g, images, /*is_training=*/true), labels);
  const double seconds = SecondsOfStep(
      local, {{images, RandomImages(kBatch)}, {labels, RandomLabels(kBatch)}}, loss, Adam(0.001), 4, 7);
  Emit("cnn_b100_step", seconds * 1e6, "us");
}

void ResNet20Step() {
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) MeasureResNet20Step({}, 128, dtype);
}

void WideDeepStep() {
  constexpr int kBatch = 2048, kSlots = 26, kNumbers = 13, kRows = 100'000;
  LocalSession local;
  GraphBuilder& g = local.graph;
  const Output ids = Placeholder(g, DType::kInt64, {kBatch, kSlots});
  const Output numbers = Placeholder(g, DType::kFloat32, {kBatch, kNumbers});
  const Output labels = Placeholder(g, DType::kFloat32, {kBatch, 1});
  const Output logits = examples::WideDeep(g, ids, numbers, {.rows = kRows});
  const Output loss = ReduceMean(g, SigmoidCrossEntropyWithLogits(g, logits, labels));
  Tensor clicks = RandomNumbers({kBatch, 1});
  for (float& click : clicks.flat<float>()) click = std::round(click);
  const double seconds = SecondsOfStep(local,
                                       {{ids, ZipfIds({kBatch, kSlots}, 1.2, kRows)},
                                        {numbers, RandomNumbers({kBatch, kNumbers})},
                                        {labels, clicks}},
                                       loss, Adagrad(0.05), 4, 5);
  Emit("wide_deep_b2048", kBatch / seconds, "samples/s", {{"rss_mb", PeakMegabytes()}});
}

void FirstStep() {
  LocalSession local;
  const Mlp mlp = BuildMlp(local.graph, 32, /*with_global_step=*/false);
  Must(local.session().Run({}, {}, {mlp.init}));
  Must(
      local.session().Run({{mlp.images, RandomImages(32)}, {mlp.labels, RandomLabels(32)}}, {}, {mlp.train}));
}

void Startup() {
  char self[4096];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof(self) - 1);
  if (length <= 0) Fail("cannot find this program's own path");
  const std::string command = absl::StrCat("'", std::string(self, length), "' first_step");
  const double seconds = MedianSeconds(
      [&] {
        if (std::system(command.c_str()) != 0) Fail("the first step failed");
      },
      1.0, 3, 1);
  Emit("start_to_first_step", seconds * 1e3, "ms");
}

}  // namespace weir::bench
