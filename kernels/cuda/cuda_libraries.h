// NVIDIA's libraries that Weir opens when something needs them: cuBLASLt, cuDNN, NCCL, NVRTC.
//
// One program serves machines with and without them: it is linked with none, and opening takes from 5 ms to
// half a second, which only those pay who use a GPU. A library that is missing or too old is one clear
// sentence, and everything on the CPU goes on. An opened library stays open until the process ends: what it
// started may still run. Thread safety: all methods.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace weir {

// What a library is called, and which versions of it will do.
struct CudaLibrary {
  const char* name;              // for people
  const char* file;              // "libcudnn.so.9"
  const char* version_function;  // its symbol
  // Calls it: major * 10000 + minor * 100 + patch. Negative when it fails.
  int (*version)(void* function);
  int oldest;
  const char* wanted_for;
};

// Places in CudaLibraryList().
enum : int { kCublasLt, kCudnn, kNccl, kNvrtc, kNumCudaLibraries };
const CudaLibrary (&CudaLibraryList())[kNumCudaLibraries];

// "13.0.2" of 130002.
std::string CudaLibraryVersion(int version);

class CudaLibraries {
 public:
  // Files are looked for where the system looks, then in `folders`.
  explicit CudaLibraries(std::vector<std::string> folders) : folders_(std::move(folders)) {}

  // Opens it at the first call, and gives its version. NotFound when there is none, FailedPrecondition when
  // it is too old or is something else; the same answer at every call.
  absl::StatusOr<int> Open(const CudaLibrary& library);

  // A function of an opened library. NotFound naming it and the version found.
  absl::StatusOr<void*> Function(const CudaLibrary& library, const char* name);

 private:
  struct Opened {
    void* handle = nullptr;
    int version = 0;
  };
  absl::StatusOr<Opened> OpenOnce(const CudaLibrary& library) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Opened> OpenNow(const CudaLibrary& library) const;

  const std::vector<std::string> folders_;
  absl::Mutex mutex_;
  std::map<std::string, absl::StatusOr<Opened>> opened_ ABSL_GUARDED_BY(mutex_);  // by file
};

// $CUDA_HOME/lib64, and the toolkit's usual place.
std::vector<std::string> CudaLibraryFolders();

}  // namespace weir
