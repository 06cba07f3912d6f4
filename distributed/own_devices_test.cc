// Collectives between the devices of one task, as TensorFlow's graphs have them.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/test_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OwnDevicesTest : public ::testing::Test {
 protected:
  // The values of the nodes that `add` makes, one on each of the first `count` devices.
  template <typename Add>
  absl::StatusOr<std::vector<Tensor>> RunOn(int count, const Add& add, const Feeds& feeds = {}) {
    std::vector<TensorRef> results;
    for (int i = 0; i < count; ++i) {
      const auto device = g_.DeviceScope(absl::StrCat("/device:CPU:", i));
      results.push_back(add(i));
    }
    EXPECT_TRUE(g_.ok()) << g_.status();
    session_ = server_->CreateSession(g_.graph()).value();
    return session_->Run(feeds, results);
  }
  Output Key(int value) { return Constant(g_, Tensor::Scalar<int32_t>(value)); }
  Output Fed() {
    return g_.AddOp("Placeholder", {}, {{"dtype", DType::kInt32}, {"shape", PartialShape(Shape())}});
  }
  Output Sum(Output x, Output group, Output instance) {
    return g_.AddOp("CollectiveReduceV2", {x, Key(2), group, instance, std::vector<Output>{}},
                    {{"merge_op", "Add"}, {"final_op", "Id"}});
  }

  const std::unique_ptr<Server> server_ =
      Server::Start(TaskConfig(), {.num_cpus = 4, .num_threads = 2}).value();
  GraphBuilder g_{server_->runtime().ops()};
  std::unique_ptr<Session> session_;
};

TEST_F(OwnDevicesTest, AGatherTakesInputsOfOneShape) {
  for (const bool has_inputs : {false, true}) {
    for (const int more : {0, 1}) {
      const auto gathered = RunOn(2, [&](int i) {
        const Output x = Constant(g_, Tensor(DType::kFloat32, Shape({2 + i * more, 3})));
        if (has_inputs) {
          return g_.AddOp("CollectiveGatherV2", {x, Key(2), Key(1), Key(1 + more), std::vector<Output>{}});
        }
        return g_.AddOp("CollectiveGather", {x},
                        {{"group_size", 2},
                         {"group_key", 1},
                         {"instance_key", 3 + more},
                         {"shape", PartialShape(Shape({0}))}});
      });
      if (more == 0) {
        ASSERT_TRUE(gathered.ok()) << gathered.status();
        EXPECT_EQ((*gathered)[1].shape(), Shape({4, 3}));
        continue;
      }
      EXPECT_TRUE(absl::IsInvalidArgument(gathered.status())) << gathered.status();
      EXPECT_THAT(
          std::string(gathered.status().message()),
          AllOf(HasSubstr("device 1 of 2 brings 3 rows, the first one 2"), HasSubstr("must have one shape")));
    }
  }
}

// Two groups of one key would each take members of the other, whoever comes first.
TEST_F(OwnDevicesTest, GroupsOfOneKeyAreNotMixed) {
  const auto x = [this](int i) { return Constant(g_, Tensor::Vector<float>({static_cast<float>(i)})); };
  const auto mixed = RunOn(4, [&](int i) { return Sum(x(i), Key(1), Key(1)); });
  EXPECT_FALSE(mixed.ok());
  EXPECT_THAT(std::string(mixed.status().message()),
              AllOf(HasSubstr("group_size is 2, but the step has nodes of group_key 1 and instance_key 1"),
                    HasSubstr("on 4 of this task's devices")));
  // The same where the keys are known when the step runs.
  const Output group = Fed();
  const Feeds feeds = {{group, Tensor::Scalar<int32_t>(7)}};
  const auto fed = RunOn(
      4, [&](int i) { return Sum(x(i), group, Key(1)); }, feeds);
  EXPECT_FALSE(fed.ok());
  EXPECT_THAT(std::string(fed.status().message()), HasSubstr("or whose keys are no constants, on 4"));
  const auto pair = RunOn(
      2, [&](int i) { return Sum(x(i + 1), group, Key(1)); }, feeds);
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_THAT((*pair)[0].flat<float>(), ElementsAre(3));
}

TEST_F(OwnDevicesTest, GroupsOfTwoKeysAreTwo) {
  const auto sums = RunOn(4, [&](int i) {
    return Sum(Constant(g_, Tensor::Vector<float>({static_cast<float>(i)})), Key(1 + i / 2), Key(1));
  });
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_THAT((*sums)[0].flat<float>(), ElementsAre(1));
  EXPECT_THAT((*sums)[3].flat<float>(), ElementsAre(5));
}

// As the constants of functions whose calls have become nodes.
TEST_F(OwnDevicesTest, KeysMayWaitForSomething) {
  const Output before =
      g_.AddOp("RandomUniform", {Constant(g_, Tensor::Vector<int32_t>({1}))}, {{"dtype", DType::kFloat32}});
  const auto sums = RunOn(4, [&](int i) {
    const auto after = g_.ControlScope({before.node});
    const Output group = g_.AddOp("Identity", {Key(1 + i / 2)});
    return Sum(Constant(g_, Tensor::Vector<float>({static_cast<float>(i)})), group, Key(1));
  });
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_THAT((*sums)[0].flat<float>(), ElementsAre(1));
  EXPECT_THAT((*sums)[3].flat<float>(), ElementsAre(5));
}

}  // namespace
}  // namespace weir
