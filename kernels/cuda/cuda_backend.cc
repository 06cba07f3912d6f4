#include "kernels/cuda/cuda_backend.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"
#include "kernels/cuda/all_kernels.h"
#include "kernels/cuda/cub_sort.h"
#include "kernels/cuda/cublaslt_blas.h"
#include "kernels/cuda/cuda_libraries.h"
#include "kernels/cuda/cudart_api.h"
#include "kernels/cuda/cudnn_dnn.h"
#include "kernels/cuda/gpu_links.h"
#include "kernels/cuda/gpu_report.h"
#include "kernels/cuda/nccl_library.h"

namespace weir {
namespace {

absl::Status OfferLinks(NcclApi& nccl, CudaDevice& device) {
  return device.resources()
      .LookupOrCreate<GpuLinks>(
          Communicator::kContainer, GpuLinks::kName,
          [&]() -> absl::StatusOr<RefPtr<GpuLinks>> { return MakeRef<GpuLinks>(device, nccl); })
      .status();
}

}  // namespace

// Nothing of it is ever destroyed: what the libraries started may still run when the process ends.
const CudaBackend& TheCudaBackend() {
  static const auto& backend = *[] {
    auto* const made = new CudaBackend;
    made->api = MakeCudartApi().release();
    if (made->api == nullptr) return made;
    auto& libraries = *new CudaLibraries(CudaLibraryFolders());
    made->compute = {.kernels = new CudaKernelTable(AllCudaKernels()),
                     .blas = MakeCublasLtBlas(*made->api, libraries).release(),
                     .dnn = MakeCudnnDnn(*made->api, libraries).release(),
                     .sort = MakeCubSort(*made->api).release()};
    made->nccl = MakeNcclLibrary(*made->api, libraries).release();
    return made;
  }();
  return backend;
}

absl::StatusOr<std::vector<std::unique_ptr<CudaDevice>>> MakeGpus(const CudaBackend& backend, int count,
                                                                  absl::string_view job, int task,
                                                                  ThreadPool& threads, int64_t memory_limit) {
  const auto too_few = [count](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat("num_gpus is ", count, ": ", why));
  };
  if (backend.api == nullptr) return too_few("this program was built without CUDA");
  if (const absl::Status status = backend.api->NumDevices().status(); absl::IsNotFound(status)) {
    return too_few(WhyNoGpu(*backend.api, status));
  }
  WEIR_ASSIGN_OR_RETURN(
      CudaDevices made,
      MakeCudaDevices(*backend.api, job, task, threads,
                      {.memory_limit = memory_limit, .most = count, .compute = backend.compute}));
  if (static_cast<int>(made.devices.size()) == count) {
    for (const std::unique_ptr<CudaDevice>& device : made.devices) {
      if (backend.nccl != nullptr) WEIR_RETURN_IF_ERROR(OfferLinks(*backend.nccl, *device));
    }
    return std::move(made.devices);
  }
  const std::string why = absl::StrCat("this machine has ", made.devices.size(), " that Weir computes on");
  return too_few(made.left_out.empty()
                     ? why
                     : absl::StrCat(why, " (left out: ", absl::StrJoin(made.left_out, "; "), ")"));
}

}  // namespace weir
