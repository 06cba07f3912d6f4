// Where the devices of one process meet: the last one that comes to a collective of a step computes it for
// all of them.
//
// The calls of one step belong together: they have the same cancellation, which ends the wait of those that
// have come. A device that has joined (Communicator::Join) is not waited for, in whichever step: it takes
// part with zeros or no rows until all devices have joined.
//
// Thread safety: all methods. Callers are called without any lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "distributed/collectives/collective_signature.h"
#include "kernels/communicator.h"

namespace weir {

class Meetings {
 public:
  // What a device puts in, and gets.
  struct Rows {
    Tensor tensor;
    std::vector<int64_t> splits;  // of an all-to-all
    bool is_there = true;         // false: zeros of a device that has joined
  };
  using Done = std::function<void(absl::StatusOr<Rows> result)>;
  // One for each device, or one for all of them.
  using Tell = std::function<void(absl::StatusOr<std::vector<Rows>> results)>;
  // What the process does with what its devices put in, in their order; `tell` is called once, maybe later.
  using Finish = std::function<void(const Communicator::Call& call, std::vector<Rows> all, const Tell& tell)>;

  explicit Meetings(std::vector<std::string> devices)
      : devices_(std::move(devices)), num_begun_(devices_.size()) {}

  const std::vector<std::string>& devices() const { return devices_; }
  int num_devices() const { return static_cast<int>(devices_.size()); }

  // The device has come. The last one runs `finish`, which is the same for all of them when their signatures
  // are. Errors: InvalidArgument when signatures differ, or a device comes twice; FailedPrecondition when it
  // has joined; Cancelled.
  void Come(int device, const Communicator::Call& call, const CollectiveSignature& signature, Rows rows,
            Done done, Finish finish);

  // The device has nothing more to compute. When all have joined, the last one runs `finish` with the device
  // that has done the most.
  using JoinFinish = std::function<void(const Communicator::Call& call, int last_device, const Tell& tell)>;
  void Join(int device, const Communicator::Call& call, Done done, const JoinFinish& finish);

 private:
  struct Arrival {
    Communicator::Call call;
    Rows rows;
    Done done;
    uint64_t callback = 0;  // of the cancellation
  };
  using Arrivals = std::map<int, Arrival>;  // by device
  // The step, and the collective within it.
  using Id = std::tuple<const Cancellation*, Communicator::Key>;
  struct Meeting {
    CollectiveSignature signature;
    std::string name;  // of the first node that came
    Finish finish;
    Arrivals arrivals;
  };

  absl::Status CheckLocked(int device, const Communicator::Call& call, const CollectiveSignature& signature,
                           const Meeting& meeting) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsCompleteLocked(const Meeting& meeting) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return meeting.arrivals.size() + joined_.size() >= devices_.size();
  }
  std::string UnderWayLocked(int device) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those that wait for nobody any more.
  std::vector<Meeting> TakeCompleteLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t Watch(const Communicator::Call& call, std::function<void()> end);
  void End(const Id& id, const absl::Status& reason);
  void EndJoin(const Cancellation* step, const absl::Status& reason);
  void FinishAll(Meeting meeting) const;
  static void Forget(Arrivals* all);
  static void TellAll(Arrivals all, absl::StatusOr<std::vector<Rows>> results);

  const std::vector<std::string> devices_;
  absl::Mutex mutex_;
  absl::flat_hash_map<Id, Meeting> meetings_ ABSL_GUARDED_BY(mutex_);
  Arrivals joined_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> num_begun_ ABSL_GUARDED_BY(mutex_);  // by device
};

}  // namespace weir
