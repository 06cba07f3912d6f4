// A stand-in of NCCL for tests, on the memory and the streams of a RecordingCudaApi: everything that is asked
// for is written down, and what collectives give is computed on the host when their turn comes.
//
// * A collective happens when all ranks' streams have come to it. It adds up in a chain from rank to rank, as
//   a ring does: not in the order of Weir's own sums.
// * What would make a real one wait for ever is a problem: calls for ranks of one communicator that are not
//   in one group, or that differ. So is a rank that was ended twice, or never. The destructor aborts on
//   problems unless the test has taken them (TakeProblems).
// * Errors come when the test wants them. A group with a call that failed enqueues nothing.
// * An abort lets streams go on behind what has not ended of the rank's communicator; its outputs are
// garbage.
//
// The API must outlive this, and this the work. Thread safety: as NcclApi; what the test says and sees, from
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/cuda/nccl_api.h"
#include "kernels/cuda/recording_cuda_api.h"

namespace weir {

class RecordingNcclApi final : public NcclApi {
 public:
  // Each byte of what an aborted collective gives: floats of 3.4e15.
  static constexpr uint8_t kGarbage = 0x59;

  explicit RecordingNcclApi(RecordingCudaApi& api);
  ~RecordingNcclApi() override;

  // --- what the test says ---
  // There is no library: what Open says from now on.
  void SetMissing(absl::Status why);
  // The nth call of this name from now on (1: the next one) gives an error, once.
  void FailCall(const std::string& name, int nth = 1);
  // AsyncError of ranks on that device gives an error from now on.
  void SetAsyncError(int device, absl::Status error);

  // What is enqueued from now on ends with an abort only.
  void BreakLinks();

  // --- what the test sees ---
  // One line a call, as "ncclAllReduce 12 float sum, rank 0 of 2".
  std::vector<std::string> log() const;
  void ClearLog();
  std::vector<std::string> TakeProblems();

  absl::Status Open() override;
  absl::StatusOr<std::vector<NcclRank>> Create(absl::Span<const int> devices) override;
  absl::Status Destroy(const NcclRank& rank) override;
  absl::Status Abort(const NcclRank& rank) override;
  absl::Status AsyncError(const NcclRank& rank) override;
  absl::Status BeginGroup() override;
  absl::Status EndGroup() override;
  absl::Status AllReduce(const NcclRank& rank, const void* input, void* output, size_t count, DType dtype,
                         NcclReduction reduction, CudaStreamHandle stream) override;
  absl::Status AllGather(const NcclRank& rank, const void* input, void* output, size_t num_bytes,
                         CudaStreamHandle stream) override;
  absl::Status Broadcast(const NcclRank& rank, const void* input, void* output, size_t num_bytes, int root,
                         CudaStreamHandle stream) override;

 private:
  // What the ranks of a communicator must have the same.
  struct Kind {
    const char* name = nullptr;
    std::string text;  // "ncclAllReduce 12 float sum"
    size_t num_bytes = 0;
    DType dtype = DType::kUint8;
    NcclReduction reduction = NcclReduction::kSum;
    int root = -1;  // of a broadcast
    bool gathers = false;
  };
  struct Clique;
  struct Rank {
    std::shared_ptr<Clique> clique;
    int number = 0;
    bool is_ended = false;
  };
  struct Asked {
    std::shared_ptr<Clique> clique;
    Kind kind;
    const void* input = nullptr;
    void* output = nullptr;
    CudaStreamHandle stream;
  };
  // The ranks of one communicator, and what the group that is open has asked of each.
  struct Clique {
    int size = 0;
    std::map<int, std::vector<Asked>> asked;
  };
  // A collective that has been enqueued.
  struct Enqueued {
    Kind kind;
    std::vector<std::vector<std::byte>> inputs;  // by rank, as far as their streams have come
    std::shared_ptr<Clique> clique;
    std::vector<CudaEventHandle> awaited;  // by each stream
    bool is_aborted = false;
    size_t num_given = 0;  // outputs
  };
  // The argument of both kernels; the pointers are for RecordingCudaApi, which looks for them.
  struct Part {
    int64_t number = 0;
    int64_t rank = 0;
    const void* input = nullptr;
    void* output = nullptr;
  };

  absl::Status Begin(const std::string& name, const std::string& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Ask(const NcclRank& rank, Asked asked);
  absl::Status EnqueueAll(std::vector<Asked> all);
  absl::Status End(const std::string& name, const NcclRank& rank);
  // What all streams wait for before they get their outputs.
  void NoteAwaited(int64_t number, CudaEventHandle event);
  void GiveGarbage(const Enqueued& collective, void* output) const;
  void TakeInput(const Part& part);
  void GiveOutput(const Part& part);
  static std::vector<std::byte> Reduced(const Enqueued& collective);

  RecordingCudaApi& api_;
  const char take_input_ = 0, give_output_ = 0;  // their addresses name the kernels
  mutable absl::Mutex mutex_;
  absl::Status missing_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::map<int64_t, bool>> failures_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> num_calls_ ABSL_GUARDED_BY(mutex_);
  std::map<int, absl::Status> async_errors_ ABSL_GUARDED_BY(mutex_);  // by device
  std::map<void*, Rank> ranks_ ABSL_GUARDED_BY(mutex_);
  bool is_in_group_ ABSL_GUARDED_BY(mutex_) = false;
  bool are_links_broken_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status group_ ABSL_GUARDED_BY(mutex_);  // the first error of the one that is open
  std::map<int64_t, Enqueued> enqueued_ ABSL_GUARDED_BY(mutex_);
  int64_t num_enqueued_ ABSL_GUARDED_BY(mutex_) = 0;
  uintptr_t num_handles_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<CudaEventHandle> events_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> problems_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
