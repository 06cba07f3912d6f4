// Names of devices: "/job:worker/replica:0/task:1/device:GPU:0", whole or in part.
//
// A DeviceName with every field set names one device; with fields missing it is a constraint that several
// devices may satisfy ("/job:ps" or "/device:CPU:*"). Parsed once at the edge; below the API no device
// travels as a string.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

struct DeviceName {
  std::optional<std::string> job;
  std::optional<int> replica;
  std::optional<int> task;
  std::optional<std::string> type;  // upper case: "CPU", "GPU"
  std::optional<int> index;

  // TensorFlow's forms: each of /job:NAME /replica:N /task:N /device:TYPE:N, any of them missing or "*"; also
  // the short "/cpu:0", "/gpu:1". "" constrains nothing. InvalidArgument quotes the part that does not parse.
  static absl::StatusOr<DeviceName> Parse(absl::string_view text);

  bool is_whole() const { return job && replica && task && type && index; }
  bool is_empty() const { return !job && !replica && !task && !type && !index; }

  // True when `device` has every field that *this has, with the same value.
  bool Matches(const DeviceName& device) const;

  // Fields of `inner` win over those of *this (nested device scopes).
  DeviceName OverriddenBy(const DeviceName& inner) const;

  // Both constraints together; InvalidArgument naming both when a field differs.
  absl::StatusOr<DeviceName> MergedWith(const DeviceName& other) const;

  // Same job, replica and task.
  bool IsSameTask(const DeviceName& other) const;
  // "/job:worker/replica:0/task:1".
  std::string TaskString() const;
  std::string ToString() const;

  friend bool operator==(const DeviceName& a, const DeviceName& b) = default;
};

// A whole name. replica is 0 in every cluster of this project.
DeviceName MakeDeviceName(absl::string_view job, int task, absl::string_view type, int index);

}  // namespace weir
