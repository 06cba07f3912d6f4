#include "kernels/simulation/scheduler.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/simulation/fiber.h"

namespace weir {
namespace {

constexpr int64_t kMostKernelsAtOnce = 4;

// FNV-1a, of bytes and of numbers.
constexpr uint64_t kFnvPrime = 0x100000001b3;
uint64_t HashOf(uint64_t hash, absl::string_view text) {
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * kFnvPrime;
  return hash;
}
uint64_t HashOf(uint64_t hash, std::initializer_list<uint64_t> numbers) {
  for (const uint64_t number : numbers) hash = ((hash ^ number) * kFnvPrime) ^ (hash >> 29);
  return hash;
}

[[noreturn]] void Abort(const std::string& why) {
  std::fprintf(stderr, "simulation: %s\n", why.c_str());
  std::abort();
}

}  // namespace

// A stack that runs only when it is its turn.
class Scheduler::Thread {
 public:
  Thread(Process& process, int number, absl::AnyInvocable<void()> run)
      : process(process), number(number), fiber(std::move(run)) {}

  Process& process;
  const int number;
  // What it waits for; no mutex: it can go on at once.
  absl::Mutex* mutex = nullptr;
  const absl::Condition* condition = nullptr;
  absl::Time deadline = absl::InfiniteFuture();
  Fiber fiber;
};

Scheduler::Scheduler(uint64_t seed) : random_(seed) {
  const bool is_known = absl::ParseTime(absl::RFC3339_full, "2100-01-01T00:00:00Z", &now_, nullptr);
  if (!is_known) Abort("the year 2100 is no time");
  begin_ = now_;
}

Scheduler::~Scheduler() {
  DropEndedThreads();
  if (!threads_.empty()) Abort(absl::StrCat("threads have not ended:\n", DescribeThreads()));
}

Scheduler::Process& Scheduler::AddProcess(std::string name, SimulatedClock clock) {
  const int number = static_cast<int>(processes_.size());
  clock.begin = begin_;
  return processes_.emplace_back(
      Process{.name = std::move(name), .number = number, .is_paused = false, .clock = clock});
}

void Scheduler::AddWork(Process& process, Runnable* work) { works_.emplace_back(&process, work); }

Scheduler::EventId Scheduler::AddEvent(Process& process, absl::Time when, absl::AnyInvocable<void()> run) {
  const EventId id = next_event_++;
  events_.emplace(EventKey{when, id}, Event{&process, std::move(run)});
  event_times_.emplace(id, when);
  return id;
}

bool Scheduler::RemoveEvent(EventId id) {
  const auto time = event_times_.find(id);
  if (time == event_times_.end()) return false;
  const auto event = events_.extract({time->second, id});
  event_times_.erase(time);
  return true;  // what it holds is dropped here, and may add and remove others
}

std::shared_ptr<Scheduler::Thread> Scheduler::StartThread(Process& process, absl::AnyInvocable<void()> run) {
  threads_.push_back(std::make_shared<Thread>(process, next_thread_++, std::move(run)));
  return threads_.back();
}

bool Scheduler::HasEnded(const Thread& thread) const { return thread.fiber.has_ended(); }

bool Scheduler::Await(absl::Mutex& mutex, const absl::Condition& condition,
                      absl::Time deadline) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (condition.Eval()) return true;
  if (deadline <= now_) return false;
  Thread* const thread = current_;
  if (thread == nullptr) return AwaitOutside(mutex, condition, deadline);
  thread->mutex = &mutex;
  thread->condition = &condition;
  thread->deadline = deadline;
  mutex.Unlock();
  thread->fiber.Suspend();
  mutex.Lock();
  thread->mutex = nullptr;
  thread->condition = nullptr;
  thread->deadline = absl::InfiniteFuture();
  return condition.Eval();
}

bool Scheduler::AwaitOutside(absl::Mutex& mutex, const absl::Condition& condition,
                             absl::Time deadline) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (is_in_event_) Abort("an event or a step waits for something, on the thread that runs everything");
  while (true) {
    mutex.Unlock();
    const bool has_run = RunNext(deadline);
    mutex.Lock();
    if (condition.Eval()) return true;
    if (!has_run && deadline == absl::InfiniteFuture()) {
      Abort(absl::StrCat("nothing is left to run, and something waits for ever\n", DescribeThreads()));
    }
    if (!has_run) return false;
  }
}

void Scheduler::RunThread(Thread& thread) {
  current_ = &thread;
  thread.fiber.Resume();
  current_ = nullptr;
  has_ended_threads_ |= thread.fiber.has_ended();
}

bool Scheduler::MayGo(Thread& thread) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (thread.fiber.has_ended() || thread.process.is_paused) return false;
  if (thread.mutex == nullptr || thread.deadline <= now_) return true;
  // Whoever holds it while it waits for something else keeps this one waiting.
  if (!thread.mutex->TryLock()) return false;
  const bool holds = thread.condition->Eval();
  thread.mutex->Unlock();
  return holds;
}

void Scheduler::FindChoices() {
  choices_.clear();
  for (size_t i = 0; i < works_.size(); ++i) {
    if (works_[i].first->is_paused) continue;
    choices_.push_back({.kind = Choice::Kind::kWork, .work = i, .process = works_[i].first});
  }
  for (const auto& [key, event] : events_) {
    if (key.first > now_) break;
    if (event.process->is_paused) continue;
    choices_.push_back({.kind = Choice::Kind::kEvent, .event = key, .process = event.process});
  }
  for (const auto& thread : threads_) {
    if (!MayGo(*thread)) continue;
    choices_.push_back({.kind = Choice::Kind::kThread, .thread = thread.get(), .process = &thread->process});
  }
}

void Scheduler::Run(const Choice& choice) {
  if (choice.kind == Choice::Kind::kThread) return RunThread(*choice.thread);
  is_in_event_ = true;
  if (choice.kind == Choice::Kind::kWork) {
    const auto work = works_[choice.work];
    works_.erase(works_.begin() + static_cast<std::ptrdiff_t>(choice.work));
    if (work.second->Run(1 + static_cast<int64_t>(Below(kMostKernelsAtOnce)))) works_.push_back(work);
  } else {
    auto event = events_.extract(choice.event);
    event_times_.erase(choice.event.second);
    event.mapped().run();
  }
  is_in_event_ = false;
}

bool Scheduler::RunOne() {
  if (current_ != nullptr || is_in_event_) Abort("RunOne was called by what it runs");
  if (std::exchange(has_ended_threads_, false)) DropEndedThreads();
  FindChoices();
  if (choices_.empty()) return false;
  const Choice choice = choices_[Below(choices_.size())];
  NoteChoice(choice);
  Run(choice);
  return true;
}

void Scheduler::NoteChoice(const Choice& choice) {
  const auto now = static_cast<uint64_t>(absl::ToUnixNanos(now_));
  const auto thread = static_cast<uint64_t>(choice.thread == nullptr ? 0 : choice.thread->number);
  trace_hash_ = HashOf(
      trace_hash_, {now, choices_.size(), static_cast<uint64_t>(choice.kind),
                    static_cast<uint64_t>(choice.process->number), choice.work, choice.event.second, thread});
  if (!keeps_trace_) return;
  constexpr absl::string_view kKinds[] = {"work", "event", "thread"};
  absl::StrAppend(&trace_, now % 1'000'000'000'000, " 1 of ", choices_.size(), ": ",
                  kKinds[static_cast<int>(choice.kind)], " ", choice.process->name, " ", choice.work, " ",
                  choice.event.second, " ", thread, "\n");
}

absl::Time Scheduler::NextTime() {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [key, event] : events_) {
    if (event.process->is_paused) continue;
    next = key.first;
    break;
  }
  for (const auto& thread : threads_) {
    if (thread->fiber.has_ended() || thread->process.is_paused || thread->mutex == nullptr) continue;
    next = std::min(next, thread->deadline);
  }
  return next;
}

bool Scheduler::RunNext(absl::Time deadline) {
  while (!RunOne()) {
    const absl::Time next = NextTime();
    if (next > deadline || next == absl::InfiniteFuture()) {
      if (deadline != absl::InfiniteFuture()) now_ = std::max(now_, deadline);
      return false;
    }
    if (next <= now_) Abort(absl::StrCat("a thread can go on but does not\n", DescribeThreads()));
    now_ = next;
  }
  return true;
}

bool Scheduler::RunUntil(absl::FunctionRef<bool()> is_over, absl::Time deadline) {
  while (!is_over()) {
    if (now_ >= deadline || !RunNext(deadline)) return is_over();
  }
  return true;
}

void Scheduler::RunFor(absl::Duration duration) {
  RunUntil([] { return false; }, now_ + duration);
}

bool Scheduler::RunOneOrRing() {
  if (events_.empty() || Below(works_.size() + events_.size()) >= events_.size()) {
    if (RunOne()) return true;
  }
  if (events_.empty()) return false;
  const auto chosen = std::next(events_.begin(), static_cast<std::ptrdiff_t>(Below(events_.size())));
  if (chosen->first.first != absl::InfiniteFuture()) now_ = std::max(now_, chosen->first.first);
  Run({.kind = Choice::Kind::kEvent, .event = chosen->first, .process = chosen->second.process});
  return true;
}

void Scheduler::DropEndedThreads() {
  std::erase_if(threads_, [](const auto& thread) { return thread->fiber.has_ended(); });
}

std::string Scheduler::DescribeThreads() const {
  std::string lines;
  for (const auto& thread : threads_) {
    if (thread->fiber.has_ended()) continue;
    absl::StrAppend(&lines, "thread ", thread->number, " of ", thread->process.name,
                    thread->process.is_paused ? " (paused)" : "",
                    thread->mutex == nullptr ? " can go on" : " waits",
                    thread->deadline == absl::InfiniteFuture()
                        ? ""
                        : absl::StrCat(" for at most ", absl::FormatDuration(thread->deadline - now_)),
                    "\n");
  }
  return lines;
}

void Scheduler::Note(std::initializer_list<absl::string_view> what) {
  trace_hash_ = HashOf(trace_hash_, {7});
  for (const absl::string_view text : what) {
    trace_hash_ = HashOf(trace_hash_, text);
    if (keeps_trace_) absl::StrAppend(&trace_, text);
  }
  if (keeps_trace_) trace_ += '\n';
}

}  // namespace weir
