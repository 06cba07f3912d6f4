#include "kernels/cuda/cudnn_graph.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

template <typename F>
absl::Status Find(CudaLibraries& libraries, const char* name, F* function) {
  WEIR_ASSIGN_OR_RETURN(void* const address, libraries.Function(CudaLibraryList()[kCudnn], name));
  *function = reinterpret_cast<F>(address);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Cudnn> OpenCudnn(CudaLibraries& libraries) {
  Cudnn dnn;
  WEIR_RETURN_IF_ERROR(Find(libraries, "cudnnCreate", &dnn.create));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cudnnDestroy", &dnn.destroy));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cudnnSetStream", &dnn.set_stream));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cudnnGetErrorString", &dnn.status_name));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cudnnGetLastErrorString", &dnn.last_error));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cudnnBackendCreateDescriptor", &dnn.create_descriptor));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cudnnBackendDestroyDescriptor", &dnn.destroy_descriptor));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cudnnBackendSetAttribute", &dnn.set_attribute));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cudnnBackendGetAttribute", &dnn.get_attribute));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cudnnBackendFinalize", &dnn.finalize));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cudnnBackendExecute", &dnn.execute));
  return dnn;
}

absl::Status Cudnn::ToStatus(const char* call, const char* what, cudnnStatus_t status) const {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  char reason[512] = {};
  last_error(reason, sizeof(reason));
  const std::string text = absl::StrCat(call, " of ", what, ": ", status_name(status),
                                        *reason == '\0' ? "" : ": ", static_cast<const char*>(reason));
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return absl::UnimplementedError(text);
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
    return absl::ResourceExhaustedError(text);
  }
  return absl::InternalError(text);
}

absl::StatusOr<CudnnDescriptor> CudnnDescriptor::Make(const Cudnn& dnn, cudnnBackendDescriptorType_t type,
                                                      const char* what) {
  CudnnDescriptor made;
  made.dnn_ = &dnn;
  made.what_ = what;
  WEIR_RETURN_IF_ERROR(
      dnn.ToStatus("cudnnBackendCreateDescriptor", what, dnn.create_descriptor(type, &made.handle_)));
  return made;
}

absl::Status CudnnDescriptor::Finalize() {
  return dnn_->ToStatus("cudnnBackendFinalize", what_, dnn_->finalize(handle_));
}

absl::Status CudnnDescriptor::SetBytes(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                       int64_t count, const void* values) {
  return dnn_->ToStatus("cudnnBackendSetAttribute", what_,
                        dnn_->set_attribute(handle_, name, type, count, values));
}

absl::StatusOr<int64_t> CudnnDescriptor::GetBytes(cudnnBackendAttributeName_t name,
                                                  cudnnBackendAttributeType_t type, int64_t most,
                                                  void* values) const {
  int64_t count = 0;
  WEIR_RETURN_IF_ERROR(dnn_->ToStatus("cudnnBackendGetAttribute", what_,
                                      dnn_->get_attribute(handle_, name, type, most, &count, values)));
  return count;
}

}  // namespace weir
