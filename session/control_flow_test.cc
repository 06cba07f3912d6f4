// Conditionals and loops, run: those of ops/control_flow.h, TensorFlow's own, and graphs that no builder
// makes.
#include "ops/control_flow.h"

#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/gradients.h"
#include "graph/graph_builder.h"
#include "graph/interchange/graph_def.h"
#include "graph/loops.h"
#include "gtest/gtest.h"
#include "ops/standard_ops.h"
#include "session/test_session.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const PartialShape kScalar = PartialShape::OfRank(0);

std::string Message(const absl::Status& status) { return std::string(status.message()); }
Tensor F(float value) { return Tensor::Scalar(value); }

class ControlFlowTest : public TestSession {
 protected:
  // The one value of `fetch`, as a number; 1e9 where the step fails.
  double Run(const std::vector<std::pair<Output, Tensor>>& feeds, const Output& fetch) {
    Feeds fed;
    for (const auto& [output, tensor] : feeds) fed.emplace_back(output, tensor);
    auto result = session().Run(fed, {fetch});
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return 1e9;
    const Tensor& tensor = (*result)[0];
    return tensor.dtype() == DType::kInt32 ? tensor.scalar<int32_t>() : tensor.scalar<float>();
  }
};

TEST_F(ControlFlowTest, CondGivesTheChosenBranch) {
  const Output x = Placeholder(g_, DType::kFloat32, kScalar), zero = Const(g_, 0.0f);
  const Output y = Cond(
      g_, Greater(g_, x, zero), [&] { return std::vector{Sqrt(g_, x)}; }, [&] { return std::vector{x}; })[0];
  EXPECT_EQ(Run({{x, F(9)}}, y), 3);
  EXPECT_EQ(Run({{x, F(-4)}}, y), -4);
}

TEST_F(ControlFlowTest, NodesOfTheOtherBranchDoNotRun) {
  const Output take = Placeholder(g_, DType::kBool, kScalar);
  const Output checked = Cond(
      g_, take, [&] { return std::vector{Const(g_, 1.0f)}; },
      [&] {
        // Has no input from outside: only the branch itself keeps it from running.
        Node* fails = g_.AddNode("Assert", {Const(g_, false), std::vector<Output>{Const(g_, 7)}});
        auto after = g_.ControlScope({fails});
        return std::vector{Const(g_, 2.0f)};
      })[0];
  EXPECT_EQ(Run({{take, Tensor::Scalar(true)}}, checked), 1);
  EXPECT_THAT(Message(session().Run({{take, Tensor::Scalar(false)}}, {checked}).status()), HasSubstr("7"));
}

TEST_F(ControlFlowTest, APredicateIsOneValue) {
  const Output take = Placeholder(g_, DType::kBool, PartialShape());
  Node* const chosen = g_.AddNode("Switch", {Const(g_, 1.0f), take});
  const auto error =
      session().Run({{take, Tensor::Vector<bool>({true, false})}}, {chosen->output(1)}).status();
  EXPECT_THAT(Message(error), HasSubstr("pred must be a scalar, is [2]"));
}

// What a Merge must come after runs late, for its input comes from another device.
TEST_F(ControlFlowTest, AMergeWaitsForItsControlInputs) {
  auto here = g_.DeviceScope("/device:CPU:0");
  const Output take = Placeholder(g_, DType::kBool, kScalar), x = Placeholder(g_, DType::kFloat32, kScalar);
  const Output handle =
      g_.AddOp("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape()}, {"shared_name", "v"}});
  Node* const init = g_.AddNode("AssignVariableOp", {handle, Const(g_, 0.0f)});
  Output late = x;
  {
    auto elsewhere = g_.DeviceScope("/device:GPU:1");
    for (int i = 0; i < 20; ++i) late = Sqrt(g_, late);
  }
  Node* const assign = g_.AddNode("AssignVariableOp", {handle, late});
  Node* const chosen = g_.AddNode("Switch", {Const(g_, 1.0f), take});
  Node* merge = nullptr;
  {
    auto after = g_.ControlScope({assign});
    merge = g_.AddNode("Merge", {std::vector<Output>{chosen->output(0), chosen->output(1)}});
  }
  Output read;
  {
    auto after = g_.ControlScope({merge});
    read = g_.AddOp("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  }
  ASSERT_TRUE(session().Run({}, {}, {init}).ok());
  EXPECT_EQ(Run({{take, Tensor::Scalar(true)}, {x, F(1)}}, read), 1);
}

TEST_F(ControlFlowTest, GradientsFlowThroughTheChosenBranch) {
  const Output x = Placeholder(g_, DType::kFloat32, kScalar), w = Placeholder(g_, DType::kFloat32, kScalar);
  const Output y = Cond(
      g_, Greater(g_, x, Const(g_, 0.0f)), [&] { return std::vector{Mul(g_, Square(g_, x), w)}; },
      [&] { return std::vector{Neg(g_, x)}; })[0];
  const std::vector<Output> gradients = AddGradients(g_, {y}, {x, w}).value();
  EXPECT_EQ(Run({{x, F(3)}, {w, F(5)}}, gradients[0]), 30);
  EXPECT_EQ(Run({{x, F(3)}, {w, F(5)}}, gradients[1]), 9);
  EXPECT_EQ(Run({{x, F(-3)}, {w, F(5)}}, gradients[0]), -1);
  EXPECT_EQ(Run({{x, F(-3)}, {w, F(5)}}, gradients[1]), 0);  // the branch does not use w
}

TEST_F(ControlFlowTest, BranchesReadVariablesAndTheirGradientsReachThem) {
  const Output take = Placeholder(g_, DType::kBool, kScalar);
  const Output v = g_.AddOp("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", kScalar}});
  Node* init = g_.AddNode("AssignVariableOp", {v, Const(g_, 6.0f)});
  const auto read = [&] { return g_.AddOp("ReadVariableOp", {v}, {{"dtype", DType::kFloat32}}); };
  const Output y = Cond(
      g_, take, [&] { return std::vector{Square(g_, read())}; },
      [&] { return std::vector{Const(g_, 1.0f)}; })[0];
  const Output dv = AddGradients(g_, {y}, {v}).value()[0];
  ASSERT_TRUE(session().Run({}, {}, {init}).ok());
  EXPECT_EQ(Run({{take, Tensor::Scalar(true)}}, dv), 12);
  EXPECT_EQ(Run({{take, Tensor::Scalar(false)}}, dv), 0);
}

TEST_F(ControlFlowTest, DeadTensorsCrossDevices) {
  const Output x = Placeholder(g_, DType::kFloat32, kScalar);
  const auto on = [&](const char* device, auto add) {
    auto scope = g_.DeviceScope(device);
    return add();
  };
  const Output y = Cond(
      g_, Greater(g_, x, Const(g_, 0.0f)),
      [&] {
        return std::vector{
            on("/gpu:1", [&] { return Square(g_, on("/gpu:0", [&] { return Neg(g_, x); })); })};
      },
      [&] { return std::vector{on("/gpu:0", [&] { return Neg(g_, x); })}; })[0];
  EXPECT_EQ(Run({{x, F(3)}}, y), 9);
  EXPECT_EQ(Run({{x, F(-3)}}, y), 3);
}

TEST_F(ControlFlowTest, WhatIsKnownBeforeTheStepStaysInItsBranch) {
  const Output x = Placeholder(g_, DType::kFloat32, {2});
  const Output take = Placeholder(g_, DType::kBool, kScalar);
  // The shape is known, and with it all of the branch: as a constant it would be there in every step, and
  // before what comes from another device.
  const Output y = Sum(g_,
                       Cond(
                           g_, take, [&] { return std::vector{Cast(g_, ShapeOf(g_, x), DType::kFloat32)}; },
                           [&] {
                             auto gpu = g_.DeviceScope("/gpu:1");
                             return std::vector{Neg(g_, x)};
                           })[0],
                       Const(g_, 0));
  EXPECT_EQ(Run({{x, Tensor::Vector<float>({3, 4})}, {take, Tensor::Scalar(false)}}, y), -7);
  EXPECT_EQ(Run({{x, Tensor::Vector<float>({3, 4})}, {take, Tensor::Scalar(true)}}, y), 2);
}

TEST_F(ControlFlowTest, LoopsRunUntilTheConditionIsFalse) {
  const Output n = Placeholder(g_, DType::kInt32, kScalar), step = Placeholder(g_, DType::kInt32, kScalar);
  const std::vector<Output> result = While(
      g_, {Const(g_, 0), Const(g_, 0)}, [&](const auto& v) { return Less(g_, v[0], n); },
      [&](const auto& v) {
        return std::vector{AddV2(g_, v[0], Const(g_, 1)), AddV2(g_, v[1], Mul(g_, v[0], step))};
      });
  EXPECT_EQ(Run({{n, Tensor::Scalar(100)}, {step, Tensor::Scalar(3)}}, result[1]), 14850);
  EXPECT_EQ(Run({{n, Tensor::Scalar(0)}, {step, Tensor::Scalar(3)}}, result[1]), 0);
  EXPECT_EQ(Run({{n, Tensor::Scalar(100)}}, result[0]), 100);  // `step` is not needed for this
}

// What comes from outside is there in every iteration, so without a control edge such a loop never ended.
TEST_F(ControlFlowTest, ALoopVariableMayBecomeWhatComesFromOutside) {
  const Output c = Placeholder(g_, DType::kFloat32, kScalar);
  const auto loop = [&](const std::function<Output()>& next) {
    return While(
        g_, {Const(g_, 0), Const(g_, 0.0f)},
        [&](const std::vector<Output>& v) { return Less(g_, v[0], Const(g_, 2)); },
        [&](const std::vector<Output>& v) {
          return std::vector{AddV2(g_, v[0], Const(g_, 1)), next()};
        })[1];
  };
  const Output same = loop([&] { return c; }), twice = loop([&] { return AddV2(g_, c, c); });
  for (const Output& result : {same, twice}) {
    const auto ran = session().Run({{c, F(5)}}, {result}, {}, {.timeout = absl::Seconds(20)});
    ASSERT_TRUE(ran.ok()) << ran.status();
    EXPECT_EQ((*ran)[0].scalar<float>(), result == same ? 5 : 10);
  }
}

// The value of the next iteration was written before that of this one had been read.
// A step is kept for the next one; what it was fed is not.
TEST_F(ControlFlowTest, NothingThatALoopReadsIsHeldAfterTheStep) {
  const Output n = Placeholder(g_, DType::kFloat32, kScalar), x = Placeholder(g_, DType::kFloat32, kScalar);
  const Output sum = While(
      g_, {Const(g_, 0.0f)}, [&](const std::vector<Output>& v) { return Less(g_, v[0], n); },
      [&](const std::vector<Output>& v) { return std::vector{AddV2(g_, v[0], x)}; })[0];
  const Tensor limit = F(5), added = F(2);
  EXPECT_EQ(Run({{n, limit}, {x, added}}, sum), 6);
  while (worker_.num_running_steps() > 0) std::this_thread::yield();
  EXPECT_TRUE(limit.has_exclusive_buffer());
  EXPECT_TRUE(added.has_exclusive_buffer());
}

TEST_F(ControlFlowTest, ALoopVariableMayEnterAfterItsNextValueIsKnown) {
  const Output c = Placeholder(g_, DType::kFloat32, kScalar);
  const Output sum = While(
      g_, {Const(g_, 0), Const(g_, 0.0f), Const(g_, 0.0f)},
      [&](const std::vector<Output>& v) { return Less(g_, v[0], Const(g_, 3)); },
      [&](const std::vector<Output>& v) {
        return std::vector{AddV2(g_, v[0], Const(g_, 1)), Cast(g_, v[0], DType::kFloat32),
                           AddV2(g_, v[2], v[1])};
      })[2];
  // Nodes run in the order in which they were built: this one after all of the loop that need not wait for
  // it.
  g_.graph().SetInput(g_.graph().FindNode("while/Enter_1"), 0, Neg(g_, c));
  EXPECT_EQ(Run({{c, F(5)}}, sum), -4);  // -5 + 0 + 1
}

TEST_F(ControlFlowTest, LoopsNestAndBranch) {
  const Output n = Placeholder(g_, DType::kInt32, kScalar), one = Const(g_, 1);
  // Counts the pairs j < i < n of which the sum is even.
  const std::vector<Output> result = While(
      g_, {Const(g_, 0), Const(g_, 0)}, [&](const auto& v) { return Less(g_, v[0], n); },
      [&](const auto& outer) {
        const Output i = outer[0];
        const std::vector<Output> inner = While(
            g_, {Const(g_, 0), outer[1]}, [&](const auto& v) { return Less(g_, v[0], i); },
            [&](const auto& v) {
              const Output is_odd = Equal(g_, FloorMod(g_, AddV2(g_, i, v[0]), Const(g_, 2)), one);
              const Output count = Cond(
                  g_, is_odd, [&] { return std::vector{v[1]}; },
                  [&] { return std::vector{AddV2(g_, v[1], one)}; })[0];
              return std::vector{AddV2(g_, v[0], one), count};
            });
        return std::vector{AddV2(g_, i, one), inner[1]};
      });
  EXPECT_EQ(Run({{n, Tensor::Scalar(10)}}, result[1]), 20);
  EXPECT_EQ(Run({{n, Tensor::Scalar(3)}}, result[1]), 1);
}

TEST_F(ControlFlowTest, ALoopInABranchThatIsNotTakenDoesNotBegin) {
  const Output take = Placeholder(g_, DType::kBool, kScalar);
  const auto forever = [&] {
    return While(
        g_, {Const(g_, 1)}, [&](const auto&) { return Const(g_, true); }, [&](const auto& v) { return v; });
  };
  const Output y = Cond(g_, take, forever, [&] { return std::vector{Const(g_, 5)}; })[0];
  EXPECT_EQ(Run({{take, Tensor::Scalar(false)}}, y), 5);
}

TEST_F(ControlFlowTest, AnEndlessLoopEndsAtTheDeadlineAndTheNextStepIsWhole) {
  const Output n = Placeholder(g_, DType::kInt32, kScalar);
  const Output y = While(
      g_, {Const(g_, 0)}, [&](const auto& v) { return NotEqual(g_, v[0], n); },
      [&](const auto& v) {
        return std::vector{FloorMod(g_, AddV2(g_, v[0], Const(g_, 1)), Const(g_, 8))};
      })[0];
  const auto late = session().Run({{n, Tensor::Scalar(9)}}, {y}, {}, {.timeout = absl::Milliseconds(50)});
  EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded) << late.status();
  EXPECT_EQ(Run({{n, Tensor::Scalar(5)}}, y), 5);
}

TEST_F(ControlFlowTest, AFailingKernelEndsTheLoop) {
  const Output n = Placeholder(g_, DType::kInt32, kScalar);
  const Output y = While(
      g_, {Const(g_, 3)}, [&](const auto& v) { return Less(g_, v[0], n); },
      [&](const auto& v) {
        return std::vector{FloorDiv(g_, v[0], Sub(g_, v[0], v[0]), {.name = "by_zero"})};
      })[0];
  EXPECT_THAT(Message(session().Run({{n, Tensor::Scalar(4)}}, {y}).status()),
              AllOf(HasSubstr("by_zero"), HasSubstr("division by zero")));
  EXPECT_EQ(Run({{n, Tensor::Scalar(0)}}, y), 3);
}

TEST_F(ControlFlowTest, AVariableIsUpdatedOnceInEachIteration) {
  const Output v = g_.AddOp("VarHandleOp", {}, {{"dtype", DType::kInt32}, {"shape", kScalar}});
  Node* init = g_.AddNode("AssignVariableOp", {v, Const(g_, 0)});
  const Output rounds = While(
      g_, {Const(g_, 0)}, [&](const auto& i) { return Less(g_, i[0], Const(g_, 7)); },
      [&](const auto& i) {
        auto after = g_.ControlScope({g_.AddNode("AssignAddVariableOp", {v, Const(g_, 10)})});
        return std::vector{AddV2(g_, i[0], Const(g_, 1))};
      })[0];
  const Output read = g_.AddOp("ReadVariableOp", {v}, {{"dtype", DType::kInt32}});
  ASSERT_TRUE(session().Run({}, {}, {init}).ok());
  EXPECT_EQ(Run({}, rounds), 7);
  EXPECT_EQ(Run({}, read), 70);
}

TEST_F(ControlFlowTest, ManyThreadsShareALoop) {
  const Output n = Placeholder(g_, DType::kInt32, kScalar);
  const Output sum = While(
      g_, {n, Const(g_, 0)}, [&](const auto& v) { return Greater(g_, v[0], Const(g_, 0)); },
      [&](const auto& v) {
        return std::vector{Sub(g_, v[0], Const(g_, 1)), AddV2(g_, v[1], v[0])};
      })[1];
  auto step = session().Prepare({n}, {sum}).value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&step, t] {
      for (int i = 0; i < 50; ++i) {
        const int32_t count = 10 * t + i;
        Tensor out;
        const absl::Status status = step->Run({Tensor::Scalar(count)}, absl::MakeSpan(&out, 1));
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_EQ(out.scalar<int32_t>(), count * (count + 1) / 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ControlFlowTest, WhatCannotBeFetchedSaysWhy) {
  const Output x = Placeholder(g_, DType::kFloat32, kScalar);
  Output in_branch, in_loop;
  const Output y = Cond(
      g_, Greater(g_, x, Const(g_, 0.0f)),
      [&] { return std::vector{in_branch = Square(g_, x, {.name = "squared"})}; },
      [&] { return std::vector{x}; })[0];
  While(
      g_, {x}, [&](const auto& v) { return Less(g_, v[0], Const(g_, 9.0f)); },
      [&](const auto& v) { return std::vector{in_loop = Square(g_, v[0], {.name = "again"})}; });
  EXPECT_EQ(Run({{x, F(2)}}, in_branch), 4);
  EXPECT_THAT(Message(session().Run({{x, F(-2)}}, {y, in_branch}).status()),
              AllOf(HasSubstr("cond/squared"), HasSubstr("dead")));
  EXPECT_THAT(Message(session().Run({{x, F(2)}}, {in_loop}).status()),
              AllOf(HasSubstr("while/again"), HasSubstr("inside the loop 'while'")));
}

// What another device sends says that it is dead: a constant's value was given all the same.
TEST_F(ControlFlowTest, AFetchOfAnotherDeviceIsDeadToo) {
  const Output take = Placeholder(g_, DType::kBool, kScalar), x = Placeholder(g_, DType::kFloat32, kScalar);
  Node* taken = nullptr;
  {
    auto here = g_.DeviceScope("/cpu:0");
    Node* const branches = g_.AddNode("Switch", {x, take});
    taken = g_.AddOp("Identity", {branches->output(1)}).node;
  }
  auto there = g_.DeviceScope("/cpu:1");
  auto after = g_.ControlScope({taken});
  const Output constant = Const(g_, 7.0f), handed_on = g_.AddOp("Identity", {x});
  EXPECT_EQ(Run({{take, Tensor::Scalar(true)}, {x, F(2)}}, constant), 7);
  EXPECT_EQ(Run({{take, Tensor::Scalar(true)}, {x, F(2)}}, handed_on), 2);
  for (const Output& fetch : {constant, handed_on}) {
    const Feeds feeds = {{take, Tensor::Scalar(false)}, {x, F(2)}};
    EXPECT_THAT(Message(session().Run(feeds, {fetch}).status()), HasSubstr("dead"));
  }
}

// The Switch of the conditional stayed with x, and the loop was torn apart.
TEST_F(ControlFlowTest, AConditionalInALoopReadsATensorOfAnotherDevice) {
  Output x;
  {
    auto gpu = g_.DeviceScope("/gpu:0");
    x = Square(g_, Placeholder(g_, DType::kFloat32, kScalar, {.name = "x"}));
  }
  auto cpu = g_.DeviceScope("/cpu:0");
  const Output y = While(
      g_, {Const(g_, 0.0f)}, [&](const std::vector<Output>& v) { return Less(g_, v[0], Const(g_, 20.0f)); },
      [&](const std::vector<Output>& v) {
        return Cond(
            g_, Less(g_, v[0], Const(g_, 10.0f)), [&] { return std::vector{AddV2(g_, v[0], x)}; },
            [&] { return std::vector{AddV2(g_, v[0], Const(g_, 7.0f))}; });
      })[0];
  const auto ran = session().Run({{"x:0", F(2)}}, {y});
  ASSERT_TRUE(ran.ok()) << ran.status();
  EXPECT_EQ((*ran)[0].scalar<float>(), 26);  // 4, 8, 12, 19, 26
}

TEST_F(ControlFlowTest, AWholeLoopMayRunOnAnyDevice) {
  auto gpu = g_.DeviceScope("/gpu:1");
  const Output y = While(
      g_, {Const(g_, 1.0f)}, [&](const auto& v) { return Less(g_, v[0], Const(g_, 9.0f)); },
      [&](const auto& v) { return std::vector{AddV2(g_, v[0], v[0])}; })[0];
  EXPECT_EQ(Run({}, y), 16);
}

TEST_F(ControlFlowTest, AShapeInvariantLetsAVariableGrow) {
  const Output n = Placeholder(g_, DType::kInt32, kScalar);
  const Output empty = Const(g_, Tensor(DType::kInt32, Shape({0})));
  const Output all = While(
      g_, {Const(g_, 0), empty}, [&](const auto& v) { return Less(g_, v[0], n); },
      [&](const auto& v) {
        const Output one = Const(g_, 1);
        return std::vector{
            AddV2(g_, v[0], one),
            ConcatV2(g_, {v[1], Reshape(g_, v[0], Const(g_, Tensor::Vector<int32_t>({1})))}, Const(g_, 0))};
      },
      {.shape_invariants = {kScalar, PartialShape({-1})}})[1];
  auto out = session().Run({{n, Tensor::Scalar(4)}}, {all});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT((*out)[0].flat<int32_t>(), ElementsAre(0, 1, 2, 3));
}

// ---- What the builder refuses ----

std::string ErrorOf(const std::function<void(GraphBuilder&)>& build) {
  GraphBuilder g(StandardOps());
  build(g);
  return Message(g.status());
}

TEST(ControlFlowErrors, SayWhatDoesNotFit) {
  const auto one = [](GraphBuilder& g) { return std::vector{Const(g, 1.0f)}; };
  EXPECT_THAT(ErrorOf([&](GraphBuilder& g) {
                Cond(
                    g, Const(g, true), [&] { return one(g); }, [&] { return std::vector{Const(g, 1)}; });
              }),
              AllOf(HasSubstr("Cond 'cond'"), HasSubstr("float of then_branch, int32 of else_branch"),
                    HasSubstr("control_flow_test.cc")));
  EXPECT_THAT(ErrorOf([&](GraphBuilder& g) {
                Cond(
                    g, Const(g, true), [&] { return one(g); }, [&] { return std::vector<Output>(); });
              }),
              HasSubstr("then_branch gives 1 tensors, else_branch 0"));
  EXPECT_THAT(ErrorOf([&](GraphBuilder& g) {
                Cond(
                    g, Const(g, 1.0f), [&] { return one(g); }, [&] { return one(g); });
              }),
              HasSubstr("must be bool"));
  const auto loop = [&](std::vector<Output> (*body)(GraphBuilder&, const std::vector<Output>&)) {
    return ErrorOf([&](GraphBuilder& g) {
      While(
          g, {Const(g, Tensor::Vector<float>({1, 2}))}, [&](const auto&) { return Const(g, false); },
          [&](const auto& v) { return body(g, v); });
    });
  };
  EXPECT_THAT(
      loop([](GraphBuilder& g, const std::vector<Output>& v) {
        return std::vector{ConcatV2(g, {v[0], v[0]}, Const(g, 0))};
      }),
      AllOf(HasSubstr("loop variable 0 is float[2], the body gives float[4]"), HasSubstr("shape invariant")));
  EXPECT_THAT(loop([](GraphBuilder& g, const std::vector<Output>& v) {
                return std::vector{Cast(g, v[0], DType::kInt32)};
              }),
              HasSubstr("loop variable 0 is float[2], the body gives int32[2]"));
  EXPECT_THAT(loop([](GraphBuilder&, const std::vector<Output>&) { return std::vector<Output>(); }),
              HasSubstr("has 1 loop variables, its body gives 0"));
}

TEST(ControlFlowErrors, AfterAnErrorTheResultsAreNullAndMayBeIndexed) {
  GraphBuilder g(StandardOps());
  g.SetError(absl::InvalidArgumentError("earlier"));
  const Output x;
  EXPECT_FALSE(Cond(
      g, x, [&] { return std::vector{x}; }, [&] { return std::vector{x}; })[0]);
  EXPECT_FALSE(While(
      g, {x, x}, [&](const auto& v) { return v[0]; }, [&](const auto& v) { return v; })[1]);
  EXPECT_THAT(Message(g.status()), HasSubstr("earlier"));
}

TEST(ControlFlowErrors, NoGradientFlowsThroughALoop) {
  GraphBuilder g(StandardOps());
  const Output x = Placeholder(g, DType::kFloat32, kScalar);
  const Output y = While(
      g, {x}, [&](const auto& v) { return Less(g, v[0], Const(g, 9.0f)); },
      [&](const auto& v) { return std::vector{Square(g, v[0])}; })[0];
  EXPECT_EQ(AddGradients(g, {y}, {x}).status().code(), absl::StatusCode::kUnimplemented);
}

// ---- Graphs that come from outside ----

class ImportedTest : public ControlFlowTest {
 protected:
  // The error of running `fetch` of a GraphDef in text form, the code's name in front.
  std::string ErrorOfRunning(const std::string& text, const std::string& fetch,
                             absl::Duration timeout = absl::Minutes(1)) {
    auto graph = GraphFromGraphDefText(text, runtime_->ops());
    if (!graph.ok()) return graph.status().ToString();
    auto session = Session::Create(**graph, {&worker_}, runtime_->kernels()).value();
    auto result = session->Run({}, {fetch}, {}, {.timeout = timeout});
    return result.status().ToString();
  }
};

constexpr char kConstants[] = R"(
  node { name: "one" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
         attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 1 } } } }
  node { name: "yes" op: "Const" attr { key: "dtype" value { type: DT_BOOL } }
         attr { key: "value" value { tensor { dtype: DT_BOOL tensor_shape {} bool_val: true } } } }
)";

std::string NodeText(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                     const std::string& more = "") {
  std::string text =
      "node { name: '" + name + "' op: '" + op + "' attr { key: 'T' value { type: DT_FLOAT } } " + more;
  for (const std::string& input : inputs) text += "input: '" + input + "' ";
  return text + "}\n";
}

const char kFrame[] = "attr { key: 'frame_name' value { s: 'loop' } }";
const char kTwo[] = "attr { key: 'N' value { i: 2 } }";

TEST_F(ImportedTest, GraphsThatCannotEndAreRefused) {
  EXPECT_THAT(ErrorOfRunning(kConstants + NodeText("out", "Exit", {"one"}), "out"),
              AllOf(HasSubstr("Exit 'out'"), HasSubstr("in no loop")));
  EXPECT_THAT(ErrorOfRunning(kConstants + NodeText("next", "NextIteration", {"one"}), "next"),
              AllOf(HasSubstr("NextIteration 'next'"), HasSubstr("in no loop")));
  EXPECT_THAT(ErrorOfRunning(kConstants + NodeText("in", "Enter", {"one"}, kFrame) +
                                 NodeText("sum", "AddV2", {"in", "one"}) + NodeText("out", "Exit", {"sum"}),
                             "out"),
              AllOf(HasSubstr("inputs from different loops"), HasSubstr("in 'loop'")));
  EXPECT_THAT(ErrorOfRunning(kConstants + NodeText("in", "Enter", {"one"}, kFrame) +
                                 NodeText("minus", "Neg", {"in"}) + NodeText("out", "Exit", {"minus"}),
                             "out"),
              HasSubstr("without is_constant"));
  EXPECT_THAT(
      ErrorOfRunning(kConstants + NodeText("in", "Enter", {"one"}, kFrame) +
                         NodeText("merge", "Merge", {"in", "next"}, kTwo) +
                         NodeText("next", "NextIteration", {"merge"}) +
                         NodeText("late", "Neg", {"merge", "^next"}) + NodeText("out", "Exit", {"late"}),
                     "out"),
      AllOf(HasSubstr("Neg 'late' must run after"), HasSubstr("belongs to the next iteration")));
  // It would begin once with each, and its results be told twice.
  EXPECT_THAT(
      ErrorOfRunning(
          kConstants + NodeText("in", "Enter", {"one"}, kFrame) + NodeText("late", "Enter", {"one"}, kFrame) +
              NodeText("merge", "Merge", {"in", "late"}, kTwo) + NodeText("out", "Exit", {"merge"}),
          "out"),
      HasSubstr("takes the values of two nodes, Enter 'in'"));
  // An endless loop without a Switch: every iteration gives the next one a value.
  EXPECT_THAT(
      ErrorOfRunning(kConstants + NodeText("in", "Enter", {"one"}, kFrame) +
                         NodeText("merge", "Merge", {"in", "next"}, kTwo) +
                         NodeText("next", "NextIteration", {"merge"}) + NodeText("out", "Exit", {"merge"}),
                     "out", absl::Milliseconds(300)),
      HasSubstr("DEADLINE_EXCEEDED"));
}

TEST_F(ImportedTest, ALoopOfSeveralDevicesNeedsALoopCond) {
  const std::string there = "device: '/gpu:1' ";
  EXPECT_THAT(
      ErrorOfRunning(kConstants + NodeText("in", "Enter", {"one"}, kFrame) +
                         NodeText("merge", "Merge", {"in", "next"}, kTwo) +
                         NodeText("there", "Neg", {"merge"}, there) +
                         NodeText("next", "NextIteration", {"there"}) + NodeText("out", "Exit", {"merge"}),
                     "out"),
      AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("the loop 'loop' spans devices"), HasSubstr("GPU:0"),
            HasSubstr("0 LoopCond nodes")));
}

// What is done for each loop is done in those around it, too.
TEST_F(ImportedTest, LoopsAreNotNestedWithoutALimit) {
  const auto nested = [](int depth) {
    std::string text = kConstants;
    std::string inner = "one";
    for (int i = 0; i < depth; ++i) {
      const std::string enter = absl::StrCat("in", i), merge = absl::StrCat("merge", i);
      const std::string frame = absl::StrCat("attr { key: 'frame_name' value { s: 'loop", i, "' } }");
      text += NodeText(enter, "Enter", {inner}, frame) + NodeText(merge, "Merge", {enter, enter}, kTwo);
      inner = merge;
    }
    for (int i = depth - 1; i >= 0; --i) {
      const std::string exit = absl::StrCat("out", i);
      text += NodeText(exit, "Exit", {inner});
      inner = exit;
    }
    return text;
  };
  EXPECT_THAT(ErrorOfRunning(nested(100), "out0"), HasSubstr("OK"));
  EXPECT_THAT(
      ErrorOfRunning(nested(kMaxLoopDepth + 1), "out0"),
      AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("the loop 'loop1000' is inside of 1000 others")));
}

TEST_F(ImportedTest, AMergeOfNothingIsDead) {
  const std::string text = kConstants + std::string("node { name: 'no' op: 'LogicalNot' input: 'yes' }") +
                           NodeText("choice", "Switch", {"one", "yes"}) + NodeText("a", "Neg", {"choice"}) +
                           NodeText("b", "Neg", {"choice"}) + NodeText("merge", "Merge", {"a", "b"}, kTwo);
  EXPECT_THAT(ErrorOfRunning(text, "merge"), AllOf(HasSubstr("'merge:0' was fetched"), HasSubstr("dead")));
  EXPECT_THAT(ErrorOfRunning(text, "choice:1"), HasSubstr("OK"));
}

TEST_F(ImportedTest, TensorFlowsGraphGivesTensorFlowsResults) {
  std::ifstream file("session/testdata/control_flow.pb", std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  auto graph = GraphFromGraphDefBytes(bytes.str(), runtime_->ops());
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto session = Session::Create(**graph, {&worker_}, runtime_->kernels()).value();
  struct Expected {
    float x;
    int32_t n;
    float y, dy;
    int32_t total, collatz, maybe;
  };
  // What TensorFlow 2.21.0 printed when control_flow.py wrote the graph.
  for (const Expected& e : {Expected{2, 6, 6, 3, 85, 8, 6}, Expected{12, 27, 144, 24, 58500, 111, 28},
                            Expected{-1.5, 0, 1.5, -1, 0, 0, -1}, Expected{0, 1, 0, -1, 0, 0, -1}}) {
    auto out = session->Run({{"x", F(e.x)}, {"n", Tensor::Scalar(e.n)}},
                            {"y:0", "dy:0", "total:0", "collatz:0", "grown:0", "maybe:0"});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].scalar<float>(), e.y);
    EXPECT_EQ((*out)[1].scalar<float>(), e.dy);
    EXPECT_EQ((*out)[2].scalar<int32_t>(), e.total);
    EXPECT_EQ((*out)[3].scalar<int32_t>(), e.collatz);
    ASSERT_EQ((*out)[4].num_elements(), e.n);
    for (int i = 0; i < e.n; ++i) EXPECT_EQ((*out)[4].flat<float>()[i], i * e.x);
    EXPECT_EQ((*out)[5].scalar<int32_t>(), e.maybe);
  }
}

}  // namespace
}  // namespace weir
