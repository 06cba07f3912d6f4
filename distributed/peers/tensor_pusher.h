// Sends the tensors of this task's steps to other tasks: collected by (step, destination), in few messages.
//
// A bundle leaves at Flush, or when it has grown past `bundle_bytes`. Bytes under way to one peer are
// bounded: bundles beyond that wait here, in order, until earlier ones have been acknowledged. A repeated
// message is recognised by its id and not delivered twice.
//
// A push that fails ends its step through `on_failure`, on a thread of the transport. Thread safety: all
// methods. Borrows Peers, and must be destroyed before it.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "distributed/peers/peers.h"
#include "distributed/peers/worker_protocol.h"
#include "session/tensor_sender.h"

namespace weir {

struct TensorPusherOptions {
  int64_t bundle_bytes = 1 << 20;
  int64_t max_bytes_under_way = int64_t{256} << 20;  // per peer; one larger bundle may go alone
  absl::Duration timeout = absl::Minutes(2);         // of one message
};

class TensorPusher final : public TensorSender {
 public:
  using OnFailure = std::function<void(PlanId plan, int64_t step_id, const absl::Status& reason)>;

  TensorPusher(Peers& peers, const TensorPusherOptions& options, OnFailure on_failure);
  // Waits for what is under way.
  ~TensorPusher() override;

  // Unimplemented for a tensor that cannot be sent; InvalidArgument for a destination that is no task.
  absl::Status Send(PlanId plan, int64_t step_id, int edge, const DeviceName& destination,
                    const Tensor& tensor, bool is_dead) override;
  void Flush(PlanId plan, int64_t step_id) override;
  void Discard(PlanId plan, int64_t step_id) override;

 private:
  using StepKey = std::pair<PlanId, int64_t>;
  struct Bundle {
    TaskName destination;
    PushRequest request;
    int64_t num_bytes = 0;
  };
  struct Lane {  // to one peer
    int64_t bytes_under_way = 0;
    std::deque<Bundle> waiting;
  };

  void Enqueue(Bundle bundle);
  void Transmit(Bundle bundle);
  void OnAnswered(const TaskName& destination, int64_t num_bytes);
  bool MayGoLocked(const Lane& lane, int64_t num_bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Peers& peers_;
  const TensorPusherOptions options_;
  const OnFailure on_failure_;
  std::atomic<uint64_t> next_push_id_{1};

  absl::Mutex mutex_;
  absl::CondVar idle_;
  absl::flat_hash_map<StepKey, std::vector<Bundle>> collected_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskName, Lane> lanes_ ABSL_GUARDED_BY(mutex_);
  int num_under_way_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace weir
