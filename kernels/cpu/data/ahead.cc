#include "kernels/cpu/data/ahead.h"

#include <deque>
#include <utility>

#include "graph/types/status_macros.h"
#include "kernels/cancellable_wait.h"

namespace weir {

struct AheadIterator::Buffer {
  Buffer(DatasetPtr dataset, IteratorPtr input, int64_t capacity)
      : dataset(std::move(dataset)), input(std::move(input)), capacity(capacity) {}

  bool has_room() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return !is_over && !is_paused && static_cast<int64_t>(elements.size()) < capacity &&
           num_bytes <= kMaxAheadBytes;
  }

  const DatasetPtr dataset;
  const IteratorPtr input;  // of who fills; of the caller while nobody does
  const int64_t capacity;
  Cancellation cancellation;
  absl::Mutex mutex;
  std::deque<absl::StatusOr<Element>> elements ABSL_GUARDED_BY(mutex);
  int64_t num_bytes ABSL_GUARDED_BY(mutex) = 0;  // of elements
  bool is_filling ABSL_GUARDED_BY(mutex) = false;
  bool is_paused ABSL_GUARDED_BY(mutex) = false;
  bool is_over ABSL_GUARDED_BY(mutex) = false;
};

AheadIterator::AheadIterator(DatasetPtr dataset, IteratorPtr input, int64_t capacity)
    : buffer_(std::make_shared<Buffer>(std::move(dataset), std::move(input), capacity)) {}

AheadIterator::~AheadIterator() {
  buffer_->cancellation.Cancel(absl::CancelledError("the iterator is gone"));
}

void AheadIterator::Fill(const std::shared_ptr<Buffer>& buffer, IteratorRun& run, Threads* threads,
                         int stages) {
  // The worker's end is the run's, and so this one's.
  const uint64_t callback =
      run.end().OnCancel([&](const absl::Status& reason) { buffer->cancellation.Cancel(reason); });
  IteratorContext context = {run, buffer->cancellation, threads, stages};
  while (true) {
    Element element;
    const absl::StatusOr<bool> has_element = buffer->input->Next(context, &element);
    absl::StatusOr<Element> outcome = std::move(element);
    if (!has_element.ok()) outcome = has_element.status();
    const int64_t num_bytes = NumBytes(outcome);
    absl::MutexLock lock(&buffer->mutex);
    if (has_element.ok() && !*has_element) {
      buffer->is_over = true;
    } else {
      buffer->elements.push_back(std::move(outcome));
      buffer->num_bytes += num_bytes;
    }
    if (buffer->has_room() && !buffer->cancellation.is_cancelled()) continue;
    buffer->is_filling = false;
    break;
  }
  run.end().Remove(callback);
}

void AheadIterator::Start(IteratorContext& context) {
  if (context.threads == nullptr) return;
  {
    absl::MutexLock lock(&buffer_->mutex);
    if (buffer_->is_filling || !buffer_->has_room()) return;
    if (static_cast<int64_t>(buffer_->elements.size()) > buffer_->capacity / 2) return;
    buffer_->is_filling = true;
  }
  const absl::Status started = context.threads->Block(
      [buffer = buffer_, run = context.run.shared_from_this(), threads = context.threads,
       stages = context.stages] { Fill(buffer, *run, threads, stages); });
  if (started.ok()) return;
  absl::MutexLock lock(&buffer_->mutex);
  buffer_->is_filling = false;
}

absl::Status AheadIterator::Await(IteratorContext& context, bool (*is_ready)(const Buffer&)) {
  return AwaitUnlessCancelled(context.environment(), buffer_->mutex, context.cancellation,
                              [&] { return is_ready(*buffer_); });
}

absl::StatusOr<bool> AheadIterator::Next(IteratorContext& context, Element* element) {
  Start(context);
  WEIR_RETURN_IF_ERROR(Await(context, [](const Buffer& buffer) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return !buffer.elements.empty() || !buffer.is_filling;
  }));
  {
    absl::MutexLock lock(&buffer_->mutex);
    if (!buffer_->elements.empty()) {
      absl::StatusOr<Element> first = std::move(buffer_->elements.front());
      buffer_->elements.pop_front();
      buffer_->num_bytes -= NumBytes(first);
      if (!first.ok()) return first.status();
      *element = *std::move(first);
      return true;
    }
    if (buffer_->is_over) return false;
  }
  return buffer_->input->Next(context, element);  // nobody fills
}

absl::Status AheadIterator::Save(IteratorContext& context, PositionWriter& position) {
  {
    absl::MutexLock lock(&buffer_->mutex);
    buffer_->is_paused = true;
  }
  const absl::Status waited =
      Await(context, [](const Buffer& buffer) ABSL_NO_THREAD_SAFETY_ANALYSIS { return !buffer.is_filling; });
  absl::MutexLock lock(&buffer_->mutex);
  buffer_->is_paused = false;
  WEIR_RETURN_IF_ERROR(waited);
  position.Add(int64_t{buffer_->is_over});
  position.Add(static_cast<int64_t>(buffer_->elements.size()));
  for (const absl::StatusOr<Element>& element : buffer_->elements) position.Add(element);
  return buffer_->input->Save(context, position);
}

absl::Status AheadIterator::Restore(IteratorContext& context, PositionReader& position) {
  absl::MutexLock lock(&buffer_->mutex);
  WEIR_ASSIGN_OR_RETURN(buffer_->is_over, position.NextNumber(0, 1));
  WEIR_ASSIGN_OR_RETURN(const int64_t count, position.NextNumber(0, INT64_MAX));
  for (int64_t i = 0; i < count; ++i) {
    absl::StatusOr<Element> element;
    WEIR_RETURN_IF_ERROR(position.NextOutcome(buffer_->dataset->signature().types, &element));
    buffer_->num_bytes += NumBytes(element);
    buffer_->elements.push_back(std::move(element));
  }
  return buffer_->input->Restore(context, position);
}

}  // namespace weir
