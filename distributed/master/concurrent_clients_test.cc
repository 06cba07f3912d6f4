// Clients that do everything at once, to sessions that they share: what they took is there again afterwards.
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "distributed/master/test_master.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

constexpr int kClients = 8;
constexpr int64_t kMaxSessions = 40, kMaxSteps = 200;
constexpr absl::Duration kLength = absl::Seconds(3);

// Handles that some client has had, of sessions that may be over.
class Handles {
 public:
  void Add(std::string handle) {
    absl::MutexLock lock(&mutex_);
    handles_.push_back(std::move(handle));
    if (handles_.size() > 30) handles_.erase(handles_.begin());
  }
  std::string Any(std::mt19937& random) const {
    absl::MutexLock lock(&mutex_);
    return handles_.empty() ? "none" : handles_[random() % handles_.size()];
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<std::string> handles_ ABSL_GUARDED_BY(mutex_);
};

class ConcurrentClientsTest : public testing::Test {
 protected:
  static MasterOptions Limited() {
    MasterOptions options;
    options.limits.sessions = kMaxSessions;
    options.limits.steps = kMaxSteps;
    options.limits.bytes = 64 << 20;
    return options;
  }

  template <typename Request>
  std::shared_ptr<TestClientCall> Start(absl::string_view method, const Request& request) {
    return client_.Start(method, request.SerializeAsString(), absl::Now() + absl::Seconds(30));
  }

  std::shared_ptr<TestClientCall> StartAny(std::mt19937& random) {
    const std::string session = sessions_.Any(random);
    switch (random() % 12) {
      case 0: {
        tensorflow::CreateSessionRequest request;
        *request.mutable_graph_def() = model_;
        request.mutable_config()->set_isolate_session_state(random() % 2 == 0);
        return Start("CreateSession", request);
      }
      case 1: {
        tensorflow::ExtendSessionRequest request;
        request.set_session_handle(session);
        request.set_current_graph_version(static_cast<int64_t>(random() % 3));
        auto* const node = request.mutable_graph_def()->add_node();
        node->set_name(absl::StrCat("more", random()));
        node->set_op("NoOp");
        return Start("ExtendSession", request);
      }
      case 2: {
        tensorflow::PartialRunSetupRequest request;
        request.set_session_handle(session);
        request.add_feed("x:0");
        request.add_fetch("twice:0");
        if (random() % 2 == 0) request.add_target("take");
        request.set_request_id(static_cast<int64_t>(random() % 50));
        return Start("PartialRunSetup", request);
      }
      case 3: {
        tensorflow::MakeCallableRequest request;
        request.set_session_handle(session);
        request.mutable_options()->add_fetch("one:0");
        return Start("MakeCallable", request);
      }
      case 4: {
        tensorflow::RunCallableRequest request;
        request.set_session_handle(session);
        request.set_handle(static_cast<int64_t>(random() % 3));
        return Start("RunCallable", request);
      }
      case 5: {
        tensorflow::CloseSessionRequest request;
        request.set_session_handle(session);
        return Start("CloseSession", request);
      }
      case 6: {
        if (random() % 8 != 0) return Start("ListDevices", tensorflow::ListDevicesRequest());
        return Start("Reset", tensorflow::ResetRequest());
      }
      case 7: {
        tensorflow::RunStepRequest request = Step(session, {"twice:0"});
        request.set_partial_run_handle(runs_.Any(random));
        AddFeed("x:0", Tensor::Vector<float>({1, 2}), &request);
        return Start("RunStep", request);
      }
      case 8:
        return Start("RunStep", Step(session, {"take:0"}));  // waits for a value
      case 9:
        return Start("RunStep", Step(session, {}, {"put"}));
      default: {
        tensorflow::RunStepRequest request = Step(session, {"twice:0", "one:0"}, {"set"});
        AddFeed("x:0", Tensor(DType::kFloat32, Shape({4000})), &request);
        request.set_request_id(static_cast<int64_t>(random() % 50));
        return Start("RunStep", request);
      }
    }
  }

  void Work(int seed) {
    std::mt19937 random(seed);
    std::vector<std::shared_ptr<TestClientCall>> waiting;
    for (const absl::Time end = absl::Now() + kLength; absl::Now() < end;) {
      std::shared_ptr<TestClientCall> call = StartAny(random);
      if (random() % 10 == 0) call->Cancel();
      waiting.push_back(std::move(call));
      for (size_t i = 0; i < waiting.size();) {
        if (!waiting[i]->has_reply() && waiting.size() < 20) {
          ++i;
          continue;
        }
        if (!waiting[i]->has_reply()) waiting[i]->Cancel();
        Note(*waiting[i]);
        waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(i));
      }
      ++num_calls_;
    }
    for (const auto& call : waiting) {
      call->Cancel();
      Note(*call);
    }
  }

  void Note(TestClientCall& call) {
    const absl::StatusOr<std::string> bytes = call.Await();
    EXPECT_FALSE(absl::IsInternal(bytes.status())) << bytes.status();
    if (!bytes.ok()) {
      EXPECT_EQ(bytes.status().message().find("the test waits"), std::string::npos) << call.method();
      return;
    }
    ++num_done_;
    tensorflow::CreateSessionResponse session;
    tensorflow::PartialRunSetupResponse run;
    if (call.method().ends_with("/CreateSession") && session.ParseFromString(*bytes)) {
      sessions_.Add(session.session_handle());
    }
    if (call.method().ends_with("/PartialRunSetup") && run.ParseFromString(*bytes)) {
      runs_.Add(run.partial_run_handle());
    }
  }

  TestMaster client_{Limited(), {.job = "local", .num_threads = 2}};
  const tensorflow::GraphDef model_ = TestModel(client_.ops());
  Handles sessions_, runs_;
  std::atomic<int> num_calls_{0}, num_done_{0};
};

TEST_F(ConcurrentClientsTest, WhatTheyTookIsThereAgain) {
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) clients.emplace_back([this, i] { Work(i); });
  for (std::thread& client : clients) client.join();
  std::printf("%d calls, %d of them OK\n", num_calls_.load(), num_done_.load());
  EXPECT_GT(num_done_, 100);
  EXPECT_TRUE(client_.Call<tensorflow::ResetResponse>("Reset", tensorflow::ResetRequest()).ok());
  EXPECT_EQ(client_.master().num_sessions(), 0u);
  // Steps may hold their session until they have ended.
  absl::StatusOr<std::string> last;
  std::vector<std::string> all;
  for (const absl::Time end = absl::Now() + absl::Seconds(30); absl::Now() < end;) {
    last = client_.CreateSession(model_);
    if (last.ok()) all.push_back(*last);
    if (all.size() == kMaxSessions) break;
    if (!last.ok()) absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_EQ(all.size(), kMaxSessions) << last.status();
  std::vector<std::shared_ptr<TestClientCall>> steps;
  absl::Status refused;
  for (const absl::Time end = absl::Now() + absl::Seconds(30);
       absl::Now() < end && steps.size() < kMaxSteps - 1;) {
    const auto step = Start("RunStep", Step(all[steps.size() % all.size()], {"take:0"}));
    absl::SleepFor(absl::Milliseconds(1));
    if (!step->has_reply()) {
      steps.push_back(step);
    } else {
      refused = step->Await().status();
    }
  }
  EXPECT_EQ(steps.size(), kMaxSteps - 1) << refused;
  for (const std::string& session : all) {
    tensorflow::CloseSessionRequest request;
    request.set_session_handle(session);
    EXPECT_TRUE(client_.Call<tensorflow::CloseSessionResponse>("CloseSession", request).ok());
  }
}

}  // namespace
}  // namespace weir
