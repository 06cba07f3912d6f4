#include "kernels/formats/snapshot_metadata.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/table_encoding.h"

namespace weir {
namespace {

constexpr int kRunId = 2, kTimestamp = 3, kVersionField = 4, kDType = 5, kNumElements = 6, kFinalized = 1000;
constexpr int kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

std::string PathIn(const std::string& folder) { return JoinPath(folder, "snapshot.metadata"); }

// One field: a number, or bytes.
struct Field {
  int number = 0;
  uint64_t value = 0;
  absl::string_view bytes;
};

// False for what is no field.
bool TakeField(absl::string_view* in, Field* field) {
  uint64_t tag = 0;
  if (!TakeVarint(in, &tag) || tag >> 3 == 0 || tag >> 3 > INT32_MAX) return false;
  field->number = static_cast<int>(tag >> 3);
  field->bytes = absl::string_view();
  switch (tag & 7) {
    case kVarint:
      return TakeVarint(in, &field->value);
    case kFixed64:
    case kFixed32: {
      const size_t size = (tag & 7) == kFixed64 ? 8 : 4;
      if (in->size() < size) return false;
      in->remove_prefix(size);
      return true;
    }
    case kBytes:
      if (!TakeVarint(in, &field->value) || field->value > in->size()) return false;
      field->bytes = in->substr(0, field->value);
      in->remove_prefix(field->value);
      return true;
    default:
      return false;
  }
}

bool AddDType(uint64_t number, SnapshotMetadata* metadata) {
  if (number > INT32_MAX || !IsKnownDType(static_cast<int>(number))) return false;
  metadata->dtypes.push_back(static_cast<DType>(number));
  return true;
}

bool SetField(const Field& field, SnapshotMetadata* metadata, int64_t* version) {
  switch (field.number) {
    case kRunId:
      metadata->run_id = std::string(field.bytes);
      return true;
    case kTimestamp:
      metadata->creation_microseconds = static_cast<int64_t>(field.value);
      return true;
    case kVersionField:
      *version = static_cast<int64_t>(field.value);
      return true;
    case kDType: {
      if (field.bytes.data() == nullptr) return AddDType(field.value, metadata);
      absl::string_view rest = field.bytes;
      while (!rest.empty()) {
        uint64_t number = 0;
        if (!TakeVarint(&rest, &number) || !AddDType(number, metadata)) return false;
      }
      return true;
    }
    case kNumElements:
      metadata->num_elements = static_cast<int64_t>(field.value);
      return true;
    case kFinalized:
      metadata->is_finalized = field.value != 0;
      return true;
    default:
      return true;
  }
}

void AppendNumber(int field, uint64_t value, std::string* out) {
  AppendVarint(static_cast<uint64_t>(field) << 3 | kVarint, out);
  AppendVarint(value, out);
}

void AppendBytes(int field, absl::string_view bytes, std::string* out) {
  AppendVarint(static_cast<uint64_t>(field) << 3 | kBytes, out);
  AppendVarint(bytes.size(), out);
  out->append(bytes.data(), bytes.size());
}

}  // namespace

absl::StatusOr<SnapshotMetadata> ReadSnapshotMetadata(FileSystem& files, const std::string& folder) {
  const std::string path = PathIn(folder);
  absl::StatusOr<std::string> bytes = ReadWholeFile(files, path, SnapshotMetadata::kMaxBytes);
  if (absl::IsNotFound(bytes.status())) {
    return absl::NotFoundError(absl::StrCat("Could not find metadata file [", path, "]"));
  }
  if (!bytes.ok()) return bytes.status();
  SnapshotMetadata metadata;
  int64_t version = 0;
  absl::string_view rest = *bytes;
  while (!rest.empty()) {
    Field field;
    if (TakeField(&rest, &field) && SetField(field, &metadata, &version)) continue;
    return absl::DataLossError(absl::StrCat(path, " is no record of a saved dataset"));
  }
  const std::string& run = metadata.run_id;
  if (run.empty() || run == "." || run == ".." || run.find('/') != std::string::npos ||
      run.find('\0') != std::string::npos || metadata.num_elements < 0) {
    return absl::DataLossError(absl::StrCat(path, " names the run '", run.substr(0, 64), "' with ",
                                            metadata.num_elements, " elements"));
  }
  if (version == SnapshotMetadata::kVersion) return metadata;
  return absl::UnimplementedError(absl::StrCat(path, " is of version ", version, "; version ",
                                               SnapshotMetadata::kVersion, " is read here"));
}

absl::Status WriteSnapshotMetadata(FileSystem& files, const std::string& folder,
                                   const SnapshotMetadata& metadata) {
  std::string bytes, dtypes;
  AppendBytes(kRunId, metadata.run_id, &bytes);
  AppendNumber(kTimestamp, static_cast<uint64_t>(metadata.creation_microseconds), &bytes);
  AppendNumber(kVersionField, SnapshotMetadata::kVersion, &bytes);
  for (const DType dtype : metadata.dtypes) AppendVarint(static_cast<uint64_t>(dtype), &dtypes);
  AppendBytes(kDType, dtypes, &bytes);
  if (metadata.num_elements != 0) {
    AppendNumber(kNumElements, static_cast<uint64_t>(metadata.num_elements), &bytes);
  }
  if (metadata.is_finalized) AppendNumber(kFinalized, 1, &bytes);
  return WriteFileAtomically(files, PathIn(folder), bytes);
}

}  // namespace weir
