#include "tests/benchmarks/model_steps.h"

#include "absl/strings/str_cat.h"
#include "examples/resnet/model.h"
#include "ops/standard_ops.h"
#include "ops/training/momentum.h"
#include "ops/variable.h"
#include "tests/benchmarks/measure.h"
#include "tests/benchmarks/mlp.h"

namespace weir::bench {

double SecondsOfStep(LocalSession& local, const std::vector<std::pair<Output, Tensor>>& inputs, Output loss,
                     Optimizer&& optimizer, double min_seconds, int rounds) {
  Node* const train = Must(optimizer.Minimize(local.graph, loss));
  Node* const init = InitializeVariables(local.graph);
  Must(local.session().Run({}, {}, {init}));
  std::vector<TensorRef> feeds;
  std::vector<Tensor> values;
  for (const auto& [input, value] : inputs) {
    feeds.push_back(input);
    values.push_back(value);
  }
  auto step = Must(local.session().Prepare(feeds, {loss}, {train}));
  Tensor result;
  const auto run = [&] { MustOk(step->Run(values, absl::MakeSpan(&result, 1))); };
  return MedianSeconds(run, min_seconds, rounds);
}

Output SoftmaxLoss(GraphBuilder& g, Output logits, Output labels) {
  return ReduceMean(g, SparseSoftmaxCrossEntropyWithLogits(g, logits, labels).loss);
}

void MeasureMlpStep(const RuntimeOptions& options, int batch, const std::string& suffix) {
  LocalSession local(options);
  const Mlp mlp = BuildMlp(local.graph, batch, /*with_global_step=*/false);
  Session& session = local.session();
  Must(session.Run({}, {}, {mlp.init}));
  const Tensor images = RandomImages(batch), labels = RandomLabels(batch);
  auto step = Must(session.Prepare({mlp.images, mlp.labels}, {mlp.loss}, {mlp.train}));
  Tensor loss;
  const std::string metric = absl::StrCat("mlp_b", batch, "_step");
  const double prepared = MedianSeconds(
      [&] {
        MustOk(step->Run({images, labels}, absl::MakeSpan(&loss, 1)));
      },
      2);
  Emit(metric + suffix, prepared * 1e6, "us", {{"samples_per_s", batch / prepared}});
  const double run = MedianSeconds([&] {
    Must(session.Run({{mlp.images, images}, {mlp.labels, labels}}, {mlp.loss}, {mlp.train}));
  });
  Emit(absl::StrCat(metric, "_session_run", suffix), run * 1e6, "us", {{"samples_per_s", batch / run}});
}

void MeasureResNet20Step(const RuntimeOptions& options, int batch, DType dtype, const std::string& suffix) {
  const Shape shape({batch, 32, 32, 3});
  LocalSession local(options);
  GraphBuilder& g = local.graph;
  const Output images = Placeholder(g, DType::kFloat32, shape);
  const Output labels = Placeholder(g, DType::kInt32, {batch});
  const Output loss = SoftmaxLoss(g, examples::ResNet(g, images, {.compute_dtype = dtype}), labels);
  const double seconds = SecondsOfStep(local, {{images, RandomNumbers(shape)}, {labels, RandomLabels(batch)}},
                                       loss, Momentum(0.1, 0.9), 8, 5);
  const char* const name = dtype == DType::kFloat32 ? "fp32" : "bf16";
  Emit(absl::StrCat("resnet20_b", batch, "_", name, suffix), 1 / seconds, "steps/s",
       {{"rss_mb", PeakMegabytes()}, {"samples_per_s", batch / seconds}});
}

}  // namespace weir::bench
