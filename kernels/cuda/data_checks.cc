#include "kernels/cuda/data_checks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {

using cuda::DataError;

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
  for (int i = 0; i < kChunk; ++i) {
    auto notes = std::make_unique<Notes>();
    notes->here = here + i;
    notes->mirror = mirror + i;
    free_.push_back(std::move(notes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DataChecks::Notes>> DataChecks::TakeFree() {
  if (free_.empty()) WEIR_RETURN_IF_ERROR(AddChunk());
  std::unique_ptr<Notes> notes = std::move(free_.back());
  free_.pop_back();
  return notes;
}

absl::Status DataChecks::Check(const PendingWork& step, Explain explain,
                               absl::FunctionRef<absl::Status(const cuda::DataErrorPlace&)> launch) {
  std::unique_ptr<Notes> found;
  cuda::DataErrorPlace place = {};
  {
    absl::MutexLock lock(&mutex_);
    found = TakeFound();
    if (found == nullptr) {
      std::unique_ptr<Notes>& notes = of_steps_[&step];
      if (notes == nullptr) {
        absl::StatusOr<std::unique_ptr<Notes>> taken = TakeFree();
        if (!taken.ok()) {
          of_steps_.erase(&step);
          return taken.status();
        }
        notes = *std::move(taken);
      }
      notes->explains.push_back(std::move(explain));
      place = {.here = notes->here,
               .mirror = notes->mirror,
               .check = static_cast<uint32_t>(notes->explains.size())};
    }
  }
  if (found != nullptr) {
    const absl::Status status = Explained(*found);
    Free(std::move(found));
    return absl::Status(status.code(), absl::StrCat("an earlier step, which nobody waited for, has failed: ",
                                                    status.message()));
  }
  const absl::Status launched = launch(place);
  absl::MutexLock lock(&mutex_);
  const auto notes = of_steps_.find(&step);
  if (notes != of_steps_.end()) notes->second->last = ++num_checks_;
  return launched;
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

std::unique_ptr<DataChecks::Notes> DataChecks::TakeFound() {
  while (!over_.empty() && IsFinal(*over_.front())) {
    std::unique_ptr<Notes> notes = std::move(over_.front());
    over_.pop_front();
    if (Read(*notes).check != 0 && !notes->explains.empty()) return notes;
    FreeLocked(std::move(notes));
  }
  return nullptr;
}

DataError DataChecks::Read(const Notes& notes) {
  DataError found = {.check = notes.mirror->check, .kinds = {}};
  for (int i = 0; i < DataError::kMostKinds; ++i) found.kinds[i] = notes.mirror->kinds[i];
  return found;
}

absl::Status DataChecks::Explained(const Notes& notes) {
  const DataError found = Read(notes);
  if (found.check == 0 || found.check > notes.explains.size()) return absl::OkStatus();
  return notes.explains[found.check - 1](found);
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
  auto free = std::make_unique<Notes>();
  free->here = notes->here;
  free->mirror = notes->mirror;
  free_.push_back(std::move(free));
}

absl::Status DataChecks::ErrorOf(const PendingWork& step) {
  Notes notes;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = of_steps_.find(&step);
    if (found == of_steps_.end() || Read(*found->second).check == 0) return absl::OkStatus();
    notes = *found->second;
  }
  return Explained(notes);
}

absl::Status DataChecks::EndStep(const PendingWork& step, bool has_failed) {
  std::unique_ptr<Notes> notes;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = of_steps_.find(&step);
    if (found == of_steps_.end()) return absl::OkStatus();
    notes = std::move(found->second);
    of_steps_.erase(found);
    if (!IsFinal(*notes)) {
      if (has_failed) notes->explains.clear();
      WEIR_ASSIGN_OR_RETURN(notes->end, stream_.Record());
      over_.push_back(std::move(notes));
      return absl::OkStatus();
    }
  }
  const absl::Status status = has_failed ? absl::OkStatus() : Explained(*notes);
  Free(std::move(notes));
  return status;
}

}  // namespace weir
