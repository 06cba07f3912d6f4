#include "distributed/master/task_question.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace weir {
namespace {

class Asking : public std::enable_shared_from_this<Asking> {
 public:
  Asking(OpenWork& work, Environment& environment, TaskQuestion question)
      : work_(work),
        environment_(environment),
        question_(std::move(question)),
        end_(std::min(question_.call->deadline(), environment.Now() + TaskQuestion::kPatience)) {
    for (size_t i = 0; i < question_.workers.size(); ++i) left_.push_back(i);
  }

  void Try() {
    const absl::Status begun = work_.Wait([self = shared_from_this()] { self->Attempt(); },
                                          /*is_repeated=*/is_repeated_);
    if (!begun.ok()) question_.done(begun);
  }

 private:
  // Ends with the first task that does not answer.
  void Attempt() {
    while (!left_.empty()) {
      if (question_.call->is_given_up()) return question_.done(ClientCall::GivenUp());
      const size_t index = left_.front();
      left_.pop_front();
      const absl::Duration patience = is_repeated_ ? OpenWork::kAttempt : OpenWork::kFirstAttempt;
      const absl::Time deadline = std::min(question_.call->deadline(), environment_.Now() + patience);
      const absl::Status answer = question_.ask(index, *question_.workers[index], deadline);
      const absl::Time now = environment_.Now();
      if (absl::IsDeadlineExceeded(answer) && now < end_) {
        left_.push_back(index);
        is_repeated_ = true;
        work_.Later(std::min(now + OpenWork::kPause, end_), [self = shared_from_this()] { self->Try(); });
        return;
      }
      error_.Update(answer);
      if (!error_.ok() && question_.ends_with_first_error) break;
    }
    question_.done(error_);
  }

  OpenWork& work_;
  Environment& environment_;
  const TaskQuestion question_;
  const absl::Time end_;
  // Of the one attempt that is under way.
  std::deque<size_t> left_;
  bool is_repeated_ = false;
  absl::Status error_;
};

}  // namespace

void TaskQuestion::Ask(OpenWork& work, Environment& environment, TaskQuestion question) {
  std::make_shared<Asking>(work, environment, std::move(question))->Try();
}

}  // namespace weir
