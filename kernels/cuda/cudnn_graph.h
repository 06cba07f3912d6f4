// The functions of an opened cuDNN, and its descriptors as values. For files that know cuDNN's headers.
//
// Errors are "CALL of WHAT: STATUS: REASON" with what cuDNN says. Thread safety: Cudnn is only read; a
// descriptor belongs to one thread at a time.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/cuda_libraries.h"

namespace weir {

// The functions that are used.
struct Cudnn {
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnGetErrorString) status_name = nullptr;
  decltype(&cudnnGetLastErrorString) last_error = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;

  // Unimplemented for what cuDNN calls not supported, ResourceExhausted where memory was short, else
  // Internal.
  absl::Status ToStatus(const char* call, const char* what, cudnnStatus_t status) const;
};

absl::StatusOr<Cudnn> OpenCudnn(CudaLibraries& libraries);

// The type that cuDNN wants to be told beside a value.
template <typename T>
constexpr cudnnBackendAttributeType_t CudnnTypeOf() {
  if constexpr (std::is_same_v<T, int64_t>) return CUDNN_TYPE_INT64;
  if constexpr (std::is_same_v<T, float>) return CUDNN_TYPE_FLOAT;
  if constexpr (std::is_same_v<T, double>) return CUDNN_TYPE_DOUBLE;
  if constexpr (std::is_same_v<T, char>) return CUDNN_TYPE_CHAR;
  if constexpr (std::is_same_v<T, void*>) return CUDNN_TYPE_VOID_PTR;
  if constexpr (std::is_same_v<T, cudnnHandle_t>) return CUDNN_TYPE_HANDLE;
  if constexpr (std::is_same_v<T, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
  if constexpr (std::is_same_v<T, cudnnConvolutionMode_t>) return CUDNN_TYPE_CONVOLUTION_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendHeurMode_t>) return CUDNN_TYPE_HEUR_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendNumericalNote_t>) return CUDNN_TYPE_NUMERICAL_NOTE;
}

// Owns a descriptor. The library must outlive it.
class CudnnDescriptor {
 public:
  // `what` is it in errors, a literal: "the filter".
  static absl::StatusOr<CudnnDescriptor> Make(const Cudnn& dnn, cudnnBackendDescriptorType_t type,
                                              const char* what);
  CudnnDescriptor() = default;
  CudnnDescriptor(CudnnDescriptor&& other) noexcept { *this = std::move(other); }
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    std::swap(dnn_, other.dnn_);
    std::swap(what_, other.what_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~CudnnDescriptor() {
    if (handle_ != nullptr) dnn_->destroy_descriptor(handle_);
  }

  cudnnBackendDescriptor_t handle() const { return handle_; }

  template <typename T>
  absl::Status Set(cudnnBackendAttributeName_t name, const T& value) {
    return SetBytes(name, CudnnTypeOf<T>(), 1, &value);
  }
  template <typename T>
  absl::Status SetList(cudnnBackendAttributeName_t name, absl::Span<const T> values) {
    return SetBytes(name, CudnnTypeOf<T>(), static_cast<int64_t>(values.size()), values.data());
  }
  absl::Status Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    return SetBytes(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.handle_);
  }
  absl::Status Finalize();

  // Up to `most` values into `values`; returns how many there are.
  template <typename T>
  absl::StatusOr<int64_t> Get(cudnnBackendAttributeName_t name, int64_t most, T* values) const {
    return GetBytes(name, CudnnTypeOf<T>(), most, values);
  }
  // The descriptors at `values` were made before, of the right type.
  absl::StatusOr<int64_t> GetDescriptors(cudnnBackendAttributeName_t name, int64_t most,
                                         cudnnBackendDescriptor_t* values) const {
    return GetBytes(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, values);
  }

 private:
  absl::Status SetBytes(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                        const void* values);
  absl::StatusOr<int64_t> GetBytes(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                   int64_t most, void* values) const;

  const Cudnn* dnn_ = nullptr;
  const char* what_ = "";
  cudnnBackendDescriptor_t handle_ = nullptr;
};

}  // namespace weir
