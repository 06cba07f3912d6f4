// What a task says to the others when it leaves: that it is done, or that it ends and may come again, and
// what its program has failed with.
//
// It says so to the authority, which tells the others; a training task also to every ps, so that none waits
// for it in vain; a chief that is done also to the other training tasks. Whoever does not answer is told
// again until the patience is over, and so is a ps that was started anew meanwhile: it has forgotten. An
// authority that is silent, but not known to be lost, is told for up to
// a lease more that the task is done: if all last words were lost, every ps would wait for ever for tasks
// that may come again.
//
// Thread safety: all methods. Borrows everything.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distributed/peers/peers.h"
#include "distributed/task_config.h"

namespace weir {

class Farewell {
 public:
  Farewell(const TaskConfig& task, Peers& peers) : task_(task), peers_(peers) {}

  void SayDone(absl::Duration patience) const;
  // `failure`: empty when nothing has failed.
  void SayLeave(absl::Duration patience, absl::string_view failure) const;

 private:
  // Who is to be told.
  std::vector<TaskName> Listeners(bool is_done) const;
  // Whom this task need not tell any more, and in which life it was: told, or gone.
  using Told = std::map<TaskName, Incarnation>;
  // Calls those that have not been told.
  void Tell(const std::vector<TaskName>& tasks, const char* method, const std::string& body,
            absl::Time deadline, Told* told) const;
  std::vector<TaskName> Untold(const std::vector<TaskName>& tasks, const Told& told) const;
  // Whether the authority may still be there, though it does not answer.
  bool MayHear(const std::vector<TaskName>& untold) const;
  void Say(const char* method, const std::string& body, const std::vector<TaskName>& tasks, absl::Time end,
           absl::Time end_of_authority) const;

  const TaskConfig& task_;
  Peers& peers_;
};

}  // namespace weir
