#include "session/monitored/hooks/checkpoint_saver_hook.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "graph/interchange/graph_def.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"
#include "kernels/notice.h"
#include "ops/training/sync_replicas.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/global_step_output.h"
#include "session/monitored/hooks/step_timer.h"

namespace weir {
namespace {

// Between attempts of the last save.
constexpr absl::Duration kFirstPauseAtEnd = absl::Milliseconds(100);
constexpr absl::Duration kLongestPauseAtEnd = absl::Seconds(10);
// Between looks whether an update of synchronous replicas is applied, and how long that may take.
constexpr absl::Duration kFirstLook = absl::Milliseconds(1);
constexpr absl::Duration kLongestLook = absl::Milliseconds(100);
constexpr absl::Duration kUpdatePatience = absl::Seconds(60);

class CheckpointSaver final : public Hook {
 public:
  explicit CheckpointSaver(CheckpointSaverOptions options)
      : options_(std::move(options)), timer_(options_.every_steps, options_.interval) {}

  absl::string_view name() const override { return "CheckpointSaverHook"; }

  absl::Status Begin(GraphBuilder& graph) override {
    if ((options_.saver == nullptr) == (options_.scaffold == nullptr)) {
      return absl::InvalidArgumentError("CheckpointSaverHook needs either a saver or a scaffold");
    }
    if (options_.base_name.empty() || FileNameOf(options_.base_name) != options_.base_name) {
      return absl::InvalidArgumentError(absl::StrCat(
          "CheckpointSaverHook: base_name must be a name without a folder, is '", options_.base_name, "'"));
    }
    if (std::find(options_.listeners.begin(), options_.listeners.end(), nullptr) !=
        options_.listeners.end()) {
      return absl::InvalidArgumentError("CheckpointSaverHook: a checkpoint listener is null");
    }
    WEIR_ASSIGN_OR_RETURN(options_.global_step,
                          GlobalStepOutput(graph.graph(), options_.global_step, "CheckpointSaverHook"));
    WEIR_RETURN_IF_ERROR(CreateDurableDirectories(PosixFileSystem(), options_.directory));
    for (const auto& listener : options_.listeners) WEIR_RETURN_IF_ERROR(listener->Begin(graph));
    const auto found = graph.graph().collections().find(kPausesUpdatesCollection);
    if (found == graph.graph().collections().end()) return absl::OkStatus();
    const std::vector<std::string>& names = found->second;
    for (size_t i = 0; i < names.size(); ++i) {
      Node* const node = graph.graph().FindNode(names[i]);
      if (node != nullptr) (i < names.size() / 2 ? pauses_ : resumes_).push_back(node);
    }
    return absl::OkStatus();
  }

  void SetEnd(const Coordinator& end) override { end_ = end; }
  void OnTerminated() override { is_terminated_ = true; }

  absl::Status AfterCreateSession(Session& session, Coordinator& threads) override {
    threads_ = threads;
    // What a writer that was killed has left. Not before there is a session: then this process has the
    // folder.
    if (!has_begun_) {
      const absl::Status removed = RemoveTemporaryFiles(Files(), options_.directory).status();
      if (!removed.ok()) PrintNotice(absl::StrCat("leftovers are not removed: ", removed.message()));
    }
    WEIR_RETURN_IF_ERROR(WriteGraph(session));
    // Begun in a session that was lost since.
    if (const absl::StatusOr<bool> written = FinishPending(session); !written.ok()) {
      if (!is_saver_error_) return written.status();
      Report(step_of_error_, written.status());
    }
    const bool is_first = !std::exchange(has_begun_, true);
    // Variables that were not set anew are as the session before has left them, maybe in the middle of an
    // update that is still to be tried again: what is saved now would be restored as if it were a step.
    if (!is_first && !session.has_restored()) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(int64_t step, ReadGlobalStep(session, options_.global_step));
    // That a listener wants to stop counts after steps only.
    // Nobody applies updates yet: the driver of synchronous replicas begins after this.
    const absl::Status saved = Save(session, step, /*is_training=*/false).status();
    return is_first ? saved : Tolerate(step, saved);
  }

  absl::StatusOr<RunArgs> BeforeRun(RunContext&) override {
    return RunArgs{.fetches = {options_.global_step}};
  }

  absl::Status AfterRun(RunContext& context, const RunValues& values) override {
    if (pending_step_ && !saver()->is_saving()) {
      WEIR_RETURN_IF_ERROR(TakeOutcome(context, *pending_step_, FinishPending(context.session())));
    }
    const int64_t stale = values.results[0].scalar<int64_t>();
    if (!timer_.IsDue(stale + 1)) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(int64_t step, ReadGlobalStep(context.session(), options_.global_step));
    if (!timer_.IsDue(step)) return absl::OkStatus();
    if (pending_step_) {
      WEIR_RETURN_IF_ERROR(TakeOutcome(context, *pending_step_, FinishPending(context.session())));
    }
    return TakeOutcome(context, step,
                       options_.asynchronous ? StartSave(context.session()) : Save(context.session(), step));
  }

  absl::Status End(Session& session) override {
    if (const absl::StatusOr<bool> written = FinishPending(session); !written.ok()) {
      if (!is_saver_error_) return written.status();
      Report(step_of_error_, written.status());  // the last one follows
    }
    WEIR_ASSIGN_OR_RETURN(const int64_t step, ReadGlobalStep(session, options_.global_step));
    if (saved_step_ != step) WEIR_RETURN_IF_ERROR(SaveLast(session, step));
    for (const auto& listener : options_.listeners) {
      WEIR_RETURN_IF_ERROR(listener->End(session, saved_step_));
    }
    // What a full disk has swallowed of the events is no failure of training.
    if (options_.writer != nullptr) options_.writer->Flush().IgnoreError();
    return absl::OkStatus();
  }

 private:
  Saver* saver() const {
    return options_.saver != nullptr ? options_.saver.get() : options_.scaffold->saver.get();
  }

  // With the saver's claim on the folder, which keeps a chief that was replaced from removing what its
  // successor writes.
  FileSystem& Files() const { return saver() != nullptr ? saver()->files() : PosixFileSystem(); }

  static void Report(int64_t step, const absl::Status& status) {
    PrintNotice(absl::StrCat("the checkpoint at step ", step, " was not saved: ", status.message()));
  }

  // After a step: a listener may want to stop, and a checkpoint that was not written is tried again later.
  absl::Status TakeOutcome(RunContext& context, int64_t step, const absl::StatusOr<bool>& wants_stop) {
    if (wants_stop.ok()) {
      if (*wants_stop) context.RequestStop();
      return absl::OkStatus();
    }
    return Tolerate(step, wants_stop.status());
  }

  // Nothing comes after it, and all since the checkpoint before would be lost: a full disk may have room
  // soon.
  absl::Status SaveLast(Session& session, int64_t step) {
    Environment& environment = session.environment();
    const absl::Time deadline = environment.SteadyNow() + options_.end_patience;
    for (absl::Duration pause = kFirstPauseAtEnd;; pause = std::min(pause * 2, kLongestPauseAtEnd)) {
      const absl::Status saved = Save(session, step).status();
      const absl::Duration left = deadline - environment.SteadyNow();
      if (!IsOfTheDisk(saved) || left < pause) return saved;
      PrintNotice(absl::StrCat("the last checkpoint, at step ", step, ", was not saved: ", saved.message(),
                               "; it is tried again for ",
                               absl::FormatDuration(absl::Trunc(left, absl::Seconds(1)))));
      const bool is_stopped = PatienceOfEnd().WaitForStop(pause);
      // With a session that is made anew it is tried again, or known to be lost.
      if (const absl::Status stopped = threads_->status(); IsRecoverable(stopped)) return stopped;
      if (is_stopped) return saved;
    }
  }

  // Whose stop ends it. The session's threads stop soon after SIGTERM, but also after the end of the input
  // and whenever training was stopped before.
  const Coordinator& PatienceOfEnd() const { return end_ && !is_terminated_ ? *end_ : *threads_; }

  bool IsOfTheDisk(const absl::Status& status) const {
    return !status.ok() && is_saver_error_ && !IsRecoverable(status) && !IsSuperseded(status);
  }

  // A checkpoint that was not written costs no training, once it is under way.
  absl::Status Tolerate(int64_t step, const absl::Status& status) {
    if (!IsOfTheDisk(status)) return status;
    Report(step, status);
    timer_.Mark(step);
    return absl::OkStatus();
  }

  std::string Prefix() const { return absl::StrCat(options_.directory, "/", options_.base_name); }

  absl::Status BeginSave(Session& session, int64_t step) {
    is_saver_error_ = false;
    if (saver() == nullptr) {
      return absl::FailedPreconditionError("CheckpointSaverHook: the graph has no variables to save");
    }
    for (const auto& listener : options_.listeners) WEIR_RETURN_IF_ERROR(listener->BeforeSave(session, step));
    is_saver_error_ = true;
    step_of_error_ = step;
    SayIfGone(step);
    return absl::OkStatus();
  }

  // The saver makes the folder again, so that no work is lost. Whoever has moved it away would look for the
  // newest checkpoint where it is not.
  void SayIfGone(int64_t step) {
    FileSystem& files = saver()->file_system();
    if (seen_.empty() || !absl::IsNotFound(files.FileSize(seen_ + ".index").status())) return;
    const bool has_folder = !absl::IsNotFound(files.ListDirectory(options_.directory).status());
    PrintNotice(has_folder
                    ? absl::StrCat("the checkpoint ", seen_,
                                   " is gone: somebody has deleted it, or replaced its folder. That at "
                                   "step ",
                                   step, " is saved there all the same")
                    : absl::StrCat(options_.directory,
                                   " is gone: somebody has moved it away, or deleted it. It is made "
                                   "anew for the checkpoint at step ",
                                   step, ", without what was in it"));
    seen_.clear();
  }

  // OK when a group of synchronous replicas gives its driver nothing to apply; FailedPrecondition when all
  // have.
  absl::Status TryPause(Session& session) {
    absl::Status paused;
    for (const TargetRef& pause : pauses_) {
      paused = session.Run({}, {}, {pause}).status();
      if (!absl::IsFailedPrecondition(paused)) break;
    }
    return paused;
  }

  // Waits for the update of synchronous replicas that is being applied, after which none begins.
  absl::Status PauseUpdates(Session& session) {
    Environment& environment = session.environment();
    const absl::Time deadline = environment.SteadyNow() + kUpdatePatience;
    const Coordinator look(environment);  // nobody stops it
    for (absl::Duration wait = kFirstLook;; wait = std::min(wait * 2, kLongestLook)) {
      const absl::Status paused = TryPause(session);
      if (!absl::IsFailedPrecondition(paused)) return paused;
      // Its driver has lost contact: with a session that is made anew it goes on, or its successor does it.
      const absl::Status stopped = threads_->status();
      if (IsRecoverable(stopped) || IsSuperseded(stopped)) return stopped;
      if (environment.SteadyNow() >= deadline) {
        if (!stopped.ok()) return stopped;  // it has failed in the middle
        PrintNotice(absl::StrCat("a checkpoint may have a part of an update: ", paused.message(), " for ",
                                 absl::FormatDuration(kUpdatePatience)));
        return absl::OkStatus();
      }
      look.WaitForStop(wait);
    }
  }

  // Calls `save` while no update of synchronous replicas is under way, with the global step that the
  // variables are at then.
  absl::Status WhilePaused(Session& session, absl::FunctionRef<absl::Status(int64_t step)> save) {
    is_saver_error_ = false;
    absl::Status status;
    if (!pauses_.empty()) status = PauseUpdates(session);
    if (status.ok()) {
      const absl::StatusOr<int64_t> step = ReadGlobalStep(session, options_.global_step);
      status = step.ok() ? save(*step) : step.status();
    }
    if (resumes_.empty()) return status;
    // Also after an error, when it may pause all the same.
    const absl::Status resumed = session.Run({}, {}, resumes_).status();
    // One of the saver is tolerated, and the pause would go on.
    if (resumed.ok() || (!status.ok() && !is_saver_error_)) return status;
    is_saver_error_ = false;
    return resumed;
  }

  // Whether a listener wants training to stop. So do the next two.
  absl::StatusOr<bool> Save(Session& session, int64_t step, bool is_training = true) {
    const auto save = [&](int64_t now) -> absl::Status {
      step = now;
      WEIR_RETURN_IF_ERROR(BeginSave(session, step));
      return saver()->Save(session, Prefix(), step).status();
    };
    WEIR_RETURN_IF_ERROR(is_training ? WhilePaused(session, save) : save(step));
    timer_.Mark(step);
    return OnSaved(session, step);
  }

  absl::StatusOr<bool> StartSave(Session& session) {
    WEIR_RETURN_IF_ERROR(WhilePaused(session, [&](int64_t step) -> absl::Status {
      WEIR_RETURN_IF_ERROR(BeginSave(session, step));
      WEIR_RETURN_IF_ERROR(saver()->StartSave(session, Prefix(), step).status());
      timer_.Mark(step);
      pending_step_ = step;
      return absl::OkStatus();
    }));
    return false;
  }

  // Waits for the checkpoint that is being written, if there is one.
  absl::StatusOr<bool> FinishPending(Session& session) {
    if (!pending_step_) return false;
    is_saver_error_ = true;
    step_of_error_ = *std::exchange(pending_step_, std::nullopt);
    WEIR_RETURN_IF_ERROR(saver()->AwaitSave());
    return OnSaved(session, step_of_error_);
  }

  absl::StatusOr<bool> OnSaved(Session& session, int64_t step) {
    is_saver_error_ = false;
    saved_step_ = step;
    // The folder may have been moved away while this one was written, which made it again.
    const std::vector<std::string> kept = saver()->LastCheckpoints();
    if (std::find(kept.begin(), kept.end(), seen_) != kept.end()) SayIfGone(step);
    seen_ = absl::StrCat(Prefix(), "-", step);
    if (!saver()->file_system().Exists(seen_ + ".index")) seen_.clear();  // written on another machine
    if (options_.writer != nullptr) {
      // As in TensorFlow the path is that of all checkpoints; the event's step says which one it is.
      options_.writer->AddSessionLog(step, EventWriter::SessionStatus::kCheckpoint, Prefix()).IgnoreError();
    }
    bool wants_stop = false;
    for (const auto& listener : options_.listeners) {
      WEIR_ASSIGN_OR_RETURN(const bool stop, listener->AfterSave(session, step));
      wants_stop |= stop;
    }
    return wants_stop;
  }

  // Once, not after every recovery: it stays the same.
  absl::Status WriteGraph(const Session& session) {
    if (std::exchange(has_written_graph_, true)) return absl::OkStatus();
    if (options_.write_graph) {
      WEIR_ASSIGN_OR_RETURN(const std::string text, GraphDefText(session.graph()));
      WEIR_RETURN_IF_ERROR(
          WriteFileAtomically(PosixFileSystem(), JoinPath(options_.directory, "graph.pbtxt"), text));
    }
    if (options_.writer == nullptr) return absl::OkStatus();
    // What cannot be placed or written is only missed in TensorBoard.
    const absl::StatusOr<std::unique_ptr<Graph>> placed = session.PlacedGraph();
    if (!placed.ok()) return absl::OkStatus();
    const absl::StatusOr<std::string> bytes = GraphDefBytes(**placed, {.use_assigned_devices = true});
    if (bytes.ok()) options_.writer->AddGraph(0, *bytes).IgnoreError();
    return absl::OkStatus();
  }

  CheckpointSaverOptions options_;
  std::optional<Coordinator> threads_;  // of the last session
  std::optional<Coordinator> end_;
  bool is_terminated_ = false;  // by SIGTERM
  StepTimer timer_;
  std::vector<TargetRef> pauses_, resumes_;  // of the groups of synchronous replicas
  int64_t saved_step_ = -1;
  std::string seen_;  // the last checkpoint, if it was there; not one that is known to be gone
  std::optional<int64_t> pending_step_;  // of the checkpoint that is being written meanwhile
  bool is_saver_error_ = false;          // the saver failed, not a listener
  int64_t step_of_error_ = 0;
  bool has_written_graph_ = false;
  bool has_begun_ = false;
};

}  // namespace

HookPtr CheckpointSaverHook(CheckpointSaverOptions options) {
  return std::make_shared<CheckpointSaver>(std::move(options));
}

}  // namespace weir
