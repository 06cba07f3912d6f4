#include "kernels/cpu/broadcast.h"

#include <algorithm>
#include <complex>
#include <cstring>

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

template <typename Word>
void FillRow(const char* element, int64_t count, char* row) {
  Word word;
  std::memcpy(&word, element, sizeof(Word));
  for (int64_t i = 0; i < count; ++i) std::memcpy(row + i * sizeof(Word), &word, sizeof(Word));
}

void FillRow(const char* element, size_t element_size, int64_t count, char* row) {
  switch (element_size) {
    case 1:
      return FillRow<uint8_t>(element, count, row);
    case 2:
      return FillRow<uint16_t>(element, count, row);
    case 4:
      return FillRow<uint32_t>(element, count, row);
    case 8:
      return FillRow<uint64_t>(element, count, row);
    default:
      return FillRow<std::complex<double>>(element, count, row);
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
  const int64_t row_size = loops_.inner_size();
  const size_t row_bytes = row_size * element_size_;
  if (is_whole_) return data_ + begin * row_bytes;
  if (has_equal_rows_ && num_written_ >= end - begin) return block_.data();
  const bool repeats_element = loops_.strides[operand_].back() == 0;
  ForEachRow(loops_, operand_ + 1, begin, end, [&](int64_t row, const int64_t* offsets) {
    const char* from = data_ + offsets[operand_] * element_size_;
    char* to = block_.data() + (row - begin) * row_bytes;
    repeats_element ? FillRow(from, element_size_, row_size, to)
                    : static_cast<void>(std::memcpy(to, from, row_bytes));
  });
  num_written_ = end - begin;
  return block_.data();
}

}  // namespace weir
