#include "session/executor/update_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace weir {

// Status::ToString shows payloads, so it is for people too: "[restore under way='ab']", with the life.
static constexpr char kRestorePayload[] = "restore under way";

bool IsRefusedByRestore(const absl::Status& status) { return status.GetPayload(kRestorePayload).has_value(); }

// The handle of a ConditionalAccumulator or SparseConditionalAccumulator is a reference to a string.
static bool HasAccumulatorHandle(const Node& node) {
  return node.num_inputs() > 0 && node.inputs()[0].dtype() == DType::kString &&
         absl::StrContains(node.op().name(), "Accumulator");
}

// By the ops' families: AssignAddVariableOp, ResourceApplyAdam, ResourceScatterNdUpdate...
static bool UpdatesVariable(const Node& node) {
  const absl::string_view op = node.op().name();
  if (absl::StartsWith(op, "Assign")) return true;
  for (const char* family : {"Apply", "SparseApply", "Scatter", "StridedSliceAssign"}) {
    if (absl::StartsWith(op, absl::StrCat("Resource", family))) return true;
  }
  return false;
}

// The first input that is a resource; null without one.
static const Node* ResourceOf(const Node& node) {
  for (const Output& input : node.inputs()) {
    if (input.dtype() == DType::kResource) return input.node;
  }
  return nullptr;
}

static bool BeginsAnew(const Node* handle) {
  // Identity, Switch and Enter pass handles on. The first input of a Merge comes from outside of its loop.
  // A graph from elsewhere may have it in another order.
  constexpr int kMaxHops = 1000;
  for (int hops = 0; hops < kMaxHops; ++hops) {
    const Node* const from = ResourceOf(*handle);
    if (from == nullptr) return handle->FindAttr(kBeginsAnewAttr) != nullptr;
    handle = from;
  }
  return false;
}

uint64_t UpdateKey(const Node& node) {
  const Node* const resource = node.op().is_stateful() ? ResourceOf(node) : nullptr;
  if (node.num_outputs() > 0 || !(resource != nullptr || HasAccumulatorHandle(node))) return 0;
  if (resource != nullptr && BeginsAnew(resource)) return 0;
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : node.name()) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  if (UpdatesVariable(node)) return hash | 1;
  return std::max(hash & ~uint64_t{1}, uint64_t{2});
}

int32_t UpdateLedger::Attempt::CountTurn(uint64_t key, bool repeats) { return repeats ? ++turns_[key] : 1; }

absl::Status UpdateLedger::Attempt::Apply(uint64_t key, bool repeats, absl::FunctionRef<absl::Status()> run) {
  absl::ReaderMutexLock no_restore(&ledger_->restore_mutex_);
  if (ledger_->era_ != era_) {
    return absl::AbortedError("the variables were restored after the step had begun");
  }
  int32_t turn = 1;
  {
    absl::MutexLock lock(&writer_->mutex);
    turn = CountTurn(key, repeats);
    const auto step = writer_->steps.find(number_);
    if (step == writer_->steps.end()) {
      return absl::AbortedError(absl::StrCat("step ", number_, " of its training loop is over"));
    }
    const auto [place, is_new] = step->second.try_emplace(key);
    if (is_new) ++writer_->num_marks;
    Mark& mark = place->second;
    if (mark.num_applied >= turn) return absl::OkStatus();
    if (mark.is_under_way) {
      return absl::AbortedError("an earlier attempt of the step is just applying the same update");
    }
    mark.is_under_way = true;
  }
  const absl::Status status = run();
  absl::MutexLock lock(&writer_->mutex);
  const auto step = writer_->steps.find(number_);  // it may have been settled meanwhile
  if (step == writer_->steps.end()) return status;
  Mark& mark = step->second[key];
  mark.is_under_way = false;
  if (status.ok()) mark.num_applied = turn;
  return status;
}

absl::StatusOr<bool> UpdateLedger::Attempt::ApplyAll(absl::Span<const uint64_t> keys,
                                                     absl::FunctionRef<absl::Status()> run) {
  absl::ReaderMutexLock no_restore(&ledger_->restore_mutex_);
  if (ledger_->era_ != era_) {
    return absl::AbortedError("the variables were restored after the step had begun");
  }
  {
    absl::MutexLock lock(&writer_->mutex);
    const auto step = writer_->steps.find(number_);
    if (step == writer_->steps.end()) {
      return absl::AbortedError(absl::StrCat("step ", number_, " of its training loop is over"));
    }
    Marks& marks = step->second;
    const auto has_begun = [&marks](uint64_t key) {
      const auto mark = marks.find(key);
      return mark != marks.end() && (mark->second.is_under_way || mark->second.num_applied > 0);
    };
    if (std::any_of(keys.begin(), keys.end(), has_begun)) return false;
    for (const uint64_t key : keys) {
      const auto [mark, is_new] = marks.try_emplace(key);
      if (is_new) ++writer_->num_marks;
      mark->second.is_under_way = true;
    }
  }
  const absl::Status status = run();
  absl::MutexLock lock(&writer_->mutex);
  const auto step = writer_->steps.find(number_);  // it may have been settled meanwhile
  if (step != writer_->steps.end()) {
    for (const uint64_t key : keys) step->second[key] = {.num_applied = status.ok() ? 1 : 0};
  }
  if (!status.ok()) return status;
  return true;
}

absl::StatusOr<UpdateLedger::Attempt> UpdateLedger::BeginStep(const LogicalStep& step) {
  Attempt attempt;
  attempt.ledger_ = this;
  attempt.number_ = step.number;
  {
    absl::ReaderMutexLock lock(&restore_mutex_);
    if (restore_.is_under_way) {
      absl::Status refused = absl::AbortedError("the chief is just initialising or restoring the variables");
      refused.SetPayload(kRestorePayload, absl::Cord(absl::StrCat(absl::Hex(restore_.life))));
      return refused;
    }
    attempt.era_ = era_;
    attempt.writer_ = WriterOf(step);
  }
  Writer& writer = *attempt.writer_;
  absl::MutexLock lock(&writer.mutex);
  if (step.settled_below > writer.settled_below) {
    writer.settled_below = step.settled_below;
    size_t num_freed = 0;
    absl::erase_if(writer.steps, [&](const auto& known) {
      if (known.first >= step.settled_below) return false;
      num_freed += 1 + known.second.size();
      return true;
    });
    writer.num_marks -= num_freed;
  }
  if (step.number < writer.settled_below) {
    return absl::AbortedError(absl::StrCat("step ", step.number,
                                           " of its training loop comes too late: those below ",
                                           writer.settled_below, " are over"));
  }
  if (writer.steps.contains(step.number)) return attempt;
  if (writer.num_marks >= kMaxMarks) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a training loop has ", writer.steps.size(), " steps under way with ",
                     writer.num_marks - writer.steps.size(), " updates here, and may have at most ",
                     kMaxMarks, " of both: a call that is tried again as a whole has to end earlier"));
  }
  writer.steps.try_emplace(step.number);
  ++writer.num_marks;
  return attempt;
}

std::shared_ptr<UpdateLedger::Writer> UpdateLedger::WriterOf(const LogicalStep& step) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<Writer>& place = writers_[step.writer];
  if (place == nullptr) place = std::make_shared<Writer>();
  place->last_use = ++num_uses_;
  std::shared_ptr<Writer> writer = place;
  if (!restored_.empty()) Recall(step, *writer);
  if (writers_.size() > kMaxWriters) {
    writers_.erase(std::min_element(writers_.begin(), writers_.end(), [](const auto& a, const auto& b) {
      return a.second->last_use < b.second->last_use;
    }));
  }
  return writer;
}

// At once: another attempt of the step that begins beside this one finds all marks, or none and recalls them.
void UpdateLedger::Recall(const LogicalStep& step, Writer& writer) {
  restored_.Settle(step.writer, step.settled_below);
  const AppliedUpdates::Updates updates = restored_.Take(step.writer, step.number);
  if (updates.empty()) return;
  absl::MutexLock lock(&writer.mutex);
  const auto [place, is_new] = writer.steps.try_emplace(step.number);
  Marks& marks = place->second;
  writer.num_marks -= is_new ? 0 : 1 + marks.size();
  for (const auto& [key, times] : updates) marks[key].num_applied = times;
  writer.num_marks += 1 + marks.size();
}

void UpdateLedger::BeginRestore(uint64_t id, uint64_t life) {
  absl::MutexLock restore_lock(&restore_mutex_);
  if (life == restore_.life && (id < restore_.id || (id == restore_.id && !restore_.is_under_way))) return;
  restore_ = {.id = id, .life = life, .is_under_way = true};
  ++era_;
  absl::MutexLock lock(&mutex_);
  absl::erase_if(writers_, [](const auto& known) {
    absl::MutexLock writer_lock(&known.second->mutex);
    return known.second->ForgetVariables();
  });
  restored_ = AppliedUpdates();
}

bool UpdateLedger::Writer::ForgetVariables() {
  size_t num_left = 0;
  absl::erase_if(steps, [&num_left](auto& step) {
    Marks& marks = step.second;
    absl::erase_if(marks, [](const auto& mark) {
      return IsUpdateOfVariable(mark.first) || mark.second.num_applied == 0;
    });
    if (!marks.empty()) num_left += 1 + marks.size();
    return marks.empty();
  });
  num_marks = num_left;
  return steps.empty();
}

absl::Status UpdateLedger::EndRestore(uint64_t id, absl::string_view applied) {
  absl::StatusOr<AppliedUpdates> restored = AppliedUpdates::Decode(applied);
  if (!restored.ok()) return restored.status();
  absl::MutexLock lock(&restore_mutex_);
  if (restore_.id != id || restore_.was_given_up) {
    return absl::AbortedError(
        "the restore that ends is not under way: another one has begun since, it was never begun here, or it "
        "was given up because a later life of the task that restores is there");
  }
  if (!std::exchange(restore_.is_under_way, false)) return absl::OkStatus();
  absl::MutexLock writers_lock(&mutex_);
  restored_ = *std::move(restored);
  return absl::OkStatus();
}

void UpdateLedger::GiveUpRestore(uint64_t life) {
  absl::MutexLock lock(&restore_mutex_);
  if (!restore_.is_under_way || restore_.life != life) return;
  restore_.is_under_way = false;
  restore_.was_given_up = true;
}

std::string UpdateLedger::Capture(absl::FunctionRef<void()> read) {
  AppliedUpdates applied;
  std::string restored;
  {
    absl::MutexLock no_updates(&restore_mutex_);
    read();
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, writer] : writers_) {
      absl::MutexLock writer_lock(&writer->mutex);
      for (const auto& [number, marks] : writer->steps) {
        AppliedUpdates::Updates updates;
        for (const auto& [key, mark] : marks) {
          if (mark.num_applied > 0 && IsUpdateOfVariable(key)) updates[key] = mark.num_applied;
        }
        applied.Add(id, number, updates);
      }
    }
    restored = restored_.Encode(kMaxWriters);
  }
  return applied.Encode(SIZE_MAX) + restored;
}

int UpdateLedger::num_writers() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(writers_.size());
}

}  // namespace weir
