#include "kernels/cpu/onednn.h"

// Declared here because clang has no omp.h of libgomp's; oneDNN links libgomp in any case.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int num_threads);
}

namespace weir {

SingleThreadedOneDnn::SingleThreadedOneDnn() : max_threads_before_(omp_get_max_threads()) {
  omp_set_num_threads(1);
}

SingleThreadedOneDnn::~SingleThreadedOneDnn() { omp_set_num_threads(max_threads_before_); }

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
