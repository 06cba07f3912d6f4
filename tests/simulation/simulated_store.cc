#include "tests/simulation/simulated_store.h"

#include <utility>
#include <vector>

namespace weir {

class SimulatedStore::Client final : public AuthorityStore {
 public:
  Client(SimulatedStore& store, SimulatedEnvironment& environment)
      : store_(store), environment_(environment), is_there_(std::make_shared<bool>(true)) {}
  // As a store that cancels its calls.
  ~Client() override {
    for (const std::weak_ptr<Request>& sent : sent_) {
      if (const auto request = sent.lock()) request->Answer(absl::CancelledError("the store's client ends"));
    }
    *is_there_ = false;
  }

  void Read(absl::Duration timeout, Then then) override {
    Send(timeout, std::move(then), [] {});
  }

  void Replace(const Stored& before, const AuthorityRecord& record, absl::Duration timeout,
               Then then) override {
    Send(timeout, std::move(then), [&store = store_, before, record] {
      if (store.stored_.revision != before.revision || store.stored_.record != before.record) return;
      const int64_t next = store.stored_.store_revision + 1;
      store.stored_ = {next, record, next};
    });
  }

 private:
  // One request; `then` is called once, and not after this object.
  struct Request {
    std::shared_ptr<bool> is_there;
    Then then;
    void Answer(absl::StatusOr<Stored> stored) {
      if (*is_there && then != nullptr) std::exchange(then, nullptr)(std::move(stored));
    }
  };

  void Send(absl::Duration timeout, Then then, std::function<void()> execute) {
    auto request = std::make_shared<Request>(Request{is_there_, std::move(then)});
    std::erase_if(sent_, [](const auto& sent) { return sent.expired(); });
    sent_.push_back(request);
    Scheduler& scheduler = store_.scheduler_;
    Process& process = environment_.process();
    scheduler.AddEvent(process, scheduler.now() + timeout, [request] {
      request->Answer(absl::DeadlineExceededError("the store does not answer"));
    });
    const int times = store_.Happens(store_.options_.repeated) ? 2 : 1;
    for (int i = 0; i < times; ++i) {
      if (!store_.Reaches(process) || store_.Happens(store_.options_.lost_requests)) continue;
      scheduler.AddEvent(store_.environment_.process(), scheduler.now() + store_.Delay(),
                         [this_store = &store_, &process, request, execute] {
                           execute();
                           this_store->SendAnswer(
                               process, [request, stored = this_store->stored_] { request->Answer(stored); });
                         });
    }
  }

  SimulatedStore& store_;
  SimulatedEnvironment& environment_;
  const std::shared_ptr<bool> is_there_;
  std::vector<std::weak_ptr<Request>> sent_;
};

SimulatedStore::SimulatedStore(Scheduler& scheduler, const NetworkOptions& network)
    : scheduler_(scheduler), options_(network), environment_(scheduler, "store") {}

std::unique_ptr<AuthorityStore> SimulatedStore::MakeClient(SimulatedEnvironment& environment) {
  return std::make_unique<Client>(*this, environment);
}

void SimulatedStore::SendAnswer(Process& process, std::function<void()> deliver) {
  if (!Reaches(process) || Happens(options_.lost_replies)) return;
  scheduler_.AddEvent(process, scheduler_.now() + Delay(), [deliver = std::move(deliver)] { deliver(); });
}

absl::Duration SimulatedStore::Delay() {
  const int64_t most = absl::ToInt64Microseconds(options_.max_delay - options_.min_delay);
  absl::Duration delay =
      options_.min_delay +
      absl::Microseconds(static_cast<int64_t>(scheduler_.Below(static_cast<size_t>(most) + 1)));
  if (Happens(options_.slow)) delay += options_.long_delay;
  return delay;
}

bool SimulatedStore::Happens(double share) {
  constexpr size_t kParts = 1'000'000;
  return share > 0 && scheduler_.Below(kParts) < static_cast<size_t>(share * kParts);
}

}  // namespace weir
