// The files that a kernel may read and write: those of its session, which a server may keep inside some
// folders.
#pragma once

#include <memory>

#include "kernels/formats/file_system.h"
#include "kernels/kernel.h"

namespace weir {

// All files of the machine outside of a session.
std::shared_ptr<FileSystem> FilesOf(const KernelConstruction& construction);

}  // namespace weir
