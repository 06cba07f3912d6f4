// Which updates a worker has applied for the steps that may be tried again, so that each is applied once.
//
// An update is a node that has a resource, or an accumulator's handle, returns nothing and waits for nothing:
// it exists for its effect on a variable or an accumulator, so a step can leave it out when it has had that
// effect. The ledger marks it,
// under the step's writer and number (logical_step.h), when its kernel has returned OK. Another attempt of
// that step skips what is marked and does the rest. An attempt that comes when its step is settled does
// nothing any more.
//
// A restore, or an initialisation, sets the variables to other values: what was applied to them before counts
// as not applied. What steps have put into accumulators and tables of a worker that was not lost is still
// there, and stays marked. Between BeginRestore and EndRestore numbered steps are refused, however long that
// takes, and steps that began before are refused afterwards too: what they would apply was computed from
// values that are gone. They end with Aborted, from which a MonitoredSession recovers (IsRefusedByRestore
// says which). When a later life of who restores is there, the restore is given up, and steps are run again:
// what they find is what a new chief will set anew. One that is only silent may come back and end its
// restore.
//
// A checkpoint has the marks too, of the moment at which its values were read: Capture. After a restore they
// are known again, so a step that the checkpoint contains, and whose answer was lost with this worker, is not
// applied again to it. Only those of variables: no checkpoint contains what steps have put into accumulators
// and tables, so that is done again where it was lost.
//
// Bounds: a writer's marks are freed when it says that the step is settled; kMaxMarks of it at once. Of more
// than kMaxWriters those whose last step is longest ago are forgotten.
//
// Thread safety: all methods. Progress: an update waits for a restore that is just being noted or for a
// Capture, and those wait for the updates that run. What runs meanwhile, under the ledger's lock, takes the
// locks of variables and waits for nothing else. So nobody may come to the ledger with the lock of a
// variable: the ledger's is always taken first.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "graph/node.h"
#include "session/executor/applied_updates.h"
#include "session/executor/logical_step.h"

namespace weir {

// What names an update in the ledgers of all tasks and times; 0 for a node that is no update. FNV-1a of the
// name, but for its lowest bit, which tells what is updated.
uint64_t UpdateKey(const Node& node);
// Of another resource otherwise.
constexpr bool IsUpdateOfVariable(uint64_t key) { return key % 2 == 1; }

// An attr of the handle of a variable that has its first value again in every session, before a step is tried
// again (local_init of Scaffold): what an earlier attempt has done to it is gone, so its updates are none
// here.
inline constexpr char kBeginsAnewAttr[] = "_begins_anew";

// Whether a step was refused because a restore, or an initialisation, is under way; also of an error that
// came from another task.
bool IsRefusedByRestore(const absl::Status& status);

class UpdateLedger {
  struct Mark {
    int32_t num_applied = 0;  // more than one in a loop
    bool is_under_way = false;
  };
  using Marks = absl::flat_hash_map<uint64_t, Mark>;
  struct Writer {
    absl::Mutex mutex;
    uint64_t last_use = 0;  // guarded by the ledger's mutex
    int64_t settled_below ABSL_GUARDED_BY(mutex) = INT64_MIN;
    size_t num_marks ABSL_GUARDED_BY(mutex) = 0;  // in all steps, each of which counts as one more
    absl::flat_hash_map<int64_t, Marks> steps ABSL_GUARDED_BY(mutex);

    // Whether nothing is left. While no update is under way.
    bool ForgetVariables() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  };

 public:
  static constexpr size_t kMaxWriters = 16384;
  // Of one writer; each step counts as one more.
  static constexpr size_t kMaxMarks = size_t{1} << 20;

  // One attempt of a step on this worker. Must not outlive the ledger. Thread safety: Apply, by threads that
  // run different nodes.
  class Attempt {
   public:
    Attempt() = default;

    // Runs an update unless it has been applied. `repeats`: its node may run several times in a step; then
    // the n-th call is for its n-th time. Errors: those of `run`, after which it counts as not applied;
    // Aborted (the step is settled, the variables were restored since it began, or another attempt is just
    // applying the update).
    absl::Status Apply(uint64_t key, bool repeats, absl::FunctionRef<absl::Status()> run);

    // The same for many at once, outside of loops: `run` applies all of them, or none and gives an error.
    // False, and nothing was done, when some have been applied, or are just being: then each is for Apply.
    absl::StatusOr<bool> ApplyAll(absl::Span<const uint64_t> keys, absl::FunctionRef<absl::Status()> run);

   private:
    friend class UpdateLedger;
    // The time for which this is, counted from 1.
    int32_t CountTurn(uint64_t key, bool repeats) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_->mutex);

    UpdateLedger* ledger_ = nullptr;
    std::shared_ptr<Writer> writer_;
    int64_t number_ = 0;
    int64_t era_ = 0;
    absl::flat_hash_map<uint64_t, int32_t> turns_;  // guarded by the writer's mutex
  };

  // Before the step touches anything. Aborted: it is settled, or a restore is under way (IsRefusedByRestore).
  // ResourceExhausted: the writer has kMaxMarks in steps that are not settled.
  absl::StatusOr<Attempt> BeginStep(const LogicalStep& step);

  // The variables are about to be set to other values by this life of a task; steps are refused until
  // EndRestore. Ids of a life increase: a message that comes late, for an earlier restore or one that is
  // over, does nothing.
  void BeginRestore(uint64_t id, uint64_t life);
  // `applied`: texts of Capture, of any workers, one after the other: what the new values contain. Once more
  // is OK and does nothing. Aborted: another one has begun since, or this one was given up, or never begun.
  // InvalidArgument: `applied` is no such text; the restore goes on.
  absl::Status EndRestore(uint64_t id, absl::string_view applied = "");
  // A later life has its place: a restore of it that has not ended is given up.
  void GiveUpRestore(uint64_t life);

  // Calls `read` while no update is under way, and none begins, and returns what has been applied by then, of
  // at most kMaxWriters steps beside those that this process has begun. `read` is short, applies nothing and
  // waits for nothing but the locks of variables.
  std::string Capture(absl::FunctionRef<void()> read);

  int num_writers() const;

 private:
  using Writers = absl::flat_hash_map<uint64_t, std::shared_ptr<Writer>>;

  // Knows what the restored values contain of the step.
  std::shared_ptr<Writer> WriterOf(const LogicalStep& step);
  void Recall(const LogicalStep& step, Writer& writer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Shared while an update is applied: eras begin between updates.
  absl::Mutex restore_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  int64_t era_ ABSL_GUARDED_BY(restore_mutex_) = 0;
  struct Restore {
    uint64_t id = 0;  // 0: there was none
    uint64_t life = 0;
    bool is_under_way = false;
    bool was_given_up = false;
  };
  Restore restore_ ABSL_GUARDED_BY(restore_mutex_);  // the last one

  mutable absl::Mutex mutex_;
  uint64_t num_uses_ ABSL_GUARDED_BY(mutex_) = 0;
  Writers writers_ ABSL_GUARDED_BY(mutex_);
  // What the restored values contain of steps that have not begun here since.
  AppliedUpdates restored_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
