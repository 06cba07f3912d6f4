// Who has written the checkpoints of a folder, so that what a chief writes whose life is over is not
// restored.
//
// A chief that was stopped between its look for a later life's claim (checkpoint_claim.h) and the rename that
// follows may put its file `checkpoint`, or a checkpoint, in the place of its successor's. Nobody can keep it
// from that, but readers can tell:
//
// * each checkpoint says its origin, as the tensor "_weir/origin": the epoch, which is the life of its chief;
//   the era, which is how many restores its values have behind them; and the global step, -1 without one.
// * the file `checkpoint` says in a comment which life has written it (kernels/formats/checkpoint_state.h).
// * each chief has a manifest, a file beside its claim whose name no other life writes: which checkpoints
//   there are, and their origins. It begins with what its predecessor has left. Readers take the manifest of
//   the life that has the folder, or had it last, as the claims say; where that one has none, for it was just
//   taking the folder, or died in that, the manifest of the life before.
//
// A file `checkpoint` of an earlier life than the manifest's is not believed: the manifest says what there
// is. A checkpoint of an earlier epoch than the manifest has for it was replaced, and is damaged. Where
// somebody else has written the file `checkpoint`, TensorFlow or a person, it says no life, and is believed.
//
// A sharded saver's checkpoints have no origin. Other readers leave the tensor and the comment alone.
//
// The manifest is text: a line "weir checkpoints 1", "epoch LIFE", "state NAME" with the name of the file
// `checkpoint`, and for each checkpoint, oldest first, "checkpoint LIFE ERA STEP PREFIX"; a life has 16
// hexadecimal digits (0: no origin is known), the prefix is without the folder where it lies in it, and is
// escaped as in C.
//
// Thread safety: all functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/checkpoint_state.h"
#include "kernels/formats/file_system.h"

namespace weir {

struct CheckpointOrigin {
  // In checkpoints; no variable of a graph can have this name.
  static constexpr char kTensor[] = "_weir/origin";

  uint64_t epoch = 0;  // 0: not known
  int64_t era = 0;
  int64_t step = -1;

  bool operator==(const CheckpointOrigin&) const = default;
  // "00000000000000ab 2 100".
  std::string ToString() const;
};

// That of an open checkpoint; epoch 0 when it has none. DataLoss when the tensor is none.
absl::StatusOr<CheckpointOrigin> OriginOf(const BundleReader& checkpoint);

struct CheckpointManifest {
  struct Entry {
    std::string prefix;  // here with its folder
    CheckpointOrigin origin;

    // Whether an earlier chief has replaced it, for that is its origin now.
    bool IsReplacedBy(const CheckpointOrigin& now) const {
      return now.epoch != 0 && now.epoch < origin.epoch;
    }
  };
  uint64_t epoch = 0;  // whose manifest it is; 0: none
  std::string state_file = "checkpoint";
  std::vector<Entry> checkpoints;  // oldest first

  // Of the checkpoint; null when it is not listed.
  const Entry* Find(absl::string_view prefix) const;

  std::string Encode(const std::string& directory) const;
  // DataLoss, naming the line.
  static absl::StatusOr<CheckpointManifest> Decode(absl::string_view text, const std::string& directory);
};

// The folder's manifest: that of the chief that has it, or had it last. Epoch 0 when it has none; one that
// cannot be read is named on stderr, and counts as none. Errors of the disk.
absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& directory, FileSystem& files);

// What ReadCheckpointState gives, or, when that was written by a chief whose life was over, what the manifest
// says instead. NotFound also when the chief after it has written none.
absl::StatusOr<CheckpointState> ReadNewestState(const std::string& directory,
                                                FileSystem& files = PosixFileSystem(),
                                                absl::string_view file_name = "checkpoint");

// DataLoss when an earlier chief has replaced the checkpoint, after the manifest's has written it.
absl::Status CheckNotReplaced(const std::string& checkpoint, const CheckpointManifest& manifest,
                              FileSystem& files);

}  // namespace weir
