// Asks a script again and again which hosts there are, and how many workers each of them may run: what
// horovodrun calls --host-discovery-script.
//
// The script is a command of the shell. It writes a host file (environment/host_list.h): "gpu1:4" or
// "gpu1 slots=4" a line, 64 KiB at most. What it says counts until it says something else. When it fails,
// says something that is no host file, or takes longer than kLongest, what it said before counts. The error
// is told once, with the end of what the script wrote on stderr; one of the same kind with another text (with
// a time in it, for example) once a minute.
//
// Not thread-safe; of the launcher's thread. Nothing here waits for a script, also not for the end of one
// that is killed and does not die (on a file system that does not answer). No other one is started before it
// has.
#pragma once

#include <map>
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
  static constexpr absl::Duration kErrorInterval = absl::Minutes(1);
  static constexpr size_t kMaxBytes = 64 << 10;

  // Empty: there is none, and nothing is asked.
  explicit HostDiscovery(std::string script) : script_(std::move(script)) {}
  ~HostDiscovery() { Stop(); }

  bool is_on() const { return !script_.empty(); }
  // What is new: a list that differs from the one before, or an error that is to be told. To be called when
  // one of fds() can be read, a child has ended, or next_time() has come.
  std::optional<absl::StatusOr<std::vector<HostSlots>>> Poll(absl::Time now);
  // Whether the script was heard once, or has failed.
  bool has_answered() const { return has_answered_; }
  // What the script that runs writes to. They are to be read, or it waits.
  std::vector<int> fds();
  absl::Time next_time() const;
  // Ends a script that runs. None is started any more.
  void Stop();

 private:
  using Answer = absl::StatusOr<std::vector<HostSlots>>;
  struct Error {
    std::string text;
    absl::Time told;
  };

  void ReadOutputs();
  Answer TakeAnswer(int wait_status, std::string* kind);
  std::optional<Answer> WhatIsNew(Answer answer, const std::string& kind, absl::Time now);

  const std::string script_;
  std::optional<ChildProcess> process_;
  bool is_killed_ = false;
  std::string output_, error_;
  absl::Time due_ = absl::InfinitePast();  // to be started; while it runs: to be killed
  bool has_answered_ = false;
  bool is_failing_ = false;
  std::optional<std::string> list_;      // that was told last
  std::map<std::string, Error> errors_;  // that were told last, by kind: how the script ended
};

}  // namespace weir
