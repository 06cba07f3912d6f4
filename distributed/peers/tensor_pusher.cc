#include "distributed/peers/tensor_pusher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "graph/types/status_macros.h"

namespace weir {

TensorPusher::TensorPusher(Peers& peers, const TensorPusherOptions& options, OnFailure on_failure)
    : peers_(peers), options_(options), on_failure_(std::move(on_failure)) {}

TensorPusher::~TensorPusher() {
  absl::MutexLock lock(&mutex_);
  while (num_under_way_ > 0) idle_.Wait(&mutex_);
}

absl::Status TensorPusher::Send(PlanId plan, int64_t step_id, int edge, const DeviceName& destination,
                                const Tensor& tensor, bool is_dead) {
  if (!destination.job || !destination.task) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor was sent to '", destination.ToString(), "', which is no task"));
  }
  if (tensor.dtype() == DType::kVariant) {
    return absl::UnimplementedError("a variant tensor cannot be sent to another task");
  }
  const TaskName task{*destination.job, *destination.task};
  Bundle full;
  {
    absl::MutexLock lock(&mutex_);
    std::vector<Bundle>& bundles = collected_[{plan, step_id}];
    auto bundle =
        std::find_if(bundles.begin(), bundles.end(), [&](const Bundle& b) { return b.destination == task; });
    if (bundle == bundles.end())
      bundle = bundles.insert(bundles.end(), Bundle{task, {0, plan, step_id, {}}, 0});
    bundle->request.entries.push_back({edge, is_dead, tensor});
    bundle->num_bytes += static_cast<int64_t>(tensor.num_bytes());
    if (bundle->num_bytes < options_.bundle_bytes) return absl::OkStatus();
    full = std::move(*bundle);
    bundles.erase(bundle);
  }
  Enqueue(std::move(full));
  return absl::OkStatus();
}

void TensorPusher::Flush(PlanId plan, int64_t step_id) {
  std::vector<Bundle> bundles;
  {
    absl::MutexLock lock(&mutex_);
    auto it = collected_.find({plan, step_id});
    if (it == collected_.end()) return;
    bundles = std::move(it->second);
    collected_.erase(it);
  }
  for (Bundle& bundle : bundles) Enqueue(std::move(bundle));
}

void TensorPusher::Discard(PlanId plan, int64_t step_id) {
  std::vector<Bundle> dropped;  // tensors are freed outside the lock
  absl::MutexLock lock(&mutex_);
  auto it = collected_.find({plan, step_id});
  if (it == collected_.end()) return;
  dropped = std::move(it->second);
  collected_.erase(it);
}

bool TensorPusher::MayGoLocked(const Lane& lane, int64_t num_bytes) const {
  return lane.bytes_under_way == 0 || lane.bytes_under_way + num_bytes <= options_.max_bytes_under_way;
}

void TensorPusher::Enqueue(Bundle bundle) {
  {
    absl::MutexLock lock(&mutex_);
    Lane& lane = lanes_[bundle.destination];
    ++num_under_way_;
    if (!lane.waiting.empty() || !MayGoLocked(lane, bundle.num_bytes)) {
      lane.waiting.push_back(std::move(bundle));
      return;
    }
    lane.bytes_under_way += bundle.num_bytes;
  }
  Transmit(std::move(bundle));
}

void TensorPusher::Transmit(Bundle bundle) {
  bundle.request.push_id = next_push_id_.fetch_add(1, std::memory_order_relaxed);
  const auto on_reply = [this, destination = bundle.destination, num_bytes = bundle.num_bytes,
                         plan = bundle.request.plan,
                         step_id = bundle.request.step_id](const absl::Status& status) {
    if (!status.ok()) on_failure_(plan, step_id, status);
    OnAnswered(destination, num_bytes);
  };
  WireWriter writer;
  std::vector<Payload> payloads;
  if (absl::Status encoded = EncodePush(bundle.request, &writer, &payloads); !encoded.ok())
    return on_reply(encoded);
  const TaskName destination = bundle.destination;
  bundle.request.entries.clear();  // the payloads hold what is still needed
  peers_.Call(destination, kPushTensorsMethod, writer.Take(), std::move(payloads),
              {.deadline = absl::Now() + options_.timeout},
              [on_reply](absl::StatusOr<PeerReply> reply) { on_reply(reply.status()); });
}

void TensorPusher::OnAnswered(const TaskName& destination, int64_t num_bytes) {
  std::vector<Bundle> next;
  {
    absl::MutexLock lock(&mutex_);
    Lane& lane = lanes_[destination];
    lane.bytes_under_way -= num_bytes;
    while (!lane.waiting.empty() && MayGoLocked(lane, lane.waiting.front().num_bytes)) {
      lane.bytes_under_way += lane.waiting.front().num_bytes;
      next.push_back(std::move(lane.waiting.front()));
      lane.waiting.pop_front();
    }
  }
  for (Bundle& bundle : next) Transmit(std::move(bundle));
  absl::MutexLock lock(&mutex_);
  if (--num_under_way_ == 0) idle_.SignalAll();
}

}  // namespace weir
