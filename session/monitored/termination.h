// SIGTERM as a request to stop: what a cluster sends before it takes a machine away.
//
// While an object lives, the first SIGTERM of the process calls `on_signal`, on a thread of its own, instead
// of ending the process; a second one ends it, at any later time. A handler that the program has installed is
// left alone, and so is a signal that it ignores: then nothing is called. When the last object goes, the
// signal does what it did before.
//
// The handler only sets a flag and writes a byte to a pipe. Both belong to the process, as signals do, and
// stay: a signal that has come is known to every later object too. A child made with fork has no thread that
// listens: SIGTERM ends it, and its parent is not told.
// Thread safety: all methods; several objects may live at the same time, and each is told.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"

namespace weir {

class Termination {
 public:
  // ResourceExhausted or Internal when the system gives no pipe.
  static absl::StatusOr<std::unique_ptr<Termination>> Watch(std::function<void()> on_signal);
  // Does not return while on_signal runs, so it must not be called there.
  ~Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;

  // Whether the signal has come.
  static bool IsRequested();

 private:
  friend class SignalThread;
  explicit Termination(std::function<void()> on_signal) : on_signal_(std::move(on_signal)) {}
  const std::function<void()> on_signal_;
};

}  // namespace weir
