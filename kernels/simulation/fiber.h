// A function on a stack of its own, which runs a piece at a time: until it suspends itself, or returns.
//
// All fibers of a thread of the operating system share its thread-local variables and its identity. So what
// runs on a fiber must hold no lock, and count on no thread-local variable, across Suspend;
// Environment::Await asks the same of whoever waits. A switch costs a quarter of a microsecond, where threads
// that hand each other the turn take ten.
//
// Thread safety: one thread for all fibers that resume one another.
#pragma once

#include <ucontext.h>

#include <cstddef>

#include "absl/functional/any_invocable.h"

namespace weir {

class Fiber {
 public:
  // Begins with the first Resume. Aborts when the system gives no memory for a stack.
  explicit Fiber(absl::AnyInvocable<void()> run);
  // Precondition: it has ended, or has not begun.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Returns when it suspends itself, or has ended. Not of itself, and not of one that has ended.
  void Resume();
  // Of itself: returns with the next Resume.
  void Suspend();
  bool has_ended() const { return has_ended_; }

 private:
  static void Main(unsigned int high, unsigned int low);
  // From the context that runs to the other one.
  void SwitchToFiber();
  void SwitchBack();
  // Tells AddressSanitizer where the stack is that runs now.
  void NoteEntered();

  absl::AnyInvocable<void()> run_;
  bool has_ended_ = false;
  void* memory_ = nullptr;  // a page that nobody may touch, and the stack above it
  ucontext_t own_, resumer_;
  // Of sanitizers.
  void* own_shadow_ = nullptr;
  void* resumer_shadow_ = nullptr;
  const void* resumer_stack_ = nullptr;
  size_t resumer_stack_size_ = 0;
};

}  // namespace weir
