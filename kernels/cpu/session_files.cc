#include "kernels/cpu/session_files.h"

#include "kernels/session_state.h"

namespace weir {

std::shared_ptr<FileSystem> FilesOf(const KernelConstruction& construction) {
  SessionState* const session = construction.session();
  if (session != nullptr && session->files() != nullptr) return session->files();
  return std::shared_ptr<FileSystem>(std::shared_ptr<void>(), &PosixFileSystem());
}

}  // namespace weir
