#include "kernels/cuda/cuda_stream.h"

#include <utility>

#include "graph/types/status_macros.h"

namespace weir {

// Events that nobody holds, for the next who records. To make one costs several times what recording does.
class CudaEventPool : public std::enable_shared_from_this<CudaEventPool> {
 public:
  CudaEventPool(CudaApi& api, int device) : api_(api), device_(device) {}
  ~CudaEventPool() {
    for (CudaEvent* event : free_) delete event;
  }

  absl::StatusOr<RefPtr<CudaEvent>> Get() {
    CudaEvent* event = TakeFree();
    if (event == nullptr) {
      WEIR_ASSIGN_OR_RETURN(const CudaEventHandle handle, api_.CreateEvent(device_));
      event = new CudaEvent(api_, handle);
    }
    event->pool_ = shared_from_this();
    event->ResetCount();
    return RefPtr<CudaEvent>(event);
  }

  void Return(CudaEvent* event) {
    absl::MutexLock lock(&mutex_);
    free_.push_back(event);
  }

 private:
  CudaEvent* TakeFree() {
    absl::MutexLock lock(&mutex_);
    if (free_.empty()) return nullptr;
    CudaEvent* const event = free_.back();
    free_.pop_back();
    return event;
  }

  CudaApi& api_;
  const int device_;
  absl::Mutex mutex_;
  std::vector<CudaEvent*> free_ ABSL_GUARDED_BY(mutex_);
};

void CudaEvent::Release() {
  // The pool may go with this reference, and the event with it.
  const std::shared_ptr<CudaEventPool> pool = std::move(pool_);
  pool->Return(this);
}

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create(CudaApi& api, int device) {
  WEIR_ASSIGN_OR_RETURN(const CudaDeviceProperties properties, api.Properties(device));
  WEIR_ASSIGN_OR_RETURN(const CudaStreamHandle handle, api.CreateStream(device));
  return std::unique_ptr<CudaStream>(new CudaStream(api, handle, properties.num_multiprocessors));
}

CudaStream::CudaStream(CudaApi& api, CudaStreamHandle handle, int num_multiprocessors)
    : api_(api),
      handle_(handle),
      num_multiprocessors_(num_multiprocessors),
      events_(std::make_shared<CudaEventPool>(api, handle.device)) {}

CudaStream::~CudaStream() {
  // An error means that the device is lost: nothing on it uses memory any more.
  Synchronize().IgnoreError();
  api_.DestroyStream(handle_).IgnoreError();
}

absl::StatusOr<RefPtr<CudaEvent>> CudaStream::Record() {
  WEIR_ASSIGN_OR_RETURN(RefPtr<CudaEvent> event, events_->Get());
  std::vector<RefPtr<Buffer>> done;
  {
    absl::MutexLock lock(&mutex_);
    WEIR_RETURN_IF_ERROR(api_.RecordEvent(event->handle(), handle_));
    if (!unmarked_.empty()) kept_.push_back({event, std::exchange(unmarked_, {})});
    done = TakeDone();
  }
  return event;
}

void CudaStream::Keep(RefPtr<Buffer> buffer) {
  absl::MutexLock lock(&mutex_);
  unmarked_.push_back(std::move(buffer));
}

std::vector<RefPtr<Buffer>> CudaStream::TakeDone() {
  std::vector<RefPtr<Buffer>> done;
  while (!kept_.empty()) {
    const absl::StatusOr<bool> is_done = kept_.front().until->IsDone();
    if (!is_done.ok() || !*is_done) break;
    for (RefPtr<Buffer>& buffer : kept_.front().buffers) done.push_back(std::move(buffer));
    kept_.pop_front();
  }
  return done;
}

void CudaStream::LetGo() {
  std::vector<RefPtr<Buffer>> done;
  absl::MutexLock lock(&mutex_);
  done = TakeDone();
}

int64_t CudaStream::num_kept() const {
  absl::MutexLock lock(&mutex_);
  size_t count = unmarked_.size();
  for (const Kept& kept : kept_) count += kept.buffers.size();
  return static_cast<int64_t>(count);
}

absl::Status CudaStream::Synchronize() {
  std::deque<Kept> kept;
  std::vector<RefPtr<Buffer>> unmarked;
  {
    absl::MutexLock lock(&mutex_);
    kept = std::exchange(kept_, {});
    unmarked = std::exchange(unmarked_, {});
  }
  return api_.SynchronizeStream(handle_);
}

}  // namespace weir
