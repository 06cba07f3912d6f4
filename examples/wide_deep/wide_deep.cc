// Trains Wide & Deep on a click log, alone or as one task of a cluster.
//
// Alone:         wide_deep --data_dir=/tmp/clicks
// On a cluster:  weir launch --ps=2 --workers=2 -- wide_deep --data_dir=/tmp/clicks
//
// The tables of 26 categories stand on the parameter servers in turn. A step reads the rows of its batch and
// updates these rows; the rest of a table neither travels nor is touched. write_click_log writes data to try
// it with.
#include <cstdio>
#include <string>
#include <vector>

#include "distributed/replica_device_setter.h"
#include "examples/training_program.h"
#include "examples/wide_deep/click_log.h"
#include "examples/wide_deep/model.h"
#include "examples/wide_deep/roc_curve.h"
#include "graph/types/status_macros.h"
#include "ops/standard_ops.h"
#include "ops/summaries.h"
#include "ops/training/adagrad.h"
#include "ops/variable.h"

namespace weir::examples {
namespace {

struct Flags {
  int steps = 1000;
  int batch_size = 512;
  double learning_rate = 0.05;
  int rows = 20'000;
  int embedding_size = 16;
  std::string data_dir = "/tmp/clicks";
  std::string model_dir;
  int seed = 0;
};

void AddFlags(Flags& flags, FlagParser& parser) {
  parser.Add("steps", &flags.steps, "of all workers together", {.least = 1});
  parser.Add("batch_size", &flags.batch_size, "lines per step", {.least = 1, .most = 1000000});
  parser.Add("learning_rate", &flags.learning_rate, "of Adagrad",
             {.least = 1e-12});  // with 0 nothing is learnt
  parser.Add("rows", &flags.rows, "of each table: values of a category are hashed into as many buckets",
             {.least = 1});
  parser.Add("embedding_size", &flags.embedding_size, "numbers per row of the deep part",
             {.least = 1, .most = 1000000});
  parser.Add("data_dir", &flags.data_dir,
             "folder with train.tsv and test.tsv, in the format of Criteo's click logs");
  parser.Add("model_dir", &flags.model_dir,
             "folder for checkpoints and event files; empty: none are written");
  parser.Add("seed", &flags.seed, "0: different numbers in every run");
}

struct Model {
  Output ids, numbers, labels;  // fed
  Output logits;                // float [?, 1]
  Output loss;                  // float

  Feeds FeedsOf(const ClickBatch& batch) const {
    return {{ids, batch.ids}, {numbers, batch.numbers}, {labels, batch.labels}};
  }
};

Model BuildModel(GraphBuilder& g, const Flags& flags) {
  Model model;
  model.ids = Placeholder(g, DType::kInt64, {-1, kClickSlots}, {.name = "ids"});
  model.numbers = Placeholder(g, DType::kFloat32, {-1, kClickNumbers}, {.name = "numbers"});
  model.labels = Placeholder(g, DType::kFloat32, {-1, 1}, {.name = "labels"});
  model.logits =
      WideDeep(g, model.ids, model.numbers, {.rows = flags.rows, .embedding_size = flags.embedding_size});
  model.loss = ReduceMean(g, SigmoidCrossEntropyWithLogits(g, model.logits, model.labels), {.name = "loss"});
  AddScalarSummary(g, "loss", model.loss);
  return model;
}

// The area under the ROC curve, over all lines of test.tsv.
absl::StatusOr<double> Evaluate(Session& session, const Model& model, const Flags& flags) {
  WEIR_ASSIGN_OR_RETURN(const auto log, ClickLog::Open(flags.data_dir + "/test.tsv", {.rows = flags.rows}));
  std::vector<ScoredLabel> scores;
  while (true) {
    WEIR_ASSIGN_OR_RETURN(const ClickBatch batch, log->Next(1000));
    if (batch.size() == 0) return AreaUnderRocCurve(std::move(scores));
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> logits,
                          session.Run(model.FeedsOf(batch), {model.logits}));
    for (int64_t i = 0; i < batch.size(); ++i) {
      scores.push_back({logits[0].flat<float>()[i], batch.labels.flat<float>()[i] > 0.5f});
    }
  }
}

// Each worker reads lines of its own.
absl::StatusOr<std::unique_ptr<ClickLog>> OpenForTraining(const TaskConfig& task, const Flags& flags) {
  ClickLog::Options options = {.rows = flags.rows, .num_readers = task.num_workers()};
  const std::vector<TaskName> workers = task.worker_tasks();
  for (size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].ToString() == task.task().ToString()) options.reader = static_cast<int>(i);
  }
  return ClickLog::Open(flags.data_dir + "/train.tsv", options);
}

absl::Status Train(const TaskConfig& task, Server& server, const Flags& flags) {
  WEIR_ASSIGN_OR_RETURN(const auto log, OpenForTraining(task, flags));
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  if (flags.seed != 0) g.set_random_seed(flags.seed);
  const Model model = BuildModel(g, flags);
  const absl::StatusOr<Node*> train = Adagrad(flags.learning_rate).Minimize(g, model.loss, GlobalStep(g));
  if (!g.ok()) return g.status();
  WEIR_ASSIGN_OR_RETURN(
      std::unique_ptr<MonitoredSession> session,
      MonitoredTrainingSession(g, TrainingOptions(task, server, model.loss, flags.steps, flags.model_dir)));
  while (!session->should_stop()) {
    WEIR_ASSIGN_OR_RETURN(const ClickBatch batch, log->NextOfMany(flags.batch_size));
    WEIR_RETURN_IF_ERROR(session->Run(model.FeedsOf(batch), {}, {*train}).status());
  }
  double area = 0;
  if (task.is_chief()) {
    WEIR_ASSIGN_OR_RETURN(area, Evaluate(session->session(), model, flags));
  }
  WEIR_RETURN_IF_ERROR(session->Close());
  if (task.is_chief()) std::printf("test area under the ROC curve: %.3f\n", area);
  return absl::OkStatus();
}

absl::Status Follow(const TaskConfig& task, Server& server, const Flags& flags) {
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  const Model model = BuildModel(g, flags);
  if (!g.ok()) return g.status();
  return FollowCheckpoints(g, server, flags.steps, flags.model_dir, "auc",
                           [&](Session& session) { return Evaluate(session, model, flags); });
}

}  // namespace
}  // namespace weir::examples

int main(int argc, char** argv) {
  using namespace weir::examples;
  Flags flags;
  return RunTrainingProgram(
      {.name = "wide_deep",
       .summary = "Trains Wide & Deep on a click log in the format of Criteo's.",
       .add_flags = [&](auto& parser) { AddFlags(flags, parser); },
       .train = [&](const auto& task, auto& server) { return Train(task, server, flags); },
       .evaluate = [&](const auto& task, auto& server) { return Follow(task, server, flags); }},
      argc, argv);
}
