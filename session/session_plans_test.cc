// Which plans a session compiles, keeps and drops, and what sessions share.
#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "graph/graph_builder.h"
#include "graph/types/status_macros.h"
#include "gtest/gtest.h"
#include "kernels/environment.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/test_files.h"
#include "kernels/kernel.h"
#include "kernels/kernel_registry.h"
#include "session/folding.h"
#include "session/forwarding_worker.h"
#include "session/placement_files.h"
#include "session/session.h"
#include "session/test_scalars.h"
#include "session/test_session.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);

class SessionPlansTest : public TestSession {
 protected:
  Output Constant(float value) {
    return g_.AddOp("Const", {}, {{"value", Tensor::Scalar(value)}, {"dtype", DType::kFloat32}});
  }
  Output Input(absl::string_view name) {
    return g_.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}}, name);
  }
  std::unique_ptr<Session> MakeSession(const SessionOptions& options, Worker* worker = nullptr) {
    return Session::Create(g_.graph(), {worker != nullptr ? worker : &worker_}, runtime_->kernels(), options)
        .value();
  }
};

TEST_F(SessionPlansTest, TheOrderOfASignatureMakesNoNewPlan) {
  const Output a = Input("a"), b = Input("b"), c = g_.AddOp("Sub", {a, b}), d = g_.AddOp("Sub", {b, a});
  const Tensor three = Tensor::Scalar(3.0f), one = Tensor::Scalar(1.0f);
  EXPECT_THAT(Scalars(session().Run({{a, three}, {b, one}}, {c, d})), ElementsAre(2, -2));
  EXPECT_THAT(Scalars(session().Run({{b, one}, {a, three}}, {d, c})), ElementsAre(-2, 2));
  EXPECT_THAT(Scalars(session().Run({{b, one}, {a, three}}, {d, c, d, d})), ElementsAre(-2, 2, -2, -2));
  EXPECT_EQ(worker_.num_plans(), 1);
  auto step = session().Prepare({b, a}, {d, c}, {c.node, d.node, c.node}).value();
  EXPECT_THAT(Scalars(step->Start({one, three})->Await()), ElementsAre(-2, 2));
  std::vector<Tensor> fetches(2);
  EXPECT_THAT(std::string(step->Run({one}, absl::MakeSpan(fetches)).message()),
              HasSubstr("takes 2 feeds and 2 fetches, got 1 and 2"));
  EXPECT_FALSE(step->Start({one})->Await().ok());
  EXPECT_FALSE(session().Run({{a, three}, {a, one}, {b, one}}, {c}).ok()) << "fed twice";
}

TEST_F(SessionPlansTest, PlacementReportsAreLeftInAFolder) {
  const std::string folder = NewTestDirectory() + "/placement";
  const Output a = Input("a");
  Output b;
  {
    const auto scope = g_.DeviceScope("/device:GPU:1");
    b = g_.AddOp("Neg", {a});
  }
  auto session = MakeSession({.placement_dir = folder});
  EXPECT_THAT(Scalars(session->Run({{a, Tensor::Scalar(1.0f)}}, {b})), ElementsAre(-1));
  EXPECT_THAT(Scalars(session->Run({{a, Tensor::Scalar(1.0f)}}, {b})), ElementsAre(-1));
  EXPECT_THAT(ReadBytes(folder + "/step-1.txt"), HasSubstr("GPU:1"));
  EXPECT_THAT(ReadBytes(folder + "/step-1.dot"), HasSubstr("GPU:1"));
  EXPECT_THAT(ReadBytes(folder + "/step-1.svg"), HasSubstr("</svg>"));
  EXPECT_FALSE(PosixFileSystem().Exists(folder + "/step-2.txt")) << "the step was compiled once";
}

TEST_F(SessionPlansTest, AFolderForReportsThatCannotBeMadeIsAnError) {
  auto session = MakeSession({.placement_dir = "/proc/weir"});
  const absl::Status status = session->Run({}, {Constant(1)}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/weir"));
}

TEST_F(SessionPlansTest, NoMoreThanSoManyReportsAreWritten) {
  const std::string folder = NewTestDirectory();
  PlacementFiles files(folder);
  for (int i = 0; i < PlacementFiles::kMaxSteps + 5; ++i) ASSERT_TRUE(files.Write({}).ok());
  EXPECT_EQ(PosixFileSystem().ListDirectory(folder)->size(), 3u * PlacementFiles::kMaxSteps);
}

TEST_F(SessionPlansTest, WhatWasNotUsedForLongestLeavesAfterItsLastUser) {
  const Output a = Constant(1), b = Constant(2), c = Constant(3);
  auto session = MakeSession({.max_cached_signatures = 2});
  auto held = session->Prepare({}, {a}).value();
  EXPECT_THAT(Scalars(session->Run({}, {b})), ElementsAre(2));
  EXPECT_THAT(Scalars(session->Run({}, {c})), ElementsAre(3));  // a is evicted, but somebody holds it
  EXPECT_EQ(worker_.num_plans(), 3);
  Tensor fetch;
  EXPECT_TRUE(held->Run({}, absl::MakeSpan(&fetch, 1)).ok());
  EXPECT_THAT(Scalars(session->Run({}, {a})), ElementsAre(1));  // the plan that is held; b is evicted
  EXPECT_EQ(worker_.num_plans(), 2);
  held.reset();
  EXPECT_EQ(worker_.num_plans(), 2);
  EXPECT_THAT(Scalars(session->Run({}, {b})), ElementsAre(2));  // compiled anew
  EXPECT_EQ(worker_.num_plans(), 2);
}

TEST_F(SessionPlansTest, ClosingRefusesStepsThatAreHeld) {
  const Output a = Constant(1);
  auto step = session().Prepare({}, {a}).value();
  session().Close();
  EXPECT_EQ(worker_.num_plans(), 0);
  Tensor fetch;
  const absl::Status status = step->Run({}, absl::MakeSpan(&fetch, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(status.message(), "the session was closed");
  EXPECT_EQ(step->Start({})->Await().status(), status);
}

// Each step is pruned to other nodes, and all of them together say where the variable is.
TEST_F(SessionPlansTest, AVariableIsOnOneDeviceWhateverTheNodesOfAStepAskFor) {
  const AttrMap type = {{"dtype", DType::kFloat32}};
  const Output v =
      g_.AddOp("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}}, "v");
  Node* const init = g_.AddNode("AssignVariableOp", {v, Constant(2)});
  const Output read_anywhere = g_.AddOp("ReadVariableOp", {v}, type);
  Output read;
  {
    const auto scope = g_.DeviceScope("/device:CPU:1");
    read = g_.AddOp("ReadVariableOp", {v}, type);
  }
  ASSERT_TRUE(session().Run({}, {}, {init}).ok());
  EXPECT_THAT(Scalars(session().Run({}, {read})), ElementsAre(2));
  EXPECT_THAT(Scalars(session().Run({}, {read_anywhere})), ElementsAre(2));
  EXPECT_THAT(Scalars(session().Run({}, {read_anywhere, read})), ElementsAre(2, 2));
  EXPECT_EQ(session().PlacedGraph().value()->FindNode("v")->assigned_device().index, 1);
  // It stays there when more of the graph asks for another device.
  Output read_later;
  ASSERT_TRUE(session()
                  .Extend([&] {
                    const auto scope = g_.DeviceScope("/device:CPU:0");
                    read_later = g_.AddOp("ReadVariableOp", {v}, type);
                    return g_.status();
                  })
                  .ok());
  EXPECT_THAT(Scalars(session().Run({}, {read_later})), ElementsAre(2));
}

// A worker that says when it is asked to compile, and then waits.
class SlowCompiler final : public ForwardingWorker {
 public:
  explicit SlowCompiler(LocalWorker& worker) : ForwardingWorker(&worker) {}
  StepOwners* owners() override { return nullptr; }
  absl::Status RegisterPartition(PartitionSpec spec, absl::Time deadline) override {
    is_asked.Notify();
    may_compile.WaitForNotificationWithTimeout(kPatience);
    return worker_->RegisterPartition(std::move(spec), deadline);
  }

  absl::Notification is_asked, may_compile;
};

TEST_F(SessionPlansTest, ASessionThatIsClosedWhileItCompilesLeavesNothing) {
  const Output a = Constant(1);
  SlowCompiler worker(worker_);
  auto session = MakeSession({}, &worker);
  absl::Status status;
  std::thread client([&] { status = session->Run({}, {a}).status(); });
  worker.is_asked.WaitForNotification();
  session->Close();
  worker.may_compile.Notify();
  client.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(worker_.num_plans(), 0);
  EXPECT_EQ(worker_.num_sessions(), 0);
}

// Between two passes over the graph: a worker would be asked only after the last.
TEST_F(SessionPlansTest, CompilingEndsAtItsDeadline) {
  const Output a = Constant(1);
  const absl::Status late =
      session().Prepare({}, {a}, {}, RealEnvironment().Now() - absl::Milliseconds(1)).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << late;
  EXPECT_EQ(late.message(), "a step of 2 nodes has run out of time while it was compiled");
  EXPECT_EQ(worker_.num_plans(), 0);
  EXPECT_TRUE(session().Prepare({}, {a}).ok());
}

// Kernels of "Neg" that call `compute`: where constants are folded, and in steps.
class NegKernels {
 public:
  using Compute = std::function<absl::Status(KernelContext& context)>;

  explicit NegKernels(Compute compute) : compute_(std::move(compute)) {
    kernels_.Register({.op = "Neg", .device_type = "CPU", .create = [this](const KernelConstruction&) {
                         return absl::StatusOr<std::unique_ptr<Kernel>>(std::make_unique<Calling>(compute_));
                       }});
  }

  const KernelRegistry& kernels() const { return kernels_; }

 private:
  class Calling final : public Kernel {
   public:
    explicit Calling(const NegKernels::Compute& compute) : compute_(compute) {}
    absl::Status Compute(KernelContext& context) override { return compute_(context); }

   private:
    const NegKernels::Compute& compute_;
  };

  const Compute compute_;
  KernelRegistry kernels_;
};

// A node that is folded may take long, and a graph may have many of them.
TEST_F(SessionPlansTest, NoConstantIsFoldedAfterTheEnd) {
  Output x = Constant(1);
  for (int i = 0; i < 5; ++i) x = g_.AddOp("Neg", {x});
  std::unique_ptr<Session> session;
  int num_folded = 0;
  const NegKernels neg([&](KernelContext& context) {
    ++num_folded;
    session->Close();
    context.set_output(0, context.input(0));
    return absl::OkStatus();
  });
  session = Session::Create(g_.graph(), {&worker_}, neg.kernels(), {}).value();
  EXPECT_EQ(session->Run({}, {x}).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(num_folded, 1);
}

// A kernel that waits for the end of its step, and then says nothing of it.
absl::Status AwaitCancellation(KernelContext& context) {
  absl::Notification cancelled;
  const uint64_t id = context.cancellation().OnCancel([&](const absl::Status&) { cancelled.Notify(); });
  EXPECT_TRUE(cancelled.WaitForNotificationWithTimeout(kPatience)) << "nobody told the kernel";
  context.cancellation().Remove(id);
  context.set_output(0, context.input(0));
  return absl::OkStatus();
}

TEST_F(SessionPlansTest, AConstantThatTakesLongEndsAtTheDeadline) {
  const Output x = g_.AddOp("Neg", {Constant(1)});
  const NegKernels neg(AwaitCancellation);
  const auto session = Session::Create(g_.graph(), {&worker_}, neg.kernels(), {}).value();
  const absl::Time deadline = RealEnvironment().Now() + absl::Milliseconds(20);
  const absl::Status status = session->Prepare({}, {x}, {}, deadline).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
}

TEST_F(SessionPlansTest, AConstantThatTakesLongEndsWithItsSession) {
  const Output x = g_.AddOp("Neg", {Constant(1)});
  absl::Notification has_begun;
  const NegKernels neg([&](KernelContext& context) {
    has_begun.Notify();
    return AwaitCancellation(context);
  });
  const auto session = Session::Create(g_.graph(), {&worker_}, neg.kernels(), {}).value();
  std::thread closes([&] {
    has_begun.WaitForNotification();
    session->Close();
  });
  EXPECT_EQ(session->Run({}, {x}).status().code(), absl::StatusCode::kCancelled);
  closes.join();
}

// It would be dropped as too large for a constant, or is of no use behind the kernel.
TEST_F(SessionPlansTest, AKernelThatNeedsMuchMemoryRunsInTheStepAlone) {
  const Output a = Constant(1), x = g_.AddOp("Neg", {a});
  std::vector<absl::StatusCode> allocations;
  const NegKernels neg([&](KernelContext& context) {
    const absl::StatusOr<Tensor> much =
        context.AllocateTemporary(DType::kUint8, Shape({Folding::kMaxBytes + 1}));
    allocations.push_back(much.status().code());
    WEIR_RETURN_IF_ERROR(much.status());
    context.set_output(0, context.input(0));
    return absl::OkStatus();
  });
  const auto session = Session::Create(g_.graph(), {&worker_}, neg.kernels(), {}).value();
  EXPECT_TRUE(session->Prepare({}, {x}).ok());
  EXPECT_THAT(allocations, ElementsAre(absl::StatusCode::kResourceExhausted));
}

TEST_F(SessionPlansTest, ConstantsThatAreLargeTogetherAreFoldedUpToABound) {
  constexpr int64_t kBytes = int64_t{8} << 20;
  std::vector<Output> large;
  for (int i = 0; i < 2 * Folding::kMaxBytes / kBytes; ++i) {
    large.push_back(g_.AddOp("Neg", {Constant(1 + i)}));
  }
  int num_folded = 0;
  const NegKernels neg([&](KernelContext& context) {
    const absl::StatusOr<Tensor*> output = context.AllocateOutput(0, Shape({kBytes / 4}));
    num_folded += output.ok();
    return output.status();
  });
  const auto session = Session::Create(g_.graph(), {&worker_}, neg.kernels(), {}).value();
  EXPECT_TRUE(session->Prepare({}, {large.begin(), large.end()}).ok());
  EXPECT_EQ(num_folded, Folding::kMaxBytes / kBytes);
}

// They are compiled again, without a plan that a worker would be asked for.
TEST_F(SessionPlansTest, TheGraphsOfAStepAreToBeHadUntilTheDeadlineOrTheEnd) {
  const Output a = Constant(1);
  const absl::Status late =
      session().PartitionGraphs({}, {a}, {}, RealEnvironment().Now() - absl::Milliseconds(1)).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << late;
  EXPECT_EQ(late.message(), "a step of 2 nodes has run out of time while it was compiled");
  auto brief = MakeSession({.operation_timeout = absl::Nanoseconds(1)});
  EXPECT_EQ(brief->PartitionGraphs({}, {a}, {}).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(session().PartitionGraphs({}, {a}, {}).ok());
  session().Close();
  EXPECT_EQ(session().PartitionGraphs({}, {a}, {}).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(SessionPlansTest, TheGraphGrowsWhileStepsRunAndCompile) {
  Output last = Constant(1);
  const Output first = last;
  auto& growing = session();
  std::atomic<bool> is_over{false};
  std::atomic<int> num_wrong{0};
  std::vector<std::thread> clients;
  auto step = growing.Prepare({}, {first}).value();
  clients.emplace_back([&] {
    Tensor fetch;
    while (!is_over)
      num_wrong += !step->Run({}, absl::MakeSpan(&fetch, 1)).ok() || fetch.scalar<float>() != 1;
  });
  clients.emplace_back([&] {
    for (int i = 0; !is_over; ++i) {
      const auto found = growing.Run({}, {absl::StrCat("y", i % 50)});
      num_wrong += found.ok() ? (*found)[0].scalar<float>() != i % 50 + 2 : !absl::IsNotFound(found.status());
    }
  });
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(growing
                    .Extend([&] {
                      last = g_.AddOp("AddV2", {last, Constant(1)}, {}, absl::StrCat("y", i));
                      return g_.status();
                    })
                    .ok());
    EXPECT_THAT(Scalars(growing.Run({}, {last})), ElementsAre(i + 2));
  }
  is_over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(num_wrong, 0);
}

TEST_F(SessionPlansTest, SessionsOfAWorkerShareVariablesUnlessTheyAreIsolated) {
  const Output handle = g_.AddOp(
      "VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}, {"shared_name", "v"}});
  const Output value = Input("value");
  Node* assign = g_.AddNode("AssignVariableOp", {handle, value});
  const Output read = g_.AddOp("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  const Output large =
      g_.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({-1})}});
  Node* assign_large = g_.AddNode(
      "AssignVariableOp",
      {g_.AddOp("VarHandleOp", {},
                {{"dtype", DType::kFloat32}, {"shape", PartialShape({-1})}, {"shared_name", "large"}}),
       large});
  const auto assign_in = [&](Session& session, float to) {
    const auto ran = session.Run({{value, Tensor::Scalar(to)}}, {}, {assign});
    ASSERT_TRUE(ran.ok()) << ran.status();
  };
  auto one = MakeSession({}), other = MakeSession({}),
       isolated = MakeSession({.isolate_session_state = true});
  assign_in(*one, 5);
  EXPECT_THAT(Scalars(other->Run({}, {read})), ElementsAre(5));
  EXPECT_EQ(isolated->Run({}, {read}).status().code(), absl::StatusCode::kFailedPrecondition);
  assign_in(*isolated, 7);
  EXPECT_THAT(Scalars(isolated->Run({}, {read})), ElementsAre(7));
  EXPECT_THAT(Scalars(other->Run({}, {read})), ElementsAre(5));

  const auto in_use = [this] {
    int64_t num_bytes = HostAllocator().num_bytes_in_use();
    for (const auto& device : runtime_->devices()) {
      if (device->memory_kind() == MemoryKind::kDevice) num_bytes += device->allocator().num_bytes_in_use();
    }
    return num_bytes;
  };
  const int64_t before = in_use();
  constexpr int64_t kLarge = 1 << 20;
  ASSERT_TRUE(isolated->Run({{large, Tensor(DType::kFloat32, {kLarge})}}, {}, {assign_large}).ok());
  EXPECT_GE(in_use(), before + kLarge);
  isolated.reset();
  EXPECT_LT(in_use(), before + kLarge) << "the isolated variable is dropped";
  one.reset();
  EXPECT_THAT(Scalars(other->Run({}, {read})), ElementsAre(5)) << "a shared one outlives the session";
}

// Workers whose containers are reset: each waits until the other is asked as well.
struct Asked {
  absl::Mutex mutex;
  int num ABSL_GUARDED_BY(mutex) = 0;
};
class ResetsWithOthers final : public ForwardingWorker {
 public:
  ResetsWithOthers(LocalWorker& worker, Asked& asked) : ForwardingWorker(&worker), asked_(asked) {}
  StepOwners* owners() override { return nullptr; }
  absl::Status ResetContainers(absl::Span<const std::string>, absl::Time deadline) override {
    absl::MutexLock lock(&asked_.mutex);
    ++asked_.num;
    const auto are_asked = [this]() ABSL_SHARED_LOCKS_REQUIRED(asked_.mutex) { return asked_.num == 2; };
    were_asked_ = RealEnvironment().Await(asked_.mutex, absl::Condition(&are_asked), deadline);
    return absl::OkStatus();
  }
  bool were_asked() const { return were_asked_; }

 private:
  Asked& asked_;
  bool were_asked_ = false;
};

TEST(IsolatedSessionTest, WorkersThatAreSilentAtTheEndAreWaitedForTogether) {
  auto one = Runtime::Create({.job = "ps", .task = 0}).value();
  auto other = Runtime::Create({.job = "ps", .task = 1}).value();
  LocalWorker first(*one, one->task()), second(*other, other->task());
  Asked asked;
  ResetsWithOthers first_resets(first, asked), second_resets(second, asked);
  GraphBuilder g(one->ops());
  std::vector<TargetRef> init;
  for (int i = 0; i < 2; ++i) {
    auto device = g.DeviceScope(absl::StrCat("/job:ps/task:", i));
    const Output handle = g.AddOp(
        "VarHandleOp", {},
        {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}, {"shared_name", absl::StrCat("v", i)}});
    const Output value = g.AddOp("Const", {}, {{"value", Tensor::Scalar(1.0f)}, {"dtype", DType::kFloat32}});
    init.push_back(g.AddNode("AssignVariableOp", {handle, value}));
  }
  ASSERT_TRUE(g.ok()) << g.status();
  {
    auto session = Session::Create(g.graph(), {&first_resets, &second_resets}, one->kernels(),
                                   {.default_task = one->task(), .isolate_session_state = true});
    ASSERT_TRUE(session.ok()) << session.status();
    const auto ran = (*session)->Run({}, {}, init);
    ASSERT_TRUE(ran.ok()) << ran.status();
  }
  EXPECT_TRUE(first_resets.were_asked());
  EXPECT_TRUE(second_resets.were_asked());
}

}  // namespace
}  // namespace weir
