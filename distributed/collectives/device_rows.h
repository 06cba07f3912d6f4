// What the process of a group of devices does with the rows that they have put in: the parts of device_group
// that move rows between devices, and between those of several processes.
//
// Ranks are numbered process by process. Pure functions but for ExchangeRows, which asks the other processes.
// On host memory.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "distributed/collectives/meetings.h"
#include "graph/types/tensor.h"
#include "kernels/communicator.h"

namespace weir {

// The devices of one process among those of all.
struct DevicesOfProcess {
  Communicator* processes = nullptr;  // null: there is only this one
  int num_devices = 1;

  int num_processes() const { return processes == nullptr ? 1 : processes->size(); }
  int process() const { return processes == nullptr ? 0 : processes->rank(); }
  int num_ranks() const { return num_processes() * num_devices; }
  int first_rank() const { return process() * num_devices; }
};

// All tensors, joined along dimension 0. Precondition: their other dimensions and types are the same.
absl::StatusOr<Tensor> JoinRows(const std::vector<Meetings::Rows>& all, Allocator& allocator);

// `reduced`, whose rows are those of all ranks, so that each process has as many: where they cannot be
// divided evenly, rows of zeros follow those of a process that has fewer.
absl::StatusOr<Tensor> PadRows(const DevicesOfProcess& devices, const Tensor& reduced, Allocator& allocator);
// The parts of this process's devices. `num_rows`: of all ranks; `own`: those of this process, and padding.
absl::StatusOr<std::vector<Meetings::Rows>> DivideRows(const DevicesOfProcess& devices, int64_t num_rows,
                                                       const Tensor& own, Allocator& allocator);

// An all-to-all of all ranks: the processes tell one another the splits of all devices, and then send rows.
// Precondition: Communicator::AllToAll takes each device's splits.
void ExchangeRows(const DevicesOfProcess& devices, const Communicator::Call& call,
                  std::vector<Meetings::Rows> all, const Meetings::Tell& tell);

}  // namespace weir
