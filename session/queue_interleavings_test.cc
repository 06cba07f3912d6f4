// Steps that put into a queue and take from it, run by simulated threads in random orders, some of them
// cancelled: every step ends, no element comes twice, and none is lost but by a step that was cancelled after
// it had taken it.
//
// WEIR_INTERLEAVINGS says how many orders are tried (300); WEIR_INTERLEAVINGS_SEED where the seeds begin.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "kernels/simulation/simulated_environment.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"

namespace weir {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  uint64_t value = 0;
  const char* text = std::getenv(name);
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

struct Run {
  std::shared_ptr<Step> step;
  std::optional<Step::Results> results;
  size_t takes = 0;
};

// One queue, and steps on it.
class Trial {
 public:
  // Every second trial cancels steps; in the others nothing may be lost.
  Trial(Runtime& runtime, uint64_t seed)
      : cancels_(seed % 2 == 1),
        scheduler_(seed),
        worker_(runtime, runtime.task(), nullptr, &threads_),
        g_(runtime.ops()) {
    const AttrMap types = {{"component_types", std::vector<DType>{DType::kInt32}}};
    AttrMap attrs = types;
    attrs["shapes"] = std::vector<PartialShape>{Shape()};
    attrs["capacity"] = static_cast<int64_t>(1 + scheduler_.Below(4));
    const Output queue = g_.AddOp("FIFOQueueV2", {}, attrs);
    const Output numbers = g_.AddOp("Placeholder", {}, {{"dtype", DType::kInt32}});
    const Output count = g_.AddOp("Placeholder", {}, {{"dtype", DType::kInt32}});
    Node* const put = g_.AddNode("QueueEnqueueManyV2", {queue, std::vector<Output>{numbers}});
    const Output many = g_.AddOp("QueueDequeueManyV2", {queue, count}, types);
    const Output some = g_.AddOp("QueueDequeueUpToV2", {queue, count}, types);
    Node* const close = g_.AddNode("QueueCloseV2", {queue});
    session_ = Session::Create(g_.graph(), {&worker_}, runtime.kernels(),
                               {.operation_timeout = absl::InfiniteDuration(), .environment = &environment_})
                   .value();
    put_ = session_->Prepare({numbers}, {}, {put}).value();
    many_ = session_->Prepare({count}, {many}).value();
    some_ = session_->Prepare({count}, {some}).value();
    close_ = session_->Prepare({}, {}, {close}).value();
  }

  void Go() {
    for (int i = 0; i < 14; ++i) {
      if (scheduler_.Below(2) == 0) {
        Put(1 + scheduler_.Below(5));
      } else {
        Start(scheduler_.Below(2) == 0 ? *many_ : *some_, 1 + scheduler_.Below(5));
      }
      for (size_t more = scheduler_.Below(12); more > 0; --more) scheduler_.RunOneOrRing();
      if (cancels_ && scheduler_.Below(4) == 0) CancelATake();
    }
    RunAll();  // what was put is in, or waits: the close comes after it
    runs_.push_back(std::make_unique<Run>());
    Watch(*runs_.back(), close_->Start({}));
    RunAll();
    is_closing_ = true;
    while (Start(*some_, 3).results->ok()) {
    }
    Check();
  }

 private:
  void RunAll() {
    while (scheduler_.RunOneOrRing()) {
    }
  }

  static void Watch(Run& run, std::shared_ptr<Step> step) {
    run.step = std::move(step);
    run.step->OnDone([&run](const Step::Results& results) { run.results = results; });
  }

  void Put(size_t count) {
    Tensor numbers(DType::kInt32, {static_cast<int64_t>(count)});
    for (int32_t& number : numbers.flat<int32_t>()) number = num_put_++;
    runs_.push_back(std::make_unique<Run>());
    Watch(*runs_.back(), put_->Start({numbers}));
  }

  Run& Start(PreparedStep& prepared, size_t count) {
    runs_.push_back(std::make_unique<Run>());
    runs_.back()->takes = count;
    Watch(*runs_.back(), prepared.Start({Tensor::Scalar(static_cast<int32_t>(count))}));
    if (is_closing_) RunAll();
    return *runs_.back();
  }

  void CancelATake() {
    Run& run = *runs_[scheduler_.Below(runs_.size())];
    if (run.takes == 0 || run.results) return;
    run.step->Cancel(absl::CancelledError("by the test"));
    num_cancelled_ += run.takes;
  }

  static void Append(const std::vector<Tensor>& results, std::vector<int32_t>* all) {
    const auto taken = results[0].flat<int32_t>();
    all->insert(all->end(), taken.begin(), taken.end());
  }

  void Check() {
    std::vector<int32_t> all;
    for (const auto& run : runs_) {
      ASSERT_TRUE(run->results.has_value()) << "nothing is left to run, but a step is not over:\n"
                                            << worker_.DescribeWaits();
      if (run->takes == 0) {
        EXPECT_TRUE(run->results->ok()) << run->results->status();
      } else if (run->results->ok()) {
        Append(**run->results, &all);
      }
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
    EXPECT_GE(all.size() + num_cancelled_, static_cast<size_t>(num_put_));
    EXPECT_LE(all.size(), static_cast<size_t>(num_put_));
    EXPECT_EQ(worker_.num_running_steps(), 0);
  }

  const bool cancels_;
  Scheduler scheduler_;
  SimulatedEnvironment environment_{scheduler_, "worker"};
  SimulatedThreads threads_{environment_};
  LocalWorker worker_;
  GraphBuilder g_;
  std::unique_ptr<Session> session_;
  std::shared_ptr<PreparedStep> put_, many_, some_, close_;
  std::vector<std::unique_ptr<Run>> runs_;
  int32_t num_put_ = 0;
  size_t num_cancelled_ = 0;  // elements that cancelled steps may have taken
  bool is_closing_ = false;
};

TEST(QueueInterleavingsTest, NothingIsLostInAnyOrder) {
  const auto runtime = Runtime::Create().value();
  const uint64_t count = FromEnvironment("WEIR_INTERLEAVINGS", 300);
  const uint64_t first = FromEnvironment("WEIR_INTERLEAVINGS_SEED", 1);
  for (uint64_t i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("seed ", first + i));
    Trial(*runtime, first + i).Go();
  }
}

}  // namespace
}  // namespace weir
