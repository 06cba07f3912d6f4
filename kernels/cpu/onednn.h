// How kernels use oneDNN: on one thread of the caller's at a time, without exceptions, primitives made once
// per shape (kernels/prepared_forms.h).
//
// Kernels split their work with ThreadPool::ParallelFor and call oneDNN for each piece under
// SingleThreadedOneDnn, so that the device's pool alone decides how many cores are at work.
#pragma once

#include <csignal>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "dnnl.hpp"

namespace weir {

// While it lives, oneDNN calls of this thread (creation of primitives too) use this thread only, and signals
// do not interrupt them: some of oneDNN's kernels keep their stack in a small block of the heap, and the
// frame of a signal handler would be written over what lies before it.
class SingleThreadedOneDnn {
 public:
  SingleThreadedOneDnn();
  ~SingleThreadedOneDnn();
  SingleThreadedOneDnn(const SingleThreadedOneDnn&) = delete;
  SingleThreadedOneDnn& operator=(const SingleThreadedOneDnn&) = delete;

 private:
  const int max_threads_before_;
  sigset_t signals_before_;
};

// The host's engine and the calling thread's stream, made at first use.
const dnnl::engine& HostEngine();
dnnl::stream& ThreadStream();

// Throws dnnl::error where oneDNN cannot change the one layout into the other.
dnnl::reorder MakeReorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

// What body() returns, or the error that oneDNN threw as a Status: Unimplemented where it has no
// implementation.
template <typename Body>
auto CatchOneDnnErrors(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    const auto message = absl::StrCat("oneDNN: ", error.what());
    if (error.status == dnnl_unimplemented) return absl::UnimplementedError(message);
    if (error.status == dnnl_out_of_memory) return absl::ResourceExhaustedError(message);
    return absl::InternalError(message);
  }
}

}  // namespace weir
