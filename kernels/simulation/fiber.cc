#include "kernels/simulation/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
// The build says so: -fsanitize=thread takes the compiler's own macro away (.bazelrc).
#if defined(WEIR_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace weir {
namespace {

constexpr size_t kPage = 4096;
// Only what is touched takes memory.
constexpr size_t kStack = size_t{1} << 20;

}  // namespace

Fiber::Fiber(absl::AnyInvocable<void()> run) : run_(std::move(run)) {
  memory_ = mmap(nullptr, kPage + kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
  if (memory_ == MAP_FAILED || mprotect(memory_, kPage, PROT_NONE) != 0 || getcontext(&own_) != 0) {
    std::perror("no stack for a fiber");
    std::abort();
  }
  own_.uc_stack.ss_sp = static_cast<char*>(memory_) + kPage;
  own_.uc_stack.ss_size = kStack;
  own_.uc_link = nullptr;
  // makecontext passes ints.
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&own_, reinterpret_cast<void (*)()>(&Fiber::Main), 2, static_cast<unsigned int>(self >> 32),
              static_cast<unsigned int>(self));
#if defined(WEIR_THREAD_SANITIZER)
  own_shadow_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(WEIR_THREAD_SANITIZER)
  __tsan_destroy_fiber(own_shadow_);
#endif
  munmap(memory_, kPage + kStack);
}

void Fiber::Main(unsigned int high, unsigned int low) {
  auto* const self = reinterpret_cast<Fiber*>(static_cast<uintptr_t>(high) << 32 | low);
  self->NoteEntered();
  self->run_();
  self->run_ = nullptr;
  self->has_ended_ = true;
  self->SwitchBack();
}

void Fiber::Resume() { SwitchToFiber(); }

void Fiber::Suspend() {
  SwitchBack();
  NoteEntered();
}

void Fiber::SwitchToFiber() {
#if defined(__SANITIZE_ADDRESS__)
  void* shadow = nullptr;
  __sanitizer_start_switch_fiber(&shadow, own_.uc_stack.ss_sp, kStack);
#endif
#if defined(WEIR_THREAD_SANITIZER)
  resumer_shadow_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(own_shadow_, 0);
#endif
  swapcontext(&resumer_, &own_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(shadow, nullptr, nullptr);
#endif
}

void Fiber::SwitchBack() {
#if defined(__SANITIZE_ADDRESS__)
  // Null: its shadow stack is not needed any more.
  __sanitizer_start_switch_fiber(has_ended_ ? nullptr : &own_shadow_, resumer_stack_, resumer_stack_size_);
#endif
#if defined(WEIR_THREAD_SANITIZER)
  __tsan_switch_to_fiber(resumer_shadow_, 0);
#endif
  swapcontext(&own_, &resumer_);
}

void Fiber::NoteEntered() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(own_shadow_, &resumer_stack_, &resumer_stack_size_);
#endif
}

}  // namespace weir
