// A stand-in of CUDA for tests: GPUs that are nowhere, on which everything that is asked for is written down.
//
// It is made to find what a real GPU forgives most of the time:
// * The memory of a device cannot be touched: whoever reads it on the host crashes.
// * Copies, fills and kernels happen late: when the test lets them (RunOne, RunAll) or somebody waits for
// them, in each
//   stream's order, and after what the stream waits for. Until then the destination of a copy is full of
//   kPoison.
// * Errors come when the test wants them, and a device can be lost for good. Who waits for work that waits
// for
//   a lost device stands still until somebody lets it go.
// * What is captured does not happen. A launch of the graph enqueues the same work once more, with the same
//   arguments; what a capture must not have is a problem.
// * What was not given back, host memory that is not pinned, and waits for events that nobody recorded are
// problems;
//   the destructor aborts on them unless the test has taken them (TakeProblems).
//
// A kernel does nothing unless the test says what it does (SetKernel). Thread safety: all methods; a kernel's
// stand-in runs under the lock and must not call back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "kernels/cuda/cuda_api.h"

namespace weir {

class RecordingCudaApi final : public CudaApi {
 public:
  static constexpr uint8_t kPoison = 0xCD;

  struct Options {
    int num_devices = 1;
    int64_t memory = int64_t{1} << 30;  // of each device, in bytes
    std::vector<int> compute_majors;    // of each device; 9 where none is given
    CudaVersions versions = {.driver = 13000, .runtime = 13000};
  };
  // A kernel that was launched: its function, its grid, the bytes of its arguments.
  struct Launched {
    CudaFunction function;
    CudaGrid grid;
    std::vector<std::vector<std::byte>> arguments;

    template <typename T>
    T argument(size_t index) const;
  };
  using HostKernel = std::function<void(const Launched&)>;

  RecordingCudaApi() : RecordingCudaApi(Options()) {}
  explicit RecordingCudaApi(Options options);
  ~RecordingCudaApi() override;

  // --- what the test says ---
  // What a kernel does, on the host. It may touch all memory of the device.
  void SetKernel(const void* address, HostKernel kernel);
  // The nth call of this name from now on (1: the next one) gives this error, once.
  void FailCall(const std::string& name, int error, int nth = 1);
  // Every call on the device gives this error from now on, and what it had to do is never done.
  void LoseDevice(int device, int error);
  // An event that counts as recorded, and is done when it is let go. The caller destroys it.
  CudaEventHandle HoldEvent(int device);
  // What has been recorded of the event counts as done: who waits for it goes on.
  void LetGo(CudaEventHandle event);
  // Everything happens at once.
  void set_runs_at_once(bool runs_at_once);

  // One piece of work of the stream that comes `choice`th among those that can go on; false when none can.
  bool RunOne(uint32_t choice = 0);
  // Everything. Returns how many pieces there were.
  int RunAll();

  // --- what the test sees ---
  // One line a call, as "cudaMemcpyAsync to_device 4096 bytes on stream 1".
  std::vector<std::string> log() const;
  void ClearLog();
  int64_t num_calls(const std::string& name) const;
  std::vector<Launched> launches() const;
  int64_t num_bytes(int device) const;                      // allocated now
  std::map<uintptr_t, int64_t> segments(int device) const;  // the same, by address
  int64_t num_pending() const;                              // pieces of work that have not happened
  // What is wrong so far, and what has not been given back. Forgotten by this.
  std::vector<std::string> TakeProblems();
  // A copy of device memory, as it is now.
  std::vector<std::byte> Peek(const void* address, size_t num_bytes);

  absl::StatusOr<int> NumDevices() override;
  absl::StatusOr<CudaDeviceProperties> Properties(int device) override;
  absl::StatusOr<CudaMemory> Memory(int device) override;
  absl::StatusOr<CudaVersions> Versions() override;
  absl::Status Select(int device) override;
  absl::StatusOr<void*> Allocate(int device, size_t num_bytes) override;
  absl::Status Free(int device, void* address) override;
  absl::StatusOr<void*> AllocatePinned(size_t num_bytes) override;
  absl::Status FreePinned(void* address) override;
  absl::StatusOr<CudaStreamHandle> CreateStream(int device) override;
  absl::Status DestroyStream(CudaStreamHandle stream) override;
  absl::Status SynchronizeStream(CudaStreamHandle stream) override;
  absl::StatusOr<CudaEventHandle> CreateEvent(int device) override;
  absl::Status DestroyEvent(CudaEventHandle event) override;
  absl::Status RecordEvent(CudaEventHandle event, CudaStreamHandle stream) override;
  absl::Status WaitForEvent(CudaStreamHandle stream, CudaEventHandle event) override;
  absl::StatusOr<bool> IsEventDone(CudaEventHandle event) override;
  absl::Status SynchronizeEvent(CudaEventHandle event) override;
  absl::Status Copy(CudaCopy kind, void* to, const void* from, size_t num_bytes,
                    CudaStreamHandle stream) override;
  absl::Status Fill(void* to, uint8_t value, size_t num_bytes, CudaStreamHandle stream) override;
  absl::Status Launch(const CudaFunction& function, const CudaGrid& grid,
                      absl::Span<const CudaArgument> arguments, CudaStreamHandle stream) override;
  absl::Status BeginCapture(CudaStreamHandle stream) override;
  absl::StatusOr<CudaGraphHandle> EndCapture(CudaStreamHandle stream) override;
  absl::Status LaunchGraph(const CudaGraphHandle& graph, CudaStreamHandle stream) override;
  absl::Status DestroyGraph(const CudaGraphHandle& graph) override;
  absl::Status LastError(int device) override;

 private:
  static constexpr int kPinned = -1;  // in the place of a device

  struct Block {
    int device = kPinned;
    size_t num_bytes = 0;
    size_t num_mapped = 0;  // whole pages
  };
  struct Event {
    int device = 0;
    int64_t recorded = 0;  // how often; the newest one counts
    int64_t done = 0;
    bool is_destroyed = false;
  };
  // One piece of work of a stream.
  struct Work {
    enum class Kind { kCopy, kFill, kLaunch, kRecord, kWait } kind = Kind::kCopy;
    uintptr_t to = 0, from = 0;
    size_t num_bytes = 0;
    uint8_t value = 0;
    Launched launched;
    std::shared_ptr<Event> event;
    int64_t generation = 0;  // of the event
  };
  struct Stream {
    int device = 0;
    int number = 0;
    bool is_destroyed = false;
    bool is_capturing = false;
    std::deque<Work> work;
    std::vector<Work> captured;
  };
  struct Graph {
    int device = 0;
    std::vector<Work> work;
  };

  absl::Status Begin(const std::string& name, int device, const std::string& text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Fail(const std::string& name, int error, const std::string& problem)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What a stream that is captured must not do.
  absl::Status RefuseWhileCapturing(const std::string& name, const Stream& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Stream* FindStream(CudaStreamHandle stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<Event> FindEvent(CudaEventHandle event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The block that has all these bytes; null when none has.
  const Block* FindBlock(uintptr_t address, size_t num_bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsPending(uintptr_t address, size_t num_bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a kernel that has not run may go so far from one of its arguments.
  bool MayBeReached(uintptr_t address, size_t num_bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Poison(uintptr_t address, size_t num_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enqueue(Stream* stream, Work work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CanRun(const Stream& stream) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunFront(Stream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run(const Work& work, int device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int RunAllLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drain(Stream* stream, const Event* until, int64_t generation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AwaitEvent(const Event& event, int64_t generation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls `go_on` until `is_over`, again whenever an event was let go or the device was lost.
  absl::Status AwaitOthers(const std::string& name, int device, absl::FunctionRef<void()> go_on,
                           absl::FunctionRef<bool()> is_over) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes memory of the host of every block of the device, or takes it away again.
  void Open(int device, bool is_open) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Unmap(std::map<uintptr_t, Block>::iterator block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddLeaks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable absl::Mutex mutex_;
  bool runs_at_once_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<int> lost_ ABSL_GUARDED_BY(mutex_);  // by device: its error, 0 while it lives
  std::vector<int64_t> in_use_ ABSL_GUARDED_BY(mutex_);
  std::map<uintptr_t, Block> blocks_ ABSL_GUARDED_BY(mutex_);
  std::map<void*, std::unique_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
  std::map<void*, std::shared_ptr<Event>> events_ ABSL_GUARDED_BY(mutex_);
  std::map<void*, Graph> graphs_ ABSL_GUARDED_BY(mutex_);
  std::map<const void*, HostKernel> kernels_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::map<int64_t, int>> failures_ ABSL_GUARDED_BY(mutex_);  // call -> number -> error
  std::map<std::string, int64_t> num_calls_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
  std::vector<Launched> launches_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> problems_ ABSL_GUARDED_BY(mutex_);
  int64_t num_changes_ ABSL_GUARDED_BY(mutex_) = 0;  // events let go, devices lost
  uintptr_t num_handles_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_streams_ ABSL_GUARDED_BY(mutex_) = 0;
};

template <typename T>
T RecordingCudaApi::Launched::argument(size_t index) const {
  T value;
  const std::vector<std::byte>& bytes = arguments.at(index);
  if (bytes.size() != sizeof(T)) std::abort();
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

}  // namespace weir
