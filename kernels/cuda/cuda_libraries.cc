#include "kernels/cuda/cuda_libraries.h"

#include <dlfcn.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Of cuBLASLt and cuDNN: size_t f().
int PlainVersion(void* function) { return static_cast<int>(reinterpret_cast<size_t (*)()>(function)()); }

int NcclVersion(void* function) {
  int version = 0;
  const int error = reinterpret_cast<int (*)(int*)>(function)(&version);
  return error == 0 ? version : -1;
}

int NvrtcVersion(void* function) {
  int major = 0, minor = 0;
  const int error = reinterpret_cast<int (*)(int*, int*)>(function)(&major, &minor);
  return error == 0 ? major * 10000 + minor * 100 : -1;
}

constexpr CudaLibrary kLibraries[kNumCudaLibraries] = {
    {"cuBLASLt", "libcublasLt.so.13", "cublasLtGetVersion", PlainVersion, 130000, "products of matrices"},
    {"cuDNN", "libcudnn.so.9", "cudnnGetVersion", PlainVersion, 90000, "convolutions"},
    {"NCCL", "libnccl.so.2", "ncclGetVersion", NcclVersion, 21900, "collectives"},
    {"NVRTC", "libnvrtc.so.13", "nvrtcVersion", NvrtcVersion, 130000, "fused elementwise kernels"},
};

}  // namespace

const CudaLibrary (&CudaLibraryList())[kNumCudaLibraries] { return kLibraries; }

std::string CudaLibraryVersion(int version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

absl::StatusOr<CudaLibraries::Opened> CudaLibraries::OpenNow(const CudaLibrary& library) const {
  void* handle = dlopen(library.file, RTLD_NOW | RTLD_LOCAL);
  // The system's own reason is that of the first place: a file in one of the folders may be broken as well.
  std::string reason = handle == nullptr ? dlerror() : "";
  for (size_t i = 0; handle == nullptr && i < folders_.size(); ++i) {
    handle = dlopen(absl::StrCat(folders_[i], "/", library.file).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (handle == nullptr) {
    return absl::NotFoundError(absl::StrCat(library.name, ", needed for ", library.wanted_for,
                                            " on GPUs, cannot be opened: ", reason));
  }
  void* const function = dlsym(handle, library.version_function);
  const int version = function == nullptr ? -1 : library.version(function);
  if (version < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(library.file, " does not say which version of ", library.name, " it is"));
  }
  if (version < library.oldest) {
    return absl::FailedPreconditionError(
        absl::StrCat(library.name, " ", CudaLibraryVersion(version), " is too old for ", library.wanted_for,
                     " on GPUs: ", CudaLibraryVersion(library.oldest), " or newer is needed"));
  }
  return Opened{handle, version};
}

absl::StatusOr<CudaLibraries::Opened> CudaLibraries::OpenOnce(const CudaLibrary& library) {
  const auto found = opened_.find(library.file);
  if (found != opened_.end()) return found->second;
  return opened_.emplace(library.file, OpenNow(library)).first->second;
}

absl::StatusOr<int> CudaLibraries::Open(const CudaLibrary& library) {
  absl::MutexLock lock(&mutex_);
  WEIR_ASSIGN_OR_RETURN(const Opened opened, OpenOnce(library));
  return opened.version;
}

absl::StatusOr<void*> CudaLibraries::Function(const CudaLibrary& library, const char* name) {
  absl::MutexLock lock(&mutex_);
  WEIR_ASSIGN_OR_RETURN(const Opened opened, OpenOnce(library));
  if (void* function = dlsym(opened.handle, name)) return function;
  return absl::NotFoundError(
      absl::StrCat(library.name, " ", CudaLibraryVersion(opened.version), " has no function ", name));
}

std::vector<std::string> CudaLibraryFolders() {
  std::vector<std::string> folders;
  const char* const home = std::getenv("CUDA_HOME");
  if (home != nullptr && *home != '\0') folders.push_back(absl::StrCat(home, "/lib64"));
  folders.push_back("/usr/local/cuda/lib64");
  return folders;
}

}  // namespace weir
