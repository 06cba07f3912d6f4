#include "kernels/cpu/data_flow/queue.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/queue_batch.h"

namespace weir {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int32_t>::max();

constexpr char kPadding[] = "PaddingFIFOQueue";
constexpr char kShuffled[] = "RandomShuffleQueue";
constexpr char kPriority[] = "PriorityQueue";

std::string TypesText(const std::vector<DType>& types) {
  return absl::StrCat(
      "(",
      absl::StrJoin(types, ", ", [](std::string* out, DType type) { absl::StrAppend(out, DTypeName(type)); }),
      ")");
}

std::string ShapesText(const std::vector<PartialShape>& shapes) {
  if (shapes.empty()) return "any shapes";
  return absl::StrCat("(",
                      absl::StrJoin(shapes, ", ",
                                    [](std::string* out, const PartialShape& shape) {
                                      absl::StrAppend(out, shape.ToString());
                                    }),
                      ")");
}

std::unique_ptr<QueueOrder> OrderOf(const QueueSpec& spec) {
  if (spec.kind == kShuffled) return MakeShuffledOrder(spec.seed, spec.seed2);
  if (spec.kind == kPriority) return MakePriorityOrder();
  return MakeFifoOrder();
}

absl::Status CheckShapes(const QueueSpec& spec) {
  const bool pads = spec.kind == kPadding;
  if (spec.shapes.size() != spec.types.size() && (pads || !spec.shapes.empty())) {
    return absl::InvalidArgumentError(absl::StrCat("a ", spec.kind, " of ", spec.types.size(),
                                                   " components must have as many shapes, has ",
                                                   spec.shapes.size()));
  }
  for (const PartialShape& shape : spec.shapes) {
    if (pads ? shape.has_rank() : shape.is_fully_known()) continue;
    return absl::InvalidArgumentError(absl::StrCat("shapes of a ", spec.kind, " must have a known ",
                                                   pads ? "rank" : "size in each dimension", ", one is ",
                                                   shape.ToString()));
  }
  return absl::OkStatus();
}

absl::Status CheckMinimum(const QueueSpec& spec) {
  if (spec.min_after_dequeue >= 0 && spec.min_after_dequeue < spec.capacity) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("min_after_dequeue must be at least 0 and below the capacity ", spec.capacity, ", is ",
                   spec.min_after_dequeue));
}

}  // namespace

// An operation from its call to its end. What the lock guards is read without it once the operation is over:
// then only one thread has it.
struct Queue::Attempt {
  enum class Kind { kEnqueue, kEnqueueMany, kClose, kDequeue, kDequeueMany };

  Attempt(Kind kind, const Caller& caller, Done done) : kind(kind), caller(caller), done(std::move(done)) {}

  bool is_dequeue() const { return kind == Kind::kDequeue || kind == Kind::kDequeueMany; }
  int64_t num_missing() const { return wanted - static_cast<int64_t>(taken.size()); }

  const Kind kind;
  const Caller caller;
  const Done done;

  // Of enqueues.
  std::vector<Tensor> components;
  int64_t next = 0;  // slice
  // Of dequeues.
  int64_t wanted = 1;
  bool allows_fewer = false;
  std::vector<QueueElement> taken;

  bool is_over = false;
  uint64_t on_cancel = 0;
  absl::StatusOr<std::vector<Tensor>> result = std::vector<Tensor>();
};

// Of one that was cancelled.
absl::Status Queue::EndOf(const Attempt& attempt, const absl::Status& reason) {
  return absl::CancelledError(
      absl::StrCat(attempt.is_dequeue() ? "dequeue" : "enqueue", " was cancelled: ", reason.message()));
}

Queue::Queue(QueueSpec spec)
    : spec_(std::move(spec)), elements_(OrderOf(spec_)), rooms_(spec_.types.size()) {}

absl::StatusOr<RefPtr<Queue>> Queue::Create(QueueSpec spec) {
  if (spec.capacity < 0) spec.capacity = kUnbounded;
  if (spec.capacity > kUnbounded) {
    return absl::InvalidArgumentError(
        absl::StrCat("capacity must be at most ", kUnbounded, ", is ", spec.capacity));
  }
  WEIR_RETURN_IF_ERROR(CheckShapes(spec));
  if (spec.kind == kShuffled) WEIR_RETURN_IF_ERROR(CheckMinimum(spec));
  return RefPtr<Queue>(new Queue(std::move(spec)));
}

// ---- What may go in ----

absl::Status Queue::CheckTypes(const std::vector<Tensor>& components) const {
  std::vector<DType> types;
  for (const Tensor& component : components) types.push_back(component.dtype());
  if (types == spec_.types) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("components are ", TypesText(types), " but ", spec_.kind,
                                                 " '", spec_.name, "' holds ", TypesText(spec_.types)));
}

absl::Status Queue::CheckElement(const std::vector<Tensor>& components) const {
  WEIR_RETURN_IF_ERROR(CheckTypes(components));
  for (size_t i = 0; i < spec_.shapes.size(); ++i) {
    if (spec_.shapes[i].IsCompatibleWith(PartialShape(components[i].shape()))) continue;
    return absl::InvalidArgumentError(absl::StrCat("component ", i, " must be ", spec_.shapes[i].ToString(),
                                                   ", is ", components[i].shape().ToString()));
  }
  return absl::OkStatus();
}

absl::Status Queue::CheckBatch(const std::vector<Tensor>& components) const {
  WEIR_RETURN_IF_ERROR(CheckTypes(components));
  for (size_t i = 0; i < components.size(); ++i) {
    const Shape& shape = components[i].shape();
    if (shape.rank() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("component ", i, " must have a dimension of elements, is a scalar"));
    }
    if (shape.dim(0) != components[0].shape().dim(0)) {
      return absl::InvalidArgumentError(absl::StrCat("component 0 has ", components[0].shape().dim(0),
                                                     " elements, component ", i, " has ", shape.dim(0)));
    }
    const Shape slice(shape.dims().subspan(1));
    if (spec_.shapes.empty() || spec_.shapes[i].IsCompatibleWith(PartialShape(slice))) continue;
    return absl::InvalidArgumentError(absl::StrCat("each slice of component ", i, " must be ",
                                                   spec_.shapes[i].ToString(), ", is ", slice.ToString()));
  }
  return absl::OkStatus();
}

// ---- Operations ----

void Queue::Enqueue(const Caller& caller, std::vector<Tensor> components, Done done) {
  if (absl::Status status = CheckElement(components); !status.ok()) return done(std::move(status));
  auto attempt = std::make_shared<Attempt>(Attempt::Kind::kEnqueue, caller, std::move(done));
  attempt->components = std::move(components);
  Submit(std::move(attempt));
}

void Queue::EnqueueMany(const Caller& caller, std::vector<Tensor> components, Done done) {
  if (absl::Status status = CheckBatch(components); !status.ok()) return done(std::move(status));
  if (components[0].shape().dim(0) == 0) return done(std::vector<Tensor>());
  auto attempt = std::make_shared<Attempt>(Attempt::Kind::kEnqueueMany, caller, std::move(done));
  attempt->components = std::move(components);
  Submit(std::move(attempt));
}

void Queue::Dequeue(const Caller& caller, Done done) {
  Submit(std::make_shared<Attempt>(Attempt::Kind::kDequeue, caller, std::move(done)));
}

void Queue::DequeueMany(const Caller& caller, int64_t count, bool allows_fewer, Done done) {
  if (spec_.shapes.empty()) {
    return done(absl::InvalidArgumentError(absl::StrCat(
        spec_.kind, " '", spec_.name, "' gives batches only when the shapes of its components are known")));
  }
  if (count < 0) return done(absl::InvalidArgumentError(absl::StrCat("n must be at least 0, is ", count)));
  auto attempt = std::make_shared<Attempt>(Attempt::Kind::kDequeueMany, caller, std::move(done));
  attempt->wanted = count;
  attempt->allows_fewer = allows_fewer;
  if (count == 0) return attempt->done(BatchOf(*attempt));
  Submit(std::move(attempt));
}

void Queue::Close(const Caller& caller, bool cancel_pending_enqueues, Done done) {
  if (!cancel_pending_enqueues) {
    return Submit(std::make_shared<Attempt>(Attempt::Kind::kClose, caller, std::move(done)));
  }
  std::vector<AttemptRef> over;
  {
    absl::MutexLock lock(&mutex_);
    is_closed_ = true;
    over.assign(enqueues_.begin(), enqueues_.end());
    enqueues_.clear();
    for (const AttemptRef& attempt : over) {
      attempt->is_over = true;
      attempt->result = absl::CancelledError(absl::StrCat("enqueue was cancelled: ", spec_.kind, " '",
                                                          spec_.name, "' was closed while it waited"));
    }
    Serve(&over);
  }
  Finish(over);
  done(std::vector<Tensor>());
}

// ---- The lines ----

Queue::Line& Queue::LineOf(const Attempt& attempt) { return attempt.is_dequeue() ? dequeues_ : enqueues_; }

void Queue::Submit(AttemptRef attempt) {
  // Registered first: once it is in the line, another thread may complete it and remove the callback.
  const uint64_t on_cancel = attempt->caller.cancellation.OnCancel(
      [self = RefPtr<Queue>::Share(this), attempt](const absl::Status& reason) {
        self->OnCancel(attempt, reason);
      });
  std::vector<AttemptRef> over;
  {
    absl::MutexLock lock(&mutex_);
    if (attempt->is_over) return;  // cancelled meanwhile
    attempt->on_cancel = on_cancel;
    LineOf(*attempt).push_back(std::move(attempt));
    Serve(&over);
  }
  Finish(over);
}

void Queue::Serve(std::vector<AttemptRef>* over) {
  bool moved = true;
  while (moved) {
    moved = ServeLine(enqueues_, over);
    moved = ServeLine(dequeues_, over) || moved;
  }
}

bool Queue::ServeLine(Line& line, std::vector<AttemptRef>* over) {
  bool moved = false;
  while (!line.empty()) {
    Attempt& first = *line.front();
    const Progress progress = first.is_dequeue() ? TryDequeue(first) : TryEnqueue(first);
    moved = moved || progress != Progress::kNone;
    if (progress != Progress::kOver) break;
    first.is_over = true;
    over->push_back(std::move(line.front()));
    line.pop_front();
  }
  return moved;
}

Queue::Progress Queue::TryEnqueue(Attempt& attempt) {
  if (is_closed_) {
    attempt.result =
        absl::CancelledError(absl::StrCat(spec_.kind, " '", spec_.name, "' is ",
                                          attempt.kind == Attempt::Kind::kClose ? "already " : "", "closed"));
    return Progress::kOver;
  }
  if (attempt.kind == Attempt::Kind::kClose) {
    is_closed_ = true;
    return Progress::kOver;
  }
  if (attempt.kind == Attempt::Kind::kEnqueue) {
    if (elements_->size() >= spec_.capacity) return Progress::kNone;
    if (absl::Status status = MakeRoom(attempt.caller.allocator); !status.ok()) {
      attempt.result = std::move(status);
      return Progress::kOver;
    }
    elements_->Add(std::move(attempt.components));
    return Progress::kOver;
  }
  Progress progress = Progress::kNone;
  for (; elements_->size() < spec_.capacity; progress = Progress::kSome) {
    if (absl::Status status = AddSlice(attempt); !status.ok()) {
      attempt.result = std::move(status);
      return Progress::kOver;
    }
    if (attempt.next == attempt.components[0].shape().dim(0)) return Progress::kOver;
  }
  return progress;
}

absl::Status Queue::AddSlice(Attempt& attempt) {
  const Cancellation& cancellation = attempt.caller.cancellation;
  // OnCancel waits for the lock, which very many slices hold for long.
  if (cancellation.is_cancelled()) return EndOf(attempt, cancellation.reason());
  WEIR_RETURN_IF_ERROR(MakeRoom(attempt.caller.allocator));
  WEIR_ASSIGN_OR_RETURN(QueueElement element,
                        ElementOfBatch(attempt.components, attempt.next, attempt.caller.allocator));
  elements_->Add(std::move(element));
  ++attempt.next;
  return absl::OkStatus();
}

absl::Status Queue::MakeRoom(Allocator& allocator) {
  return rooms_.Hold(num_held() + 1, allocator, absl::StrCat(spec_.kind, " '", spec_.name, "'"));
}

// How many elements are there before a dequeue takes the first. A batch by priority waits for all of its
// elements: one that is still to come may go before those that are there.
int64_t Queue::NeededBy(const Attempt& attempt) const {
  return spec_.kind == kPriority ? std::min(attempt.num_missing(), spec_.capacity) : 1;
}

Queue::Progress Queue::TryDequeue(Attempt& attempt) {
  int64_t available = elements_->size();
  if (is_closed_ && available < attempt.num_missing()) {
    const absl::Status too_few = absl::OutOfRangeError(
        absl::StrCat(spec_.kind, " '", spec_.name, "' is closed and has insufficient elements (requested ",
                     attempt.num_missing(), ", current size ", available, ")"));
    PutBack(attempt);
    available = elements_->size();
    if (!attempt.allows_fewer || available == 0) {
      attempt.result = too_few;
      return Progress::kOver;
    }
    attempt.wanted = available;
  }
  if (!is_closed_ && available < NeededBy(attempt)) return Progress::kNone;
  if (!is_closed_) available -= spec_.min_after_dequeue;
  Progress progress = Progress::kNone;
  for (; available > 0 && attempt.num_missing() > 0; --available) {
    attempt.taken.push_back(elements_->Take());
    ++num_taken_;
    progress = Progress::kSome;
  }
  if (attempt.num_missing() > 0) return progress;
  Deliver(attempt);
  rooms_.Free(num_held());
  return Progress::kOver;
}

void Queue::Deliver(Attempt& attempt) {
  if (attempt.kind == Attempt::Kind::kDequeue) {
    attempt.result = std::move(attempt.taken[0]);
  } else {
    attempt.result = BatchOf(attempt);
    if (!attempt.result.ok()) return PutBack(attempt);
  }
  num_taken_ -= static_cast<int64_t>(attempt.taken.size());
}

absl::StatusOr<std::vector<Tensor>> Queue::BatchOf(const Attempt& attempt) const {
  std::vector<Tensor> batch;
  for (size_t i = 0; i < spec_.types.size(); ++i) {
    WEIR_ASSIGN_OR_RETURN(Tensor component,
                          BatchOfElements(attempt.taken, static_cast<int>(i), spec_.types[i], spec_.shapes[i],
                                          attempt.caller.allocator, attempt.caller.copying));
    batch.push_back(std::move(component));
  }
  return batch;
}

void Queue::PutBack(Attempt& attempt) {
  num_taken_ -= static_cast<int64_t>(attempt.taken.size());
  elements_->PutBack(std::exchange(attempt.taken, {}));
}

// Runs on the cancelling thread, which may be cancelling other operations on this queue as well. It must not
// complete those of other steps: it would wait for their callbacks, and one of them perhaps for this one.
void Queue::OnCancel(const AttemptRef& attempt, const absl::Status& reason) {
  bool others_wait = false;
  {
    absl::MutexLock lock(&mutex_);
    if (attempt->is_over) return;
    attempt->is_over = true;
    LineOf(*attempt).remove(attempt);
    PutBack(*attempt);
    others_wait = !enqueues_.empty() || !dequeues_.empty();
  }
  Threads* const threads = attempt->caller.threads;
  if (others_wait && threads != nullptr) {  // before `done`, after which the threads may be gone
    threads->At(absl::InfinitePast(), [self = RefPtr<Queue>::Share(this)] { self->ServeAndFinish(); });
  }
  RefPtr<Queue> self = RefPtr<Queue>::Share(this);
  attempt->done(EndOf(*attempt, reason));
  if (others_wait && threads == nullptr) self->ServeAndFinish();
}

void Queue::ServeAndFinish() {
  std::vector<AttemptRef> over;
  {
    absl::MutexLock lock(&mutex_);
    Serve(&over);
  }
  Finish(over);
}

void Queue::Finish(const std::vector<AttemptRef>& over) {
  for (const AttemptRef& attempt : over) {
    attempt->caller.cancellation.Remove(attempt->on_cancel);
    attempt->done(std::move(attempt->result));
  }
}

// ---- What it is ----

bool Queue::is_closed() const {
  absl::MutexLock lock(&mutex_);
  return is_closed_;
}

int64_t Queue::size() const {
  absl::MutexLock lock(&mutex_);
  return elements_->size();
}

absl::Status Queue::CheckIsA(const QueueSpec& spec) const {
  const auto differs = [this](absl::string_view what, const auto& is, const auto& asked) {
    return absl::InvalidArgumentError(
        absl::StrCat("the shared queue '", spec_.name, "' has ", what, " ", is, ", asked for with ", asked));
  };
  if (spec_.kind != spec.kind) return differs("kind", spec_.kind, spec.kind);
  const int64_t capacity = spec.capacity < 0 ? kUnbounded : spec.capacity;
  if (spec_.capacity != capacity) return differs("capacity", spec_.capacity, capacity);
  if (spec_.types != spec.types) return differs("types", TypesText(spec_.types), TypesText(spec.types));
  if (spec_.shapes != spec.shapes)
    return differs("shapes", ShapesText(spec_.shapes), ShapesText(spec.shapes));
  if (spec_.min_after_dequeue != spec.min_after_dequeue) {
    return differs("min_after_dequeue", spec_.min_after_dequeue, spec.min_after_dequeue);
  }
  if (spec_.seed != spec.seed || spec_.seed2 != spec.seed2) {
    return differs("seeds", absl::StrCat(spec_.seed, " and ", spec_.seed2),
                   absl::StrCat(spec.seed, " and ", spec.seed2));
  }
  return absl::OkStatus();
}

std::string Queue::ToString() const {
  absl::MutexLock lock(&mutex_);
  return absl::StrCat(spec_.kind, " of ", TypesText(spec_.types), ", ", elements_->size(), " of ",
                      spec_.capacity, " elements", is_closed_ ? ", closed" : "");
}

}  // namespace weir
