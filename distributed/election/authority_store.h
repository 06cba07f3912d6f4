// Where an election keeps which task is the authority: one record that is replaced if nobody else has
// replaced it meanwhile.
//
// A store says what is there, and in which order it came there; it is no proof of anything (election.h).
// Answers may be late or lost, and requests may be executed twice: nothing that a caller does rests on that.
//
// Thread safety: all methods. `then` is called once, with no lock held, on any thread, maybe before the
// method returns: with what the store has, or an error (Unavailable, DeadlineExceeded: it may have been
// executed or not; DataLoss: what is there is no record; anything else is a mistake that trying again does
// not mend). The destructor waits for calls of `then` that run, and drops the others.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distributed/task_name.h"

namespace weir {

struct AuthorityRecord {
  uint64_t term = 0;  // of the office; grows
  TaskName task;
  uint64_t candidate = 0;  // which process: a number that nobody else has
  uint64_t beat = 0;       // grows with every time that the office is extended
  bool has_ended = false;  // the task has left office: nobody need wait until it has ended

  bool operator==(const AuthorityRecord&) const = default;
  // As text: "weir 1 TERM JOB INDEX CANDIDATE BEAT ENDED", decimal numbers. One record has one text.
  std::string Encode() const;
  // DataLoss.
  static absl::StatusOr<AuthorityRecord> Decode(absl::string_view text);
};

class AuthorityStore {
 public:
  struct Stored {
    int64_t revision = 0;  // of the record: grows with every change; 0: there is none
    AuthorityRecord record;
    // Of all that the store has: never less than in an answer that came before the question was asked, unless
    // the store has lost something.
    int64_t store_revision = 0;
  };
  using Then = std::function<void(absl::StatusOr<Stored>)>;

  virtual ~AuthorityStore() = default;
  virtual void Read(absl::Duration timeout, Then then) = 0;
  // Puts the record there if what is there is `before`, revision and record, and tells what is there after
  // that. The revision alone would not do: a store that was wiped counts from the beginning again.
  virtual void Replace(const Stored& before, const AuthorityRecord& record, absl::Duration timeout,
                       Then then) = 0;
};

}  // namespace weir
