// A transport that counts what another one moves. The other one, and the metrics, are borrowed and must
// outlive it. Thread safety: as Transport.
#pragma once

#include <memory>

#include "distributed/metrics/metrics.h"
#include "distributed/transport/transport.h"
#include "kernels/environment.h"

namespace weir {

std::unique_ptr<Transport> MakeMeteredTransport(Transport& transport, Metrics& metrics,
                                                Environment& environment);

}  // namespace weir
