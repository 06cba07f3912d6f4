// What kernels find wrong with the data that they compute with: a label that is no class, a NaN.
//
// The host learns of it only when it looks, long after the kernel was enqueued; what comes later in the
// stream heeds it by itself. So it is noted twice: in the device's memory, for other kernels, and in pinned
// memory, for the host. Kernels of one step share a note; that of the first check which finds something
// stays. For GPUs and for the host, where tests run it.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace weir::cuda {

struct DataError {
  static constexpr int kMostKinds = 4;
  uint32_t check;             // the number of the check in its step, from 1; 0: nothing is wrong
  uint8_t kinds[kMostKinds];  // 1 for each kind of thing that the check has found
};

// Where a check takes note. Nowhere when `here` is null.
struct DataErrorPlace {
  volatile DataError* here;    // in the device's memory
  volatile DataError* mirror;  // in the host's
  uint32_t check;
};

// Threads that find the same write the same, so that none need wait for another. The checks before this one
// in the stream are over.
WEIR_HOST_DEVICE inline void NoteDataError(const DataErrorPlace& place, int kind) {
  if (place.here == nullptr || (place.here->check != 0 && place.here->check != place.check)) return;
  if (place.here->kinds[kind] != 0) return;  // the way to the host's memory is long
  place.here->kinds[kind] = 1;
  place.here->check = place.check;
  place.mirror->kinds[kind] = 1;
  place.mirror->check = place.check;
}

// Whether a kernel shall leave everything as it is. `errors` may be null.
WEIR_HOST_DEVICE inline bool IsBad(const volatile DataError* errors) {
  return errors != nullptr && errors->check != 0;
}

}  // namespace weir::cuda
