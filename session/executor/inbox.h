// How asynchronous kernels tell the program that waits for them that they are done: a list to which any
// thread adds, and whose one owner sleeps when it is empty.
//
// Lock-free. The owner is whoever runs the program; it stops being that when TakeOrPark finds nothing, and
// the thread whose Post finds it parked must see to it that somebody becomes the owner again. What the last
// owner wrote is visible to the next one.
//
// Progress: an event that is posted is taken by the owner that is there, or its Post returns true: no event
// is left in the list of a parked owner.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace weir {

// A kernel has called back. Belongs to the program's step; in at most one list at a time.
struct Event {
  int32_t instruction = 0;
  absl::Status status;
  Event* next = nullptr;
};

class Inbox {
 public:
  // True when the owner was parked: the caller must hand the program to a thread.
  bool Post(Event* event) {
    Event* head = head_.load(std::memory_order_relaxed);
    do {
      event->next = head == parked() ? nullptr : head;
    } while (!head_.compare_exchange_weak(head, event, std::memory_order_acq_rel, std::memory_order_relaxed));
    return head == parked();
  }

  // The owner's: all events in the order they came. Null when there is none; then it is parked, and the
  // caller no longer the owner.
  Event* TakeOrPark() {
    Event* head = nullptr;
    if (head_.compare_exchange_strong(head, parked(), std::memory_order_acq_rel, std::memory_order_acquire)) {
      return nullptr;
    }
    head = head_.exchange(nullptr, std::memory_order_acq_rel);
    Event* in_order = nullptr;
    while (head != nullptr) {
      Event* const next = head->next;
      head->next = in_order;
      in_order = head;
      head = next;
    }
    return in_order;
  }

 private:
  // Marks a parked owner; never looked into.
  Event* parked() { return reinterpret_cast<Event*>(this); }

  std::atomic<Event*> head_{nullptr};
};

}  // namespace weir
