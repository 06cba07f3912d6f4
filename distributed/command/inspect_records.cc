#include <algorithm>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distributed/command/inspect_files.h"
#include "distributed/command/text_table.h"
#include "graph/interchange/proto/example.pb.h"
#include "graph/types/human_bytes.h"
#include "graph/types/printable_text.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/record_io.h"

namespace weir {
namespace {

constexpr size_t kMaxShownBytes = 60;

// The compression with which the first record can be read; kNone when there is no such.
Compression FindCompression(const std::string& path) {
  for (Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    const auto reader = RecordReader::Open(path, compression);
    std::string record;
    if (reader.ok() && (*reader)->ReadNext(&record).ok()) return compression;
  }
  return Compression::kNone;
}

std::string CompressionName(Compression compression) {
  return compression == Compression::kGzip   ? "gzip"
         : compression == Compression::kZlib ? "zlib"
                                             : "not compressed";
}

std::string Escaped(absl::string_view bytes) {
  return absl::StrCat("\"", absl::CHexEscape(bytes.substr(0, kMaxShownBytes)),
                      bytes.size() > kMaxShownBytes ? "...\"" : "\"");
}

template <typename List>
std::string ListText(const char* kind, const List& list) {
  constexpr int kMaxShown = 8;
  std::vector<std::string> texts;
  for (int i = 0; i < std::min(list.size(), kMaxShown); ++i) {
    if constexpr (std::is_same_v<std::decay_t<decltype(list[i])>, std::string>) {
      texts.push_back(Escaped(list[i]));
    } else {
      texts.push_back(absl::StrCat(list[i]));
    }
  }
  return absl::StrCat(kind, "[", list.size(), "] ", absl::StrJoin(texts, ", "),
                      list.size() > kMaxShown ? ", ..." : "");
}

std::string FeatureText(const tensorflow::Feature& feature) {
  switch (feature.kind_case()) {
    case tensorflow::Feature::kBytesList:
      return ListText("bytes", feature.bytes_list().value());
    case tensorflow::Feature::kFloatList:
      return ListText("float", feature.float_list().value());
    case tensorflow::Feature::kInt64List:
      return ListText("int64", feature.int64_list().value());
    default:
      return "nothing";
  }
}

void PrintRecord(uint64_t index, const std::string& record, std::ostream& out) {
  out << "record " << index << ": " << HumanBytes(record.size());
  tensorflow::Example example;
  const bool is_example = example.ParseFromString(record) && example.features().feature_size() > 0 &&
                          example.GetReflection()->GetUnknownFields(example).empty();
  if (!is_example) {
    out << " " << Escaped(record) << "\n";
    return;
  }
  out << ", a tf.Example\n";
  TextTable table;
  std::map<std::string, const tensorflow::Feature*> features;
  for (const auto& [name, feature] : example.features().feature()) features[name] = &feature;
  for (const auto& [name, feature] : features) table.AddRow({"  " + name, FeatureText(*feature)});
  table.Print(out);
}

}  // namespace

absl::Status InspectRecords(const std::string& path, const InspectOptions& options, std::ostream& out) {
  const Compression compression = FindCompression(path);
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<RecordReader> reader, RecordReader::Open(path, compression));
  uint64_t count = 0, num_bytes = 0, smallest = UINT64_MAX, largest = 0;
  std::string record;
  absl::Status status;
  while (true) {
    const absl::StatusOr<bool> found = reader->ReadNext(&record);
    status = found.status();
    if (!found.ok() || !*found) break;
    if (count < static_cast<uint64_t>(std::max(options.records, 0))) PrintRecord(count, record, out);
    ++count;
    num_bytes += record.size();
    smallest = std::min<uint64_t>(smallest, record.size());
    largest = std::max<uint64_t>(largest, record.size());
  }
  out << PrintableText(path) << ": " << Counted(count, "record") << ", " << HumanBytes(num_bytes) << ", "
      << CompressionName(compression);
  if (count > 0) out << ", from " << HumanBytes(smallest) << " to " << HumanBytes(largest) << " each";
  out << (status.ok() ? "; every checksum is right" : " before the damage") << "\n";
  return status;
}

}  // namespace weir
