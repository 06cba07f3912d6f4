#include "session/monitored/checkpoint_manifest.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/types/status_macros.h"
#include "kernels/notice.h"
#include "session/monitored/checkpoint_claim.h"

namespace weir {
namespace {

constexpr absl::string_view kFirstLine = "weir checkpoints 1";
constexpr size_t kLifeDigits = 16;

bool ParseLife(absl::string_view text, uint64_t* life) {
  return text.size() == kLifeDigits && absl::SimpleHexAtoi(text, life);
}

absl::StatusOr<CheckpointOrigin> ParseOrigin(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  CheckpointOrigin origin;
  if (parts.size() == 3 && ParseLife(parts[0], &origin.epoch) && absl::SimpleAtoi(parts[1], &origin.era) &&
      absl::SimpleAtoi(parts[2], &origin.step) && origin.era >= 0 && origin.step >= -1) {
    return origin;
  }
  return absl::DataLossError(absl::StrCat("'", text.substr(0, 100), "' is no life, era and step"));
}

std::string RelativeTo(const std::string& directory, absl::string_view path) {
  absl::ConsumePrefix(&path, JoinPath(directory, ""));
  return std::string(path);
}

}  // namespace

std::string CheckpointOrigin::ToString() const { return absl::StrFormat("%016x %d %d", epoch, era, step); }

absl::StatusOr<CheckpointOrigin> OriginOf(const BundleReader& checkpoint) {
  const BundleEntry* const entry = checkpoint.Find(CheckpointOrigin::kTensor);
  if (entry == nullptr) return CheckpointOrigin();
  const auto damaged = [&checkpoint](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("tensor '", CheckpointOrigin::kTensor, "' of checkpoint ",
                                            checkpoint.prefix(), ": ", what));
  };
  if (entry->dtype != DType::kString || entry->shape.num_elements() != 1) {
    return damaged(absl::StrCat(TypeString(entry->dtype, entry->shape), " is not one string"));
  }
  WEIR_ASSIGN_OR_RETURN(const Tensor text, checkpoint.Read(CheckpointOrigin::kTensor));
  absl::StatusOr<CheckpointOrigin> origin = ParseOrigin(text.flat<std::string>()[0]);
  return origin.ok() ? std::move(origin) : damaged(origin.status().message());
}

const CheckpointManifest::Entry* CheckpointManifest::Find(absl::string_view prefix) const {
  const auto found = std::find_if(checkpoints.begin(), checkpoints.end(),
                                  [&](const Entry& entry) { return entry.prefix == prefix; });
  return found == checkpoints.end() ? nullptr : &*found;
}

std::string CheckpointManifest::Encode(const std::string& directory) const {
  std::string text =
      absl::StrFormat("%s\nepoch %016x\nstate %s\n", kFirstLine, epoch, absl::CEscape(state_file));
  for (const Entry& entry : checkpoints) {
    absl::StrAppend(&text, "checkpoint ", entry.origin.ToString(), " ",
                    absl::CEscape(RelativeTo(directory, entry.prefix)), "\n");
  }
  return text;
}

absl::StatusOr<CheckpointManifest> CheckpointManifest::Decode(absl::string_view text,
                                                              const std::string& directory) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  const auto wrong = [](absl::string_view line) {
    return absl::DataLossError(absl::StrCat("'", absl::CEscape(line.substr(0, 100)), "' is no line of it"));
  };
  if (lines.empty() || lines[0] != kFirstLine) return wrong(lines.empty() ? "" : lines[0]);
  CheckpointManifest manifest;
  for (size_t i = 1; i < lines.size(); ++i) {
    absl::string_view rest = lines[i];
    if (i == 1) {
      if (!absl::ConsumePrefix(&rest, "epoch ") || !ParseLife(rest, &manifest.epoch) || manifest.epoch == 0) {
        return wrong(lines[i]);
      }
    } else if (i == 2) {
      if (!absl::ConsumePrefix(&rest, "state ") || !absl::CUnescape(rest, &manifest.state_file)) {
        return wrong(lines[i]);
      }
    } else {
      if (!absl::ConsumePrefix(&rest, "checkpoint ")) return wrong(lines[i]);
      const std::vector<absl::string_view> parts = absl::StrSplit(rest, absl::MaxSplits(' ', 3));
      std::string prefix;
      if (parts.size() != 4 || !absl::CUnescape(parts[3], &prefix) || prefix.empty()) return wrong(lines[i]);
      const absl::StatusOr<CheckpointOrigin> origin =
          ParseOrigin(absl::StrCat(parts[0], " ", parts[1], " ", parts[2]));
      if (!origin.ok()) return wrong(lines[i]);
      manifest.checkpoints.push_back({JoinPath(directory, prefix), *origin});
    }
  }
  if (lines.size() < 3) return wrong(lines.back());
  return manifest;
}

absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& directory, FileSystem& files) {
  const absl::StatusOr<CheckpointClaim::Manifest> found = CheckpointClaim::LatestManifestIn(files, directory);
  if (!found.ok() && !absl::IsDataLoss(found.status())) return found.status();
  // The chief has written none yet, or another one has just taken the folder.
  if (found.ok() && found->path.empty()) return CheckpointManifest();
  absl::StatusOr<CheckpointManifest> manifest =
      found.ok() ? CheckpointManifest::Decode(found->text, directory) : found.status();
  if (manifest.ok()) return manifest;
  PrintNotice(absl::StrCat(
      found.ok() ? found->path : "the manifest of " + directory,
      " is damaged, and does not say which checkpoints there are: ", manifest.status().message()));
  return CheckpointManifest();
}

absl::StatusOr<CheckpointState> ReadNewestState(const std::string& directory, FileSystem& files,
                                                absl::string_view file_name) {
  WEIR_ASSIGN_OR_RETURN(CheckpointState state, ReadCheckpointState(directory, files, file_name));
  if (state.written_by == 0) return state;
  WEIR_ASSIGN_OR_RETURN(const CheckpointManifest manifest, ReadManifest(directory, files));
  if (state.written_by >= manifest.epoch || manifest.state_file != file_name) return state;
  if (manifest.checkpoints.empty()) {
    return absl::NotFoundError(
        absl::StrCat(directory, " has no checkpoint but those of a chief whose life was over"));
  }
  CheckpointState real = {.last_preserved_timestamp = state.last_preserved_timestamp,
                          .written_by = manifest.epoch};
  for (const CheckpointManifest::Entry& entry : manifest.checkpoints) {
    real.all.push_back(entry.prefix);
    // The manifest has no times; where the file has none either, it is 0.
    const auto listed = std::find(state.all.begin(), state.all.end(), entry.prefix);
    const auto place = static_cast<size_t>(listed - state.all.begin());
    real.timestamps.push_back(place < state.timestamps.size() ? state.timestamps[place] : 0);
  }
  real.newest = real.all.back();
  return real;
}

absl::Status CheckNotReplaced(const std::string& checkpoint, const CheckpointManifest& manifest,
                              FileSystem& files) {
  const CheckpointManifest::Entry* const entry = manifest.Find(checkpoint);
  if (entry == nullptr || entry->origin.epoch == 0) return absl::OkStatus();
  const absl::StatusOr<std::unique_ptr<BundleReader>> reader = BundleReader::Open(checkpoint, files);
  if (!reader.ok()) return absl::OkStatus();  // whoever reads it says so
  WEIR_ASSIGN_OR_RETURN(const CheckpointOrigin origin, OriginOf(**reader));
  if (!entry->IsReplacedBy(origin)) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "it was replaced: a chief whose life was over has written it (life %016x), after that of life %016x",
      origin.epoch, entry->origin.epoch));
}

}  // namespace weir
