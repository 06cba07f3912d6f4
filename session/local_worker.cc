#include "session/local_worker.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/communicator.h"
#include "session/early_steps.h"
#include "session/function_runner.h"
#include "session/local_plan.h"

namespace weir {

LocalWorker::LocalWorker(Runtime& runtime, DeviceName task, TensorSender* sender, Threads* threads)
    : runtime_(runtime),
      task_(std::move(task)),
      sender_(sender),
      threads_(threads != nullptr ? *threads : runtime.step_threads()),
      early_steps_(std::make_shared<EarlySteps>()),
      functions_(std::make_shared<FunctionRunner>(runtime, threads_)) {}

LocalWorker::~LocalWorker() {
  functions_->end().Cancel(absl::CancelledError("the worker is shutting down"));
  std::map<PlanId, std::shared_ptr<LocalPlan>> plans;  // in one order for all runs of a program
  {
    absl::MutexLock lock(&mutex_);
    plans.insert(plans_.begin(), plans_.end());
    plans_.clear();
  }
  for (auto& [id, plan] : plans) plan->Close(absl::CancelledError("the worker is shutting down"));
  for (auto& [id, plan] : plans) plan->WaitUntilIdle();
  // Nobody knows these any more, and they may have steps that have not heard yet that they are cancelled.
  std::vector<std::weak_ptr<LocalPlan>> dropped;
  {
    absl::MutexLock lock(&mutex_);
    dropped = std::exchange(dropped_, {});
  }
  for (const std::weak_ptr<LocalPlan>& weak : dropped) {
    if (const std::shared_ptr<LocalPlan> plan = weak.lock()) plan->WaitUntilIdle();
  }
}

absl::StatusOr<std::vector<DeviceAttributes>> LocalWorker::ListDevices(absl::Time) {
  std::vector<DeviceAttributes> result;
  for (const auto& device : runtime_.devices()) result.push_back(device->attributes());
  return result;
}

absl::Status LocalWorker::RegisterPartition(PartitionSpec spec, absl::Time, uint64_t owner) {
  if (spec.first_device != 0 && !runtime_.devices().empty() &&
      spec.first_device != runtime_.devices()[0]->attributes().incarnation) {
    return absl::AbortedError(
        absl::StrCat(task_.ToString(), " has started anew since the session was created"));
  }
  WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<SessionState> session,
                        StateOf(spec.session, owner, spec.files));
  WEIR_ASSIGN_OR_RETURN(
      std::shared_ptr<LocalPlan> plan,
      LocalPlan::Compile(runtime_, threads_, sender_, spec, session.get(), early_steps_, &ledger_));
  absl::MutexLock lock(&mutex_);
  if (!plans_.emplace(spec.plan, std::move(plan)).second) {
    return absl::AlreadyExistsError(
        absl::StrCat("plan ", spec.plan, " is already registered on ", task_.ToString()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<SessionState>> LocalWorker::StateOf(SessionId session, uint64_t owner,
                                                                   const std::shared_ptr<FileSystem>& files) {
  if (session == 0) return std::make_shared<SessionState>(files, functions_);
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<SessionState>& state = sessions_[std::make_pair(session, owner)];
  if (state == nullptr) state = std::make_shared<SessionState>(files, functions_);
  if (state->files() != files) {
    return absl::PermissionDeniedError(absl::StrCat("a plan for session ", session, " on ", task_.ToString(),
                                                    " may not use the files that the session's others use"));
  }
  return state;
}

void LocalWorker::EndSession(SessionId session, uint64_t owner) {
  absl::MutexLock lock(&mutex_);
  sessions_.erase(std::make_pair(session, owner));
}

std::shared_ptr<LocalPlan> LocalWorker::FindPlan(PlanId id) const {
  absl::MutexLock lock(&mutex_);
  auto found = plans_.find(id);
  return found == plans_.end() ? nullptr : found->second;
}

void LocalWorker::RunPartition(const RunPartitionCall& call, Done done) {
  const std::shared_ptr<LocalPlan> plan = FindPlan(call.plan);
  if (!plan) {
    return done(
        absl::NotFoundError(absl::StrCat("plan ", call.plan, " is not registered on ", task_.ToString(),
                                         ": the task has restarted or dropped it")));
  }
  plan->Run(call, std::move(done));
}

absl::Status LocalWorker::FeedStep(PlanId plan_id, int64_t step_id, int arg, const Tensor& tensor) {
  const std::shared_ptr<LocalPlan> plan = FindPlan(plan_id);
  if (!plan)
    return absl::NotFoundError(absl::StrCat("plan ", plan_id, " is not registered on ", task_.ToString()));
  RunScope scope;
  return plan->Feed(step_id, arg, tensor);
}

void LocalWorker::CancelStep(PlanId plan_id, int64_t step_id, const absl::Status& reason) {
  const std::shared_ptr<LocalPlan> plan = FindPlan(plan_id);
  if (!plan) return;
  RunScope scope;
  plan->Cancel(step_id, reason);
}

void LocalWorker::DeregisterPartition(PlanId plan_id) {
  DropPartition(plan_id, absl::CancelledError(absl::StrCat("plan ", plan_id, " was dropped")));
}

void LocalWorker::DropPartition(PlanId plan_id, const absl::Status& reason) {
  std::shared_ptr<LocalPlan> plan;
  {
    absl::MutexLock lock(&mutex_);
    auto found = plans_.find(plan_id);
    if (found == plans_.end()) return;
    plan = std::move(found->second);
    plans_.erase(found);
    std::erase_if(dropped_, [](const std::weak_ptr<LocalPlan>& weak) { return weak.expired(); });
    dropped_.push_back(plan);
  }
  RunScope scope;
  plan->Close(reason);
}

absl::Status LocalWorker::ResetContainers(absl::Span<const std::string> containers, absl::Time) {
  // What the groups of replicas use is the runtime's, and no client's.
  std::vector<std::string> of_clients;
  for (const std::string& container : containers) {
    if (container != Communicator::kContainer) of_clients.push_back(container);
  }
  if (of_clients.empty() && !containers.empty()) return absl::OkStatus();  // none would mean the default one
  for (const auto& device : runtime_.devices()) device->resources().ResetContainers(of_clients);
  return absl::OkStatus();
}

absl::Status LocalWorker::EndRestore(uint64_t id, absl::string_view applied_updates, absl::Time) {
  return ledger_.EndRestore(id, applied_updates);
}

absl::Status LocalWorker::Receive(PlanId plan_id, int64_t step_id, int edge, int64_t turn,
                                  const Tensor& tensor, bool is_dead, absl::string_view sender) {
  const std::shared_ptr<LocalPlan> plan = FindPlan(plan_id);
  if (!plan)
    return absl::NotFoundError(absl::StrCat("plan ", plan_id, " is not registered on ", task_.ToString()));
  if (!sender.empty()) WEIR_RETURN_IF_ERROR(plan->CheckSender(edge, sender));
  // A caller without a scope of its own may be needed for other things: only what is known to be short runs
  // on its thread, the rest on the step's.
  std::optional<RunScope> scope;
  if (plan->is_light()) scope.emplace();
  return plan->Receive(step_id, edge, turn, tensor, is_dead);
}

absl::Status LocalWorker::CheckSender(PlanId plan_id, int edge, absl::string_view sender) const {
  const std::shared_ptr<LocalPlan> plan = FindPlan(plan_id);
  if (!plan)
    return absl::NotFoundError(absl::StrCat("plan ", plan_id, " is not registered on ", task_.ToString()));
  return plan->CheckSender(edge, sender);
}

absl::StatusOr<bool> LocalWorker::Hold(PlanId plan_id, int64_t step_id, int edge, int64_t turn,
                                       std::shared_ptr<void> held) {
  const std::shared_ptr<LocalPlan> plan = FindPlan(plan_id);
  if (!plan)
    return absl::NotFoundError(absl::StrCat("plan ", plan_id, " is not registered on ", task_.ToString()));
  return plan->Hold(step_id, edge, turn, std::move(held));
}

int LocalWorker::num_plans() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(plans_.size());
}

int LocalWorker::num_sessions() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(sessions_.size());
}

std::string LocalWorker::DescribeWaits() const {
  absl::MutexLock lock(&mutex_);
  std::string lines;
  for (const auto& [id, plan] : plans_) lines += plan->DescribeWaits();
  return lines;
}

int64_t LocalWorker::num_early_bytes() const { return early_steps_->num_bytes(); }

int LocalWorker::num_idle_steps() const {
  absl::MutexLock lock(&mutex_);
  int count = 0;
  for (const auto& [id, plan] : plans_) count += plan->num_idle();
  return count;
}

int LocalWorker::num_running_steps() const {
  absl::MutexLock lock(&mutex_);
  int count = 0;
  for (const auto& [id, plan] : plans_) count += plan->num_running();
  return count;
}

}  // namespace weir
