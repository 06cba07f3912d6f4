// A transport between tasks of one process: what the tests of everything above it run on.
//
// Like a real one it answers on threads of its own, keeps deadlines, and loses peers; frames are handed over
// without a copy. Transports that share an InprocNetwork can reach each other; addresses are "inproc:PORT" or
// any host:port.
#pragma once

#include <memory>

#include "distributed/transport/transport.h"

namespace weir {

// The addresses that are listened at. Outlives every transport on it (they hold it).
class InprocNetwork;
std::shared_ptr<InprocNetwork> MakeInprocNetwork();

std::unique_ptr<Transport> MakeInprocTransport(std::shared_ptr<InprocNetwork> network);

}  // namespace weir
