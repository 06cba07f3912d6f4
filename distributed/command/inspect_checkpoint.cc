#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "distributed/command/inspect_files.h"
#include "distributed/command/text_table.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/checkpoint_state.h"

namespace weir {
namespace {

// The prefix that the user means.
absl::StatusOr<std::string> PrefixOf(const std::string& path, std::ostream& out) {
  if (BundleExists(path)) return path;
  absl::string_view prefix = path;
  if (absl::ConsumeSuffix(&prefix, ".index")) return std::string(prefix);
  const std::string directory = FileNameOf(path) == "checkpoint" ? DirectoryOf(path) : path;
  const absl::StatusOr<CheckpointState> state = ReadCheckpointState(directory);
  if (absl::IsNotFound(state.status()) || absl::IsFailedPrecondition(state.status())) {
    return absl::NotFoundError(absl::StrCat("there is no checkpoint ", path, " (", path,
                                            ".index), and no folder with a `checkpoint` file"));
  }
  WEIR_RETURN_IF_ERROR(state.status());
  out << directory << ": " << Counted(state->all.size(), "checkpoint") << "\n";
  for (const std::string& one : state->all) {
    out << "  " << one << (one == state->newest ? "  (newest)" : "")
        << (BundleExists(one) ? "" : "  (missing)") << "\n";
  }
  out << "\n";
  return state->newest;
}

uint64_t StoredBytes(const BundleReader& reader, const std::string& name) {
  const BundleEntry& entry = *reader.Find(name);
  uint64_t num_bytes = entry.num_bytes;
  for (const TensorSlice& slice : entry.slices) {
    const BundleEntry* part = reader.Find(slice.KeyFor(name));
    if (part != nullptr) num_bytes += part->num_bytes;
  }
  return num_bytes;
}

}  // namespace

absl::Status InspectCheckpoint(const std::string& path, const InspectOptions& options, std::ostream& out) {
  WEIR_ASSIGN_OR_RETURN(const std::string prefix, PrefixOf(path, out));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader, BundleReader::Open(prefix));
  out << prefix << ": " << Counted(reader->names().size(), "tensor") << " in "
      << Counted(reader->num_shards(), "shard") << "\n";
  TextTable table({2});
  uint64_t num_bytes = 0;
  uint64_t num_elements = 0;
  absl::Status status;
  for (const std::string& name : reader->names()) {
    const BundleEntry& entry = *reader->Find(name);
    std::vector<std::string> row = {name, entry.foreign_dtype.empty()
                                              ? TypeString(entry.dtype, entry.shape)
                                              : absl::StrCat(entry.foreign_dtype, entry.shape.ToString())};
    row.push_back(HumanBytes(StoredBytes(*reader, name)));
    std::string remark = entry.slices.empty() ? "" : Counted(entry.slices.size(), "slice");
    if ((options.verify || options.values > 0) && entry.foreign_dtype.empty()) {
      const absl::StatusOr<Tensor> tensor = reader->Read(name);
      if (!tensor.ok()) {
        remark = "DAMAGED";
        status.Update(tensor.status());
      } else if (options.values > 0) {
        absl::StrAppend(&remark, remark.empty() ? "" : "  ", tensor->ToString(options.values));
      }
    }
    row.push_back(remark);
    table.AddRow(std::move(row));
    num_bytes += StoredBytes(*reader, name);
    num_elements += entry.shape.num_elements();
  }
  table.Print(out);
  out << "total: " << Counted(num_elements, "element") << ", " << HumanBytes(num_bytes)
      << (options.verify && status.ok() ? "; every checksum is right" : "") << "\n";
  return status;
}

}  // namespace weir
