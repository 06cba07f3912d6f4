// Checkpoints of the first format as the ops that restore know them: one file, or a pattern of several.
//
// A function without state; safe from any thread. May wait for files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/formats/slice_file.h"
#include "kernels/kernel_context.h"

namespace weir {

// NotFound where no file has that name; errors of SliceFileReader::Open.
absl::StatusOr<std::unique_ptr<SliceFileReader>> OpenSliceCheckpoint(KernelContext& context,
                                                                     FileSystem& files,
                                                                     const std::string& pattern);

// The tensor, or the part that a shape and slice says ("" for all of it), as an output of that type.
// InvalidArgument for one of another type or shape.
absl::StatusOr<Tensor> ReadFromSlices(const SliceFileReader& reader, const std::string& name,
                                      const std::string& part, DType dtype, Allocator& allocator);

}  // namespace weir
