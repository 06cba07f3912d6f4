// Trains a residual network on images in CIFAR-10's format, alone or as one task of a cluster.
//
// Alone:         resnet --data_dir=/tmp/cifar-10-batches-bin
// On a cluster:  weir launch --ps=1 --workers=2 -- resnet --data_dir=/tmp/cifar-10-batches-bin
//
// Where CIFAR-10 is not at hand, fashion_mnist_as_cifar10 writes Fashion-MNIST in its format.
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/replica_device_setter.h"
#include "examples/classification.h"
#include "examples/resnet/cifar10.h"
#include "examples/resnet/model.h"
#include "examples/training_program.h"
#include "graph/types/status_macros.h"
#include "ops/layers/layers.h"
#include "ops/standard_ops.h"
#include "ops/summaries.h"
#include "ops/training/momentum.h"
#include "ops/training/piecewise_constant.h"
#include "ops/variable.h"

namespace weir::examples {
namespace {

struct Flags {
  int depth = 20;
  int epochs = 20;
  int batch_size = 128;
  double learning_rate = 0.1;
  double weight_decay = 0.0001;
  bool bfloat16 = false;
  std::string data_dir = "/tmp/cifar-10-batches-bin";
  std::string model_dir;
  int seed = 0;
};

void AddFlags(Flags& flags, FlagParser& parser) {
  parser.Add("depth", &flags.depth, "layers with weights: 20, 32, 44, 56 or 110");
  parser.Add("epochs", &flags.epochs, "how often all workers together see every training image",
             {.least = 1, .most = 1000000});
  parser.Add("batch_size", &flags.batch_size, "images per step", {.least = 1, .most = 1000000});
  parser.Add("learning_rate", &flags.learning_rate,
             "a tenth of it after half of the steps, a hundredth after 3/4",
             {.least = 1e-12});  // with 0 nothing is learnt
  parser.Add("weight_decay", &flags.weight_decay, "how strongly kernels are pulled towards zero",
             {.least = 0});
  parser.Add("bfloat16", &flags.bfloat16, "convolve in bfloat16; variables stay float");
  parser.Add("data_dir", &flags.data_dir,
             "folder with data_batch_1.bin to data_batch_5.bin and test_batch.bin");
  parser.Add("model_dir", &flags.model_dir,
             "folder for checkpoints and event files; empty: none are written");
  parser.Add("seed", &flags.seed, "0: different numbers in every run");
}

struct Model : Classification {
  Output images;  // fed: float [?, 32, 32, 3]
};

Model BuildModel(GraphBuilder& g, const Flags& flags, bool is_training) {
  Model model;
  model.images = Placeholder(g, DType::kFloat32, {-1, 32, 32, 3}, {.name = "images"});
  const Output logits = ResNet(g, model.images,
                               {.depth = flags.depth,
                                .is_training = is_training,
                                .compute_dtype = flags.bfloat16 ? DType::kBfloat16 : DType::kFloat32});
  static_cast<Classification&>(model) = Classify(g, logits);
  return model;
}

// Half the squares of all kernels: its gradient pulls every weight towards zero by a part of itself.
Output SquaresOfKernels(GraphBuilder& g) {
  std::vector<Output> squares;
  for (const ModelVariable& variable : TrainableVariables(g)) {
    if (variable.shape.rank() > 1) squares.push_back(L2Loss(g, variable.value));
  }
  return AddN(g, squares);
}

// A step: momentum on the loss with weight decay, and the moving averages of batch normalization.
absl::StatusOr<Node*> BuildTraining(GraphBuilder& g, const Model& model, const Flags& flags,
                                    int64_t last_step) {
  const ModelVariable step = GlobalStep(g);
  const double rate = flags.learning_rate;
  const Output learning_rate =
      PiecewiseConstant(g, step.value, {last_step / 2, last_step * 3 / 4 + 1}, {rate, rate / 10, rate / 100});
  AddScalarSummary(g, "learning_rate", learning_rate);
  const Output decay = Mul(g, SquaresOfKernels(g), Const(g, static_cast<float>(flags.weight_decay)));
  const Output loss = AddV2(g, model.loss, decay, {.name = "loss_with_decay"});
  std::vector<Node*> nodes = layers::UpdateOps(g);
  WEIR_ASSIGN_OR_RETURN(Node* const train, Momentum(learning_rate, 0.9).Minimize(g, loss, step));
  nodes.push_back(train);
  return Group(g, nodes, {.name = "train"});
}

// The part of the test images that is classified right.
absl::StatusOr<double> Evaluate(Session& session, const Model& model, const LabeledImages& test,
                                const ChannelMoments& moments) {
  std::vector<int32_t> order(test.count());
  std::iota(order.begin(), order.end(), 0);
  return Accuracy(session, model.images, model, test.count(), [&](int64_t begin, int64_t end) {
    return NormalizedBatch(test, moments, absl::MakeConstSpan(order).subspan(begin, end - begin));
  });
}

// Batches are normalized otherwise than in training, so this is another graph; variables of the same names on
// the same devices are the same variables.
absl::StatusOr<double> EvaluateBesideTraining(const TaskConfig& task, Server& server, const Flags& flags,
                                              const LabeledImages& test, const ChannelMoments& moments) {
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  const Model model = BuildModel(g, flags, /*is_training=*/false);
  if (!g.ok()) return g.status();
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, server.CreateSession(g.graph()));
  return Evaluate(*session, model, test, moments);
}

int64_t LastStep(const Flags& flags, const Cifar10& data) {
  return std::max<int64_t>(1, flags.epochs * data.train.count() / flags.batch_size);
}

absl::Status Train(const TaskConfig& task, Server& server, const Flags& flags) {
  WEIR_ASSIGN_OR_RETURN(const Cifar10 data, ReadCifar10(flags.data_dir));
  const ChannelMoments moments = MomentsOf(data.train);
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  if (flags.seed != 0) g.set_random_seed(flags.seed);
  const Model model = BuildModel(g, flags, /*is_training=*/true);
  if (!g.ok()) return g.status();
  const int64_t last_step = LastStep(flags, data);
  WEIR_ASSIGN_OR_RETURN(Node* const train, BuildTraining(g, model, flags, last_step));
  WEIR_ASSIGN_OR_RETURN(
      std::unique_ptr<MonitoredSession> session,
      MonitoredTrainingSession(g, TrainingOptions(task, server, model.loss, last_step, flags.model_dir)));

  AugmentedBatches batches(data.train, moments, flags.batch_size, flags.seed * 1000003 + task.task_index());
  while (!session->should_stop()) {
    const Batch batch = batches.Next();
    WEIR_RETURN_IF_ERROR(
        session->Run({{model.images, batch.images}, {model.labels, batch.labels}}, {}, {train}).status());
  }
  double accuracy = 0;
  if (task.is_chief()) {
    WEIR_ASSIGN_OR_RETURN(accuracy, EvaluateBesideTraining(task, server, flags, data.test, moments));
  }
  WEIR_RETURN_IF_ERROR(session->Close());
  if (task.is_chief()) std::printf("test accuracy: %.3f\n", accuracy);
  return absl::OkStatus();
}

absl::Status Follow(const TaskConfig& task, Server& server, const Flags& flags) {
  WEIR_ASSIGN_OR_RETURN(const Cifar10 data, ReadCifar10(flags.data_dir));
  const ChannelMoments moments = MomentsOf(data.train);
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  const Model model = BuildModel(g, flags, /*is_training=*/false);
  if (!g.ok()) return g.status();
  return FollowCheckpoints(g, server, LastStep(flags, data), flags.model_dir, "accuracy",
                           [&](Session& session) { return Evaluate(session, model, data.test, moments); });
}

}  // namespace
}  // namespace weir::examples

int main(int argc, char** argv) {
  using namespace weir::examples;
  Flags flags;
  return RunTrainingProgram(
      {.name = "resnet",
       .summary = "Trains a residual network on images in the binary format of CIFAR-10.",
       .add_flags = [&](auto& parser) { AddFlags(flags, parser); },
       .train = [&](const auto& task, auto& server) { return Train(task, server, flags); },
       .evaluate = [&](const auto& task, auto& server) { return Follow(task, server, flags); }},
      argc, argv);
}
