#include "session/monitored/training_session.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "graph/types/status_macros.h"
#include "kernels/environment.h"
#include "kernels/formats/directory_lock.h"
#include "kernels/formats/event_file.h"
#include "kernels/formats/file_system.h"
#include "session/monitored/checkpoint_claim.h"
#include "session/monitored/ended_job.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/checkpoint_saver_hook.h"
#include "session/monitored/hooks/collective_fetches.h"
#include "session/monitored/hooks/step_counter_hook.h"
#include "session/monitored/hooks/summary_saver_hook.h"

namespace weir {
namespace {

// One event file for each folder, shared by the hooks that write there.
class EventWriters {
 public:
  absl::StatusOr<std::shared_ptr<EventWriter>> In(const std::string& directory) {
    std::shared_ptr<EventWriter>& writer = writers_[directory];
    if (writer == nullptr) {
      WEIR_ASSIGN_OR_RETURN(writer, EventWriter::Create(directory));
    }
    return writer;
  }

 private:
  std::map<std::string, std::shared_ptr<EventWriter>> writers_;
};

bool SavesCheckpoints(const TrainingSessionOptions& options) {
  return !options.checkpoint_dir.empty() &&
         (options.save_checkpoint_steps > 0 || options.save_checkpoint_interval > absl::ZeroDuration());
}

// Whether the session, or a hook of the program's own, writes to checkpoint_dir.
bool WritesToFolder(const TrainingSessionOptions& options) {
  const auto saves = [](const HookPtr& hook) {
    return hook != nullptr && hook->name() == "CheckpointSaverHook";
  };
  return !options.checkpoint_dir.empty() &&
         (SavesCheckpoints(options) || std::any_of(options.hooks.begin(), options.hooks.end(), saves) ||
          std::any_of(options.chief_only_hooks.begin(), options.chief_only_hooks.end(), saves));
}

// What the saver writes to, and what it calls the file that names its checkpoints.
FileSystem& FilesOf(const Scaffold& scaffold) {
  if (scaffold.saver != nullptr) return scaffold.saver->file_system();
  FileSystem* const files = scaffold.saver_options.file_system;
  return files != nullptr ? *files : PosixFileSystem();
}
const std::string& LatestFilenameOf(const Scaffold& scaffold) {
  return scaffold.saver != nullptr ? scaffold.saver->latest_filename()
                                   : scaffold.saver_options.latest_filename;
}

// Takes the right to write checkpoints to a folder from earlier lives of this task (checkpoint_claim.h). The
// hook comes before all that may save.
class DirectoryClaimer final : public Hook {
 public:
  explicit DirectoryClaimer(const TrainingSessionOptions& options)
      : directory_(options.checkpoint_dir),
        life_(options.target.life),
        note_life_(options.target.note_life),
        environment_(*options.target.environment),
        scaffold_(options.scaffold) {}
  absl::string_view name() const override { return "DirectoryClaimer"; }
  // Once there is a session, which tells the life; before a checkpoint is read, so that an earlier life that
  // saves one after that knows that it comes too late.
  absl::Status Claim() {
    if (life_ == nullptr || (claim_ != nullptr && claim_->life() >= life_())) return absl::OkStatus();
    // What the saver makes visible goes through the claim, and has to reach the saver's own files.
    FileSystem& files = FilesOf(*scaffold_);
    absl::StatusOr<std::shared_ptr<CheckpointClaim>> claim =
        CheckpointClaim::Take(files, directory_, life_());
    if (IsSuperseded(claim.status()) && MayGetALaterLife()) {
      // All that knew that life may be gone: then only the folder says that it was there.
      WEIR_ASSIGN_OR_RETURN(const uint64_t holder, CheckpointClaim::HolderIn(files, directory_));
      if (note_life_) note_life_(holder);
      return absl::UnavailableError(claim.status().message());  // tried again
    }
    WEIR_RETURN_IF_ERROR(claim.status());
    claim_ = *std::move(claim);
    is_noted_ = false;
    return absl::OkStatus();
  }
  // What is in the folder counts from now on, and what could not be restored does not.
  absl::Status AfterCreateSession(Session&, Coordinator&) override {
    if (claim_ == nullptr || scaffold_->saver == nullptr || is_noted_) return absl::OkStatus();
    WEIR_RETURN_IF_ERROR(scaffold_->saver->SetClaim(claim_));
    is_noted_ = true;
    return absl::OkStatus();
  }
  // It stays where that fails, as after a crash.
  void LetGo() {
    if (claim_ != nullptr) claim_->End().IgnoreError();
  }

 private:
  // An authority that was started again with a clock that is behind grants lives that are too low, until it
  // has heard from those that were there before, and then greater ones (distributed/authority.h).
  bool MayGetALaterLife() {
    if (!refused_since_) refused_since_ = environment_.Now();
    return environment_.Now() - *refused_since_ < kGathering;
  }

  // A lease, for which it gathers, and some heartbeats.
  static constexpr absl::Duration kGathering = absl::Seconds(15);

  const std::string directory_;
  const std::function<uint64_t()> life_;
  const std::function<void(uint64_t)> note_life_;
  Environment& environment_;
  std::optional<absl::Time> refused_since_;
  const std::shared_ptr<Scaffold> scaffold_;
  std::shared_ptr<CheckpointClaim> claim_;
  bool is_noted_ = false;  // by the saver
};

// Holds the right to write to a folder until the session has ended.
class DirectoryOwner final : public Hook {
 public:
  DirectoryOwner(std::unique_ptr<DirectoryLock> lock, std::shared_ptr<DirectoryClaimer> claimer)
      : lock_(std::move(lock)), claimer_(std::move(claimer)) {}
  absl::string_view name() const override { return "DirectoryOwner"; }
  absl::Status End(Session&) override {
    claimer_->LetGo();
    lock_ = nullptr;
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<DirectoryLock> lock_;
  const std::shared_ptr<DirectoryClaimer> claimer_;
};

// Takes the right to write to checkpoint_dir. The hook that holds it comes after all that may save.
absl::StatusOr<HookPtr> OwnCheckpointDirectory(const TrainingSessionOptions& options,
                                               std::shared_ptr<DirectoryClaimer> claimer) {
  WEIR_RETURN_IF_ERROR(CreateDurableDirectories(PosixFileSystem(), options.checkpoint_dir));
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<DirectoryLock> lock,
                        DirectoryLock::Acquire(options.checkpoint_dir, options.checkpoint_dir_max_wait));
  return std::make_shared<DirectoryOwner>(std::move(lock), std::move(claimer));
}

const std::string& SummaryDirectory(const TrainingSessionOptions& options) {
  return options.summary_dir.empty() ? options.checkpoint_dir : options.summary_dir;
}

bool SavesSummaries(const TrainingSessionOptions& options) {
  return options.save_summaries_steps > 0 || options.save_summaries_interval > absl::ZeroDuration();
}

HookPtr SummarySaverOf(const TrainingSessionOptions& options, std::shared_ptr<EventWriter> writer) {
  return SummarySaverHook({.every_steps = options.save_summaries_steps,
                           .interval = options.save_summaries_interval,
                           .writer = std::move(writer),
                           .scaffold = options.scaffold,
                           .global_step = options.scaffold->global_step});
}

// Appends what the chief does beside the user's hooks.
absl::Status AddChiefHooks(const TrainingSessionOptions& options, std::vector<HookPtr>* hooks) {
  EventWriters writers;
  const std::string& summary_dir = SummaryDirectory(options);
  if (!summary_dir.empty() && (SavesSummaries(options) || options.log_step_count_steps > 0)) {
    WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<EventWriter> writer, writers.In(summary_dir));
    if (options.log_step_count_steps > 0) {
      hooks->push_back(StepCounterHook({.every_steps = options.log_step_count_steps,
                                        .writer = writer,
                                        .global_step = options.scaffold->global_step}));
    }
    if (SavesSummaries(options)) hooks->push_back(SummarySaverOf(options, writer));
  }
  if (SavesCheckpoints(options)) {
    WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<EventWriter> writer, writers.In(options.checkpoint_dir));
    hooks->push_back(CheckpointSaverHook({.directory = options.checkpoint_dir,
                                          .every_steps = options.save_checkpoint_steps,
                                          .interval = options.save_checkpoint_interval,
                                          .scaffold = options.scaffold,
                                          .global_step = options.scaffold->global_step,
                                          .listeners = options.checkpoint_listeners,
                                          .writer = writer,
                                          .asynchronous = options.save_checkpoints_asynchronously}));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<MonitoredSession>> MonitoredTrainingSession(GraphBuilder& graph,
                                                                           TrainingSessionOptions options) {
  if (options.target.default_task.job == "evaluator") {
    return absl::FailedPreconditionError(
        "this task is an evaluator: it does not train, it evaluates the checkpoints that others write "
        "(EvaluateRepeatedly, TrainAndEvaluate)");
  }
  if (options.scaffold == nullptr) options.scaffold = std::make_shared<Scaffold>();
  std::vector<HookPtr> hooks;
  HookPtr owner;
  std::function<absl::Status()> before_restore;
  if (options.is_chief) {
    // First: a job that is refused leaves no event file.
    if (WritesToFolder(options)) {
      auto claimer = std::make_shared<DirectoryClaimer>(options);
      WEIR_ASSIGN_OR_RETURN(owner, OwnCheckpointDirectory(options, claimer));
      before_restore = [claimer] { return claimer->Claim(); };
      hooks.push_back(std::move(claimer));
    }
    hooks.insert(hooks.end(), options.chief_only_hooks.begin(), options.chief_only_hooks.end());
    WEIR_RETURN_IF_ERROR(AddChiefHooks(options, &hooks));
  }
  hooks.insert(hooks.end(), options.hooks.begin(), options.hooks.end());
  const bool writes_summaries = options.is_chief && !SummaryDirectory(options).empty();
  if (SavesSummaries(options) && !writes_summaries && HasCollectives(graph.graph())) {
    hooks.push_back(SummarySaverOf(options, nullptr));
  }
  if (owner != nullptr) hooks.push_back(std::move(owner));
  // Hooks may keep what asks this (SetTarget), so it does not keep them.
  const std::vector<std::weak_ptr<Hook>> asked(options.hooks.begin(), options.hooks.end());
  const auto is_at_end = [asked](int64_t step) {
    return std::any_of(asked.begin(), asked.end(), [step](const std::weak_ptr<Hook>& known) {
      const HookPtr hook = known.lock();
      return hook != nullptr && hook->WouldBeAtEnd(step);
    });
  };
  // If it is there, the job may be over, and its parameter servers have left. They have not left yet, and
  // others may wait, where the chief before has not ended in good order.
  FileSystem& files = FilesOf(*options.scaffold);
  const auto newest_at_end = [&files, is_at_end, directory = options.checkpoint_dir,
                              latest = LatestFilenameOf(*options.scaffold)] {
    return CheckpointAtEnd(directory, files, latest, is_at_end);
  };
  std::string at_end = newest_at_end();
  if (!at_end.empty() && !CheckpointClaim::IsHeldIn(files, options.checkpoint_dir).value_or(true)) {
    options.recovery_timeout = std::min(options.recovery_timeout, TrainingSessionOptions::kPatienceAtEnd);
  }
  const auto ended =
      std::make_shared<EndedJob>(EndedJobOptions{.directory = options.checkpoint_dir,
                                                 .files = &files,
                                                 .latest_filename = LatestFilenameOf(*options.scaffold),
                                                 .is_at_end = is_at_end,
                                                 .met_chief = options.target.met_chief,
                                                 .environment = options.target.environment});
  if (!options.is_chief) {
    // Hooks ask too. Who hears of a chief need not look.
    options.target.chief_is_done = [is_done = options.target.chief_is_done,
                                    met_chief = options.target.met_chief, ended] {
      if (is_done && is_done()) return true;
      const bool is_absent = met_chief && met_chief() != SessionTarget::kChiefIsThere;
      return is_absent && !ended->WhyOver().empty();
    };
  }
  std::unique_ptr<SessionCreator> creator =
      options.is_chief
          ? ChiefSessionCreator({.target = options.target,
                                 .session = options.session,
                                 .scaffold = options.scaffold,
                                 .checkpoint_dir = options.checkpoint_dir,
                                 .allow_missing_checkpoints = options.allow_missing_checkpoints,
                                 .before_restore = std::move(before_restore),
                                 .recovery_timeout = options.recovery_timeout})
          : WorkerSessionCreator({.target = options.target,
                                  .session = options.session,
                                  .scaffold = options.scaffold,
                                  .why_over = [ended] { return ended->WhyOver(); },
                                  .max_wait = options.max_wait,
                                  .max_wait_for_absent_chief = options.checkpoint_dir.empty()
                                                                   ? options.max_wait_for_absent_chief
                                                                   : absl::InfiniteDuration(),
                                  .recovery_timeout = options.recovery_timeout});
  absl::StatusOr<std::unique_ptr<MonitoredSession>> session =
      MonitoredSession::Create(graph, std::move(creator),
                               {.hooks = std::move(hooks),
                                .stops_on_sigterm = options.stops_on_sigterm,
                                .stop_grace_period = options.stop_grace_period,
                                .step_grace_period = options.step_grace_period});
  if (!absl::IsDeadlineExceeded(session.status())) return session;
  // The others may have come to the end while this process waited for them.
  if (at_end.empty()) at_end = newest_at_end();
  if (at_end.empty()) return session;
  return TrainingIsOverError(
      absl::StrCat("training is over: ", at_end, " is of the last step (", session.status().message(), ")"));
}

absl::StatusOr<std::unique_ptr<MonitoredSession>> SingularMonitoredSession(GraphBuilder& graph,
                                                                           ChiefSessionOptions options,
                                                                           std::vector<HookPtr> hooks) {
  return MonitoredSession::Create(graph, ChiefSessionCreator(std::move(options)),
                                  {.hooks = std::move(hooks), .recovers = false});
}

}  // namespace weir
