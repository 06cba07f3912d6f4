#include "distributed/launch/host_discovery.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr char kFlag[] = "--host_discovery_script";
constexpr size_t kShown = 200;

}  // namespace

int HostDiscovery::output_fd() {
  return process_.has_value() && process_->output().is_open() ? process_->output().get() : -1;
}

absl::Time HostDiscovery::next_time() const { return is_on() ? due_ : absl::InfiniteFuture(); }

void HostDiscovery::ReadOutput(FileDescriptor& from, std::string* to) const {
  char buffer[4096];
  while (from.is_open()) {
    const ssize_t num_read = read(from.get(), buffer, sizeof(buffer));
    if (num_read > 0) {
      to->append(buffer, static_cast<size_t>(num_read));
      if (to->size() <= kMaxBytes) continue;
      from = FileDescriptor();  // which ends a script that goes on
    } else if (num_read == 0 || (errno != EINTR && errno != EAGAIN)) {
      from = FileDescriptor();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

absl::StatusOr<std::vector<HostSlots>> HostDiscovery::TakeAnswer(int wait_status) {
  const std::string output = std::exchange(output_, ""), error = std::exchange(error_, "");
  if (output.size() > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat(kFlag, ": it wrote more than ", kMaxBytes, " bytes"));
  }
  if (ExitCodeOf(wait_status) != 0) {
    const absl::string_view end =
        absl::string_view(error).substr(error.size() - std::min(error.size(), kShown));
    return absl::UnavailableError(absl::StrCat(kFlag, ": '", script_, "' ", DescribeExit(wait_status), ": ",
                                               absl::StripAsciiWhitespace(end)));
  }
  return ParseHostFile(kFlag, output);
}

std::optional<absl::StatusOr<std::vector<HostSlots>>> HostDiscovery::Poll(absl::Time now) {
  if (!is_on()) return std::nullopt;
  absl::StatusOr<std::vector<HostSlots>> answer;
  if (!process_.has_value()) {
    if (now < due_) return std::nullopt;
    due_ = now + kLongest;
    absl::StatusOr<ChildProcess> started = ChildProcess::Start({.command = {"sh", "-c", script_}});
    if (started.ok()) {
      process_ = *std::move(started);
      return std::nullopt;
    }
    answer = started.status();
  } else {
    ReadOutput(process_->output(), &output_);
    ReadOutput(process_->error(), &error_);
    int wait_status = 0;
    const bool has_ended = process_->HasEnded(&wait_status);
    if (!has_ended && now < due_) return std::nullopt;
    ReadOutput(process_->output(), &output_);
    ReadOutput(process_->error(), &error_);
    answer = TakeAnswer(wait_status);
    if (!has_ended) {
      answer = absl::DeadlineExceededError(
          absl::StrCat(kFlag, ": '", script_, "' takes longer than ", absl::FormatDuration(kLongest)));
    }
    process_.reset();  // kills it
  }
  due_ = now + kInterval;
  std::string says = answer.ok() ? "" : std::string(answer.status().message());
  if (answer.ok()) {
    for (const HostSlots& host : *answer) absl::StrAppend(&says, host.host, ":", host.num_slots, "\n");
  }
  if (std::exchange(said_, says) == says) return std::nullopt;
  return answer;
}

}  // namespace weir
