// Makes Abseil's locks visible to ThreadSanitizer (bazel test --config=tsan).
//
// Debian's Abseil is compiled without the sanitizer, so it sees neither that a lock orders its holders nor
// that a notification orders its two sides, and reports a race for everything they protect. The linker
// (--wrap, see BUILD) sends our calls of these functions here; each tells the sanitizer what it orders and
// does the call. Conditions of a waiter are evaluated inside whatever thread unlocks, under the lock: those
// reads are ignored.
//
// What these libraries do with memory on their own is left out of the accounts (the suppressions at the end);
// for gRPC see grpc_annotations.cc.
//
// A descriptor that gRPC has closed is, for the sanitizer, still the one that was handed to it, until a call
// that it knows gives the number again. fcntl with F_DUPFD_CLOEXEC is none: the close of such a copy was
// reported as a race with the last use of what had the number before.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

extern "C" {

void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);

}  // extern "C"

namespace {

class IgnoredReads {
 public:
  IgnoredReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~IgnoredReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

void Acquire(const void* object) { __tsan_acquire(const_cast<void*>(object)); }
void Release(const void* object) { __tsan_release(const_cast<void*>(object)); }

}  // namespace

using absl::BlockingCounter;
using absl::Condition;
using absl::CondVar;
using absl::Duration;
using absl::Mutex;
using absl::Notification;
using absl::Time;

extern "C" {

#define WEIR_WRAP(result, symbol, ...) \
  result __real_##symbol(__VA_ARGS__); \
  result __wrap_##symbol(__VA_ARGS__)

WEIR_WRAP(void, _ZN4absl7debian35Mutex4LockEv, Mutex* mutex) {
  {
    IgnoredReads ignored;
    __real__ZN4absl7debian35Mutex4LockEv(mutex);
  }
  Acquire(mutex);
}
WEIR_WRAP(void, _ZN4absl7debian35Mutex10ReaderLockEv, Mutex* mutex) {
  {
    IgnoredReads ignored;
    __real__ZN4absl7debian35Mutex10ReaderLockEv(mutex);
  }
  Acquire(mutex);
}
WEIR_WRAP(bool, _ZN4absl7debian35Mutex7TryLockEv, Mutex* mutex) {
  const bool locked = __real__ZN4absl7debian35Mutex7TryLockEv(mutex);
  if (locked) Acquire(mutex);
  return locked;
}
WEIR_WRAP(void, _ZN4absl7debian35Mutex6UnlockEv, Mutex* mutex) {
  Release(mutex);
  IgnoredReads ignored;
  __real__ZN4absl7debian35Mutex6UnlockEv(mutex);
}
WEIR_WRAP(void, _ZN4absl7debian35Mutex12ReaderUnlockEv, Mutex* mutex) {
  Release(mutex);
  IgnoredReads ignored;
  __real__ZN4absl7debian35Mutex12ReaderUnlockEv(mutex);
}
WEIR_WRAP(void, _ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE, Mutex* mutex, const Condition& condition) {
  Release(mutex);
  {
    IgnoredReads ignored;
    __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(mutex, condition);
  }
  Acquire(mutex);
}
WEIR_WRAP(bool, _ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE, Mutex* mutex,
          const Condition& condition, Duration timeout) {
  Release(mutex);
  bool is_true;
  {
    IgnoredReads ignored;
    is_true = __real__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
        mutex, condition, timeout);
  }
  Acquire(mutex);
  return is_true;
}
WEIR_WRAP(bool, _ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE, Mutex* mutex,
          const Condition& condition, Time deadline) {
  Release(mutex);
  bool is_true;
  {
    IgnoredReads ignored;
    is_true = __real__ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE(mutex, condition,
                                                                                           deadline);
  }
  Acquire(mutex);
  return is_true;
}
WEIR_WRAP(void, _ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE, Mutex* mutex, const Condition& condition) {
  {
    IgnoredReads ignored;
    __real__ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE(mutex, condition);
  }
  Acquire(mutex);
}

WEIR_WRAP(void, _ZN4absl7debian37CondVar4WaitEPNS0_5MutexE, CondVar* changed, Mutex* mutex) {
  Release(mutex);
  {
    IgnoredReads ignored;
    __real__ZN4absl7debian37CondVar4WaitEPNS0_5MutexE(changed, mutex);
  }
  Acquire(mutex);
}
WEIR_WRAP(bool, _ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE, CondVar* changed,
          Mutex* mutex, Duration timeout) {
  Release(mutex);
  bool timed_out;
  {
    IgnoredReads ignored;
    timed_out =
        __real__ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE(changed, mutex, timeout);
  }
  Acquire(mutex);
  return timed_out;
}
WEIR_WRAP(bool, _ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE, CondVar* changed,
          Mutex* mutex, Time deadline) {
  Release(mutex);
  bool timed_out;
  {
    IgnoredReads ignored;
    timed_out =
        __real__ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE(changed, mutex, deadline);
  }
  Acquire(mutex);
  return timed_out;
}

WEIR_WRAP(void, _ZN4absl7debian312Notification6NotifyEv, Notification* notification) {
  Release(notification);
  __real__ZN4absl7debian312Notification6NotifyEv(notification);
}
WEIR_WRAP(void, _ZNK4absl7debian312Notification19WaitForNotificationEv, const Notification* notification) {
  __real__ZNK4absl7debian312Notification19WaitForNotificationEv(notification);
  Acquire(notification);
}
WEIR_WRAP(bool, _ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE,
          const Notification* notification, Duration timeout) {
  const bool notified = __real__ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE(
      notification, timeout);
  if (notified) Acquire(notification);
  return notified;
}
WEIR_WRAP(bool, _ZNK4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE,
          const Notification* notification, Time deadline) {
  const bool notified = __real__ZNK4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE(
      notification, deadline);
  if (notified) Acquire(notification);
  return notified;
}

WEIR_WRAP(bool, _ZN4absl7debian315BlockingCounter14DecrementCountEv, BlockingCounter* counter) {
  Release(counter);
  return __real__ZN4absl7debian315BlockingCounter14DecrementCountEv(counter);
}
WEIR_WRAP(void, _ZN4absl7debian315BlockingCounter4WaitEv, BlockingCounter* counter) {
  __real__ZN4absl7debian315BlockingCounter4WaitEv(counter);
  Acquire(counter);
}

// Whoever drops the last reference deletes what the others have read.
WEIR_WRAP(void, _ZN4absl7debian36Status15UnrefNonInlinedEm, uintptr_t rep) {
  void* const object = reinterpret_cast<void*>(rep & ~uintptr_t{3});  // two bits are flags
  Release(object);
  Acquire(object);
  __real__ZN4absl7debian36Status15UnrefNonInlinedEm(rep);
}

// The third argument of all that we call is an int, a pointer, or not there.
int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (command != F_DUPFD_CLOEXEC || static_cast<int>(reinterpret_cast<intptr_t>(argument)) != 0)
    return __real_fcntl(fd, command, argument);
  const int copy = eventfd(0, EFD_CLOEXEC);  // has the lowest free number too
  if (copy >= 0) syscall(SYS_dup3, fd, copy, O_CLOEXEC);
  return copy;
}

// Each line must name exactly one of the loaded libraries, or none.
const char* __tsan_default_suppressions() {
  return "called_from_lib:libabsl_cord.so\n"
         "called_from_lib:libabsl_cord_internal.so\n"
         "called_from_lib:libabsl_graphcycles_internal.so\n"
         "called_from_lib:libabsl_random_internal_pool_urbg.so\n"
         "called_from_lib:libabsl_raw_hash_set.so\n"
         "called_from_lib:libabsl_status.so\n"
         "called_from_lib:libabsl_strings.so\n"
         "called_from_lib:libabsl_synchronization.so\n"
         "called_from_lib:libabsl_time_zone.so\n"
         "called_from_lib:libcrypto.so\n"
         "called_from_lib:libgpr.so\n"
         "called_from_lib:libgrpc++.so\n"
         "called_from_lib:libgrpc.so\n"
         "called_from_lib:libprotobuf.so\n"
         "called_from_lib:libssl.so\n"
         // Locked in the library, unlocked inline.
         "mutex:google::protobuf::internal::MapField\n"
         // The sanitizer does not know that opendir gives a number anew, which a library may have closed.
         "race:closedir\n"
         // Templates that the binary has compiled too and the library calls there; inlined parts of reference
         // counts, whose other half is in the library.
         "race:libgrpc++.so\n"
         "race:libgrpc.so\n"
         "race:grpc::Channel\n"
         "race:weir::GrpcChannel::~GrpcChannel\n"  // of the grpc::Channel, which contexts of calls hold, too
         "race:grpc_event_engine\n"
         "race:absl::*::Status::Unref\n"
         "race:absl::*::status_internal\n"
         "race:absl::*::Cord\n"
         "race:absl::*::cord_internal\n";
}

}  // extern "C"
