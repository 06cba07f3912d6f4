#include "session/monitored/session_creator.h"

#include <algorithm>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"
#include "kernels/notice.h"
#include "session/monitored/exit_code.h"

namespace weir {
namespace {

// How long one attempt waits for the peers. Between two attempts the session looks whether a stop was
// requested: SIGTERM must have an effect before SIGKILL follows, 10 s later in `weir launch`.
constexpr absl::Duration kAttempt = absl::Seconds(8);

// Of the error of a worker whose chief has not initialised the model yet: whether the chief is there.
constexpr char kWaitsForChiefPayload[] = "weir.waits_for_chief";
constexpr char kChiefIsThere[] = "there", kChiefIsAbsent[] = "absent";

std::string FirstNames(const std::vector<std::string>& names) {
  const size_t shown = std::min<size_t>(names.size(), 4);
  return absl::StrCat(absl::StrJoin(names.begin(), names.begin() + shown, ", "),
                      shown < names.size() ? absl::StrCat(" and ", names.size() - shown, " more") : "");
}

absl::StatusOr<std::unique_ptr<Session>> CreateOn(const Graph& graph, const SessionTarget& target,
                                                  SessionOptions options, absl::Duration timeout) {
  options.default_task = target.default_task;
  options.environment = target.environment;
  options.creation_timeout = std::min(timeout, kAttempt);
  return Session::Create(graph, target.workers, *target.kernels, options);
}

absl::Status CheckTarget(const SessionTarget& target) {
  if (!target.workers.empty() && target.kernels != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError("a monitored session needs a target (Server::target())");
}

absl::Duration PatienceWithPeers(const absl::Status& error, absl::Duration timeout) {
  return IsRecoverable(error) || absl::IsDeadlineExceeded(error) ? timeout : absl::ZeroDuration();
}

class Chief final : public SessionCreator {
 public:
  explicit Chief(ChiefSessionOptions options) : options_(std::move(options)) {
    if (options_.scaffold == nullptr) options_.scaffold = std::make_shared<Scaffold>();
  }

  absl::Status Begin(GraphBuilder& graph) override {
    WEIR_RETURN_IF_ERROR(CheckTarget(options_.target));
    if (!options_.checkpoint_dir.empty() && !options_.checkpoint_path.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a session restores either from a checkpoint_dir or from a checkpoint_path, got ",
                       options_.checkpoint_dir, " and ", options_.checkpoint_path));
    }
    return options_.scaffold->Finalize(graph);
  }

  absl::StatusOr<std::unique_ptr<Session>> Create(const Graph& graph) override {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                          CreateOn(graph, options_.target, options_.session, options_.recovery_timeout));
    if (options_.before_restore) WEIR_RETURN_IF_ERROR(options_.before_restore());
    WEIR_RETURN_IF_ERROR(RestoreOrInitialize(*session));
    WEIR_ASSIGN_OR_RETURN(std::vector<std::string> missing, scaffold().InitializeLocally(*session));
    if (missing.empty()) {
      WEIR_ASSIGN_OR_RETURN(missing, scaffold().UninitializedVariables(*session));
    }
    if (!missing.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("variables without a value after initialising: ", FirstNames(missing)));
    }
    return session;
  }

  absl::Duration Patience(const absl::Status& error) const override {
    return PatienceWithPeers(error, options_.recovery_timeout);
  }
  bool RestoresVariables() const override { return true; }
  int num_restores() const override { return num_restores_; }
  const Scaffold& scaffold() const override { return *options_.scaffold; }
  const SessionTarget& target() const override { return options_.target; }

 private:
  absl::Status RestoreOrInitialize(Session& session) {
    WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> missing, scaffold().UninitializedVariables(session));
    // After a short loss of contact the variables are still there: going on from them loses nothing. A
    // process that has just started restores, whatever it finds, so that what it runs is what was saved.
    if (missing.empty() && values_are_ours_) return absl::OkStatus();
    if (values_are_ours_) {
      PrintNotice(absl::StrCat("variables were lost with their task: ", FirstNames(missing)));
    }
    values_are_ours_ = false;
    WEIR_RETURN_IF_ERROR(session.Restore(restore_, [&]() -> absl::Status {
      WEIR_ASSIGN_OR_RETURN(const bool is_restored, Restore(session));
      if (!is_restored) return scaffold().Initialize(session);
      restore_.applied_updates = scaffold().saver->applied_updates();
      return absl::OkStatus();
    }));
    values_are_ours_ = true;
    ++num_restores_;
    return absl::OkStatus();
  }

  // False when there is nothing to restore.
  absl::StatusOr<bool> Restore(Session& session) const {
    if (!scaffold().saver) return false;
    // What the checkpoint lacks keeps this value.
    if (scaffold().saver->allows_missing()) WEIR_RETURN_IF_ERROR(scaffold().Initialize(session));
    std::string restored = options_.checkpoint_path;
    if (!restored.empty()) {
      WEIR_RETURN_IF_ERROR(scaffold().saver->Restore(session, restored));
    } else if (!options_.checkpoint_dir.empty()) {
      absl::StatusOr<std::string> newest = scaffold().saver->RestoreNewest(session, options_.checkpoint_dir);
      if (!newest.ok()) {
        // NotFound may also be a variable that is in no checkpoint.
        const bool may_be_missing = absl::IsNotFound(newest.status()) ||
                                    (options_.allow_missing_checkpoints && absl::IsDataLoss(newest.status()));
        if (!may_be_missing) return newest.status();
        WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> checkpoints,
                              CheckpointsIn(options_.checkpoint_dir, scaffold().saver->file_system(),
                                            scaffold().saver->latest_filename()));
        if (!checkpoints.empty()) return newest.status();
        return false;
      }
      restored = *newest;
    } else {
      return false;
    }
    PrintNotice(absl::StrCat("restored ", restored));
    return true;
  }

  ChiefSessionOptions options_;
  // The values that variables have are those that this process has set, and what was made of them since.
  bool values_are_ours_ = false;
  int num_restores_ = 0;
  // Of a restore whose end was not heard of: the others may be training already, so it is not done again.
  Session::RestoreProgress restore_;
};

class Follower final : public SessionCreator {
 public:
  explicit Follower(WorkerSessionOptions options) : options_(std::move(options)) {
    if (options_.scaffold == nullptr) options_.scaffold = std::make_shared<Scaffold>();
  }

  absl::Status Begin(GraphBuilder& graph) override {
    WEIR_RETURN_IF_ERROR(CheckTarget(options_.target));
    return options_.scaffold->Finalize(graph);
  }

  absl::StatusOr<std::unique_ptr<Session>> Create(const Graph& graph) override {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                          CreateOn(graph, options_.target, options_.session, options_.recovery_timeout));
    WEIR_ASSIGN_OR_RETURN(std::vector<std::string> missing, scaffold().InitializeLocally(*session));
    if (missing.empty()) {
      WEIR_ASSIGN_OR_RETURN(missing, scaffold().UninitializedVariables(*session));
    }
    if (missing.empty()) {
      WEIR_RETURN_IF_ERROR(CheckModel(*session));
      return session;
    }
    if (const std::string why = options_.why_over ? options_.why_over() : ""; !why.empty()) {
      return TrainingIsOverError(
          absl::StrCat("variables without a value: ", FirstNames(missing), " (training is over: ", why, ")"));
    }
    if (options_.target.chief_is_done && options_.target.chief_is_done()) {
      return TrainingIsOverError(
          absl::StrCat("variables without a value: ", FirstNames(missing),
                       " (they were lost with their task, and the chief is done: training is over)"));
    }
    return AwaitChief(absl::StrCat("variables without a value: ", FirstNames(missing),
                                   " (the chief has to initialise or restore them",
                                   HintAtAnotherModel(missing.size())));
  }

  absl::Status AwaitRestore(const absl::Status& refused) const override {
    return AwaitChief(absl::StrCat(refused.message(), " (it has to end that, or to be started again"));
  }
  absl::Duration Patience(const absl::Status& error) const override {
    if (const auto chief = error.GetPayload(kWaitsForChiefPayload)) {
      return *chief == kChiefIsThere ? options_.max_wait
                                     : std::min(options_.max_wait, options_.max_wait_for_absent_chief);
    }
    return PatienceWithPeers(error, options_.recovery_timeout);
  }
  const Scaffold& scaffold() const override { return *options_.scaffold; }
  const SessionTarget& target() const override { return options_.target; }

 private:
  // Whether the chief builds the same model, as far as shapes tell.
  absl::Status CheckModel(Session& session) const {
    if (scaffold().ready) return absl::OkStatus();  // then not all need a value
    const absl::Status same = scaffold().CheckShapes(session);
    if (!absl::IsFailedPrecondition(same)) return same;
    return AwaitChief(absl::StrCat(same.message(), " (the chief has to initialise or restore it"));
  }

  // A chief that trains never gives a value to what its own graph lacks.
  std::string HintAtAnotherModel(size_t num_missing) const {
    if (scaffold().ready || scaffold().ready_for_local_init) return "";  // which may count otherwise
    const size_t num_variables = scaffold().is_initialized.size();
    if (num_missing >= num_variables) return "";
    return absl::StrCat("; ", num_variables - num_missing, " of ", num_variables,
                        " have a value: if the chief trains already, it builds another model");
  }

  // `why` has an open parenthesis.
  absl::Status AwaitChief(const std::string& why) const {
    // Where nobody knows it may be there.
    const uint64_t met =
        options_.target.met_chief ? options_.target.met_chief() : SessionTarget::kChiefIsThere;
    const bool is_there = met == SessionTarget::kChiefIsThere;
    const bool may_be_over = !is_there && options_.max_wait_for_absent_chief < options_.max_wait;
    absl::Status waits = absl::UnavailableError(absl::StrCat(
        why,
        is_there   ? ""
        : met == 0 ? ", and none has come"
                   : ", and it has ended, or was lost",
        may_be_over ? "; there is no folder of checkpoints that would say whether the job has ended" : "",
        ")"));
    waits.SetPayload(kWaitsForChiefPayload, absl::Cord(is_there ? kChiefIsThere : kChiefIsAbsent));
    return waits;
  }

  WorkerSessionOptions options_;
};

}  // namespace

std::unique_ptr<SessionCreator> ChiefSessionCreator(ChiefSessionOptions options) {
  return std::make_unique<Chief>(std::move(options));
}

std::unique_ptr<SessionCreator> WorkerSessionCreator(WorkerSessionOptions options) {
  return std::make_unique<Follower>(std::move(options));
}

}  // namespace weir
