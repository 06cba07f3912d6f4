#include "kernels/cpu/broadcast.h"

#include <algorithm>
#include <complex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weir {
namespace {

// Dimension `index` of `rank` dimensions, of an operand that may have fewer.
int64_t DimOf(const Shape& operand, int rank, int index) {
  const int own = index - (rank - operand.rank());
  return own < 0 ? 1 : operand.dim(own);
}

absl::Status Incompatible(absl::Span<const Shape* const> operands) {
  return absl::InvalidArgumentError(absl::StrCat(
      "Incompatible shapes: ", absl::StrJoin(operands, " vs. ", [](std::string* out, const Shape* shape) {
        out->append(shape->ToString());
      })));
}

// Row-major order over all loops, without a repeated dimension.
bool IsDense(const BroadcastLoops& loops, int operand) {
  int64_t step = 1;
  for (size_t i = loops.sizes.size(); i-- > 0; step *= loops.sizes[i]) {
    if (loops.strides[operand][i] != step) return false;
  }
  return true;
}

bool RepeatsOneRow(const BroadcastLoops& loops, int operand) {
  const Dims& strides = loops.strides[operand];
  return std::all_of(strides.begin(), strides.end() - 1, [](int64_t stride) { return stride == 0; });
}

// The rows [begin, end) of an operand one after the other.
template <typename Word>
void WriteRows(const BroadcastLoops& loops, int operand, int64_t begin, int64_t end, const void* data,
               void* block) {
  const Word* const source = static_cast<const Word*>(data);
  Word* const target = static_cast<Word*>(block);
  const int64_t n = loops.inner_size();
  const bool repeats_element = loops.strides[operand].back() == 0;
  const auto write = [=](int64_t row, int64_t offset) {
    if (repeats_element) {
      std::fill_n(target + (row - begin) * n, n, source[offset]);
    } else {
      std::copy_n(source + offset, n, target + (row - begin) * n);
    }
  };
  if (loops.sizes.size() == 2) {  // the most frequent case, without the bookkeeping of more loops
    const int64_t step = loops.strides[operand][0];
    for (int64_t row = begin; row < end; ++row) write(row, row * step);
    return;
  }
  ForEachRow(loops, operand + 1, begin, end,
             [&](int64_t row, const int64_t* offsets) { write(row, offsets[operand]); });
}

void WriteRows(const BroadcastLoops& loops, int operand, size_t element_size, int64_t begin, int64_t end,
               const void* data, void* block) {
  switch (element_size) {
    case 1:
      return WriteRows<uint8_t>(loops, operand, begin, end, data, block);
    case 2:
      return WriteRows<uint16_t>(loops, operand, begin, end, data, block);
    case 4:
      return WriteRows<uint32_t>(loops, operand, begin, end, data, block);
    case 8:
      return WriteRows<uint64_t>(loops, operand, begin, end, data, block);
    default:
      return WriteRows<std::complex<double>>(loops, operand, begin, end, data, block);
  }
}

}  // namespace

absl::StatusOr<Shape> BroadcastShapes(absl::Span<const Shape* const> operands) {
  int rank = 0;
  for (const Shape* operand : operands) rank = std::max(rank, operand->rank());
  Dims dims(rank, 1);
  for (int i = 0; i < rank; ++i) {
    for (const Shape* operand : operands) {
      const int64_t dim = DimOf(*operand, rank, i);
      if (dim == 1 || dim == dims[i]) continue;
      if (dims[i] != 1) return Incompatible(operands);
      dims[i] = dim;
    }
  }
  return Shape::FromDims(dims);
}

BroadcastLoops MakeBroadcastLoops(const Shape& output, absl::Span<const Shape* const> operands) {
  const int rank = output.rank();
  const int count = static_cast<int>(operands.size());
  BroadcastLoops loops;
  loops.output = output;
  int64_t element_strides[BroadcastLoops::kMaxOperands] = {1, 1, 1};
  // From the innermost dimension outwards; the vectors are built reversed.
  for (int i = rank - 1; i >= 0; --i) {
    const int64_t size = output.dim(i);
    int64_t strides[BroadcastLoops::kMaxOperands] = {};
    for (int k = 0; k < count; ++k) {
      const int64_t dim = DimOf(*operands[k], rank, i);
      strides[k] = dim == 1 ? 0 : element_strides[k];
      element_strides[k] *= dim;
    }
    if (size == 1) continue;
    bool merges = !loops.sizes.empty();
    for (int k = 0; k < count && merges; ++k)
      merges = strides[k] == loops.strides[k].back() * loops.sizes.back();
    if (merges) {
      loops.sizes.back() *= size;
      continue;
    }
    loops.sizes.push_back(size);
    for (int k = 0; k < count; ++k) loops.strides[k].push_back(strides[k]);
  }
  if (loops.sizes.empty()) {
    loops.sizes.push_back(1);
    for (int k = 0; k < count; ++k) loops.strides[k].push_back(1);
  }
  std::reverse(loops.sizes.begin(), loops.sizes.end());
  for (int k = 0; k < count; ++k) std::reverse(loops.strides[k].begin(), loops.strides[k].end());
  return loops;
}

void ForEachRow(const BroadcastLoops& loops, int num_operands, int64_t begin, int64_t end,
                absl::FunctionRef<void(int64_t row, const int64_t* offsets)> row) {
  const int outer = static_cast<int>(loops.sizes.size()) - 1;
  Dims position(outer, 0);
  int64_t offsets[BroadcastLoops::kMaxOperands] = {};
  int64_t rest = begin;
  for (int i = outer - 1; i >= 0; --i) {
    position[i] = rest % loops.sizes[i];
    rest /= loops.sizes[i];
    for (int k = 0; k < num_operands; ++k) offsets[k] += position[i] * loops.strides[k][i];
  }
  for (int64_t r = begin; r < end; ++r) {
    row(r, offsets);
    for (int i = outer - 1; i >= 0; --i) {
      for (int k = 0; k < num_operands; ++k) offsets[k] += loops.strides[k][i];
      if (++position[i] < loops.sizes[i]) break;
      position[i] = 0;
      for (int k = 0; k < num_operands; ++k) offsets[k] -= loops.sizes[i] * loops.strides[k][i];
    }
  }
}

SpreadOperand::SpreadOperand(const BroadcastLoops& loops, int operand, const void* data, size_t element_size,
                             int64_t rows)
    : loops_(loops),
      operand_(operand),
      data_(static_cast<const char*>(data)),
      element_size_(element_size),
      is_whole_(IsDense(loops, operand)),
      has_equal_rows_(RepeatsOneRow(loops, operand)),
      block_(is_whole_ ? 0 : rows * loops.inner_size() * element_size) {}

const void* SpreadOperand::Spread(int64_t begin, int64_t end) {
  if (is_whole_) return data_ + begin * loops_.inner_size() * element_size_;
  if (has_equal_rows_ && num_written_ >= end - begin) return block_.data();
  WriteRows(loops_, operand_, element_size_, begin, end, data_, block_.data());
  num_written_ = end - begin;
  return block_.data();
}

}  // namespace weir
