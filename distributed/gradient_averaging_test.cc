// When the collectives of gradients begin: what happens in a step, in which order.
#include "distributed/gradient_averaging.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/communicator.h"
#include "ops/control_flow.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"
#include "session/test_acts.h"

namespace weir {
namespace {

using ::testing::ElementsAre;

class Events {
 public:
  void Add(std::string event) {
    absl::MutexLock lock(&mutex_);
    events_.push_back(std::move(event));
  }
  std::vector<std::string> Take() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(events_, {});
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::string> events_ ABSL_GUARDED_BY(mutex_);
};

// One of two ranks. It gives at once what it puts in.
class NotingCommunicator final : public Communicator {
 public:
  explicit NotingCommunicator(Events& events) : events_(events) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void AllReduce(const Call&, Tensor input, Reduction, bool, Done done) override {
    events_.Add(absl::StrCat("all-reduce of ", input.num_elements()));
    done(std::move(input));
  }
  void AllGather(const Call&, Tensor input, Done done) override { done(std::move(input)); }
  void Broadcast(const Call&, int, DType, Tensor input, Done done) override { done(std::move(input)); }

 private:
  Events& events_;
};

class GradientAveragingTest : public ActsTest {
 protected:
  GradientAveragingTest() : ActsTest(/*is_stateful=*/false) {}

  Output Note(const std::string& name, Output input) {
    return AddAct(
        input, [this, name](KernelContext&) { return events_.Add(name), absl::OkStatus(); }, name);
  }

  // The backward pass of four layers: from the error of each come its gradient and the error of the layer
  // below. `gradients_last`: as builders may add them, too.
  std::vector<GradientAndVariable> AddBackward(Output top, bool gradients_last) {
    std::vector<GradientAndVariable> gradients(4);
    std::vector<Output> errors(4);
    const auto add_gradient = [&](int layer) {
      ModelVariable variable;
      variable.name = absl::StrCat("w", layer);
      variable.dtype = DType::kFloat32;
      variable.shape = Shape({kElements});
      gradients[layer] = {Note(absl::StrCat("gradient_", layer), errors[layer]), variable};
    };
    for (int layer = 3; layer >= 0; --layer) {
      errors[layer] = Note(absl::StrCat("error_", layer), layer == 3 ? top : errors[layer + 1]);
      if (!gradients_last) add_gradient(layer);
    }
    for (int layer = 3; layer >= 0 && gradients_last; --layer) add_gradient(layer);
    return gradients;
  }

  // Averages in two buckets of two gradients each; gives what happened, in order.
  std::vector<std::string> RunStep(Output x, std::vector<GradientAndVariable> gradients,
                                   DistributedOptimizerOptions options = {}, Feeds feeds = {}) {
    options.bucket_bytes = options.first_bucket_bytes = 2 * kElements * 4;
    const AveragedGradients averaged =
        AverageGradients(g_, CollectiveNodes(1, 2, 0), std::move(gradients), options, {});
    EXPECT_TRUE(g_.ok()) << g_.status();
    std::vector<TensorRef> fetches;
    for (const GradientAndVariable& one : averaged.gradients) {
      fetches.push_back(std::get<Output>(one.gradient));
    }
    const auto runtime = Runtime::Create({.num_threads = 1, .register_kernels = RegisterAct}).value();
    const auto joined = runtime->devices()[0]->resources().LookupOrCreate<Communicator>(
        Communicator::kContainer, Communicator::kName, [this]() -> absl::StatusOr<RefPtr<Communicator>> {
          return RefPtr<Communicator>(new NotingCommunicator(events_));
        });
    EXPECT_TRUE(joined.ok()) << joined.status();
    LocalWorker worker(*runtime, runtime->task());
    const auto session = Session::Create(g_.graph(), {&worker}, runtime->kernels()).value();
    feeds.push_back({x, Tensor(DType::kFloat32, Shape({kElements}))});
    const auto out = session->Run(feeds, fetches);
    EXPECT_TRUE(out.ok()) << out.status();
    return events_.Take();
  }

  Output Input() {
    return g_.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({kElements})}});
  }

  static constexpr int64_t kElements = 6;
  Events events_;
};

TEST_F(GradientAveragingTest, ABucketIsUnderWayBeforeTheLastGradientIsComputed) {
  const Output x = Input();
  EXPECT_THAT(RunStep(x, AddBackward(x, /*gradients_last=*/false)),
              ElementsAre("error_3", "gradient_3", "error_2", "gradient_2", "all-reduce of 12", "error_1",
                          "gradient_1", "error_0", "gradient_0", "all-reduce of 12"));
}

TEST_F(GradientAveragingTest, AlsoWhenGradientsAreBuiltAfterAllErrors) {
  const Output x = Input();
  EXPECT_THAT(RunStep(x, AddBackward(x, /*gradients_last=*/true)),
              ElementsAre("error_3", "error_2", "gradient_3", "gradient_2", "all-reduce of 12", "error_1",
                          "error_0", "gradient_1", "gradient_0", "all-reduce of 12"));
}

TEST_F(GradientAveragingTest, AlsoWhenGradientsAreCompressed) {
  const Output x = Input();
  EXPECT_THAT(
      RunStep(x, AddBackward(x, /*gradients_last=*/false), {.compression = GradientCompression::kHalf}),
      ElementsAre("error_3", "gradient_3", "error_2", "gradient_2", "all-reduce of 12", "error_1",
                  "gradient_1", "error_0", "gradient_0", "all-reduce of 12"));
}

TEST_F(GradientAveragingTest, AlsoInAModelWithAConditional) {
  const Output x = Input();
  const Output take = g_.AddOp("Placeholder", {}, {{"dtype", DType::kBool}, {"shape", PartialShape({})}});
  const Output top = Cond(
      g_, take, [&] { return std::vector{Note("dropout", x)}; }, [&] { return std::vector{x}; })[0];
  EXPECT_THAT(RunStep(x, AddBackward(top, /*gradients_last=*/false), {}, {{take, Tensor::Scalar(true)}}),
              ElementsAre("dropout", "error_3", "gradient_3", "error_2", "gradient_2", "all-reduce of 12",
                          "error_1", "gradient_1", "error_0", "gradient_0", "all-reduce of 12"));
}

}  // namespace
}  // namespace weir
