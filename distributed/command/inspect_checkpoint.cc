#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "distributed/command/inspect_files.h"
#include "distributed/command/name_filter.h"
#include "distributed/command/text_table.h"
#include "graph/types/human_bytes.h"
#include "graph/types/printable_text.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/checkpoint_state.h"

namespace weir {
namespace {

// The only checkpoint of a folder, as of one that somebody was sent.
absl::StatusOr<std::string> OnlyPrefixIn(const std::string& directory) {
  const absl::StatusOr<std::vector<std::string>> names = PosixFileSystem().ListDirectory(directory);
  std::vector<std::string> prefixes;
  for (absl::string_view name : names.ok() ? *names : std::vector<std::string>()) {
    if (absl::ConsumeSuffix(&name, ".index")) prefixes.push_back(JoinPath(directory, name));
  }
  if (prefixes.size() == 1) return prefixes[0];
  if (prefixes.empty()) {
    return absl::NotFoundError(
        absl::StrCat("there is no checkpoint ", directory, " (", directory,
                     ".index), and no folder with a `checkpoint` file or a .index file"));
  }
  std::sort(prefixes.begin(), prefixes.end());
  const size_t num_named = std::min<size_t>(prefixes.size(), 10);
  return absl::NotFoundError(absl::StrCat(
      "the folder ", directory, " has no `checkpoint` file, and ", prefixes.size(),
      " checkpoints: say which one: ", absl::StrJoin(prefixes.begin(), prefixes.begin() + num_named, ", "),
      num_named < prefixes.size() ? ", ..." : ""));
}

// The prefix that the user means.
absl::StatusOr<std::string> PrefixOf(const std::string& path, std::ostream& out) {
  if (BundleExists(path)) return path;
  absl::string_view prefix = path;
  if (absl::ConsumeSuffix(&prefix, ".index")) return std::string(prefix);
  const std::string directory = FileNameOf(path) == "checkpoint" ? DirectoryOf(path) : path;
  const absl::StatusOr<CheckpointState> state = ReadCheckpointState(directory);
  // FailedPrecondition: the path is that of a file, or what is named `checkpoint` in the folder is none.
  const bool is_no_folder =
      absl::IsFailedPrecondition(state.status()) && !PosixFileSystem().ListDirectory(directory).ok();
  if (absl::IsNotFound(state.status()) || is_no_folder) return OnlyPrefixIn(path);
  WEIR_RETURN_IF_ERROR(state.status());
  out << PrintableText(directory) << ": " << Counted(state->all.size(), "checkpoint") << "\n";
  for (const std::string& one : state->all) {
    out << "  " << PrintableText(one) << (one == state->newest ? "  (newest)" : "")
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

// Of what is a number among the elements.
struct Statistics {
  int64_t num_finite = 0, num_nan = 0, num_infinite = 0;
  double least = 0, greatest = 0, sum = 0;

  void Add(double value) {
    if (std::isnan(value)) {
      ++num_nan;
    } else if (std::isinf(value)) {
      ++num_infinite;
    } else {
      least = num_finite == 0 ? value : std::min(least, value);
      greatest = num_finite == 0 ? value : std::max(greatest, value);
      sum += value;
      ++num_finite;
    }
  }
};

template <typename T>
Statistics StatisticsOf(const Tensor& tensor) {
  Statistics statistics;
  for (const T& value : tensor.flat<T>()) statistics.Add(static_cast<double>(value));
  return statistics;
}

// None for strings, complex numbers and resources.
absl::optional<Statistics> StatisticsOf(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return StatisticsOf<float>(tensor);
    case DType::kFloat64:
      return StatisticsOf<double>(tensor);
    case DType::kHalf:
      return StatisticsOf<Half>(tensor);
    case DType::kBfloat16:
      return StatisticsOf<Bfloat16>(tensor);
    case DType::kInt32:
      return StatisticsOf<int32_t>(tensor);
    case DType::kInt64:
      return StatisticsOf<int64_t>(tensor);
    default:
      return absl::nullopt;
  }
}

absl::Status InspectTensor(const BundleReader& reader, const InspectOptions& options, std::ostream& out) {
  WEIR_ASSIGN_OR_RETURN(const Tensor tensor, reader.Read(options.tensor));
  out << PrintableText(options.tensor) << ": " << TypeString(tensor.dtype(), tensor.shape()) << ", "
      << Counted(tensor.shape().num_elements(), "element") << "\n";
  if (const absl::optional<Statistics> found = StatisticsOf(tensor); found.has_value()) {
    if (found->num_finite > 0) {
      out << "least " << found->least << ", greatest " << found->greatest << ", mean "
          << found->sum / static_cast<double>(found->num_finite) << "\n";
    }
    if (found->num_nan > 0) out << found->num_nan << " NaN\n";
    if (found->num_infinite > 0) out << found->num_infinite << " infinite\n";
  }
  constexpr int kValues = 100;
  out << PrintableText(tensor.ToString(options.values > 0 ? options.values : kValues)) << "\n";
  return absl::OkStatus();
}

// What is known of the data when nothing is wrong with what was read.
std::string ChecksumsOf(uint64_t num_read, uint64_t num_shown) {
  if (num_read == num_shown) return num_read == 0 ? "" : "; every checksum is right";
  return absl::StrCat("; the checksums of ", num_read, " are right, ", num_shown - num_read,
                      " of types that Weir lacks were not read");
}

}  // namespace

absl::Status InspectCheckpoint(const std::string& path, const InspectOptions& options, std::ostream& out) {
  WEIR_ASSIGN_OR_RETURN(const std::string prefix, PrefixOf(path, out));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader, BundleReader::Open(prefix));
  if (!options.tensor.empty()) return InspectTensor(*reader, options, out);
  const NameFilter filter(options.filter);
  out << PrintableText(prefix) << ": " << Counted(reader->names().size(), "tensor") << " in "
      << Counted(reader->num_shards(), "shard") << "\n";
  TextTable table({2});
  uint64_t num_bytes = 0;
  uint64_t num_elements = 0;
  uint64_t num_shown = 0, num_read = 0;
  absl::Status status;
  for (const std::string& name : reader->names()) {
    if (!filter.Matches(name)) continue;
    ++num_shown;
    const BundleEntry& entry = *reader->Find(name);
    std::vector<std::string> row = {name, entry.foreign_dtype.empty()
                                              ? TypeString(entry.dtype, entry.shape)
                                              : absl::StrCat(entry.foreign_dtype, entry.shape.ToString())};
    row.push_back(HumanBytes(StoredBytes(*reader, name)));
    std::string remark = entry.slices.empty() ? "" : Counted(entry.slices.size(), "slice");
    if ((options.verify || options.values > 0) && entry.foreign_dtype.empty()) {
      const absl::StatusOr<Tensor> tensor = reader->Read(name);
      ++num_read;
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
  if (num_shown < reader->names().size()) {
    out << Counted(num_shown, "tensor") << " with names like '" << PrintableText(filter.pattern()) << "'; ";
  }
  out << "total: " << Counted(num_elements, "element") << ", " << HumanBytes(num_bytes)
      << (options.verify && status.ok() ? ChecksumsOf(num_read, num_shown) : "") << "\n";
  return status;
}

}  // namespace weir
