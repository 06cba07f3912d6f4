#include "kernels/cpu/onednn.h"

// Declared here because clang has no omp.h of libgomp's; oneDNN links libgomp in any case.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int num_threads);
}

namespace weir {

// All but those that a thread causes itself.
static sigset_t SignalsFromElsewhere() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int own : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP}) sigdelset(&signals, own);
  return signals;
}

SingleThreadedOneDnn::SingleThreadedOneDnn() : max_threads_before_(omp_get_max_threads()) {
  static const sigset_t signals = SignalsFromElsewhere();
  pthread_sigmask(SIG_BLOCK, &signals, &signals_before_);
  omp_set_num_threads(1);
}

SingleThreadedOneDnn::~SingleThreadedOneDnn() {
  omp_set_num_threads(max_threads_before_);
  pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr);
}

const dnnl::engine& HostEngine() {
  // Never destroyed: primitives of kernels that outlive main refer to it.
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::stream& ThreadStream() {
  static thread_local dnnl::stream stream(HostEngine());
  return stream;
}

dnnl::reorder MakeReorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  return dnnl::reorder(dnnl::reorder::primitive_desc(HostEngine(), from, HostEngine(), to));
}

}  // namespace weir
