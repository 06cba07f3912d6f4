#include "session/early_steps.h"

#include "absl/strings/str_cat.h"

namespace weir {

absl::Status EarlySteps::Add(SessionId session, PlanId plan, int num_of_plan, int64_t num_bytes) {
  if (num_of_plan >= kMaxPerPlan) {
    return absl::ResourceExhaustedError(absl::StrCat(num_of_plan, " steps of plan ", plan,
                                                     " have tensors here and have not started: at most ",
                                                     kMaxPerPlan, " of a plan may"));
  }
  absl::MutexLock lock(&mutex_);
  const auto found = num_of_session_.find(session);
  const int num_of_session = found == num_of_session_.end() ? 0 : found->second;
  if (num_of_session >= kMaxPerSession) {
    return absl::ResourceExhaustedError(absl::StrCat(num_of_session, " steps of session ", session,
                                                     " have tensors here and have not started: at most ",
                                                     kMaxPerSession, " of a session may"));
  }
  if (num_bytes_ > 0 && num_bytes > kMaxBytes - num_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("steps that have not started take ", num_bytes_,
                                                     " bytes here, and another one of plan ", plan, " takes ",
                                                     num_bytes, ": at most ", kMaxBytes, " together"));
  }
  num_bytes_ += num_bytes;
  num_of_session_[session] = num_of_session + 1;
  return absl::OkStatus();
}

void EarlySteps::Remove(SessionId session, int64_t num_bytes) {
  absl::MutexLock lock(&mutex_);
  num_bytes_ -= num_bytes;
  const auto found = num_of_session_.find(session);
  if (--found->second == 0) num_of_session_.erase(found);
}

int64_t EarlySteps::num_bytes() const {
  absl::MutexLock lock(&mutex_);
  return num_bytes_;
}

}  // namespace weir
