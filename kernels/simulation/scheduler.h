// What runs next in a simulation, and what time it is: chosen by a seed, one thing at a time.
//
// Everything that may run is of a Process, which can be paused. There are three kinds: pieces of steps
// (Runnable), events (a closure at a time: timers, messages) and threads, which wait for a condition. Pieces
// and events run on the stack of who calls RunOne, and must not wait. Threads have a stack of their own
// (fiber.h), but are all one thread of the operating system: the one that was chosen runs until it waits or
// ends. Hence nothing here is ever contended, and one seed is one order of everything.
//
// Time is virtual, begins in 2100, and moves only when nothing can run at the present one. (In 2100, so that
// a deadline is never over for whoever compares it with the machine's clock: kernels, which take no virtual
// time.) All times here are the world's: those of a process's clock go through its SimulatedClock.
//
// Trace: a hash of everything chosen, to compare two runs of a seed; as text when wanted. What differs tells
// that something depends on the machine: an address, a clock, an order in a hash table.
//
// Thread safety: one thread of the operating system. Methods may be called by whatever the scheduler runs,
// and between two calls of RunOne.
// Lifetime: all threads must have ended before it goes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/simulation/clock.h"
#include "kernels/threads.h"

namespace weir {

class Scheduler {
 public:
  // What is paused together, and has one clock. Made by AddProcess; lives as long as the scheduler.
  struct Process {
    std::string name;
    int number = 0;
    bool is_paused = false;
    SimulatedClock clock;
  };
  using EventId = uint64_t;  // never 0; in the order in which events were added
  class Thread;

  explicit Scheduler(uint64_t seed);
  ~Scheduler();

  // The clock's `begin` is this scheduler's.
  Process& AddProcess(std::string name, SimulatedClock clock = {});

  absl::Time now() const { return now_; }
  uint64_t Random() { return random_(); }
  // Below `limit`, which is not 0.
  size_t Below(size_t limit) { return random_() % limit; }

  void AddWork(Process& process, Runnable* work);
  EventId AddEvent(Process& process, absl::Time when, absl::AnyInvocable<void()> run);
  // Whether it was still to come.
  bool RemoveEvent(EventId id);
  std::shared_ptr<Thread> StartThread(Process& process, absl::AnyInvocable<void()> run);
  bool HasEnded(const Thread& thread) const;

  // For Environment::Await. On a thread of the simulation: lets others run. Between two calls of RunOne: runs
  // the simulation until then. In an event or a piece of a step: aborts, for it would wait for ever.
  bool Await(absl::Mutex& mutex, const absl::Condition& condition, absl::Time deadline);

  // Runs one thing that can run now. False when there is none.
  bool RunOne();
  // The same, and when there is none lets time pass until there is, at most to `deadline`. False when there
  // is none until then, or ever.
  bool RunNext(absl::Time deadline = absl::InfiniteFuture());
  // Runs until `is_over` or the time; whether is_over.
  bool RunUntil(absl::FunctionRef<bool()> is_over, absl::Time deadline);
  void RunFor(absl::Duration duration);
  // Runs one thing that can run now, or rings a timer that is still to come, whichever: what runs may be
  // slow, so both orders are possible. False when there is neither.
  bool RunOneOrRing();

  size_t num_ready() const { return works_.size(); }
  // A line for each thread that has not ended: its process, and how long it still waits.
  std::string DescribeThreads() const;

  // Adds a line to the trace: these texts, one after the other.
  void Note(std::initializer_list<absl::string_view> what);
  uint64_t trace_hash() const { return trace_hash_; }
  void KeepTrace() { keeps_trace_ = true; }
  const std::string& trace() const { return trace_; }

 private:
  struct Event {
    Process* process;
    absl::AnyInvocable<void()> run;
  };
  using EventKey = std::pair<absl::Time, EventId>;
  // One thing that can run now.
  struct Choice {
    enum class Kind { kWork, kEvent, kThread } kind;
    size_t work = 0;
    EventKey event;
    Thread* thread = nullptr;
    const Process* process = nullptr;
  };

  void FindChoices();
  bool MayGo(Thread& thread);
  void NoteChoice(const Choice& choice);
  void Run(const Choice& choice);
  void RunThread(Thread& thread);
  void DropEndedThreads();
  // The next time at which something can run; infinite when there is none.
  absl::Time NextTime();
  bool AwaitOutside(absl::Mutex& mutex, const absl::Condition& condition, absl::Time deadline);

  std::mt19937_64 random_;
  absl::Time now_, begin_;
  std::list<Process> processes_;
  std::vector<std::pair<Process*, Runnable*>> works_;
  std::map<EventKey, Event> events_;
  absl::flat_hash_map<EventId, absl::Time> event_times_;
  EventId next_event_ = 1;
  std::vector<std::shared_ptr<Thread>> threads_;  // in the order in which they were started
  int next_thread_ = 1;
  bool has_ended_threads_ = false;
  Thread* current_ = nullptr;  // whose turn it is; null: who calls RunOne
  bool is_in_event_ = false;
  std::vector<Choice> choices_;  // of RunOne, which keeps its memory

  uint64_t trace_hash_ = 0;
  bool keeps_trace_ = false;
  std::string trace_;
};

}  // namespace weir
