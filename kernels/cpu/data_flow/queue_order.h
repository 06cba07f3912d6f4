// In which order the elements of a queue leave it: first in first out, shuffled, or the smallest priority
// first. What is kept here is only the elements; queue.h has capacity, waiting and closing.
//
// Thread safety: none; a Queue calls it under its lock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/types/tensor.h"

namespace weir {

// One tensor for each component.
using QueueElement = std::vector<Tensor>;

class QueueOrder {
 public:
  virtual ~QueueOrder() = default;

  virtual int64_t size() const = 0;
  virtual void Add(QueueElement element) = 0;
  // The next element. Precondition: there is one.
  virtual QueueElement Take() = 0;
  // Elements that Take gave and that nobody got, in the order in which they were taken: they are the next
  // ones again, where the order allows it.
  virtual void PutBack(std::vector<QueueElement> elements) = 0;
};

std::unique_ptr<QueueOrder> MakeFifoOrder();
// Takes an element that is drawn. With the same seeds it is the one that TensorFlow draws. Both 0: other
// seeds in each queue.
std::unique_ptr<QueueOrder> MakeShuffledOrder(int64_t seed, int64_t seed2);
// Component 0 of each element is an int64 scalar: the smallest first, of equal ones the one that came first.
std::unique_ptr<QueueOrder> MakePriorityOrder();

}  // namespace weir
