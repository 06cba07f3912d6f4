#include "kernels/cpu/data_flow/queue_order.h"

#include <deque>
#include <map>
#include <random>
#include <utility>

#include "kernels/cpu/random/philox.h"

namespace weir {
namespace {

class FifoOrder final : public QueueOrder {
 public:
  int64_t size() const override { return static_cast<int64_t>(elements_.size()); }
  void Add(QueueElement element) override { elements_.push_back(std::move(element)); }
  QueueElement Take() override {
    QueueElement first = std::move(elements_.front());
    elements_.pop_front();
    return first;
  }
  void PutBack(std::vector<QueueElement> elements) override {
    for (auto element = elements.rbegin(); element != elements.rend(); ++element) {
      elements_.push_front(std::move(*element));
    }
  }

 private:
  std::deque<QueueElement> elements_;
};

class ShuffledOrder final : public QueueOrder {
 public:
  explicit ShuffledOrder(Philox numbers) : numbers_(numbers) {}

  int64_t size() const override { return static_cast<int64_t>(elements_.size()); }
  void Add(QueueElement element) override { elements_.push_back(std::move(element)); }
  QueueElement Take() override {
    std::swap(elements_[NextNumber() % elements_.size()], elements_.back());
    QueueElement drawn = std::move(elements_.back());
    elements_.pop_back();
    return drawn;
  }
  void PutBack(std::vector<QueueElement> elements) override {
    for (QueueElement& element : elements) elements_.push_back(std::move(element));
  }

 private:
  uint32_t NextNumber() {
    if (num_used_ == block_.size()) {
      block_ = numbers_.Next();
      num_used_ = 0;
    }
    return block_[num_used_++];
  }

  std::vector<QueueElement> elements_;
  Philox numbers_;
  Philox::Block block_ = {};
  size_t num_used_ = block_.size();
};

class PriorityOrder final : public QueueOrder {
 public:
  int64_t size() const override { return static_cast<int64_t>(elements_.size()); }
  void Add(QueueElement element) override {
    const int64_t priority = element[0].scalar<int64_t>();
    elements_.emplace(std::make_pair(priority, next_++), std::move(element));
  }
  QueueElement Take() override { return std::move(elements_.extract(elements_.begin()).mapped()); }
  void PutBack(std::vector<QueueElement> elements) override {
    for (auto element = elements.rbegin(); element != elements.rend(); ++element) {
      const int64_t priority = (*element)[0].scalar<int64_t>();
      elements_.emplace(std::make_pair(priority, first_--), std::move(*element));
    }
  }

 private:
  std::map<std::pair<int64_t, int64_t>, QueueElement> elements_;  // by priority and time of arrival
  int64_t next_ = 0;
  int64_t first_ = -1;  // the arrival of what is put back: before all others
};

}  // namespace

std::unique_ptr<QueueOrder> MakeFifoOrder() { return std::make_unique<FifoOrder>(); }

std::unique_ptr<QueueOrder> MakeShuffledOrder(int64_t seed, int64_t seed2) {
  auto first = static_cast<uint64_t>(seed), second = static_cast<uint64_t>(seed2);
  if (seed == 0 && seed2 == 0) {
    std::random_device entropy;
    first = uint64_t{entropy()} << 32 | entropy();
    second = uint64_t{entropy()} << 32 | entropy();
  }
  return std::make_unique<ShuffledOrder>(Philox(first, second));
}

std::unique_ptr<QueueOrder> MakePriorityOrder() { return std::make_unique<PriorityOrder>(); }

}  // namespace weir
