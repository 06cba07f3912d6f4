// Asks a script again and again which hosts there are, and how many workers each of them may run: what
// horovodrun calls --host-discovery-script.
//
// The script is a command of the shell. It writes a host file (environment/host_list.h): "gpu1:4" or
// "gpu1 slots=4" a line. What it says counts until it says something else. When it fails, says something that
// is no host file, or takes longer than kLongest, what it said before counts, and the error is told once.
// It may write 64 KiB.
//
// Not thread-safe; of the launcher's thread. Nothing here waits.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distributed/environment/host_list.h"
#include "distributed/launch/child_process.h"

namespace weir {

class HostDiscovery {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(1);
  static constexpr absl::Duration kLongest = absl::Seconds(10);
  static constexpr size_t kMaxBytes = 64 << 10;

  // Empty: there is none, and nothing is asked.
  explicit HostDiscovery(std::string script) : script_(std::move(script)) {}

  bool is_on() const { return !script_.empty(); }
  // What is new: a list that differs from the one before, or an error that does. To be called when the
  // script's output can be read, a child has ended, or next_time() has come.
  std::optional<absl::StatusOr<std::vector<HostSlots>>> Poll(absl::Time now);
  // Of the script that runs; -1 when none does.
  int output_fd();
  absl::Time next_time() const;

 private:
  void ReadOutput(FileDescriptor& from, std::string* to) const;
  absl::StatusOr<std::vector<HostSlots>> TakeAnswer(int wait_status);

  const std::string script_;
  std::optional<ChildProcess> process_;
  std::string output_, error_;
  absl::Time due_ = absl::InfinitePast();  // to be started; while it runs: to be killed
  std::optional<std::string> said_;        // the list or the error that was told last
};

}  // namespace weir
