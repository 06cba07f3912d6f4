// For tests: the ranks of a group in one process. Parts are delivered by the test, in an order that a seed
// draws, some of them twice.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "distributed/collectives/rank_group.h"
#include "distributed/machine_memory.h"
#include "gtest/gtest.h"

namespace weir {

class TestGroup {
 public:
  explicit TestGroup(int size, uint64_t seed = 1, int64_t max_proxy_bytes = HalfOfMemory(),
                     int ranks_per_host = 1)
      : random_(seed), ranks_per_host_(ranks_per_host) {
    std::vector<std::string> names;
    for (int rank = 0; rank < size; ++rank) names.push_back(absl::StrCat("worker:", rank));
    num_unanswered_bytes_.resize(size);
    num_unanswered_of_.resize(size);
    for (int rank = 0; rank < size; ++rank) {
      links_.push_back(std::make_unique<Links>(*this, rank));
      groups_.push_back(RefPtr<RankGroup>(
          new RankGroup(rank, names, *links_.back(), RealEnvironment(), max_proxy_bytes, ranks_per_host)));
    }
  }

  RankGroup& operator[](int rank) { return *groups_[rank]; }
  int size() const { return static_cast<int>(groups_.size()); }

  void Form(uint64_t generation = 7) {
    for (const RefPtr<RankGroup>& group : groups_) group->Begin(generation);
  }

  // What a collective of one rank came to; nothing while it is under way.
  using Outcome = std::shared_ptr<std::optional<absl::StatusOr<Tensor>>>;
  static Communicator::Done Into(const Outcome& outcome) {
    return [outcome](absl::StatusOr<Tensor> result) {
      if (outcome->has_value()) ADD_FAILURE() << "a collective was done twice";
      *outcome = std::move(result);
    };
  }

  // Delivers all that is under way.
  void DeliverAll() {
    while (Deliver()) {
    }
  }

  // One part, drawn; false when none is under way.
  bool Deliver() {
    if (parts_.empty()) return false;
    const size_t i = std::uniform_int_distribution<size_t>(0, parts_.size() - 1)(random_);
    std::swap(parts_[i], parts_.back());
    Part part = std::move(parts_.back());
    parts_.pop_back();
    if (std::bernoulli_distribution(0.2)(random_)) {
      groups_[part.to]->Receive(part.from, part.message, Copy(part.bytes), [](const absl::Status&) {});
    }
    Payload place = groups_[part.to]->Place(part.from, part.message, part.bytes.num_bytes());
    if (place.num_bytes() == part.bytes.num_bytes() && place.num_bytes() > 0) {
      std::copy_n(part.bytes.data(), part.bytes.num_bytes(), place.mutable_data());
    } else {
      place = Copy(part.bytes);
    }
    groups_[part.to]->Receive(part.from, part.message, std::move(place), std::move(part.done));
    return true;
  }

  // Called with each part that is sent, before it is under way.
  std::function<void(int from, int to)> on_send;

  size_t num_under_way() const { return parts_.size(); }
  // Of all parts that were sent.
  int64_t largest_part() const { return largest_part_; }
  int64_t num_bytes_between_hosts() const { return num_bytes_between_hosts_; }
  // Of those that were sent to that rank and have not been answered.
  int64_t num_unanswered_bytes(int rank) const { return num_unanswered_bytes_[rank]; }
  // How many parts of that rank have not been answered.
  int num_unanswered_of(int rank) const { return num_unanswered_of_[rank]; }
  // Told so by the rank's group.
  const std::vector<std::pair<int, absl::Status>>& ends() const { return ends_; }
  // The next part to that rank fails instead of being delivered.
  void FailOnePartTo(int rank, const absl::Status& status) {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].to != rank) continue;
      Part part = std::move(parts_[i]);
      parts_.erase(parts_.begin() + static_cast<int64_t>(i));
      return part.done(status);
    }
  }

 private:
  struct Part {
    int from, to;
    CollectiveMessage message;
    Payload bytes;
    RankLinks::Done done;
  };

  class Links final : public RankLinks {
   public:
    Links(TestGroup& group, int rank) : group_(group), rank_(rank) {}
    void Send(int to, CollectiveMessage message, Payload bytes, Done done) override {
      if (group_.on_send) group_.on_send(rank_, to);
      WireWriter writer;
      message.EncodeTo(&writer);
      const std::string header = writer.Take();
      WireReader reader(header);
      const auto num_bytes = static_cast<int64_t>(bytes.num_bytes());
      group_.largest_part_ = std::max(group_.largest_part_, num_bytes);
      group_.num_unanswered_bytes_[to] += num_bytes;
      if (rank_ / group_.ranks_per_host_ != to / group_.ranks_per_host_) {
        group_.num_bytes_between_hosts_ += num_bytes;
      }
      ++group_.num_unanswered_of_[rank_];
      done = [this, to, num_bytes, done = std::move(done)](const absl::Status& status) mutable {
        group_.num_unanswered_bytes_[to] -= num_bytes;
        --group_.num_unanswered_of_[rank_];
        done(status);
      };
      group_.parts_.push_back(
          {rank_, to, CollectiveMessage::DecodeFrom(&reader).value(), std::move(bytes), std::move(done)});
    }
    void OnEnd(uint64_t, const absl::Status& reason) override { group_.ends_.push_back({rank_, reason}); }

   private:
    TestGroup& group_;
    const int rank_;
  };

  static Payload Copy(const Payload& bytes) {
    Payload copy = Payload::Allocate(bytes.num_bytes()).value();
    std::copy_n(bytes.data(), bytes.num_bytes(), copy.mutable_data());
    return copy;
  }

  int64_t largest_part_ = 0;
  int64_t num_bytes_between_hosts_ = 0;
  std::vector<int64_t> num_unanswered_bytes_;
  std::vector<int> num_unanswered_of_;
  std::mt19937_64 random_;
  const int ranks_per_host_;
  std::deque<Part> parts_;
  std::vector<std::pair<int, absl::Status>> ends_;
  std::vector<std::unique_ptr<Links>> links_;
  std::vector<RefPtr<RankGroup>> groups_;
};

inline TestGroup::Outcome NewOutcome() { return std::make_shared<std::optional<absl::StatusOr<Tensor>>>(); }

inline Tensor Numbers(int rank, int64_t count) {
  Tensor tensor(DType::kFloat32, Shape({count}));
  for (int64_t i = 0; i < count; ++i) {
    tensor.flat<float>()[i] = std::sin(static_cast<float>(i * 31 + rank * 7)) * std::exp2f(rank * 3);
  }
  return tensor;
}

// What rank `rank` does in a test.
using Begin = std::function<void(RankGroup& group, int rank, Communicator::Done done)>;

inline std::vector<TestGroup::Outcome> RunOnAll(TestGroup& group, const Begin& begin) {
  std::vector<TestGroup::Outcome> outcomes;
  for (int rank = 0; rank < group.size(); ++rank) {
    outcomes.push_back(NewOutcome());
    begin(group[rank], rank, TestGroup::Into(outcomes.back()));
    // The first ones are ahead of the others.
    for (int i = 0; i < rank; ++i) group.Deliver();
  }
  group.DeliverAll();
  return outcomes;
}

inline Tensor Value(const TestGroup::Outcome& outcome) {
  if (!outcome->has_value()) {
    ADD_FAILURE() << "the collective is still under way";
    return Tensor();
  }
  EXPECT_TRUE((*outcome)->ok()) << (*outcome)->status();
  return (*outcome)->ok() ? ***outcome : Tensor();
}

inline std::vector<absl::Status> Errors(const std::vector<TestGroup::Outcome>& outcomes) {
  std::vector<absl::Status> errors;
  for (const TestGroup::Outcome& outcome : outcomes) {
    errors.push_back(outcome->has_value() ? (*outcome)->status() : absl::UnknownError("still under way"));
  }
  return errors;
}

}  // namespace weir
