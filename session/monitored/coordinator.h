// Threads of a program that stop together (tf.train.Coordinator).
//
//   Coordinator coordinator;
//   coordinator.Start("reader", [&queue](Coordinator& coordinator) {
//     while (!coordinator.should_stop()) WEIR_RETURN_IF_ERROR(queue.Add(ReadBatch()));
//     return absl::OkStatus();
//   });
//   ...
//   coordinator.RequestStop();
//   return coordinator.Join();
//
// The first error that a thread returns, or that RequestStop is given, stops all of them and is what Join
// returns. OutOfRange, the end of the input, stops them without an error.
//
// A handle: copies are the same coordinator, and each thread has one, so the state outlives all of them.
// Thread safety: all methods.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/environment.h"

namespace weir {

class Coordinator {
 public:
  explicit Coordinator(Environment& environment = RealEnvironment());

  bool should_stop() const;
  // Asks all threads to stop. An error becomes the coordinator's status, unless a stop was requested before.
  void RequestStop(const absl::Status& error = absl::OkStatus());
  // True when a stop was requested, false when the time is over.
  bool WaitForStop(absl::Duration timeout) const;
  // The error that stopped the threads; OK before that.
  absl::Status status() const;

  // Runs the function on a thread of its own. An error that it returns requests a stop, and so does what
  // keeps it from returning, each with the name: a null function (InvalidArgument), a system that gives no
  // thread (ResourceExhausted), an exception that it throws (Unknown).
  void Start(std::string name, std::function<absl::Status(Coordinator&)> run);
  // Calls the function every `interval` until a stop is requested (tf.train.LooperThread).
  void StartLoop(std::string name, absl::Duration interval, std::function<absl::Status()> run);

  struct JoinOptions {
    // How long threads may go on running after a stop was requested.
    absl::Duration grace_period = absl::Minutes(2);
    // True: threads that still run after that are not an error.
    bool ignore_live_threads = false;
  };
  // Waits for the threads: as long as they run while no stop is requested, and for the grace period after
  // that. Returns status(); DeadlineExceeded, naming the threads that have not ended. Those go on without
  // being waited for again, so what their functions refer to must live as long as they do.
  absl::Status Join(const JoinOptions& options);
  absl::Status Join() { return Join(JoinOptions()); }

  // Waits until all threads have ended, whether or not a stop was requested; false when the time is over.
  // After ten seconds it says on stderr for which it waits, and so does Join once a stop was requested.
  bool AwaitThreads(absl::Duration timeout) const;

  // Keeps an object that threads use alive as long as this coordinator: until its last handle is gone, and so
  // until the last of its threads has ended, however late.
  void Keep(std::shared_ptr<const void> object);

  // Makes a coordinator that was joined ready for further threads: no stop, no error. A thread that was still
  // running then takes this for its own: where that may be, a new coordinator is better.
  void ClearStop();

 private:
  struct State;
  explicit Coordinator(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace weir
