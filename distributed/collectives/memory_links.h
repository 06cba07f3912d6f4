// Small parts of collectives between ranks of one machine: through memory that two ranks share
// (transport/host/memory_ring.h), without a system call while both sides look.
//
// Who gets there. When a generation begins, of every two ranks the lower one offers the other memory, in an
// ordinary call: what the network admits is admitted, and nothing else. Another machine, user or name space
// of processes cannot open it, and everything goes over the network as before.
//
// When. A rank that waits for a small collective looks for messages itself, for a moment: Await. That pays
// when the ranks are in step; when it has not paid for a while it is done now and then only, and never when
// there are more ranks on the machine than cores. A part is written into the memory when its sender is about
// to look, or its receiver looks already. A receiver that does not is told by a call (`tell`), at the end of
// the sender's look.
//
// Parts arrive once, and are not acknowledged: they are in the memory. Nothing is lost with a rank that has
// gone: who hears that it left reads first what it has written (ReadAllThen). What is written after a part
// that waits for room goes over the network; parts may come in any order.
//
// Errors: memory that says what cannot be ends the link, and `take` is told.
//
// Thread safety: all methods. Callbacks are called without any lock; borrows them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "distributed/transport/host/memory_ring.h"
#include "distributed/transport/host/shared_memory.h"

namespace weir {

class MemoryLinks {
 public:
  // What rank `from` has written; an error: its link is over.
  using Take = std::function<void(int from, uint64_t generation, absl::StatusOr<std::string> message)>;
  // Tells a rank that there is something: it calls ReadAll.
  using Tell = std::function<void(int to, uint64_t generation)>;

  MemoryLinks(int size, Take take, Tell tell);

  // Memory for a link to that rank in that generation. It is read from now on, and written from Open on.
  absl::StatusOr<SharedMemory::Place> Offer(int rank, uint64_t generation);
  void Open(int rank, uint64_t generation);
  // What another rank has offered: a link that is open. Aborted when another generation is under way.
  absl::Status Accept(int rank, uint64_t generation, const SharedMemory::Place& place);
  // Links of other generations are over, and none is accepted until that one ends.
  void KeepOnly(uint64_t generation);
  void OnEnd(uint64_t generation);

  // Before the parts of a small collective are sent: whether this thread is going to Await. At most one does.
  bool BeginLook(uint64_t generation);
  // Until `is_over`, or for a moment; then tells who has not noticed. Ends what BeginLook has begun.
  void Await(uint64_t generation, absl::FunctionRef<bool()> is_over);

  // Whether Send would try now.
  bool CanSend(int to, uint64_t generation) const;
  // False: it has to go over the network.
  bool Send(int to, uint64_t generation, absl::string_view header, absl::string_view bytes);

  void ReadAll(int from, uint64_t generation);
  // The same, and calls `next` when all that was written before has been taken: at once, or on the thread
  // that is still taking a part.
  void ReadAllThen(int from, uint64_t generation, absl::AnyInvocable<void()> next);

  // For tests.
  bool has_link(int rank) const;

 private:
  struct Link {
    Link(std::unique_ptr<SharedMemory> shared, uint64_t of_generation, bool is_first)
        : memory(std::move(shared)),
          generation(of_generation),
          out(memory->data() + (is_first ? 0 : MemoryRing::kBytes)),
          in(memory->data() + (is_first ? MemoryRing::kBytes : 0)) {}

    const std::unique_ptr<SharedMemory> memory;
    const uint64_t generation;
    std::atomic<bool> is_open{false};
    std::atomic<bool> is_broken{false};
    absl::Mutex write_mutex, read_mutex;
    MemoryRing out, in;
    // Parts that were read and are being taken, and what is to be done afterwards.
    int num_taking ABSL_GUARDED_BY(read_mutex) = 0;
    std::vector<absl::AnyInvocable<void()>> next ABSL_GUARDED_BY(read_mutex);
  };
  using LinkRef = std::shared_ptr<Link>;
  static constexpr size_t kLinkBytes = 2 * MemoryRing::kBytes;

  LinkRef Find(int rank, uint64_t generation) const;
  bool MaySend(const LinkRef& link) const;
  std::vector<LinkRef> All(uint64_t generation) const;
  bool MayLook(uint64_t generation);
  // False when there was nothing.
  bool ReadOne(int from, Link& link);
  static void EndTaking(Link& link);
  bool ReadEach(const std::vector<LinkRef>& links);
  void TellUnnoticed(const std::vector<LinkRef>& links);

  const Take take_;
  const Tell tell_;
  mutable absl::Mutex mutex_;
  std::vector<LinkRef> links_ ABSL_GUARDED_BY(mutex_);         // by rank; null where there is none
  std::optional<uint64_t> under_way_ ABSL_GUARDED_BY(mutex_);  // the generation that is
  std::atomic<bool> somebody_looks_{false};
  // Of who looks.
  int num_in_vain_ = 0;  // the last looks
  int num_left_out_ = 0;
};

}  // namespace weir
