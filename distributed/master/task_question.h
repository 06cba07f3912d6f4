// A question of a client to tasks, of which some may be absent: asked again and
// again, for some time.
//
// The first attempt is short, and those that follow have threads of their own
// (open_work.h): clients that ask for an absent task do not keep others from
// their sessions. A task that does not answer is asked again after all others.
//
// Thread safety: Ask.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "distributed/master/client_call.h"
#include "distributed/master/open_work.h"
#include "kernels/environment.h"
#include "session/worker.h"

namespace weir {

struct TaskQuestion {
  // What each task is asked; waits until `deadline` at most. One that ends with
  // DeadlineExceeded comes again, so it must do no harm when it is done twice.
  using One = std::function<absl::Status(size_t index, Worker& worker, absl::Time deadline)>;

  std::vector<Worker*> workers;  // borrowed until `done`
  One ask;
  // Whether an error ends it; otherwise all tasks are asked.
  bool ends_with_first_error = true;
  std::shared_ptr<ClientCall> call;
  // Called once, where waiting is allowed or where the work ends. OK: all have
  // answered. Possible errors: the first of `ask`; DeadlineExceeded of a task
  // that has not answered in kPatience, or until the client's deadline;
  // ClientCall::GivenUp; those of OpenWork::Wait.
  std::function<void(const absl::Status&)> done;

  static constexpr absl::Duration kPatience = absl::Seconds(60);

  static void Ask(OpenWork& work, Environment& environment, TaskQuestion question);
};

}  // namespace weir
