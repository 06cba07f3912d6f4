#include "distributed/collectives/device_rows.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using Rows = Meetings::Rows;

int64_t RowBytes(const Tensor& tensor) {
  const int64_t num_rows = tensor.shape().dim(0);
  return num_rows == 0 ? 0 : static_cast<int64_t>(tensor.num_bytes()) / num_rows;
}

// Room for rows like those of `like`.
absl::StatusOr<Tensor> MakeRows(const Tensor& like, int64_t num_rows, Allocator& allocator) {
  Dims dims(like.shape().dims().begin(), like.shape().dims().end());
  dims[0] = num_rows;
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  return Tensor::Allocate(like.dtype(), shape, allocator);
}

void CopyRows(const Tensor& from, int64_t first, int64_t count, Tensor* to, int64_t at) {
  const int64_t row_bytes = RowBytes(from);
  if (count == 0 || row_bytes == 0) return;
  std::copy_n(static_cast<const char*>(from.data()) + first * row_bytes, count * row_bytes,
              static_cast<char*>(to->data()) + at * row_bytes);
}

// Dimension 0 is divided among the ranks; the first ones have one row more where it cannot be divided evenly.
int64_t FirstRowOf(int rank, int num_ranks, int64_t num_rows) {
  return num_rows / num_ranks * rank + std::min<int64_t>(rank, num_rows % num_ranks);
}

// How many rows go from each rank to each.
class Splits {
 public:
  explicit Splits(int num_ranks) : num_ranks_(num_ranks), counts_(size_t(num_ranks) * num_ranks) {}

  // `told`: a line for each device that has not joined, its rank and its splits.
  absl::Status Read(const Tensor& told) {
    const int64_t width = num_ranks_ + 1;
    if (told.dtype() != DType::kInt64 || told.shape().rank() != 2 || told.shape().dim(1) != width) {
      return absl::InvalidArgumentError(
          absl::StrCat("the splits of ", num_ranks_, " ranks came as ", told.shape().ToString()));
    }
    const absl::Span<const int64_t> values = told.flat<int64_t>();
    std::vector<bool> is_known(num_ranks_);
    for (int64_t line = 0; line < told.shape().dim(0); ++line) {
      const int64_t rank = values[line * width];
      if (rank < 0 || rank >= num_ranks_ || is_known[rank]) {
        return absl::InvalidArgumentError(absl::StrCat("splits of rank ", rank, " of ", num_ranks_,
                                                       rank >= 0 && rank < num_ranks_ ? ", again" : ""));
      }
      is_known[rank] = true;
      for (int to = 0; to < num_ranks_; ++to) {
        const int64_t count = values[line * width + 1 + to];
        // As many rows as all ranks together could have without an overflow of their sum.
        if (count < 0 || count > INT64_MAX / num_ranks_ / num_ranks_) {
          return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " sends ", count, " rows"));
        }
        counts_[rank * num_ranks_ + to] = count;
      }
    }
    return absl::OkStatus();
  }

  int64_t count(int from, int to) const { return counts_[size_t(from) * num_ranks_ + to]; }
  std::vector<int64_t> to(int rank) const {
    std::vector<int64_t> counts;
    for (int from = 0; from < num_ranks_; ++from) counts.push_back(count(from, rank));
    return counts;
  }

 private:
  const int64_t num_ranks_;
  std::vector<int64_t> counts_;
};

// The lines of this process's devices.
Tensor TellSplits(const DevicesOfProcess& devices, const std::vector<Rows>& all) {
  std::vector<int64_t> values;
  int64_t num_lines = 0;
  for (int device = 0; device < devices.num_devices; ++device) {
    if (!all[device].is_there) continue;
    ++num_lines;
    values.push_back(devices.first_rank() + device);
    values.insert(values.end(), all[device].splits.begin(), all[device].splits.end());
  }
  return Tensor::FromSpan<int64_t>(Shape({num_lines, devices.num_ranks() + 1}), values);
}

// What goes to one process stands together: what is for its first device, from each device in order, what is
// for its second one...
struct Packed {
  Tensor rows;
  std::vector<int64_t> splits;  // by process
};
// By the devices' own splits: another process may have told others for them.
absl::StatusOr<Packed> Pack(const DevicesOfProcess& devices, const std::vector<Rows>& all,
                            Allocator& allocator) {
  Packed packed;
  int64_t num_rows = 0;
  for (const Rows& one : all) num_rows += one.tensor.shape().dim(0);
  WEIR_ASSIGN_OR_RETURN(packed.rows, MakeRows(all[0].tensor, num_rows, allocator));
  std::vector<int64_t> taken(devices.num_devices);
  int64_t at = 0;
  for (int to = 0; to < devices.num_ranks(); ++to) {
    if (to % devices.num_devices == 0) packed.splits.push_back(0);
    for (int device = 0; device < devices.num_devices; ++device) {
      const int64_t count = all[device].is_there ? all[device].splits[to] : 0;
      CopyRows(all[device].tensor, taken[device], count, &packed.rows, at);
      taken[device] += count;
      at += count;
      packed.splits.back() += count;
    }
  }
  return packed;
}

absl::StatusOr<std::vector<Rows>> Unpack(const DevicesOfProcess& devices, const Splits& splits,
                                         const Tensor& came, Allocator& allocator) {
  const int num_devices = devices.num_devices;
  std::vector<Rows> results(num_devices);
  std::vector<int64_t> filled(num_devices);
  int64_t num_rows = 0;
  for (int device = 0; device < num_devices; ++device) {
    results[device].splits = splits.to(devices.first_rank() + device);
    int64_t own = 0;
    for (const int64_t count : results[device].splits) own += count;
    num_rows += own;
    WEIR_ASSIGN_OR_RETURN(results[device].tensor, MakeRows(came, own, allocator));
  }
  if (num_rows != came.shape().dim(0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an all-to-all of ", num_rows, " rows got ", came.shape().dim(0)));
  }
  int64_t at = 0;
  for (int process = 0; process < devices.num_processes(); ++process) {
    for (int device = 0; device < num_devices; ++device) {
      for (int from = process * num_devices; from < (process + 1) * num_devices; ++from) {
        const int64_t count = results[device].splits[from];
        CopyRows(came, at, count, &results[device].tensor, filled[device]);
        filled[device] += count;
        at += count;
      }
    }
  }
  return results;
}

}  // namespace

absl::StatusOr<Tensor> JoinRows(const std::vector<Rows>& all, Allocator& allocator) {
  int64_t num_rows = 0;
  for (const Rows& one : all) {
    if (__builtin_add_overflow(num_rows, one.tensor.shape().dim(0), &num_rows)) {
      return absl::InvalidArgumentError("an all-gather has more rows than can be counted");
    }
  }
  WEIR_ASSIGN_OR_RETURN(Tensor joined, MakeRows(all[0].tensor, num_rows, allocator));
  int64_t at = 0;
  for (const Rows& one : all) {
    CopyRows(one.tensor, 0, one.tensor.shape().dim(0), &joined, at);
    at += one.tensor.shape().dim(0);
  }
  return joined;
}

absl::StatusOr<Tensor> PadRows(const DevicesOfProcess& devices, const Tensor& reduced, Allocator& allocator) {
  const int num_processes = devices.num_processes();
  const int64_t num_rows = reduced.shape().dim(0);
  const auto first_of = [&](int process) {
    return FirstRowOf(process * devices.num_devices, devices.num_ranks(), num_rows);
  };
  const int64_t each = first_of(1);
  if (each * num_processes == num_rows) return reduced;
  WEIR_ASSIGN_OR_RETURN(Tensor padded, MakeRows(reduced, each * num_processes, allocator));
  std::fill_n(static_cast<char*>(padded.data()), padded.num_bytes(), 0);
  for (int process = 0; process < num_processes; ++process) {
    CopyRows(reduced, first_of(process), first_of(process + 1) - first_of(process), &padded, each * process);
  }
  return padded;
}

absl::StatusOr<std::vector<Rows>> DivideRows(const DevicesOfProcess& devices, int64_t num_rows,
                                             const Tensor& own, Allocator& allocator) {
  std::vector<Rows> results(devices.num_devices);
  const int first_rank = devices.first_rank(), num_ranks = devices.num_ranks();
  const int64_t first = FirstRowOf(first_rank, num_ranks, num_rows);
  for (int device = 0; device < devices.num_devices; ++device) {
    const int64_t begin = FirstRowOf(first_rank + device, num_ranks, num_rows);
    const int64_t end = FirstRowOf(first_rank + device + 1, num_ranks, num_rows);
    WEIR_ASSIGN_OR_RETURN(results[device].tensor, MakeRows(own, end - begin, allocator));
    CopyRows(own, begin - first, end - begin, &results[device].tensor, 0);
  }
  return results;
}

void ExchangeRows(const DevicesOfProcess& devices, const Communicator::Call& call, std::vector<Rows> all,
                  const Meetings::Tell& tell) {
  const Tensor own = TellSplits(devices, all);
  const auto exchange = [devices, call, tell, all = std::move(all)](const absl::StatusOr<Tensor>& told) {
    if (!told.ok()) return tell(told.status());
    Splits splits(devices.num_ranks());
    if (absl::Status read = splits.Read(*told); !read.ok()) return tell(read);
    absl::StatusOr<Packed> packed = Pack(devices, all, *call.allocator);
    if (!packed.ok()) return tell(packed.status());
    if (devices.processes == nullptr) return tell(Unpack(devices, splits, packed->rows, *call.allocator));
    devices.processes->AllToAll(
        call, packed->rows, packed->splits,
        [devices, call, tell, splits](const absl::StatusOr<Communicator::Exchanged>& came) {
          if (!came.ok()) return tell(came.status());
          tell(Unpack(devices, splits, came->rows, *call.allocator));
        });
  };
  if (devices.processes == nullptr) return exchange(own);
  devices.processes->AllGather(call, own, exchange);
}

}  // namespace weir
