// Loops whose nodes are on several devices of a process: they give what they give on one, in every order of
// their control flow, and end with the step however it ends.
#include <set>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "ops/control_flow.h"
#include "ops/standard_ops.h"
#include "session/partial_run.h"
#include "session/test_session.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

using Values = std::vector<Output>;

const PartialShape kScalar = PartialShape::OfRank(0);

class LoopsOverDevicesTest : public TestSession {
 protected:
  // What is built in `build` runs on that device.
  template <typename Build>
  auto On(const std::string& device, Build build) {
    auto scope = g_.DeviceScope(device);
    return build();
  }

  // What While adds for its loop variable of that index is on that device.
  void MoveVariable(int index, const std::string& device) {
    static const std::set<std::string> kOps = {"Enter",    "Merge", "Switch",
                                               "Identity", "Exit",  "NextIteration"};
    const std::string suffix = index == 0 ? "" : absl::StrCat("_", index);
    for (const auto& node : g_.graph().nodes()) {
      const bool is_of_it = node->name() == absl::StrCat("while/", node->op_name(), suffix);
      if (!is_of_it || !kOps.contains(node->op_name())) continue;
      g_.graph().SetRequestedDevice(node.get(), DeviceName::Parse(device).value());
    }
  }

  Output Number(float value) { return Const(g_, value); }

  // The one value of `fetch`; 1e9 where the step fails.
  float Run(const Feeds& feeds, const Output& fetch) {
    auto result = session().Run(feeds, {fetch});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? (*result)[0].scalar<float>() : 1e9f;
  }
};

TEST_F(LoopsOverDevicesTest, ABodyRunsOnAnotherDevice) {
  const Output n = Placeholder(g_, DType::kFloat32, kScalar, {.name = "n"});
  const Output y = On("/cpu:0", [&] {
    return While(
        g_, {Number(0), Number(1)}, [&](const Values& v) { return Less(g_, v[0], n); },
        [&](const Values& v) {
          const Output twice = On("/gpu:0", [&] { return AddV2(g_, v[1], v[1], {.name = "there"}); });
          return Values{AddV2(g_, v[0], Number(1)), twice};
        })[1];
  });
  EXPECT_EQ(Run({{"n:0", Tensor::Scalar(0.0f)}}, y), 1) << "no iteration";
  EXPECT_EQ(Run({{"n:0", Tensor::Scalar(1.0f)}}, y), 2);
  EXPECT_EQ(Run({{"n:0", Tensor::Scalar(10.0f)}}, y), 1024);
  EXPECT_EQ(Run({{"n:0", Tensor::Scalar(0.0f)}}, y), 1) << "after a step with more";
}

TEST_F(LoopsOverDevicesTest, TheConditionMayBeWhereNothingElseIs) {
  const Output y = On("/gpu:1", [&] {
    return While(
        g_, {Number(1)},
        [&](const Values& v) { return On("/cpu:1", [&] { return Less(g_, v[0], Number(100)); }); },
        [&](const Values& v) { return Values{On("/gpu:0", [&] { return AddV2(g_, v[0], v[0]); })}; })[0];
  });
  EXPECT_EQ(Run({}, y), 128);
}

// The NextIteration reads a constant Enter, and both go where the Merge is. The step did not end.
TEST_F(LoopsOverDevicesTest, AVariableBecomesATensorFromOutside) {
  const Output n = Placeholder(g_, DType::kFloat32, kScalar, {.name = "n"});
  auto cpu = g_.DeviceScope("/cpu:0");
  const Output outside = Number(7);
  const Output y = While(
      g_, {Number(0), Number(1)}, [&](const Values& v) { return Less(g_, v[0], n); },
      [&](const Values& v) {
        return Values{AddV2(g_, v[0], Number(1)), outside};
      })[1];
  for (const auto& node : g_.graph().nodes()) {
    const bool is_moved = node->name() == "while/Merge_1";
    const bool is_led_in = node->op_name() == "Enter" || node->op_name() == "NextIteration";
    if (!is_moved && !is_led_in) continue;
    const DeviceName device = DeviceName::Parse(is_moved ? "/gpu:0" : "/gpu:1").value();
    g_.graph().SetRequestedDevice(node.get(), device);
  }
  for (const float count : {0.0f, 1.0f, 5.0f}) {
    const absl::StatusOr<std::vector<Tensor>> ran =
        session().Run({{"n:0", Tensor::Scalar(count)}}, {y}, {}, {.timeout = absl::Seconds(5)});
    ASSERT_TRUE(ran.ok()) << ran.status();
    EXPECT_EQ((*ran)[0].scalar<float>(), count == 0 ? 1 : 7);
  }
}

// Nothing of the body comes back to the device of the condition: it must not run ahead of the others without
// an end, nor wait for them in vain.
TEST_F(LoopsOverDevicesTest, ManyIterationsOfDevicesThatOnlyFollow) {
  auto cpu = g_.DeviceScope("/cpu:0");
  const Values out = While(
      g_, {Number(0), Number(0), Number(0)}, [&](const Values& v) { return Less(g_, v[0], Number(10000)); },
      [&](const Values& v) {
        const Output next = AddV2(g_, v[0], Number(1));
        const Output there = On("/gpu:0", [&] { return Mod(g_, AddV2(g_, v[1], v[0]), Number(1000)); });
        const Output further = On("/gpu:1", [&] { return Mod(g_, AddV2(g_, v[2], there), Number(1000)); });
        return Values{next, there, further};
      });
  MoveVariable(1, "/gpu:0");
  MoveVariable(2, "/gpu:1");
  float there = 0, further = 0;
  for (int i = 0; i < 10000; ++i) {
    there = static_cast<float>((static_cast<int>(there) + i) % 1000);
    further = static_cast<float>(static_cast<int>(further + there) % 1000);
  }
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto result = session().Run({}, {out[0], out[1], out[2]});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ((*result)[0].scalar<float>(), 10000);
    EXPECT_EQ((*result)[1].scalar<float>(), there);
    EXPECT_EQ((*result)[2].scalar<float>(), further);
  }
}

TEST_F(LoopsOverDevicesTest, LoopsInLoops) {
  const Output outer_end = Placeholder(g_, DType::kFloat32, kScalar, {.name = "outer"});
  const Output y = On("/cpu:0", [&] {
    return While(
        g_, {Number(0), Number(0)}, [&](const Values& v) { return Less(g_, v[0], outer_end); },
        [&](const Values& v) {
          // As many iterations as the outer loop has had: none in the first one.
          const Output sum = On("/gpu:0", [&] {
            return While(
                g_, {Number(0), v[1]},
                [&](const Values& w) { return On("/gpu:1", [&] { return Less(g_, w[0], v[0]); }); },
                [&](const Values& w) {
                  const Output more = On("/cpu:1", [&] { return AddV2(g_, w[1], w[0]); });
                  return Values{AddV2(g_, w[0], Number(1)), more};
                })[1];
          });
          return Values{AddV2(g_, v[0], Number(1)), sum};
        })[1];
  });
  for (const int n : {0, 1, 2, 3, 12, 40}) {
    float expected = 0;
    for (int i = 0; i < n; ++i) expected += static_cast<float>(i * (i - 1) / 2);
    EXPECT_EQ(Run({{"outer:0", Tensor::Scalar(static_cast<float>(n))}}, y), expected) << n;
  }
}

// In some iterations a branch sends what is dead, and the other device takes it for what it is.
TEST_F(LoopsOverDevicesTest, AConditionalInALoop) {
  const Output y = On("/cpu:0", [&] {
    return While(
        g_, {Number(0), Number(0)}, [&](const Values& v) { return Less(g_, v[0], Number(50)); },
        [&](const Values& v) {
          const Output is_odd = Equal(g_, Mod(g_, v[0], Number(2)), Number(1));
          const Output sum = Cond(
              g_, is_odd,
              [&] { return Values{On("/gpu:0", [&] { return AddV2(g_, v[1], Square(g_, v[0])); })}; },
              [&] {
                const Output less = On("/gpu:1", [&] { return Sub(g_, v[1], v[0]); });
                return Values{On("/cpu:1", [&] { return Neg(g_, Neg(g_, less)); })};
              })[0];
          return Values{AddV2(g_, v[0], Number(1)), sum};
        })[1];
  });
  float expected = 0;
  for (int i = 0; i < 50; ++i) expected += static_cast<float>(i % 2 == 1 ? i * i : -i);
  EXPECT_EQ(Run({}, y), expected);
}

TEST_F(LoopsOverDevicesTest, ALoopInABranchThatIsNotTaken) {
  const Output take = Placeholder(g_, DType::kBool, kScalar, {.name = "take"});
  const Output x = Number(1);
  const auto doubled = [&](float end) {
    return While(
        g_, {x}, [&](const Values& v) { return Less(g_, v[0], Number(end)); },
        [&](const Values& v) { return Values{On("/gpu:0", [&] { return AddV2(g_, v[0], v[0]); })}; })[0];
  };
  const Output y = On("/cpu:0", [&] {
    return Cond(
        g_, take, [&] { return Values{doubled(100)}; }, [&] { return Values{doubled(1000)}; })[0];
  });
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Run({{"take:0", Tensor::Scalar(true)}}, y), 128);
    EXPECT_EQ(Run({{"take:0", Tensor::Scalar(false)}}, y), 1024);
  }
}

// The same in a loop: it is entered dead in some iterations of the outer one, and always in the last.
TEST_F(LoopsOverDevicesTest, ALoopInABranchInALoop) {
  const Output y = On("/cpu:0", [&] {
    return While(
        g_, {Number(0), Number(0)}, [&](const Values& v) { return Less(g_, v[0], Number(9)); },
        [&](const Values& v) {
          const Output is_odd = Equal(g_, Mod(g_, v[0], Number(2)), Number(1));
          const Output sum = Cond(
              g_, is_odd,
              [&] {
                return Values{While(
                    g_, {Number(0), v[1]},
                    [&](const Values& w) { return On("/gpu:1", [&] { return Less(g_, w[0], v[0]); }); },
                    [&](const Values& w) {
                      const Output more = On("/gpu:0", [&] { return AddV2(g_, w[1], w[0]); });
                      return Values{AddV2(g_, w[0], Number(1)), more};
                    })[1]};
              },
              [&] { return Values{v[1]}; })[0];
          return Values{AddV2(g_, v[0], Number(1)), sum};
        })[1];
  });
  EXPECT_EQ(Run({}, y), 0 + 3 + 10 + 21);  // of 1, 3, 5 and 7
}

TEST_F(LoopsOverDevicesTest, AVariableOfAnotherDeviceIsReadAndUpdatedInTheBody) {
  const Output handle = On("/gpu:0", [&] { return VarHandleOp(g_, DType::kFloat32, kScalar); });
  const Output start = Placeholder(g_, DType::kFloat32, kScalar, {.name = "start"});
  Node* const init = g_.AddNode("AssignVariableOp", {handle, start});
  const Output y = On("/cpu:0", [&] {
    return While(
        g_, {Number(0), Number(0)}, [&](const Values& v) { return Less(g_, v[0], Number(5)); },
        [&](const Values& v) {
          Node* const add = g_.AddNode("AssignAddVariableOp", {handle, AddV2(g_, v[0], Number(1))});
          auto after = g_.ControlScope({add});
          const Output read = ReadVariableOp(g_, handle, DType::kFloat32);
          return Values{AddV2(g_, v[0], Number(1)), AddV2(g_, v[1], read)};
        })[1];
  });
  const Feeds feeds = {{"start:0", Tensor::Scalar(100.0f)}};
  ASSERT_TRUE(session().Run(feeds, {}, {init}).ok());
  EXPECT_EQ(Run({}, y), 101 + 103 + 106 + 110 + 115);
  EXPECT_EQ(Run({}, y), 116 + 118 + 121 + 125 + 130);
}

TEST_F(LoopsOverDevicesTest, AnErrorInAnIterationEndsTheStep) {
  const Output y = On("/cpu:0", [&] {
    return While(
        g_, {Number(0)}, [&](const Values& v) { return Less(g_, v[0], Number(1000)); },
        [&](const Values& v) {
          auto gpu = g_.DeviceScope("/gpu:0");
          const Output is_early = Less(g_, v[0], Number(37));
          Node* const check = g_.AddNode("Assert", {is_early, Values{v[0]}}, {}, "too_late");
          auto after = g_.ControlScope({check});
          return Values{AddV2(g_, v[0], Number(1))};
        })[0];
  });
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = session().Run({}, {y}).status();
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("too_late"), HasSubstr("37")));
  }
}

TEST_F(LoopsOverDevicesTest, AnEndlessLoopEndsWithItsStep) {
  const Output y = On("/cpu:0", [&] {
    return While(
        g_, {Number(0)}, [&](const Values& v) { return Less(g_, Mul(g_, v[0], Number(0)), Number(1)); },
        [&](const Values& v) { return Values{On("/gpu:0", [&] { return AddV2(g_, v[0], Number(1)); })}; })[0];
  });
  const auto ran = session().Run({}, {y}, {}, {.timeout = absl::Milliseconds(100)});
  EXPECT_EQ(ran.status().code(), absl::StatusCode::kDeadlineExceeded) << ran.status();
  std::thread closes([&] {
    absl::SleepFor(absl::Milliseconds(50));
    session().Close();
  });
  EXPECT_FALSE(session().Run({}, {y}).ok());
  closes.join();
}

// On one device it would never end. Here nothing would hold back what it sends.
TEST_F(LoopsOverDevicesTest, WhatGoesOnWhenTheConditionHasEndedTheLoopIsAnError) {
  const auto enter = [&](float value) {
    return g_.AddOp("Enter", {Number(value)}, {{"frame_name", std::string("while")}});
  };
  auto gpu = g_.DeviceScope("/gpu:0");
  const Output first = enter(1);
  Node* const merge = g_.AddNode("Merge", {Values{first, first}});
  const Output next = g_.AddOp("NextIteration", {merge->output(0)});
  g_.graph().SetInput(merge, 1, next);
  const Output without_end = g_.AddOp("Exit", {merge->output(0)});
  const Output y = On("/cpu:0", [&] {
    const Output begin = enter(0);
    Node* const counter = g_.AddNode("Merge", {Values{begin, begin}});
    const Output limit =
        g_.AddOp("Enter", {Number(10)}, {{"frame_name", std::string("while")}, {"is_constant", true}});
    const Output goes_on = g_.AddOp("LoopCond", {Less(g_, counter->output(0), limit)});
    Node* const choice = g_.AddNode("Switch", {counter->output(0), goes_on});
    const Output one =
        g_.AddOp("Enter", {Number(1)}, {{"frame_name", std::string("while")}, {"is_constant", true}});
    g_.graph().SetInput(counter, 1, g_.AddOp("NextIteration", {AddV2(g_, choice->output(1), one)}));
    return g_.AddOp("Exit", {choice->output(0)});
  });
  const absl::Status status =
      session().Run({}, {y, without_end}, {}, {.timeout = absl::Seconds(20)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("'while' goes on here when its condition has ended it"));
}

// Each device waits for what the other one has in the second iteration, and neither sees that by itself.
TEST_F(LoopsOverDevicesTest, AMergeThatGetsNothingInTheSecondIterationIsTheSameErrorAsOnOneDevice) {
  const auto loop = [&](const std::string& frame, const std::string& device) {
    const auto enter = [&](float value, bool is_constant) {
      return g_.AddOp("Enter", {Number(value)}, {{"frame_name", frame}, {"is_constant", is_constant}});
    };
    const Output once = On(device, [&] {
      const Output first = enter(1, false);
      return g_.AddNode("Merge", {Values{first, first}}, {}, frame + "_once")->output(0);
    });
    return On("/cpu:0", [&] {
      const Output begin = enter(0, false), one = enter(1, true), limit = enter(10, true);
      Node* const counter = g_.AddNode("Merge", {Values{begin, begin}});
      const Output sum = AddV2(g_, counter->output(0), once);
      const Output goes_on = g_.AddOp("LoopCond", {Less(g_, sum, limit)});
      Node* const choice = g_.AddNode("Switch", {counter->output(0), goes_on});
      g_.graph().SetInput(counter, 1, g_.AddOp("NextIteration", {AddV2(g_, choice->output(1), one)}));
      return g_.AddOp("Exit", {choice->output(0)});
    });
  };
  const std::pair<std::string, Output> loops[] = {{"alone", loop("alone", "/cpu:0")},
                                                  {"over", loop("over", "/gpu:0")}};
  for (const auto& [frame, y] : loops) {
    const absl::Status status = session().Run({}, {y}, {}, {.timeout = absl::Seconds(5)}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr(absl::StrCat("the step cannot go on: nothing that these nodes wait for will come: '", frame,
                               "_once'")));
  }
}

TEST_F(LoopsOverDevicesTest, StepsMayRunAtOnce) {
  const Output n = Placeholder(g_, DType::kFloat32, kScalar, {.name = "n"});
  const Output y = On("/cpu:0", [&] {
    return While(
        g_, {Number(0), Number(0)}, [&](const Values& v) { return Less(g_, v[0], n); },
        [&](const Values& v) {
          const Output sum = On("/gpu:0", [&] { return AddV2(g_, v[1], v[0]); });
          return Values{AddV2(g_, v[0], Number(1)), sum};
        })[1];
  });
  session();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const float end = static_cast<float>(10 * t + i);
        EXPECT_EQ(Run({{"n:0", Tensor::Scalar(end)}}, y), end * (end - 1) / 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(LoopsOverDevicesTest, SeveralFetchesAndTargetsOfOneLoop) {
  const Values out = On("/cpu:0", [&] {
    return While(
        g_, {Number(1), Number(1)}, [&](const Values& v) { return Less(g_, v[0], Number(50)); },
        [&](const Values& v) {
          return Values{AddV2(g_, v[0], v[0]), On("/gpu:0", [&] { return AddV2(g_, v[1], v[0]); })};
        });
  });
  const Output there = On("/gpu:1", [&] { return Neg(g_, out[1]); });
  const auto ran = session().Run({}, {out[0], there, out[1]});
  ASSERT_TRUE(ran.ok()) << ran.status();
  EXPECT_EQ((*ran)[0].scalar<float>(), 64);
  EXPECT_EQ((*ran)[1].scalar<float>(), -64);
  EXPECT_EQ((*ran)[2].scalar<float>(), 64);
}

TEST_F(LoopsOverDevicesTest, APartialRunFeedsALoop) {
  const Output x = Placeholder(g_, DType::kFloat32, kScalar, {.name = "x"});
  const Output end = Placeholder(g_, DType::kFloat32, kScalar, {.name = "end"});
  const Output y = On("/gpu:0", [&] {
    return While(
        g_, {x}, [&](const Values& v) { return On("/cpu:1", [&] { return Less(g_, v[0], end); }); },
        [&](const Values& v) { return Values{On("/gpu:1", [&] { return AddV2(g_, v[0], v[0]); })}; })[0];
  });
  const Output first = Neg(g_, x);
  auto run = session().StartPartialRun({x, end}, {first, y});
  ASSERT_TRUE(run.ok()) << run.status();
  auto given = (*run)->Run({{x, Tensor::Scalar(3.0f)}}, {first});
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ((*given)[0].scalar<float>(), -3);
  given = (*run)->Run({{end, Tensor::Scalar(50.0f)}}, {y});
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ((*given)[0].scalar<float>(), 96);
}

// What does not change in the loop crosses once, before it, and what the loop gives crosses once, behind it.
TEST_F(LoopsOverDevicesTest, OnlyWhatChangesCrossesInEveryIteration) {
  const Output fed = Placeholder(g_, DType::kFloat32, kScalar, {.name = "fed"});
  const Output weights = On("/cpu:1", [&] { return Neg(g_, fed, {.name = "weights"}); });
  const Output y = On("/cpu:0", [&] {
    return While(
        g_, {Number(1)}, [&](const Values& v) { return Less(g_, v[0], Number(100)); },
        [&](const Values& v) {
          return Values{On("/gpu:0", [&] { return Mul(g_, v[0], weights, {.name = "there"}); })};
        })[0];
  });
  const Output after = On("/gpu:1", [&] { return Neg(g_, y); });
  for (const auto& node : g_.graph().nodes()) {
    if (node->op_name() == "Exit")
      g_.graph().SetRequestedDevice(node.get(), DeviceName::Parse("/gpu:1").value());
  }
  const auto traced =
      Session::Create(g_.graph(), {&worker_}, runtime_->kernels(), {.log_placement = true}).value();
  const auto step = traced->Prepare({fed}, {after});
  ASSERT_TRUE(step.ok()) << step.status();
  const std::string report = (*step)->placement_report().text;
  std::vector<std::string> once, often;
  for (const absl::string_view line : absl::StrSplit(report, '\n')) {
    if (!absl::StrContains(line, "->")) continue;
    const std::string tensor = std::vector<std::string>(absl::StrSplit(line, ' '))[0];
    (absl::StrContains(line, "in every iteration of 'while'") ? often : once).push_back(tensor);
  }
  EXPECT_THAT(once, IsSupersetOf({"weights:0", "while/Exit:0"}));
  EXPECT_THAT(often, UnorderedElementsAre("while/LoopCond:0", "while/Switch:1", "while/there:0"));
  EXPECT_EQ(Run({{"fed:0", Tensor::Scalar(-2.0f)}}, after), -128);
}

TEST_F(LoopsOverDevicesTest, WhatIsInsideCannotBeFetched) {
  Output there;
  On("/cpu:0", [&] {
    return While(
        g_, {Number(0)}, [&](const Values& v) { return Less(g_, v[0], Number(3)); },
        [&](const Values& v) {
          return Values{there = On("/gpu:0", [&] { return AddV2(g_, v[0], Number(1), {.name = "there"}); })};
        });
  });
  EXPECT_THAT(std::string(session().Run({}, {there}).status().message()),
              AllOf(HasSubstr("while/there"), HasSubstr("inside the loop 'while'")));
}

}  // namespace
}  // namespace weir
