// Writes a checkpoint in TensorFlow's V2 format (bundle_index.h), in one shard, all or nothing.
//
//   std::unique_ptr<BundleWriter> writer = BundleWriter::Create("/models/model.ckpt-100").value();
//   WEIR_RETURN_IF_ERROR(writer->Add("dense/kernel", kernel));
//   WEIR_RETURN_IF_ERROR(writer->Finish());
//
// Bytes go from the tensors' buffers to temporary files. Finish syncs and renames them, the index last.
// If the process or the machine crashes before Finish returns, the name still stands for the checkpoint that
// was there before (or none); afterwards it stands for the new one. The old shard stays whole beside the new
// one, because the new one has another name: where the old index says that there is one shard, the new index
// says two, of which the second is empty. A writer that is destroyed without Finish, or after an error,
// removes its temporary files.
//
// Thread safety: one thread at a time. Errors name the path: ResourceExhausted for a full disk.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/types/tensor.h"
#include "kernels/formats/bundle_index.h"
#include "kernels/formats/file_system.h"

namespace weir {

class BundleWriter {
 public:
  struct Options {
    FileSystem* file_system = &PosixFileSystem();
    // Wait until the bytes are on the disk, so that the checkpoint survives a power failure.
    bool sync = true;
  };

  // Creates the missing folders of `prefix`, durably when options.sync is set.
  static absl::StatusOr<std::unique_ptr<BundleWriter>> Create(const std::string& prefix,
                                                              const Options& options);
  static absl::StatusOr<std::unique_ptr<BundleWriter>> Create(const std::string& prefix) {
    return Create(prefix, Options());
  }
  ~BundleWriter();

  // In any order of names. InvalidArgument for an empty name, a name that was added before, or a dtype that
  // lives in this process only (resource, variant).
  absl::Status Add(absl::string_view name, const Tensor& tensor);

  // One part of a partitioned tensor. InvalidArgument when the slice lies outside the full shape, differs
  // from the tensor's shape, or the parts disagree about dtype or full shape.
  absl::Status AddSlice(absl::string_view name, const Shape& full_shape, const TensorSlice& slice,
                        const Tensor& tensor);

  absl::Status Finish();

 private:
  BundleWriter(const std::string& prefix, const Options& options);

  absl::Status AddUnderKey(const std::string& key, const Tensor& tensor);
  absl::Status AppendPlain(const Tensor& tensor, uint32_t* crc);
  absl::Status AppendStrings(const Tensor& tensor, uint32_t* crc);
  absl::Status Append(const void* bytes, size_t num_bytes, uint32_t* crc);
  absl::Status WriteAndRename();
  absl::Status WriteIndex();
  absl::Status SyncFolder();

  const std::string prefix_;
  const Options options_;
  const std::string index_path_;
  const std::string temporary_data_path_;
  const std::string temporary_index_path_;
  std::unique_ptr<WritableFile> data_;
  uint64_t data_bytes_ = 0;
  BundleIndex index_;
  absl::Status error_;
  bool is_finished_ = false;
};

// Makes one checkpoint of several with different tensors (or different slices of the same ones), as parameter
// servers write them: renames their shards and writes a common index; the sources are gone afterwards.
// A checkpoint that `merged_prefix` names before is replaced as BundleWriter does. InvalidArgument when two
// of them hold the same tensor.
absl::Status MergeBundles(const std::vector<std::string>& prefixes, const std::string& merged_prefix,
                          FileSystem& file_system = PosixFileSystem());

// Deletes the checkpoint's index and then all its shards; a crash in between leaves shards that nothing
// names. NotFound when it has no index; the shards are deleted all the same.
absl::Status RemoveBundle(const std::string& prefix, FileSystem& file_system = PosixFileSystem());

}  // namespace weir
