#include "kernels/cuda/data_checks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {

using cuda::DataError;

// Of recorded work that has checks. Guarded by the mutex of the DataChecks.
struct RecordedChecks::Place {
  volatile DataError* here = nullptr;
  volatile DataError* mirror = nullptr;
  std::shared_ptr<std::vector<DataChecks::Explain>> explains;
  bool is_in_use = false;
  bool is_forgotten = false;
};

DataChecks::~DataChecks() {
  absl::MutexLock lock(&mutex_);
  // Errors are those of a lost device, which writes nothing any more.
  if (!chunks_.empty()) stream_.Synchronize().IgnoreError();
  for (const Chunk& chunk : chunks_) stream_.api().FreePinned(chunk.mirror).IgnoreError();
}

absl::Status DataChecks::AddChunk() {
  Chunk chunk;
  WEIR_ASSIGN_OR_RETURN(chunk.here, allocator_.Get(kChunk * sizeof(DataError)));
  WEIR_ASSIGN_OR_RETURN(chunk.mirror, stream_.api().AllocatePinned(kChunk * sizeof(DataError)));
  std::memset(chunk.mirror, 0, kChunk * sizeof(DataError));
  auto* const here = static_cast<DataError*>(chunk.here->data());
  auto* const mirror = static_cast<DataError*>(chunk.mirror);
  chunks_.push_back(std::move(chunk));
  WEIR_RETURN_IF_ERROR(stream_.Fill(here, 0, kChunk * sizeof(DataError)));
  for (int i = 0; i < kChunk; ++i) AddFree(here + i, mirror + i);
  return absl::OkStatus();
}

void DataChecks::AddFree(volatile DataError* here, volatile DataError* mirror) {
  auto notes = std::make_unique<Notes>();
  notes->here = here;
  notes->mirror = mirror;
  free_.push_back(std::move(notes));
}

absl::StatusOr<std::unique_ptr<DataChecks::Notes>> DataChecks::TakeFree() {
  if (free_.empty()) WEIR_RETURN_IF_ERROR(AddChunk());
  std::unique_ptr<Notes> notes = std::move(free_.back());
  free_.pop_back();
  return notes;
}

absl::Status DataChecks::Check(const PendingWork& step, Explain explain,
                               absl::FunctionRef<absl::Status(const cuda::DataErrorPlace&)> launch) {
  if (dynamic_cast<const RecordedChecks*>(&step) == nullptr) WEIR_RETURN_IF_ERROR(TakeEarlierError());
  cuda::DataErrorPlace place = {};
  {
    absl::MutexLock lock(&mutex_);
    std::unique_ptr<Notes>& notes = of_steps_[&step];
    if (notes == nullptr) {
      absl::StatusOr<std::unique_ptr<Notes>> taken = TakeFree();
      if (!taken.ok()) {
        of_steps_.erase(&step);
        return taken.status();
      }
      notes = *std::move(taken);
    }
    notes->explains->push_back(std::move(explain));
    place = {.here = notes->here,
             .mirror = notes->mirror,
             .check = static_cast<uint32_t>(notes->explains->size())};
  }
  const absl::Status launched = launch(place);
  absl::MutexLock lock(&mutex_);
  const auto notes = of_steps_.find(&step);
  if (notes != of_steps_.end()) notes->second->last = ++num_checks_;
  return launched;
}

absl::Status DataChecks::EarlierError(const RecordedChecks& recorded) {
  return recorded.place_ == nullptr ? absl::OkStatus() : TakeEarlierError();
}

absl::Status DataChecks::TakeEarlierError() {
  std::unique_ptr<Notes> found;
  {
    absl::MutexLock lock(&mutex_);
    found = TakeFound();
  }
  if (found == nullptr) return absl::OkStatus();
  const absl::Status status = Explained(*found);
  Free(std::move(found));
  return absl::Status(status.code(), absl::StrCat("an earlier step, which nobody waited for, has failed: ",
                                                  status.message()));
}

void DataChecks::EndRecording(RecordedChecks& recorded) {
  absl::MutexLock lock(&mutex_);
  const auto found = of_steps_.find(&recorded);
  if (found == of_steps_.end()) return;
  const Notes& notes = *found->second;
  recorded.place_ = std::make_shared<RecordedChecks::Place>(
      RecordedChecks::Place{.here = notes.here, .mirror = notes.mirror, .explains = notes.explains});
  of_steps_.erase(found);
}

bool DataChecks::IsFree(const RecordedChecks& recorded) {
  absl::MutexLock lock(&mutex_);
  if (recorded.place_ == nullptr) return true;
  LookForFound();
  return !recorded.place_->is_in_use;
}

absl::Status DataChecks::Repeat(const PendingWork& step, const RecordedChecks& recorded,
                                absl::FunctionRef<absl::Status()> launch) {
  if (recorded.place_ == nullptr) return launch();
  RecordedChecks::Place& place = *recorded.place_;
  {
    absl::MutexLock lock(&mutex_);
    auto notes = std::make_unique<Notes>();
    notes->here = place.here;
    notes->mirror = place.mirror;
    notes->explains = place.explains;
    notes->recorded = recorded.place_;
    place.is_in_use = true;
    of_steps_[&step] = std::move(notes);
  }
  const absl::Status launched = launch();
  absl::MutexLock lock(&mutex_);
  const auto notes = of_steps_.find(&step);
  if (launched.ok()) {
    notes->second->last = ++num_checks_;
  } else {
    place.is_in_use = false;
    of_steps_.erase(notes);
  }
  return launched;
}

void DataChecks::Forget(RecordedChecks& recorded) {
  absl::MutexLock lock(&mutex_);
  if (const auto found = of_steps_.find(&recorded); found != of_steps_.end()) {
    AddFree(found->second->here, found->second->mirror);
    of_steps_.erase(found);
  }
  const std::shared_ptr<RecordedChecks::Place> place = std::exchange(recorded.place_, nullptr);
  if (place == nullptr) return;
  place->is_forgotten = true;
  if (!place->is_in_use) AddFree(place->here, place->mirror);
}

volatile DataError* DataChecks::NotesOf(const PendingWork* step) const {
  if (step == nullptr) return nullptr;
  absl::MutexLock lock(&mutex_);
  const auto notes = of_steps_.find(step);
  return notes == of_steps_.end() ? nullptr : notes->second->here;
}

int64_t DataChecks::Mark() const {
  absl::MutexLock lock(&mutex_);
  return num_checks_;
}

void DataChecks::NoteDone(int64_t mark) {
  absl::MutexLock lock(&mutex_);
  num_done_ = std::max(num_done_, mark);
}

bool DataChecks::IsFinal(const Notes& notes) const {
  if (notes.last <= num_done_) return true;
  if (!notes.end) return false;
  const absl::StatusOr<bool> is_done = notes.end->IsDone();
  return is_done.ok() && *is_done;
}

const DataChecks::Notes* DataChecks::LookForFound() {
  while (!over_.empty() && IsFinal(*over_.front())) {
    const Notes& notes = *over_.front();
    if (Read(notes).check != 0 && !notes.explains->empty()) return &notes;
    FreeLocked(std::move(over_.front()));
    over_.pop_front();
  }
  return nullptr;
}

std::unique_ptr<DataChecks::Notes> DataChecks::TakeFound() {
  if (LookForFound() == nullptr) return nullptr;
  std::unique_ptr<Notes> found = std::move(over_.front());
  over_.pop_front();
  return found;
}

DataError DataChecks::Read(const Notes& notes) {
  DataError found = {.check = notes.mirror->check, .kinds = {}};
  for (int i = 0; i < DataError::kMostKinds; ++i) found.kinds[i] = notes.mirror->kinds[i];
  return found;
}

std::function<absl::Status()> DataChecks::ExplanationOf(const Notes& notes) {
  const DataError found = Read(notes);
  if (found.check == 0 || found.check > notes.explains->size()) return nullptr;
  return [explain = (*notes.explains)[found.check - 1], found] { return explain(found); };
}

absl::Status DataChecks::Explained(const Notes& notes) {
  const auto explanation = ExplanationOf(notes);
  return explanation ? explanation() : absl::OkStatus();
}

void DataChecks::Free(std::unique_ptr<Notes> notes) {
  absl::MutexLock lock(&mutex_);
  FreeLocked(std::move(notes));
}

void DataChecks::FreeLocked(std::unique_ptr<Notes> notes) {
  if (Read(*notes).check != 0) {
    // Whoever gets them next finds them empty: it comes later in the stream. A device that cannot be written
    // to is lost.
    auto* const here = const_cast<DataError*>(notes->here);
    if (!stream_.Fill(here, 0, sizeof(DataError)).ok()) return;
    std::memset(const_cast<DataError*>(notes->mirror), 0, sizeof(DataError));
  }
  if (notes->recorded != nullptr) notes->recorded->is_in_use = false;
  if (notes->recorded == nullptr || notes->recorded->is_forgotten) AddFree(notes->here, notes->mirror);
}

absl::Status DataChecks::ErrorOf(const PendingWork& step) {
  std::function<absl::Status()> explanation;
  {
    absl::MutexLock lock(&mutex_);
    const auto notes = of_steps_.find(&step);
    if (notes != of_steps_.end()) explanation = ExplanationOf(*notes->second);
  }
  return explanation ? explanation() : absl::OkStatus();
}

absl::Status DataChecks::EndStep(const PendingWork& step, bool has_failed) {
  std::unique_ptr<Notes> notes;
  bool is_final = false, is_found = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = of_steps_.find(&step);
    if (found == of_steps_.end()) return absl::OkStatus();
    notes = std::move(found->second);
    of_steps_.erase(found);
    is_final = IsFinal(*notes);
    // What the first check that finds something finds, stays, whatever comes after it in the stream.
    is_found = Read(*notes).check != 0;
  }
  // While nobody else has the notes: who finds them over gives them to another step.
  absl::Status status = is_found && !has_failed ? Explained(*notes) : absl::OkStatus();
  if (is_final) {
    Free(std::move(notes));
    return status;
  }
  absl::MutexLock lock(&mutex_);
  if (is_found || has_failed) notes->explains = std::make_shared<std::vector<Explain>>();
  absl::StatusOr<RefPtr<CudaEvent>> end = stream_.Record();
  status.Update(end.status());
  if (!end.ok()) return status;  // of a lost device, which does nothing any more
  notes->end = *std::move(end);
  over_.push_back(std::move(notes));
  return status;
}

}  // namespace weir
