#include "kernels/cuda/nccl_library.h"

#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

template <typename F>
absl::Status Find(CudaLibraries& libraries, const CudaLibrary& library, const char* name, F* function) {
  WEIR_ASSIGN_OR_RETURN(void* const address, libraries.Function(library, name));
  *function = reinterpret_cast<F>(address);
  return absl::OkStatus();
}

int NumberOf(NcclReduction reduction) {
  switch (reduction) {
    case NcclReduction::kSum:
      return kNcclSum;
    case NcclReduction::kProduct:
      return kNcclProd;
    case NcclReduction::kMax:
      return kNcclMax;
    case NcclReduction::kMin:
      return kNcclMin;
  }
  return kNcclSum;
}

int NumberOf(DType dtype) {
  switch (dtype) {
    case DType::kInt32:
      return kNcclInt32;
    case DType::kInt64:
      return kNcclInt64;
    case DType::kFloat64:
      return kNcclFloat64;
    default:
      return kNcclFloat32;
  }
}

class RealNccl final : public NcclApi {
 public:
  RealNccl(CudaApi& api, CudaLibraries& libraries, const CudaLibrary& library)
      : api_(api), libraries_(libraries), library_(library) {}

  absl::Status Open() override { return Functions().status(); }

  absl::StatusOr<std::vector<NcclRank>> Create(absl::Span<const int> devices) override {
    WEIR_ASSIGN_OR_RETURN(const NcclFunctions* const nccl, Functions());
    std::vector<void*> handles(devices.size());
    WEIR_RETURN_IF_ERROR(
        ToStatus("ncclCommInitAll", nullptr,
                 nccl->init_all(handles.data(), static_cast<int>(devices.size()), devices.data())));
    std::vector<NcclRank> ranks;
    for (size_t i = 0; i < devices.size(); ++i) ranks.push_back({devices[i], handles[i]});
    return ranks;
  }

  absl::Status Destroy(const NcclRank& rank) override {
    WEIR_ASSIGN_OR_RETURN(const NcclFunctions* const nccl, Functions());
    WEIR_RETURN_IF_ERROR(api_.Select(rank.device));
    return ToStatus("ncclCommDestroy", nullptr, nccl->destroy(rank.handle));
  }

  // Also of a device that is lost, which cannot be selected any more.
  absl::Status Abort(const NcclRank& rank) override {
    WEIR_ASSIGN_OR_RETURN(const NcclFunctions* const nccl, Functions());
    api_.Select(rank.device).IgnoreError();
    return ToStatus("ncclCommAbort", nullptr, nccl->abort(rank.handle));
  }

  absl::Status AsyncError(const NcclRank& rank) override {
    WEIR_ASSIGN_OR_RETURN(const NcclFunctions* const nccl, Functions());
    int error = kNcclSuccess;
    WEIR_RETURN_IF_ERROR(
        ToStatus("ncclCommGetAsyncError", rank.handle, nccl->async_error(rank.handle, &error)));
    if (error == kNcclInProgress) return absl::OkStatus();
    return ToStatus("a collective of NCCL", rank.handle, error);
  }

  absl::Status BeginGroup() override {
    WEIR_ASSIGN_OR_RETURN(const NcclFunctions* const nccl, Functions());
    return ToStatus("ncclGroupStart", nullptr, nccl->group_start());
  }
  absl::Status EndGroup() override {
    WEIR_ASSIGN_OR_RETURN(const NcclFunctions* const nccl, Functions());
    return ToStatus("ncclGroupEnd", nullptr, nccl->group_end());
  }

  absl::Status AllReduce(const NcclRank& rank, const void* input, void* output, size_t count, DType dtype,
                         NcclReduction reduction, CudaStreamHandle stream) override {
    WEIR_ASSIGN_OR_RETURN(const NcclFunctions* const nccl, Functions());
    WEIR_RETURN_IF_ERROR(api_.Select(rank.device));
    return ToStatus("ncclAllReduce", rank.handle,
                    nccl->all_reduce(input, output, count, NumberOf(dtype), NumberOf(reduction), rank.handle,
                                     stream.stream));
  }

  absl::Status AllGather(const NcclRank& rank, const void* input, void* output, size_t num_bytes,
                         CudaStreamHandle stream) override {
    WEIR_ASSIGN_OR_RETURN(const NcclFunctions* const nccl, Functions());
    WEIR_RETURN_IF_ERROR(api_.Select(rank.device));
    return ToStatus("ncclAllGather", rank.handle,
                    nccl->all_gather(input, output, num_bytes, kNcclUint8, rank.handle, stream.stream));
  }

  absl::Status Broadcast(const NcclRank& rank, const void* input, void* output, size_t num_bytes, int root,
                         CudaStreamHandle stream) override {
    WEIR_ASSIGN_OR_RETURN(const NcclFunctions* const nccl, Functions());
    WEIR_RETURN_IF_ERROR(api_.Select(rank.device));
    return ToStatus("ncclBroadcast", rank.handle,
                    nccl->broadcast(input, output, num_bytes, kNcclUint8, root, rank.handle, stream.stream));
  }

 private:
  // Of the process: nothing closes it.
  absl::StatusOr<const NcclFunctions*> Functions() {
    absl::MutexLock lock(&mutex_);
    if (!opened_) opened_ = OpenNccl(libraries_, library_);
    if (!opened_->ok()) return opened_->status();
    return &**opened_;
  }

  // `comm`: whose last words are asked for; null where it may be gone.
  absl::Status ToStatus(const char* call, void* comm, int error) {
    if (error == kNcclSuccess) return absl::OkStatus();
    const absl::StatusOr<const NcclFunctions*> nccl = Functions();
    const char* const more = (*nccl)->last_error(comm);
    return absl::InternalError(
        absl::StrCat(call, ": NCCL error ", error, " (", (*nccl)->error_text(error), ")",
                     more == nullptr || *more == '\0' ? "" : absl::StrCat(": ", more)));
  }

  CudaApi& api_;
  CudaLibraries& libraries_;
  const CudaLibrary& library_;
  absl::Mutex mutex_;
  std::optional<absl::StatusOr<NcclFunctions>> opened_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

const CudaLibrary& LibraryOfNccl() { return CudaLibraryList()[kNccl]; }

absl::StatusOr<NcclFunctions> OpenNccl(CudaLibraries& libraries, const CudaLibrary& library) {
  NcclFunctions nccl;
  WEIR_RETURN_IF_ERROR(Find(libraries, library, "ncclCommInitAll", &nccl.init_all));
  WEIR_RETURN_IF_ERROR(Find(libraries, library, "ncclCommDestroy", &nccl.destroy));
  WEIR_RETURN_IF_ERROR(Find(libraries, library, "ncclCommAbort", &nccl.abort));
  WEIR_RETURN_IF_ERROR(Find(libraries, library, "ncclCommGetAsyncError", &nccl.async_error));
  WEIR_RETURN_IF_ERROR(Find(libraries, library, "ncclGetErrorString", &nccl.error_text));
  WEIR_RETURN_IF_ERROR(Find(libraries, library, "ncclGetLastError", &nccl.last_error));
  WEIR_RETURN_IF_ERROR(Find(libraries, library, "ncclGroupStart", &nccl.group_start));
  WEIR_RETURN_IF_ERROR(Find(libraries, library, "ncclGroupEnd", &nccl.group_end));
  WEIR_RETURN_IF_ERROR(Find(libraries, library, "ncclAllReduce", &nccl.all_reduce));
  WEIR_RETURN_IF_ERROR(Find(libraries, library, "ncclAllGather", &nccl.all_gather));
  WEIR_RETURN_IF_ERROR(Find(libraries, library, "ncclBroadcast", &nccl.broadcast));
  return nccl;
}

std::unique_ptr<NcclApi> MakeNcclLibrary(CudaApi& api, CudaLibraries& libraries, const CudaLibrary& library) {
  return std::make_unique<RealNccl>(api, libraries, library);
}

}  // namespace weir
