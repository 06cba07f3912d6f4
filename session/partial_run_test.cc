// Steps that are fed, and fetched from, in several calls. What is refused, and when, is as in
// TensorFlow 2.21's Session.partial_run; its texts stand beside ours where they differ.
#include "session/partial_run.h"

#include <atomic>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "ops/control_flow.h"
#include "session/session.h"
#include "session/test_scalars.h"
#include "session/test_session.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kPatience = absl::Seconds(60);

class PartialRunTest : public TestSession {
 protected:
  PartialRunTest() {
    a_ = Input("a");
    b_ = Input("b");
    c_ = Input("c");
    sum_ = g_.AddOp("AddV2", {a_, b_}, {}, "sum");
    product_ = g_.AddOp("Mul", {sum_, c_}, {}, "product");
    negated_ = g_.AddOp("Neg", {a_}, {}, "negated");
  }

  Output Input(absl::string_view name) {
    return g_.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}}, name);
  }
  std::unique_ptr<PartialRun> Start(const std::vector<TensorRef>& feeds,
                                    const std::vector<TensorRef>& fetches,
                                    const std::vector<TargetRef>& targets = {},
                                    const RunOptions& options = {}) {
    auto run = session().StartPartialRun(feeds, fetches, targets, options);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *std::move(run) : nullptr;
  }
  static Tensor Value(float value) { return Tensor::Scalar(value); }
  static void ExpectRefused(const absl::StatusOr<std::vector<Tensor>>& results, absl::string_view message) {
    EXPECT_EQ(results.status().code(), absl::StatusCode::kInvalidArgument) << results.status();
    EXPECT_THAT(std::string(results.status().message()), HasSubstr(std::string(message)));
  }
  void ExpectIdle() {
    // A step leaves the worker just after whoever waited for it was told.
    while (worker_.num_running_steps() > 0) std::this_thread::yield();
  }

  Output a_, b_, c_, sum_, product_, negated_;
};

TEST_F(PartialRunTest, EachPartComputesWhatItsFeedsAllow) {
  for (int i = 0; i < 3; ++i) {
    auto run = Start({a_, b_, c_}, {sum_, product_});
    EXPECT_THAT(Scalars(run->Run({{a_, Value(1)}, {b_, Value(2)}}, {sum_})), ElementsAre(3));
    EXPECT_THAT(Scalars(run->Run({{c_, Value(4)}}, {product_})), ElementsAre(12));
    EXPECT_TRUE(run->step().Await().ok());
  }
  EXPECT_EQ(worker_.num_plans(), 1) << "compiled once";
  ExpectIdle();
}

TEST_F(PartialRunTest, NobodyNeedsToBeTold) {
  const std::unique_ptr<PartialRun> run = Start({a_}, {negated_});
  run->Start({{a_, Value(1)}}, {negated_}, nullptr);
  run->step().OnDone(nullptr);
  EXPECT_TRUE(run->step().Await().ok());
  for (const std::vector<TensorRef>& fetches : {std::vector<TensorRef>{sum_, negated_}, {negated_, sum_}}) {
    const auto prepared = session().Prepare({a_, b_}, fetches).value();
    const std::shared_ptr<Step> step = prepared->Start({Value(1), Value(2)});
    step->OnDone(nullptr);
    EXPECT_TRUE(step->Await().ok());
    step->OnDone(nullptr);
    const std::shared_ptr<Step> refused = prepared->Start({});
    refused->OnDone(nullptr);
    EXPECT_FALSE(refused->Await().ok());
  }
  ExpectIdle();
}

TEST_F(PartialRunTest, WhatIsRefusedChangesNothing) {
  const Output other = Input("other"), of_other = g_.AddOp("AddV2", {a_, other}, {}, "of_other");
  auto run = Start({a_, b_, c_}, {sum_, product_, negated_});
  // TensorFlow: "Fetch b:0 can't be computed from the feeds that have been fed so far."
  ExpectRefused(run->Run({{a_, Value(1)}}, {sum_}),
                "fetch 'sum:0' can't be computed from the feeds that have been fed so far: 'b:0' is missing");
  ExpectRefused(run->Run({{b_, Value(1)}}, {sum_}), "'a:0' is missing");
  EXPECT_THAT(Scalars(run->Run({{a_, Value(1)}}, {})), IsEmpty());
  ExpectRefused(run->Run({{b_, Value(9)}, {a_, Value(1)}}, {}), "The feed a:0 has already been fed.");
  ExpectRefused(run->Run({{b_, Value(9)}, {b_, Value(1)}}, {}), "The feed b:0 has already been fed.");
  EXPECT_THAT(Scalars(run->Run({}, {negated_})), ElementsAre(-1));
  ExpectRefused(run->Run({{b_, Value(9)}}, {sum_, negated_}),
                "The fetch negated:0 has already been fetched.");
  ExpectRefused(run->Run({{b_, Value(9)}}, {of_other}),
                "The fetch of_other:0 was not specified in partial_run_setup.");
  ExpectRefused(run->Run({{other, Value(9)}}, {sum_}),
                "The feed other:0 was not specified in partial_run_setup.");
  ExpectRefused(run->Run({{sum_, Value(9)}}, {}), "The feed sum:0 was not specified in partial_run_setup.");
  ExpectRefused(run->Run({{b_, Tensor::Vector<float>({1, 2})}}, {}),
                "feed 'b:0' must be float[], got float[2]");
  ExpectRefused(run->Run({{b_, Tensor::Scalar<int32_t>(1)}}, {}), "feed 'b:0' must be float[], got int32[]");
  ExpectRefused(run->Run({{b_, Tensor()}}, {}), "feed 'b:0' must be float[]");
  ExpectRefused(run->Run({{"nowhere", Value(1)}}, {}),
                "The feed nowhere:0 was not specified in partial_run_setup.");
  ExpectRefused(run->Run({}, {Output()}), "no node's output");
  EXPECT_THAT(Scalars(run->Run({{"b", Value(2)}}, {"sum:0"})), ElementsAre(3));
  EXPECT_THAT(Scalars(run->Run({{"c:0", Value(5)}}, {"product"})), ElementsAre(15));
  ExpectRefused(run->Run({{c_, Value(5)}}, {product_}), "The feed c:0 has already been fed.");
}

TEST_F(PartialRunTest, AFetchIsCheckedAnewAfterARefusal) {
  auto run = Start({a_, b_, c_}, {sum_, product_});
  // sum's dependencies are found complete with feeds that are then refused because of product.
  ExpectRefused(run->Run({{a_, Value(1)}, {b_, Value(2)}}, {sum_, product_}), "'c:0' is missing");
  ExpectRefused(run->Run({}, {sum_}), "can't be computed");
  EXPECT_THAT(Scalars(run->Run({{a_, Value(1)}, {b_, Value(2)}}, {sum_, sum_, "sum"})), ElementsAre(3, 3, 3));
}

TEST_F(PartialRunTest, SetUpsThatCannotWorkAreRefused) {
  const auto refused = [this](const std::vector<TensorRef>& feeds, const std::vector<TensorRef>& fetches,
                              absl::string_view message) {
    const absl::Status status = session().StartPartialRun(feeds, fetches).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(message)));
  };
  refused({a_}, {}, "at least one fetch or target");
  refused({a_}, {a_}, "'a:0' is both fed and fetched");
  refused({a_, "a", b_}, {sum_}, "'a:0' is fed twice");
  EXPECT_EQ(session().StartPartialRun({a_}, {"nowhere"}).status().code(), absl::StatusCode::kNotFound);
  // What is never fed must not be needed: as in TensorFlow the step finds it out, not the set-up.
  auto run = Start({a_}, {sum_});
  EXPECT_THAT(std::string(run->Run({{a_, Value(1)}}, {sum_}).status().message()), HasSubstr("b"));
}

TEST_F(PartialRunTest, AnyTensorMayBeFed) {
  auto run = Start({sum_, c_}, {product_});
  EXPECT_THAT(Scalars(run->Run({{sum_, Value(3)}, {c_, Value(2)}}, {product_})), ElementsAre(6));
}

TEST_F(PartialRunTest, FeedsThatNothingNeedsAreNotWaitedFor) {
  auto run = Start({a_, c_}, {negated_});
  EXPECT_THAT(Scalars(run->Run({{a_, Value(1)}}, {negated_})), ElementsAre(-1));
  EXPECT_TRUE(run->step().Await().ok());
  EXPECT_TRUE(run->Run({{c_, Value(1)}}, {}).ok());
  ExpectRefused(run->Run({{c_, Value(1)}}, {}), "already been fed");
}

TEST_F(PartialRunTest, ResultsAreKeptUntilTheyAreTaken) {
  auto run = Start({a_, b_}, {sum_, negated_});
  ASSERT_TRUE(run->Run({{a_, Value(1)}, {b_, Value(2)}}, {}).ok());
  EXPECT_TRUE(run->step().Await().ok());
  EXPECT_THAT(Scalars(run->Run({}, {negated_})), ElementsAre(-1));
  EXPECT_FALSE(run->is_over()) << "the step is over, but not all of it is taken";
  EXPECT_THAT(Scalars(run->Run({}, {sum_})), ElementsAre(3));
  EXPECT_TRUE(run->is_over());
}

TEST_F(PartialRunTest, PartsMayBeOnSeveralDevices) {
  Output x, y;
  {
    auto device = g_.DeviceScope("/gpu:0");
    x = g_.AddOp("AddV2", {a_, a_}, {}, "x");
  }
  {
    auto device = g_.DeviceScope("/cpu:1");
    y = g_.AddOp("Mul", {x, b_}, {}, "y");
  }
  Output z;
  {
    auto device = g_.DeviceScope("/gpu:1");
    z = g_.AddOp("AddV2", {y, sum_}, {}, "z");
  }
  for (int i = 0; i < 20; ++i) {
    auto run = Start({a_, b_}, {x, y, z});
    EXPECT_THAT(Scalars(run->Run({{a_, Value(3)}}, {x})), ElementsAre(6));
    EXPECT_THAT(Scalars(run->Run({{b_, Value(i)}}, {z, y})), ElementsAre(6 * i + 3 + i, 6 * i));
  }
  ExpectIdle();
}

TEST_F(PartialRunTest, TargetsRunAndTheLastCallWaitsForThem) {
  const Output handle = g_.AddOp(
      "VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}, {"shared_name", "v"}});
  Node* const init = g_.AddNode("AssignVariableOp", {handle, g_.AddOp("ZerosLike", {a_})});
  Node* const add = g_.AddNode("AssignAddVariableOp", {handle, b_});
  const Output read = g_.AddOp("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  ASSERT_TRUE(session().Run({{a_, Value(0)}}, {}, {init}).ok());
  for (int i = 1; i <= 20; ++i) {
    auto run = Start({a_, b_}, {negated_}, {add});
    if (i % 2 == 0) {
      EXPECT_THAT(Scalars(run->Run({{a_, Value(1)}}, {negated_})), ElementsAre(-1));
      EXPECT_THAT(Scalars(session().Run({}, {read})), ElementsAre(i - 1));
      ASSERT_TRUE(run->Run({{b_, Value(1)}}, {}).ok());
    } else {
      EXPECT_THAT(Scalars(run->Run({{a_, Value(1)}, {b_, Value(1)}}, {negated_})), ElementsAre(-1));
    }
    EXPECT_THAT(Scalars(session().Run({}, {read})), ElementsAre(i));
  }
}

TEST_F(PartialRunTest, AnErrorEndsTheRunForAll) {
  const Output checked = g_.AddOp("CheckNumerics", {a_}, {{"message", "bad"}}, "checked");
  const Output later = g_.AddOp("AddV2", {checked, b_}, {}, "later");
  auto run = Start({a_, b_, c_}, {checked, later, sum_});
  const absl::Status failed = run->Run({{a_, Value(std::nanf(""))}}, {checked}).status();
  EXPECT_THAT(std::string(failed.message()), AllOf(HasSubstr("'checked'"), HasSubstr("bad")));
  EXPECT_EQ(run->Run({{b_, Value(1)}}, {later}).status(), failed);
  EXPECT_EQ(run->Run({}, {}).status(), failed);
  EXPECT_EQ(run->step().Await().status(), failed);
  ExpectIdle();
}

TEST_F(PartialRunTest, ABranchThatWasNotTakenCannotBeFetched) {
  const Output predicate =
      g_.AddOp("Placeholder", {}, {{"dtype", DType::kBool}, {"shape", PartialShape({})}}, "predicate");
  Node* const branch = g_.AddNode("Switch", {a_, predicate}, {}, "branch");
  const Output no = g_.AddOp("Neg", {branch->output(0)}, {}, "no"),
               yes = g_.AddOp("Neg", {branch->output(1)});
  auto run = Start({a_, b_, predicate}, {no, yes, sum_});
  EXPECT_THAT(Scalars(run->Run({{a_, Value(2)}, {predicate, Tensor::Scalar(true)}}, {yes})), ElementsAre(-2));
  ExpectRefused(run->Run({}, {no}), "'no:0' was fetched, but it is dead");
  ExpectRefused(run->Run({{b_, Value(1)}}, {sum_}),
                "it is dead");  // which has ended the step, as in TensorFlow
}

TEST_F(PartialRunTest, CancelReachesAll) {
  auto run = Start({a_, b_, c_}, {sum_, product_});
  ASSERT_TRUE(run->Run({{a_, Value(1)}}, {}).ok());
  run->step().Cancel(absl::AbortedError("no longer wanted"));
  EXPECT_EQ(run->step().Await().status(), absl::AbortedError("no longer wanted"));
  EXPECT_EQ(run->Run({{b_, Value(1)}}, {sum_}).status(), absl::AbortedError("no longer wanted"));
  run->step().Cancel(absl::AbortedError("again"));
  ExpectIdle();

  run = Start({a_}, {negated_});
  session().Close();
  EXPECT_EQ(run->Run({{a_, Value(1)}}, {negated_}).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(session().StartPartialRun({a_}, {negated_}).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(PartialRunTest, TheDeadlineIsThatOfAllPartsTogether) {
  auto run = Start({a_, b_}, {sum_}, {}, {.timeout = absl::Milliseconds(20)});
  // On a slow machine the deadline passes before it.
  const absl::Status first = run->Run({{a_, Value(1)}}, {}).status();
  EXPECT_TRUE(first.ok() || absl::IsDeadlineExceeded(first)) << first;
  absl::Notification is_over;
  absl::Status status;
  run->step().OnDone([&](const Step::Results& results) {
    status = results.status();
    is_over.Notify();
  });
  ASSERT_TRUE(is_over.WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'b:0' to be fed"));
  EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("more"))) << "sum is not waited for";
  EXPECT_EQ(run->Run({{b_, Value(1)}}, {sum_}).status(), status);
}

TEST_F(PartialRunTest, OneThatIsDroppedIsCollected) {
  for (int i = 0; i < 50; ++i) {
    auto run = Start({a_, b_, c_}, {sum_, product_});
    ASSERT_TRUE(run->Run({{a_, Value(1)}, {b_, Value(1)}}, {}).ok());
  }
  ExpectIdle();
  EXPECT_EQ(worker_.num_plans(), 1);

  // Nothing is missing: what was asked for happens.
  const Output handle = g_.AddOp(
      "VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}, {"shared_name", "v"}});
  Node* const assign = g_.AddNode("AssignVariableOp", {handle, b_});
  const Output read = g_.AddOp("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  absl::Notification is_over;
  absl::Status status;
  {
    auto run = Start({b_, c_}, {}, {assign});
    run->step().OnDone([&](const Step::Results& results) {
      status = results.status();
      is_over.Notify();
    });
    run->Start({{b_, Value(7)}}, {}, [](const Step::Results&) {});
  }
  ASSERT_TRUE(is_over.WaitForNotificationWithTimeout(kPatience));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(Scalars(session().Run({}, {read})), ElementsAre(7));
}

TEST_F(PartialRunTest, NobodyNeedsToWait) {
  auto run = Start({a_, b_, c_}, {sum_, product_});
  absl::Notification is_over;
  std::vector<float> values;
  absl::Status refused;
  run->Start({{a_, Value(1)}, {b_, Value(2)}}, {sum_}, [&](const Step::Results& first) {
    values.push_back(first.ok() ? (*first)[0].scalar<float>() : -1);
    if (RunScope::IsInside()) refused = run->Run({}, {}).status();
    run->Start({{c_, (*first)[0]}}, {product_}, [&](const Step::Results& second) {
      values.push_back(second.ok() ? (*second)[0].scalar<float>() : -1);
      is_over.Notify();
    });
  });
  ASSERT_TRUE(is_over.WaitForNotificationWithTimeout(kPatience));
  EXPECT_THAT(values, ElementsAre(3, 9));
  if (!refused.ok()) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  }
}

// Nodes that run as one wait together. Who reads a part of what they give must not wait for feeds that the
// part does not depend on.
TEST_F(PartialRunTest, FetchesDoNotWaitForFeedsOfOthers) {
  const RunOptions patient = {.timeout = kPatience};
  const auto input = [this](const PartialShape& shape) {
    return g_.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", shape}});
  };
  const Output x = input({-1}), exp = g_.AddOp("Exp", {x}), shape = g_.AddOp("Shape", {exp}),
               scaled = g_.AddOp("Mul", {exp, c_});
  auto run = Start({x, c_}, {shape, scaled}, {}, patient);
  EXPECT_EQ(run->Run({{x, Tensor::Vector<float>({0, 0})}}, {shape}).status(), absl::OkStatus());
  EXPECT_EQ(run->Run({{c_, Value(3)}}, {scaled}).status(), absl::OkStatus());

  const Tensor image = Tensor::From<float>({1, 1, 2, 1}, {1, 2}), one = Tensor::Vector<float>({1});
  const Output images = input({-1, 1, 2, 1}), side = input({-1, 1, 2, 1}), ones = input({1});
  Node* const norm = g_.AddNode("FusedBatchNormV3", {images, ones, ones, ones, ones});
  const Output like = g_.AddOp("Neg", {images}), mean = norm->output(1),
               sum = g_.AddOp("Relu", {g_.AddOp("AddV2", {norm->output(0), g_.AddOp("Mul", {like, c_})})});
  run = Start({images, ones, c_}, {mean, sum}, {}, patient);
  EXPECT_EQ(run->Run({{images, image}, {ones, one}}, {mean}).status(), absl::OkStatus());
  EXPECT_EQ(run->Run({{c_, Value(3)}}, {sum}).status(), absl::OkStatus());

  const Output masked = g_.AddOp("ReluGrad", {side, side});
  Node* const gradient = g_.AddNode(
      "FusedBatchNormGradV3", {masked, images, ones, norm->output(3), norm->output(4), norm->output(5)});
  run = Start({side, images, ones}, {masked, gradient->output(0)}, {}, patient);
  EXPECT_EQ(run->Run({{side, image}}, {masked}).status(), absl::OkStatus());
  EXPECT_EQ(run->Run({{images, image}, {ones, one}}, {gradient->output(0)}).status(), absl::OkStatus());
}

// TensorFlow gives the count early. Here an iteration ends as a whole, so the fetch is refused: it would wait
// for ever.
TEST_F(PartialRunTest, ResultsOfALoopDependOnAllThatEntersIt) {
  const Output limit = g_.AddOp("Const", {}, {{"value", Value(3)}, {"dtype", DType::kFloat32}});
  const std::vector<Output> ends = While(
      g_, {a_, b_},
      [&](const auto& v) {
        return g_.AddOp("Less", {v[0], limit});
      },
      [&](const auto& v) {
        return std::vector{g_.AddOp("AddV2", {v[0], v[0]}), g_.AddOp("AddV2", {v[1], v[1]})};
      });
  auto run = Start({a_, b_, c_}, {ends[0], ends[1], negated_}, {}, {.timeout = kPatience});
  EXPECT_THAT(Scalars(run->Run({{a_, Value(1)}}, {negated_})), ElementsAre(-1));
  ExpectRefused(run->Run({}, {ends[0]}), "'b:0' is missing");
  EXPECT_THAT(Scalars(run->Run({{b_, Value(1)}}, {ends[0], ends[1]})), ElementsAre(4, 4));
}

TEST_F(PartialRunTest, WhoIsToldOfTheEndMayDropTheRun) {
  for (int i = 0; i < 20; ++i) {
    auto run = Start({a_, b_}, {sum_});
    absl::Notification is_over;
    run->Start({{a_, Value(1)}, {b_, Value(2)}}, {sum_}, [&](const Step::Results& results) {
      EXPECT_TRUE(results.ok()) << results.status();
      run.reset();
      is_over.Notify();
    });
    ASSERT_TRUE(is_over.WaitForNotificationWithTimeout(kPatience));
  }
  ExpectIdle();
}

TEST_F(PartialRunTest, AnswersDoNotNest) {
  auto run = Start({a_}, {negated_});
  bool is_inside = false;
  int num_answers = 0;
  Step::Done refused = [&](const Step::Results& results) {
    EXPECT_EQ(results.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(std::exchange(is_inside, true));
    if (++num_answers < 3) run->Start({}, {"nowhere"}, refused);
    if (num_answers == 3)
      run->Start({{"nowhere", Value(1)}}, {}, [&](const Step::Results&) {
        EXPECT_FALSE(is_inside);
        ++num_answers;
      });
    is_inside = false;
  };
  run->Start({}, {"nowhere"}, refused);
  EXPECT_EQ(num_answers, 4);
}

TEST_F(PartialRunTest, ManyThreadsMayFeedOneRun) {
  constexpr int kThreads = 8;
  for (int i = 0; i < 50; ++i) {
    auto run = Start({a_, b_, c_}, {sum_, product_});
    std::atomic<int> num_fed{0}, num_fetched{0};
    std::vector<std::thread> threads;
    for (int k = 0; k < kThreads; ++k) {
      threads.emplace_back([&, k] {
        for (const Output& feed : {a_, b_, c_}) num_fed += run->Run({{feed, Value(2)}}, {}).ok();
        for (const Output& fetch : {k % 2 == 0 ? product_ : sum_, k % 2 == 0 ? sum_ : product_}) {
          const auto value = run->Run({}, {fetch});
          if (!value.ok()) continue;
          ++num_fetched;
          EXPECT_EQ((*value)[0].scalar<float>(), fetch == sum_ ? 4 : 8);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(num_fed, 3);
    EXPECT_EQ(num_fetched, 2);
  }
}

TEST_F(PartialRunTest, ManyThatAreNeverFinishedEndWithTheSession) {
  constexpr int kThreads = 4, kRuns = 500;
  session();
  std::atomic<int> num_started{0}, num_ended{0};
  std::vector<std::vector<std::unique_ptr<PartialRun>>> runs(kThreads);
  std::vector<std::thread> threads;
  for (int k = 0; k < kThreads; ++k) {
    threads.emplace_back([&, k] {
      for (int i = 0; i < kRuns; ++i) {
        auto run = session().StartPartialRun({a_, b_, c_}, {sum_, product_});
        if (!run.ok()) {
          EXPECT_EQ(run.status().code(), absl::StatusCode::kCancelled) << run.status();
          continue;
        }
        ++num_started;
        (*run)->step().OnDone([&](const Step::Results& results) {
          EXPECT_EQ(results.status().code(), absl::StatusCode::kCancelled) << results.status();
          ++num_ended;
        });
        (*run)->Start({{a_, Value(1)}}, {}, [](const Step::Results&) {});
        if (i % 4 == 0) (*run)->step().Cancel(absl::CancelledError("no longer wanted"));
        if (i % 4 != 1) runs[k].push_back(*std::move(run));
        if (k == 0 && i == kRuns / 2) session().Close();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(num_started, kRuns / 2);
  ExpectIdle();
  while (num_ended < num_started) std::this_thread::yield();
  EXPECT_EQ(worker_.num_plans(), 0);
  for (const auto& of_thread : runs) {
    for (const auto& run : of_thread) {
      EXPECT_EQ(run->Run({{b_, Value(1)}}, {sum_}).status().code(), absl::StatusCode::kCancelled);
    }
  }
  EXPECT_EQ(num_ended, num_started);
}

TEST_F(PartialRunTest, StepsOfPartialRunsAreNotRunOtherwise) {
  auto run = Start({a_}, {negated_});
  EXPECT_THAT(Scalars(session().Run({{a_, Value(4)}}, {negated_})), ElementsAre(-4));
  EXPECT_EQ(worker_.num_plans(), 2) << "another plan";
  EXPECT_THAT(Scalars(run->Run({{a_, Value(5)}}, {negated_})), ElementsAre(-5));
}

}  // namespace
}  // namespace weir
