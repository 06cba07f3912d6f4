// Fourier transforms of the last one, two or three dimensions.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

template <int rank>
Status ComplexShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(PartialShape shape, s.WithRankAtLeast(0, rank));
  s.set_output(0, std::move(shape));
  return OkStatus();
}

// The lengths in place of the last dimensions; of the spectrum of real numbers only half of the last one.
template <int rank, bool is_forward>
Status RealShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape shape, s.WithRankAtLeast(0, rank));
  WEIR_ASSIGN_OR_RETURN(const PartialShape lengths_shape, s.WithRank(1, 1));
  if (lengths_shape.has_rank() && lengths_shape.dim(0) != kUnknown && lengths_shape.dim(0) != rank) {
    return InvalidArgumentError(
        StrCat("fft_length must have ", rank, " elements, is ", lengths_shape.ToString()));
  }
  if (!shape.has_rank()) return OkStatus();
  std::vector<int64_t> dims = DimsOf(shape);
  const auto lengths = s.input_integers(1);
  for (int i = 0; i < rank; ++i) {
    const int64_t length = lengths ? (*lengths)[i] : kUnknown;
    if (lengths && length < 0) {
      return InvalidArgumentError(StrCat("fft_length[", i, "] must not be negative, is ", length));
    }
    const bool is_halved = is_forward && i == rank - 1 && length > 0;
    dims[shape.rank() - rank + i] = is_halved ? length / 2 + 1 : length;
  }
  return SetOutputDims(s, 0, dims);
}

// The transform that is not divided by the number of elements is its own gradient, of conjugates.
Status ComplexGradient(GradientContext& g) {
  const Output conjugate = g.Add("Conj", {g.grad(0)});
  g.set_input_grad(0, g.Add("Conj", {g.Add(g.node().op_name(), {conjugate})}));
  return OkStatus();
}

template <int rank>
void AddTransforms(const std::string& suffix, const std::string& where, std::vector<OpDef>& ops) {
  ops.push_back({.name = "FFT" + suffix,
                 .summary = StrCat("Gives the discrete Fourier transforms along ", where, "."),
                 .infer_shapes = ComplexShape<rank>,
                 .gradient = ComplexGradient});
  ops.push_back({.name = "IFFT" + suffix,
                 .summary = StrCat("Gives the inverse discrete Fourier transforms along ", where, "."),
                 .infer_shapes = ComplexShape<rank>,
                 .gradient = ComplexGradient});
  ops.push_back({.name = "RFFT" + suffix,
                 .summary = StrCat("Gives the Fourier transforms of the first fft_length real numbers along ",
                                   where, ", without the half that follows from the other one."),
                 .infer_shapes = RealShape<rank, true>,
                 .gradient = GradientMissing});
  ops.push_back({.name = "IRFFT" + suffix,
                 .summary = StrCat("Gives the fft_length real numbers along ", where,
                                   " whose Fourier transforms are given."),
                 .infer_shapes = RealShape<rank, false>,
                 .gradient = GradientMissing});
}

}  // namespace

std::vector<OpDef> FftOps() {
  std::vector<OpDef> ops;
  AddTransforms<1>("", "the last dimension", ops);
  AddTransforms<2>("2D", "the last two dimensions", ops);
  AddTransforms<3>("3D", "the last three dimensions", ops);
  return ops;
}

}  // namespace weir
