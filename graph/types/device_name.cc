#include "graph/types/device_name.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

bool IsIdentifier(absl::string_view text) {
  if (text.empty() || !absl::ascii_isalpha(text[0])) return false;
  for (char c : text) {
    if (!absl::ascii_isalnum(c) && c != '_' && c != '-') return false;
  }
  return true;
}

// "*" leaves the field unset.
bool ParseNumber(absl::string_view text, std::optional<int>* field) {
  if (text == "*") return true;
  int value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0) return false;
  *field = value;
  return true;
}

bool ParseDevice(absl::string_view type, absl::string_view index, DeviceName* name) {
  if (type != "*") {
    if (!IsIdentifier(type)) return false;
    name->type = absl::AsciiStrToUpper(type);
  }
  return ParseNumber(index, &name->index);
}

bool ParsePart(const std::vector<absl::string_view>& words, DeviceName* name) {
  const absl::string_view key = words[0];
  if (words.size() == 2 && key == "job") {
    if (words[1] == "*") return true;
    if (!IsIdentifier(words[1])) return false;
    name->job = std::string(words[1]);
    return true;
  }
  if (words.size() == 2 && key == "replica") return ParseNumber(words[1], &name->replica);
  if (words.size() == 2 && key == "task") return ParseNumber(words[1], &name->task);
  if (key == "device" && (words.size() == 2 || words.size() == 3)) {
    return ParseDevice(words[1], words.size() == 3 ? words[2] : "*", name);
  }
  const bool is_short = key == "cpu" || key == "gpu" || key == "CPU" || key == "GPU";
  return is_short && words.size() == 2 && ParseDevice(key, words[1], name);
}

template <typename T>
bool FieldMatches(const std::optional<T>& wanted, const std::optional<T>& found) {
  return !wanted || wanted == found;
}

template <typename T>
bool MergeField(const std::optional<T>& other, std::optional<T>* field) {
  if (!other) return true;
  if (*field && *field != other) return false;
  *field = other;
  return true;
}

template <typename T>
void OverrideField(const std::optional<T>& inner, std::optional<T>* field) {
  if (inner) *field = inner;
}

}  // namespace

absl::StatusOr<DeviceName> DeviceName::Parse(absl::string_view text) {
  DeviceName name;
  if (text.empty()) return name;
  if (text[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat("device '", text, "': a device name begins with '/'"));
  }
  for (absl::string_view part : absl::StrSplit(text.substr(1), '/')) {
    const std::vector<absl::string_view> words = absl::StrSplit(part, ':');
    if (!ParsePart(words, &name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "device '", text, "': '/", part,
          "' is none of /job:NAME, /replica:N, /task:N, /device:TYPE:N, /cpu:N, /gpu:N (N may be *)"));
    }
  }
  return name;
}

bool DeviceName::Matches(const DeviceName& device) const {
  return FieldMatches(job, device.job) && FieldMatches(replica, device.replica) &&
         FieldMatches(task, device.task) && FieldMatches(type, device.type) &&
         FieldMatches(index, device.index);
}

DeviceName DeviceName::OverriddenBy(const DeviceName& inner) const {
  DeviceName result = *this;
  OverrideField(inner.job, &result.job);
  OverrideField(inner.replica, &result.replica);
  OverrideField(inner.task, &result.task);
  OverrideField(inner.type, &result.type);
  OverrideField(inner.index, &result.index);
  return result;
}

absl::StatusOr<DeviceName> DeviceName::MergedWith(const DeviceName& other) const {
  DeviceName result = *this;
  const bool agree = MergeField(other.job, &result.job) && MergeField(other.replica, &result.replica) &&
                     MergeField(other.task, &result.task) && MergeField(other.type, &result.type) &&
                     MergeField(other.index, &result.index);
  if (!agree) {
    return absl::InvalidArgumentError(
        absl::StrCat("devices '", ToString(), "' and '", other.ToString(), "' contradict each other"));
  }
  return result;
}

bool DeviceName::IsSameTask(const DeviceName& other) const {
  return job == other.job && replica == other.replica && task == other.task;
}

std::string DeviceName::TaskString() const {
  std::string out;
  if (job) absl::StrAppend(&out, "/job:", *job);
  if (replica) absl::StrAppend(&out, "/replica:", *replica);
  if (task) absl::StrAppend(&out, "/task:", *task);
  return out;
}

std::string DeviceName::ToString() const {
  std::string out = TaskString();
  if (type || index) {
    absl::StrAppend(&out, "/device:", type.value_or("*"), ":", index ? absl::StrCat(*index) : "*");
  }
  return out;
}

DeviceName MakeDeviceName(absl::string_view job, int task, absl::string_view type, int index) {
  return {.job = std::string(job), .replica = 0, .task = task, .type = std::string(type), .index = index};
}

}  // namespace weir
