#include "distributed/master/prepared_steps.h"

#include "absl/strings/str_cat.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "session/local_worker.h"
#include "session/runtime.h"

namespace weir {
namespace {

class PreparedStepsTest : public ::testing::Test {
 protected:
  PreparedStepsTest() {
    const Output one =
        g_.AddOp("Const", {}, {{"value", Tensor::Scalar<float>(1)}, {"dtype", DType::kFloat32}}, "one");
    session_ = Session::Create(g_.graph(), {&worker_}, runtime_->kernels()).value();
    step_ = session_->Prepare({}, {one}).value();
  }
  void Add(int number) { steps_.Add(absl::StrCat(number), step_, PeerUse::Share()); }
  bool Has(int number) { return steps_.Find(absl::StrCat(number)) != nullptr; }

  std::unique_ptr<Runtime> runtime_ = Runtime::Create({.num_threads = 1}).value();
  LocalWorker worker_{*runtime_, runtime_->task()};
  GraphBuilder g_{runtime_->ops()};
  std::unique_ptr<Session> session_;
  std::shared_ptr<PreparedStep> step_;
  PreparedSteps steps_;
};

TEST_F(PreparedStepsTest, TheOneThatIsUsedStays) {
  const int max = PreparedSteps::kMaxSteps;
  for (int i = 0; i < max; ++i) Add(i);
  for (int i = max; i < 3 * max; ++i) {
    ASSERT_TRUE(Has(0)) << i;
    Add(i);
  }
  EXPECT_FALSE(Has(1));
  EXPECT_FALSE(Has(2 * max));
  EXPECT_TRUE(Has(3 * max - 1));
  EXPECT_EQ(step_.use_count(), max + 2);  // here, and in the session's own cache
}

TEST_F(PreparedStepsTest, NothingIsKeptAfterTheEnd) {
  Add(1);
  steps_.Close();
  Add(2);
  EXPECT_FALSE(Has(1));
  EXPECT_FALSE(Has(2));
}

}  // namespace
}  // namespace weir
