// Hooks that fetch what replicas compute together.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "distributed/horovod.h"
#include "distributed/test_replicas.h"
#include "gmock/gmock.h"
#include "kernels/formats/event_file.h"
#include "kernels/formats/test_files.h"
#include "ops/standard_ops.h"
#include "ops/summaries.h"
#include "ops/training/gradient_descent.h"
#include "ops/variable.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/training_session.h"

namespace weir {
namespace {

class HorovodHooksTest : public HorovodTest {
 protected:
  // Two ranks train for so many steps. `add` adds what a rank's hooks fetch to its graph, and to its options.
  void Train(int64_t last_step,
             const std::function<void(int rank, Horovod& hvd, GraphBuilder& g, const LinearModel& model,
                                      TrainingSessionOptions& options)>& add) {
    MakeCluster(2);
    const auto first = Start(0), second = Start(1);
    std::vector<absl::Status> ends(2);
    OnAllRanks(2, [&](int rank) {
      Server& server = rank == 0 ? *first : *second;
      const auto hvd = Horovod::Init(server).value();
      GraphBuilder g(StandardOps());
      const LinearModel model(g);
      Node* const train =
          hvd->DistributedOptimizer(GradientDescent(0.1))->Minimize(g, model.loss, GlobalStep(g)).value();
      TrainingSessionOptions options;
      options.target = server.target();
      options.session.operation_timeout = absl::Seconds(10);
      options.hooks = {hvd->BroadcastGlobalVariablesHook(), StopAtStepHook({.last_step = last_step})};
      add(rank, *hvd, g, model, options);
      const auto session = MonitoredTrainingSession(g, options).value();
      for (int64_t step = 0; ends[rank].ok() && !session->should_stop(); ++step) {
        ends[rank] = session->Run(BatchOf(model, rank, step), {}, {train}).status();
      }
      if (ends[rank].ok()) ends[rank] = session->Close();
    });
    for (const absl::Status& end : ends) EXPECT_TRUE(end.ok()) << end;
  }
};

// What they print is a mean of all ranks, and none prints in the same steps as another: as after one of them
// was started again.
TEST_P(HorovodHooksTest, RanksPrintWhatTheyComputeTogetherInStepsOfTheirOwn) {
  std::vector<std::vector<std::string>> lines(2);
  Train(6, [&](int rank, Horovod& hvd, GraphBuilder& g, const LinearModel& model,
               TrainingSessionOptions& options) {
    options.hooks.push_back(LoggingTensorHook(
        {.tensors = {{"loss", hvd.AllReduce(g, model.loss)}},
         .every_steps = 2 + rank,
         .formatter = [](absl::Span<const Tensor>) { return "a line"; },
         .sink = [&lines, rank](const std::string& line) { lines[rank].push_back(line); }}));
  });
  EXPECT_EQ(lines[0].size(), 3);
  EXPECT_EQ(lines[1].size(), 2);
}

// Of all event files there.
std::vector<float> ScalarsIn(const std::string& directory, const std::string& tag) {
  std::vector<float> values;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const auto reader = EventReader::Open(entry.path().string()).value();
    for (EventContent event; reader->ReadNext(&event).value();) {
      for (const auto& [name, value] : event.scalars) {
        if (name == tag) values.push_back(value);
      }
    }
  }
  return values;
}

// Rank 0 writes the mean of all ranks; the others write nothing, and have given no folder.
TEST_P(HorovodHooksTest, RanksComputeTogetherWhatRankZeroWrites) {
  const std::string directory = NewTestDirectory();
  Train(5, [&](int rank, Horovod& hvd, GraphBuilder& g, const LinearModel&, TrainingSessionOptions& options) {
    AddScalarSummary(g, "mean_rank", hvd.AllReduce(g, Const(g, Tensor::Scalar(static_cast<float>(rank)))));
    if (rank == 0) options.summary_dir = directory;
    options.save_summaries_steps = 2;
  });
  EXPECT_EQ(ScalarsIn(directory, "mean_rank"), std::vector<float>({0.5f, 0.5f, 0.5f}));
}

INSTANTIATE_TEST_SUITE_P(Transports, HorovodHooksTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Grpc" : "Inproc"; });

}  // namespace
}  // namespace weir
