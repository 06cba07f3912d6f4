// What others wait for, or what waits for others, begins as soon as it may.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"
#include "session/test_acts.h"

namespace weir {
namespace {

using ::testing::ElementsAre;

class EarlyStartsTest : public ActsTest {
 protected:
  EarlyStartsTest() : ActsTest(/*is_stateful=*/false) {}

  Output Input() {
    return g_.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}});
  }
  Output Note(const std::string& name, Output input) {
    return AddAct(
        input,
        [this, name](KernelContext&) {
          absl::MutexLock lock(&mutex_);
          events_.push_back(name);
          return absl::OkStatus();
        },
        name);
  }

  // The acts of those names, in the order in which they ran.
  std::vector<std::string> RunStep(const Output& x, const std::vector<TensorRef>& fetches,
                                   const std::vector<std::string>& names) {
    const auto runtime =
        Runtime::Create({.num_cpus = 2, .num_threads = 1, .register_kernels = RegisterAct}).value();
    LocalWorker worker(*runtime, runtime->task());
    EXPECT_TRUE(g_.ok()) << g_.status();
    const auto session = Session::Create(g_.graph(), {&worker}, runtime->kernels()).value();
    const auto out = session->Run({{x, Tensor::Scalar(1.0f)}}, fetches);
    EXPECT_TRUE(out.ok()) << out.status();
    absl::MutexLock lock(&mutex_);
    std::vector<std::string> listed;
    for (const std::string& event : events_) {
      if (std::find(names.begin(), names.end(), event) != names.end()) listed.push_back(event);
    }
    return listed;
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::string> events_;
};

// In a program without anything that waits: it runs in a static order.
TEST_F(EarlyStartsTest, WhatMakesATensorForAnotherDeviceRunsBeforeTheRest) {
  Output x, last, sent;
  {
    const auto here = g_.DeviceScope("/device:CPU:0");
    x = Input();
    const Output first = Note("first", x);
    last = Note("last", Note("next", first));
    sent = Note("sent", first);  // built last
  }
  const auto there = g_.DeviceScope("/device:CPU:1");
  const Output received = Note("received", sent);
  EXPECT_THAT(RunStep(x, {last, received}, {"first", "next", "last", "sent"}),
              ElementsAre("first", "sent", "next", "last"));
}

// Where a kernel waits, on its own thread, the others run meanwhile.
TEST_F(EarlyStartsTest, WhatWaitsBeginsBeforeTheRest) {
  const Output x = Input();
  const Output first = Note("first", x);
  const Output last = Note("last", Note("next", first));
  const Output prepared = Note("prepared", first);
  may_block_ = true;
  const Output waits = Note("waits", prepared);
  EXPECT_THAT(RunStep(x, {last, waits}, {"first", "next", "last", "prepared"}),
              ElementsAre("first", "prepared", "next", "last"));
}

// What is made for several has its place in the order in which it was built.
TEST_F(EarlyStartsTest, WhatOthersNeedTooKeepsItsPlace) {
  Output x, last, sent;
  {
    const auto here = g_.DeviceScope("/device:CPU:0");
    x = Input();
    const Output first = Note("first", x);
    last = Note("last", first);
    sent = Note("sent", first);
  }
  const auto there = g_.DeviceScope("/device:CPU:1");
  const Output received = Note("received", sent);
  EXPECT_THAT(RunStep(x, {last, sent, received}, {"first", "last", "sent"}),
              ElementsAre("first", "last", "sent"));
}

}  // namespace
}  // namespace weir
