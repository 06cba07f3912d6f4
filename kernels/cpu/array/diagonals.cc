// Diagonals of matrices (ops/array/diagonals.cc says what a band is), and those of tensors: Diag, DiagPart.
#include <algorithm>
#include <complex>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// The first versions know the main diagonal only, the second ones align left.
class Alignment {
 public:
  explicit Alignment(const KernelConstruction& construction) {
    const AttrValue* const align = construction.node().FindAttr("align");
    if (align == nullptr) return;
    const auto& text = align->get<std::string>();  // of the diagonals above and below the main one
    above_is_left_ = text.starts_with("LEFT");
    below_is_left_ = text.ends_with("LEFT");
  }
  bool IsLeft(int64_t k) const { return (k >= 0 && above_is_left_) || (k <= 0 && below_is_left_); }

 private:
  bool above_is_left_ = true, below_is_left_ = true;
};

struct Band {
  int64_t count() const { return upper - lower + 1; }
  int64_t lower = 0, upper = 0;
};

absl::StatusOr<Band> ReadBand(KernelContext& context, int input) {
  if (input >= context.num_inputs()) return Band{};
  const Tensor& k = context.input(input);
  if (k.shape().rank() > 1 || k.num_elements() < 1 || k.num_elements() > 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("k must be a scalar or a vector of one or two elements, is ", k.ToString()));
  }
  const Band band{IntegerAt(k, 0), IntegerAt(k, k.num_elements() - 1)};
  if (band.lower <= band.upper) return band;
  return absl::InvalidArgumentError(
      absl::StrCat("k: the lower diagonal ", band.lower, " is above the upper one ", band.upper));
}

// Matrices [batch, rows, cols] and diagonals [batch, count, length].
struct Geometry {
  // Elements of diagonal k.
  int64_t LengthOf(int64_t k) const {
    return std::min(rows + std::min<int64_t>(k, 0), cols - std::max<int64_t>(k, 0));
  }
  static int64_t LongestOf(int64_t rows, int64_t cols, const Band& band) {
    return std::min(rows + std::min<int64_t>(band.upper, 0), cols - std::max<int64_t>(band.lower, 0));
  }

  // Calls f(element of the matrices, element of the diagonals) for all elements of all diagonals.
  template <typename F>
  void ForEach(const Alignment& alignment, const F& f) const {
    if (length <= 0) return;  // but maybe very many matrices of nothing
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t k = band.upper; k >= band.lower; --k) {
        const int64_t own = LengthOf(k);
        const int64_t offset = alignment.IsLeft(k) ? 0 : length - own;
        const int64_t first = (b * rows + std::max<int64_t>(-k, 0)) * cols + std::max<int64_t>(k, 0);
        const int64_t diagonal = (b * band.count() + band.upper - k) * length + offset;
        for (int64_t i = 0; i < own; ++i) f(first + i * (cols + 1), diagonal + i);
      }
    }
  }

  Band band;
  int64_t batch = 1, rows = 0, cols = 0;
  int64_t length = 0;  // of the longest diagonal
};

absl::StatusOr<Geometry> GeometryOfMatrices(const Shape& matrices, const Band& band) {
  const int rank = matrices.rank();
  if (rank < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("input must have at least 2 dimensions, is ", matrices.ToString()));
  }
  Geometry result{.band = band, .rows = matrices.dim(rank - 2), .cols = matrices.dim(rank - 1)};
  for (const int64_t k : {band.lower, band.upper}) {
    if (k == 0 || (-result.rows < k && k < result.cols)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("k = ", k, " is outside of matrices of ", result.rows, " x ", result.cols));
  }
  for (int i = 0; i < rank - 2; ++i) result.batch *= matrices.dim(i);
  result.length = Geometry::LongestOf(result.rows, result.cols, band);
  return result;
}

// The shape of the diagonals of matrices.
absl::StatusOr<Shape> DiagonalsShape(const Shape& matrices, const Geometry& geometry) {
  Dims dims(matrices.dims().begin(), matrices.dims().end() - 2);
  if (geometry.band.lower != geometry.band.upper) dims.push_back(geometry.band.count());
  dims.push_back(geometry.length);
  return Shape::FromDims(dims);
}

absl::Status CheckScalar(KernelContext& context, int input, absl::string_view name) {
  if (input >= context.num_inputs() || context.input(input).num_elements() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be a scalar, is ", context.input(input).shape().ToString()));
}

// What matrices or diagonals have where there is no element for them.
void FillPadding(KernelContext& context, int input, Tensor& output) {
  if (input < context.num_inputs()) {
    FillElements(context.input(input), output, 0, output.num_elements());
  } else {
    ClearElements(output, 0, output.num_elements());
  }
}

class MatrixDiagPart final : public Kernel {
 public:
  explicit MatrixDiagPart(const KernelConstruction& construction) : alignment_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const Band band, ReadBand(context, 1));
    WEIR_RETURN_IF_ERROR(CheckScalar(context, 2, "padding_value"));
    WEIR_ASSIGN_OR_RETURN(const Geometry geometry, GeometryOfMatrices(input.shape(), band));
    WEIR_ASSIGN_OR_RETURN(const Shape shape, DiagonalsShape(input.shape(), geometry));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    FillPadding(context, 2, *output);
    geometry.ForEach(alignment_, [&](int64_t matrix, int64_t diagonal) {
      CopyElements(input, matrix, *output, diagonal, 1);
    });
    return absl::OkStatus();
  }

 private:
  const Alignment alignment_;
};

class MatrixSetDiag final : public Kernel {
 public:
  explicit MatrixSetDiag(const KernelConstruction& construction) : alignment_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    const Shape matrices = context.input(0).shape();
    const Tensor& values = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const Band band, ReadBand(context, 2));
    WEIR_ASSIGN_OR_RETURN(const Geometry geometry, GeometryOfMatrices(matrices, band));
    WEIR_ASSIGN_OR_RETURN(const Shape wanted, DiagonalsShape(matrices, geometry));
    if (values.shape() != wanted) {
      return absl::InvalidArgumentError(absl::StrCat("diagonal must be ", wanted.ToString(), " for input ",
                                                     matrices.ToString(), ", is ",
                                                     values.shape().ToString()));
    }
    const void* const before = context.input(0).data();
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, matrices));
    if (output->data() != before) CopyElements(context.input(0), 0, *output, 0, matrices.num_elements());
    geometry.ForEach(alignment_, [&](int64_t matrix, int64_t diagonal) {
      CopyElements(values, diagonal, *output, matrix, 1);
    });
    return absl::OkStatus();
  }

 private:
  const Alignment alignment_;
};

class MatrixDiag final : public Kernel {
 public:
  explicit MatrixDiag(const KernelConstruction& construction) : alignment_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& diagonal = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const Band band, ReadBand(context, 1));
    WEIR_RETURN_IF_ERROR(CheckScalar(context, 4, "padding_value"));
    WEIR_ASSIGN_OR_RETURN(const int64_t num_rows, SizeInput(context, 2, "num_rows"));
    WEIR_ASSIGN_OR_RETURN(const int64_t num_cols, SizeInput(context, 3, "num_cols"));
    const int rank = diagonal.shape().rank();
    const int own_rank = band.lower == band.upper ? 1 : 2;
    if (rank < own_rank || (own_rank == 2 && diagonal.shape().dim(rank - 2) != band.count())) {
      return absl::InvalidArgumentError(
          absl::StrCat("k asks for ", band.count(), " diagonals, diagonal is ", diagonal.shape().ToString()));
    }
    Geometry geometry{.band = band, .length = diagonal.shape().dim(rank - 1)};
    WEIR_RETURN_IF_ERROR(SetSize(num_rows, num_cols, geometry));
    Dims dims(diagonal.shape().dims().begin(), diagonal.shape().dims().end() - own_rank);
    for (int64_t dim : dims) geometry.batch *= dim;
    dims.push_back(geometry.rows);
    dims.push_back(geometry.cols);
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    FillPadding(context, 4, *output);
    geometry.ForEach(alignment_, [&](int64_t matrix, int64_t element) {
      CopyElements(diagonal, element, *output, matrix, 1);
    });
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<int64_t> SizeInput(KernelContext& context, int input, absl::string_view name) {
    if (input >= context.num_inputs()) return -1;
    return ReadInteger(context.input(input), name);
  }

  // -1 asks for as many rows or columns as the diagonals need.
  static absl::Status SetSize(int64_t num_rows, int64_t num_cols, Geometry& geometry) {
    const int64_t fewest_rows = geometry.length - std::min<int64_t>(geometry.band.upper, 0);
    const int64_t fewest_cols = geometry.length + std::max<int64_t>(geometry.band.lower, 0);
    geometry.rows = num_rows != -1 ? num_rows : fewest_rows;
    geometry.cols = num_cols != -1 ? num_cols : fewest_cols;
    if (num_rows == -1 && num_cols == -1) geometry.rows = geometry.cols = std::max(fewest_rows, fewest_cols);
    const bool fits = geometry.rows >= fewest_rows && geometry.cols >= fewest_cols &&
                      (geometry.rows == fewest_rows || geometry.cols == fewest_cols);
    if (fits && geometry.LengthOf(geometry.band.lower) >= 0 && geometry.LengthOf(geometry.band.upper) >= 0) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("diagonals of ", geometry.length, " elements need [", fewest_rows, ",", fewest_cols,
                     "], num_rows and num_cols are ", geometry.rows, " and ", geometry.cols));
  }

  const Alignment alignment_;
};

absl::Status MatrixBandPart(KernelContext& context) {
  const Tensor& input = context.input(0);
  const int rank = input.shape().rank();
  if (rank < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("input must have at least 2 dimensions, is ", input.shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const int64_t lower, ReadInteger(context.input(1), "num_lower"));
  WEIR_ASSIGN_OR_RETURN(const int64_t upper, ReadInteger(context.input(2), "num_upper"));
  const int64_t rows = input.shape().dim(rank - 2), cols = input.shape().dim(rank - 1);
  if (lower > rows || upper > cols) {
    return absl::InvalidArgumentError(absl::StrCat("num_lower = ", lower, " and num_upper = ", upper,
                                                   " must be at most those of matrices of ", rows, " x ",
                                                   cols));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
  if (input.num_elements() == 0) return absl::OkStatus();
  const int64_t num_rows = input.num_elements() / cols;  // of all matrices
  context.threads().ParallelFor(num_rows, 5 + static_cast<double>(cols), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % rows;
      const int64_t from = lower < 0 ? 0 : std::clamp<int64_t>(row - lower, 0, cols);
      const int64_t to = upper < 0 ? cols : std::clamp<int64_t>(row + upper + 1, from, cols);
      ClearElements(*output, i * cols, from);
      CopyElements(input, i * cols + from, *output, i * cols + from, to - from);
      ClearElements(*output, i * cols + to, cols - to);
    }
  });
  return absl::OkStatus();
}

absl::Status Diag(KernelContext& context) {
  const Tensor& diagonal = context.input(0);
  if (diagonal.shape().rank() == 0) {
    return absl::InvalidArgumentError("diagonal must have at least 1 dimension, is a scalar");
  }
  Dims dims(diagonal.shape().dims().begin(), diagonal.shape().dims().end());
  dims.insert(dims.end(), diagonal.shape().dims().begin(), diagonal.shape().dims().end());
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  ClearElements(*output, 0, output->num_elements());
  const int64_t count = diagonal.num_elements();
  for (int64_t i = 0; i < count; ++i) CopyElements(diagonal, i, *output, i * (count + 1), 1);
  return absl::OkStatus();
}

absl::Status DiagPart(KernelContext& context) {
  const Tensor& input = context.input(0);
  const auto dims = input.shape().dims();
  const size_t half = dims.size() / 2;
  if (half == 0 || dims.size() % 2 != 0 || dims.subspan(0, half) != dims.subspan(half)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the two halves of input's dimensions must be equal: it is ", input.shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims.subspan(0, half)));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  const int64_t count = shape.num_elements();
  for (int64_t i = 0; i < count; ++i) CopyElements(input, i * (count + 1), *output, i, 1);
  return absl::OkStatus();
}

}  // namespace

void RegisterDiagonalsKernels(DeviceKernels& kernels) {
  const DeviceKernels::TypeAttrs any = {{"T", AllDTypes()}};
  for (const char* version : {"", "V2", "V3"}) {
    kernels.Add<MatrixDiag>(absl::StrCat("MatrixDiag", version), any);
    kernels.Add<MatrixDiagPart>(absl::StrCat("MatrixDiagPart", version), any);
    kernels.Add<MatrixSetDiag>(absl::StrCat("MatrixSetDiag", version), any);
  }
  kernels.Add<&MatrixBandPart>("MatrixBandPart", any);
  kernels.Add<&Diag>("Diag", any);
  kernels.Add<&DiagPart>("DiagPart", any);
}

}  // namespace weir
