// Trains the last layer of a model that TensorFlow has trained, for other pictures; docs/guide/fine_tuning.md
// explains it.
//
// usage: fine_tune CHECKPOINT MODEL_DIR
//   CHECKPOINT   TensorFlow's, as pretrain.py writes it, or the folder that it is in
//   MODEL_DIR    where checkpoints and summaries go; training goes on where the newest one was saved
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "early_stopping.h"
#include "weir/weir.h"

using namespace weir;

constexpr int64_t kSide = 28;
constexpr int64_t kPixels = kSide * kSide;
constexpr int64_t kClasses = 10;
constexpr int64_t kBatchSize = 100;
constexpr int64_t kMaxSteps = 20'000;

// --- The data ---

struct Examples {
  Tensor images;  // float [count, 784], from 0 to 1
  Tensor labels;  // int32 [count]
};

// Pictures [begin, end) of Fashion-MNIST, mirrored: the shoes point to the other side than those that the
// model knows. part: "train" or "t10k".
absl::StatusOr<Examples> ReadMirrored(const std::string& part, int64_t begin, int64_t end) {
  const std::string prefix = "/usr/share/datasets/fashion-mnist/" + part;
  WEIR_ASSIGN_OR_RETURN(const Tensor images, ReadIdx(prefix + "-images-idx3-ubyte.gz"));
  WEIR_ASSIGN_OR_RETURN(const Tensor labels, ReadIdx(prefix + "-labels-idx1-ubyte.gz"));
  const int64_t count = end - begin;
  Examples examples = {Tensor(DType::kFloat32, Shape({count, kPixels})),
                       Tensor(DType::kInt32, Shape({count}))};
  for (int64_t row = 0; row < count * kSide; ++row) {
    for (int64_t x = 0; x < kSide; ++x) {
      examples.images.flat<float>()[row * kSide + x] =
          images.flat<uint8_t>()[(begin * kSide + row) * kSide + kSide - 1 - x] / 255.0f;
    }
  }
  for (int64_t i = 0; i < count; ++i) examples.labels.flat<int32_t>()[i] = labels.flat<uint8_t>()[begin + i];
  return examples;
}

Examples RandomBatch(const Examples& all, std::mt19937_64& random) {
  Examples batch = {Tensor(DType::kFloat32, Shape({kBatchSize, kPixels})),
                    Tensor(DType::kInt32, Shape({kBatchSize}))};
  std::uniform_int_distribution<int64_t> any(0, all.labels.num_elements() - 1);
  for (int64_t i = 0; i < kBatchSize; ++i) {
    const int64_t from = any(random);
    std::copy_n(&all.images.flat<float>()[from * kPixels], kPixels, &batch.images.flat<float>()[i * kPixels]);
    batch.labels.flat<int32_t>()[i] = all.labels.flat<int32_t>()[from];
  }
  return batch;
}

// --- The model ---

struct Model {
  Output images;  // fed: float [?, 784]
  Output labels;  // fed: int32 [?]
  Output loss;
  Output accuracy;
};

Model BuildModel(GraphBuilder& g) {
  Model model;
  model.images = Placeholder(g, DType::kFloat32, {-1, kPixels}, {.name = "images"});
  model.labels = Placeholder(g, DType::kInt32, {-1}, {.name = "labels"});
  const Output hidden = layers::Dense(g, model.images, 32, Relu, {.name = "hidden"});
  const Output logits = layers::Dense(g, hidden, kClasses, nullptr, {.name = "logits"});
  model.loss = ReduceMean(g, SparseSoftmaxCrossEntropyWithLogits(g, logits, model.labels).loss);
  const Output predicted = ArgMax(g, logits, Const(g, 1), {.output_type = DType::kInt32});
  model.accuracy = ReduceMean(g, Cast(g, Equal(g, predicted, model.labels), DType::kFloat32));
  return model;
}

// Lets the variables that the graph has now begin with the values of TensorFlow's. "classifier/dense/" stands
// for all that is below it there, "hidden/" for all below it here.
absl::Status BeginWith(GraphBuilder& g, const std::string& checkpoint) {
  return InitFromCheckpoint(g, checkpoint,
                            {{"classifier/dense/", "hidden/"}, {"classifier/dense_1/", "logits/"}});
}

// --- Training ---

absl::Status Train(const TaskConfig& task, Server& server, const std::string& checkpoint,
                   const std::string& model_dir, const std::vector<CheckpointSaverListenerPtr>& listeners) {
  WEIR_ASSIGN_OR_RETURN(const Examples train, ReadMirrored("train", 0, 58'000));
  WEIR_ASSIGN_OR_RETURN(const Examples held_out, ReadMirrored("train", 58'000, 60'000));

  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  const Model model = BuildModel(g);
  // Before the optimizer adds variables, which TensorFlow's checkpoint need not have.
  WEIR_RETURN_IF_ERROR(BeginWith(g, checkpoint));
  const ModelVariable step = GlobalStep(g);
  const Output rate = ExponentialDecay(g, 0.01, step.value, /*decay_steps=*/100, /*decay_rate=*/0.9);
  // The hidden layer stays as it is.
  WEIR_ASSIGN_OR_RETURN(Node* const update,
                        Adam(rate).Minimize(g, model.loss, step, {.only = NamedBelow("logits")}));
  AddScalarSummary(g, "loss", model.loss);
  AddScalarSummary(g, "learning_rate", rate);

  const auto early_stopping = std::make_shared<EarlyStoppingHook>(
      EarlyStoppingOptions{.is_chief = task.is_chief(),
                           .loss = model.loss,
                           .held_out = {{model.images, held_out.images}, {model.labels, held_out.labels}}});
  WEIR_ASSIGN_OR_RETURN(
      const std::unique_ptr<MonitoredSession> session,
      MonitoredTrainingSession(g, {.target = server.target(),
                                   .is_chief = task.is_chief(),
                                   .checkpoint_dir = model_dir,
                                   .hooks = {StopAtStepHook({.last_step = kMaxSteps}),
                                             NanTensorHook({.tensor = model.loss}), early_stopping},
                                   .save_checkpoint_steps = 200,
                                   .checkpoint_listeners = listeners,
                                   .save_summaries_steps = 20}));
  std::mt19937_64 random(task.task_index());
  while (!session->should_stop()) {
    const Examples batch = RandomBatch(train, random);
    WEIR_RETURN_IF_ERROR(
        session->Run({{model.images, batch.images}, {model.labels, batch.labels}}, {}, {update}).status());
  }
  return session->Close();
}

// --- Evaluation ---

// Evaluates on the test pictures, in a graph of its own.
class TestEvaluation {
 public:
  static absl::StatusOr<std::unique_ptr<TestEvaluation>> Create(Server& server, const std::string& checkpoint,
                                                                const std::string& model_dir) {
    WEIR_ASSIGN_OR_RETURN(const Examples test, ReadMirrored("t10k", 0, 10'000));
    return std::unique_ptr<TestEvaluation>(new TestEvaluation(server, checkpoint, model_dir, test));
  }

  // Of the model as TensorFlow has trained it.
  absl::Status EvaluateBefore() {
    WEIR_RETURN_IF_ERROR(BeginWith(g_, checkpoint_));
    WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<MonitoredSession> session,
                          SingularMonitoredSession(
                              g_, {.target = options_.target, .session = {.isolate_session_state = true}}));
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> results,
                          session->session().Run(options_.final_feeds, {model_.accuracy}));
    Print("before", results[0]);
    return absl::OkStatus();
  }

  absl::StatusOr<Evaluation> Evaluate(const std::string& checkpoint) {
    WEIR_ASSIGN_OR_RETURN(Evaluation evaluation, evaluator_.Evaluate(checkpoint));
    Print("step " + std::to_string(evaluation.global_step), evaluation.values[0].second);
    return evaluation;
  }

  static bool WasLast(const Evaluation& evaluation) { return evaluation.values[1].second.scalar<bool>(); }

 private:
  TestEvaluation(Server& server, const std::string& checkpoint, const std::string& model_dir,
                 const Examples& test)
      : checkpoint_(checkpoint),
        g_(StandardOps()),
        model_(BuildModel(g_)),
        stop_(EarlyStoppingHook::MakeStopVariable(g_).value),
        options_({.target = server.target(),
                  .final_ops = {{"accuracy", model_.accuracy}, {"stopped_early", stop_}},
                  .final_feeds = {{model_.images, test.images}, {model_.labels, test.labels}},
                  .summary_dir = model_dir + "/eval"}),
        evaluator_(g_, options_) {
    GlobalStep(g_);
  }

  static void Print(const std::string& when, const Tensor& accuracy) {
    std::printf("%s: accuracy %.4f\n", when.c_str(), accuracy.scalar<float>());
    std::fflush(stdout);  // weir launch reads it through a pipe
  }

  const std::string checkpoint_;
  GraphBuilder g_;
  const Model model_;
  const Output stop_;
  const EvaluationOptions options_;
  Evaluator evaluator_;
};

// --- The program ---

absl::Status Run(const TaskConfig& task, Server& server, const std::string& checkpoint,
                 const std::string& model_dir) {
  std::unique_ptr<TestEvaluation> evaluation;
  if (task.is_evaluator() || task.runs_alone()) {
    WEIR_ASSIGN_OR_RETURN(evaluation, TestEvaluation::Create(server, checkpoint, model_dir));
    WEIR_RETURN_IF_ERROR(evaluation->EvaluateBefore());
  }
  return TrainAndEvaluate(
      task, server,
      {.model_dir = model_dir,
       .max_steps = kMaxSteps,
       .train = [&](const auto& listeners) { return Train(task, server, checkpoint, model_dir, listeners); },
       .evaluate = [&](const std::string& saved) { return evaluation->Evaluate(saved); },
       .after_evaluation = [](const Evaluation& done) { return TestEvaluation::WasLast(done); },
       .throttle = absl::Seconds(1)});
}

int main(int argc, char** argv) {
  const absl::StatusOr<TaskConfig> task = TaskConfigFromCommandLine(&argc, argv);
  if (!task.ok() || argc != 3) {
    std::fprintf(stderr, "usage: fine_tune CHECKPOINT MODEL_DIR\n%s\n",
                 task.ok() ? "" : task.status().ToString().c_str());
    return kExitUserError;
  }
  const absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(*task);
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    return ExitCodeFor(server.status());
  }
  const absl::Status status = Run(*task, **server, argv[1], argv[2]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  (*server)->Shutdown(status);
  return ExitCodeFor(status);
}
