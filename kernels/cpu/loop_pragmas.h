// WEIR_ELEMENTWISE_LOOP before a loop: no iteration reads what another one writes, though the output may be
// an input (the same position). Without it a compiler that cannot tell takes the scalar loop for work done in
// place.
#pragma once

#if defined(__clang__)
#define WEIR_ELEMENTWISE_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define WEIR_ELEMENTWISE_LOOP _Pragma("GCC ivdep")
#endif
