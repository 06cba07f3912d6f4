#include "distributed/launch/host_discovery.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr char kFlag[] = "--host_discovery_script";
constexpr int kMostReads = 64;  // at a time
constexpr size_t kShown = 200;
constexpr size_t kKept = 4 << 10;  // of stderr

// What is there to read, piece by piece, and not without end. `take` says whether it wants more; else the
// stream is closed.
template <typename Take>
void ReadStream(FileDescriptor& from, Take take) {
  char buffer[4096];
  for (int i = 0; i < kMostReads && from.is_open(); ++i) {
    const ssize_t num_read = read(from.get(), buffer, sizeof(buffer));
    if (num_read > 0) {
      if (!take(absl::string_view(buffer, static_cast<size_t>(num_read)))) from = FileDescriptor();
    } else if (num_read == 0 || (errno != EINTR && errno != EAGAIN)) {
      from = FileDescriptor();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

// Does not begin amid a character of UTF-8.
absl::string_view EndOf(absl::string_view text, size_t num_bytes) {
  if (text.size() <= num_bytes) return text;
  text.remove_prefix(text.size() - num_bytes);
  while (!text.empty() && (static_cast<unsigned char>(text[0]) & 0xc0) == 0x80) text.remove_prefix(1);
  return text;
}

}  // namespace

std::vector<int> HostDiscovery::fds() {
  std::vector<int> fds;
  if (!process_.has_value()) return fds;
  for (const FileDescriptor* fd : {&process_->output(), &process_->error()}) {
    if (fd->is_open()) fds.push_back(fd->get());
  }
  return fds;
}

absl::Time HostDiscovery::next_time() const { return is_on() ? due_ : absl::InfiniteFuture(); }

void HostDiscovery::Stop() {
  due_ = absl::InfiniteFuture();
  if (!process_.has_value()) return;
  process_->Abandon();
  process_.reset();
}

void HostDiscovery::ReadOutputs() {
  ReadStream(process_->output(), [this](absl::string_view bytes) {
    output_.append(bytes.data(), bytes.size());
    return output_.size() <= kMaxBytes;  // closing it ends a script that goes on
  });
  ReadStream(process_->error(), [this](absl::string_view bytes) {
    error_.append(bytes.data(), bytes.size());
    if (error_.size() > kKept) error_.erase(0, error_.size() - kKept);
    return true;
  });
}

HostDiscovery::Answer HostDiscovery::TakeAnswer(int wait_status, std::string* kind) {
  const std::string output = std::exchange(output_, ""), error = std::exchange(error_, "");
  if (output.size() > kMaxBytes) {
    *kind = "long";
    return absl::InvalidArgumentError(absl::StrCat(kFlag, ": it wrote more than ", kMaxBytes, " bytes"));
  }
  if (ExitCodeOf(wait_status) != 0) {
    *kind = DescribeExit(wait_status);
    return absl::UnavailableError(absl::StrCat(kFlag, ": '", script_, "' ", *kind, ": ",
                                               EndOf(absl::StripAsciiWhitespace(error), kShown)));
  }
  *kind = "no host file";
  return ParseHostFile(kFlag, output);
}

std::optional<HostDiscovery::Answer> HostDiscovery::WhatIsNew(Answer answer, const std::string& kind,
                                                              absl::Time now) {
  has_answered_ = true;
  const bool was_failing = std::exchange(is_failing_, !answer.ok());
  if (answer.ok()) {
    std::string list;
    for (const HostSlots& host : *answer) absl::StrAppend(&list, host.host, ":", host.num_slots, "\n");
    if (list_ == list) return std::nullopt;
    list_ = std::move(list);
    return answer;
  }
  const std::string text(answer.status().message());
  const auto told = errors_.find(kind);
  if (told != errors_.end()) {
    if (was_failing && told->second.text == text) return std::nullopt;
    if (now - told->second.told < kErrorInterval) return std::nullopt;
  }
  errors_[kind] = {text, now};
  return answer;
}

std::optional<HostDiscovery::Answer> HostDiscovery::Poll(absl::Time now) {
  if (!is_on() || due_ == absl::InfiniteFuture()) return std::nullopt;
  if (!process_.has_value()) {
    if (now < due_) return std::nullopt;
    absl::StatusOr<ChildProcess> started = ChildProcess::Start({.command = {"sh", "-c", script_}});
    if (!started.ok()) {
      due_ = now + kInterval;
      return WhatIsNew(started.status(), "no process", now);
    }
    due_ = now + kLongest;
    process_ = *std::move(started);
    return std::nullopt;
  }
  int wait_status = 0;
  ReadOutputs();
  const bool has_ended = process_->HasEnded(&wait_status);
  if (!has_ended && now < due_) return std::nullopt;
  ReadOutputs();
  due_ = now + kInterval;
  if (!has_ended) {
    if (std::exchange(is_killed_, true)) return std::nullopt;
    process_->Signal(SIGKILL);
    process_->output() = FileDescriptor();
    process_->error() = FileDescriptor();
    return WhatIsNew(absl::DeadlineExceededError(absl::StrCat(kFlag, ": '", script_, "' takes longer than ",
                                                              absl::FormatDuration(kLongest))),
                     "slow", now);
  }
  process_.reset();
  std::string kind;
  Answer answer = TakeAnswer(wait_status, &kind);
  if (std::exchange(is_killed_, false)) return std::nullopt;  // was told
  return WhatIsNew(std::move(answer), kind, now);
}

}  // namespace weir
