// Fourier transforms of the last one, two or three dimensions: FFT, IFFT, RFFT, IRFFT and so on.
//
// One dimension after the other; blocks of lines are shared among threads. Transforms of real numbers take
// the numbers at even and odd places as one complex sequence of half the length where the length is even
// (Press et al., "Numerical Recipes", section 12.3).
#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/math/fourier_plan.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// Lines side by side are transformed together: at most this many, and not many more numbers than this.
constexpr int64_t kMaxColumns = 16, kMinColumns = 4, kBlock = 1 << 14;

template <typename Real>
using ComplexOf = std::complex<Real>;

// Calls body(i, room) for blocks [0, count) on several threads, each with room for so many complex numbers of
// its own. Cancelled when the step is.
template <typename Real>
absl::Status ForEachBlock(KernelContext& context, int64_t count, double cost, int64_t room,
                          absl::FunctionRef<void(int64_t, ComplexOf<Real>*)> body) {
  const int64_t parts = std::min<int64_t>(count, context.threads().num_threads());
  WEIR_ASSIGN_OR_RETURN(const Shape rooms_shape, Shape::FromDims({parts, room}));
  WEIR_ASSIGN_OR_RETURN(Tensor rooms, context.AllocateTemporary(DTypeOf<ComplexOf<Real>>, rooms_shape));
  const double part_cost =
      cost * static_cast<double>(count) / static_cast<double>(std::max<int64_t>(parts, 1));
  context.threads().ParallelFor(parts, part_cost, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      ComplexOf<Real>* const own = rooms.flat<ComplexOf<Real>>().data() + part * room;
      for (int64_t i = part; i < count && !context.cancellation().is_cancelled(); i += parts) body(i, own);
    }
  });
  if (context.cancellation().is_cancelled()) return absl::CancelledError("the step was cancelled");
  return absl::OkStatus();
}

// Transforms along the middle dimension of [outer, plan.n(), inner], and multiplies with `scale`. `from` may
// be `to`.
template <typename Real>
absl::Status TransformAxis(KernelContext& context, const FourierPlan<Real>& plan, int64_t outer,
                           int64_t inner, Real scale, const ComplexOf<Real>* from, ComplexOf<Real>* to) {
  const int64_t n = plan.n();
  if (outer == 0 || inner == 0 || n == 0) return absl::OkStatus();
  const int64_t columns = std::min(inner, std::clamp(kBlock / n, kMinColumns, kMaxColumns));
  const int64_t blocks = (inner + columns - 1) / columns;
  const double cost = plan.cost() * static_cast<double>(columns);
  const auto transform = [&](int64_t i, ComplexOf<Real>* room) {
    const int64_t first = i % blocks * columns, width = std::min(columns, inner - first);
    const int64_t at = i / blocks * n * inner + first;
    for (int64_t k = 0; k < n; ++k) std::copy_n(from + at + k * inner, width, room + k * width);
    plan.Run(room, width, room + n * width, context.cancellation());
    for (int64_t k = 0; k < n; ++k)
      for (int64_t c = 0; c < width; ++c) to[at + k * inner + c] = room[k * width + c] * scale;
  };
  return ForEachBlock<Real>(context, outer * blocks, cost, (n + plan.room()) * columns, transform);
}

// The transform of `length` real numbers, and back.
template <typename Real>
class RealFourier {
 public:
  using Complex = std::complex<Real>;

  // Precondition: length > 0.
  static absl::StatusOr<RealFourier> Create(KernelContext& context, int64_t length, FourierSign sign) {
    RealFourier transform;
    transform.length_ = length;
    transform.is_even_ = length % 2 == 0;
    const int64_t n = transform.is_even_ ? length / 2 : length;
    WEIR_ASSIGN_OR_RETURN(transform.plan_, FourierPlan<Real>::Create(context, n, sign));
    if (!transform.is_even_) return transform;
    WEIR_ASSIGN_OR_RETURN(transform.roots_, context.AllocateTemporary(DTypeOf<Complex>, Shape({n + 1})));
    for (int64_t k = 0; k <= n; ++k) {
      WEIR_RETURN_IF_ERROR(CheckStep(context.cancellation(), k));
      transform.roots_.template flat<Complex>()[k] = Complex(RootOfUnity(k, length, sign));
    }
    return transform;
  }

  double cost() const { return plan_.cost() + 2 * static_cast<double>(length_); }
  int64_t room() const { return plan_.n() + plan_.room(); }

  // length / 2 + 1 numbers; the others are their conjugates.
  void Forward(const Real* from, Complex* to, Complex* room, const Cancellation& cancellation) const {
    const int64_t n = plan_.n();
    for (int64_t j = 0; j < n; ++j)
      room[j] = is_even_ ? Complex(from[2 * j], from[2 * j + 1]) : Complex(from[j], 0);
    plan_.Run(room, 1, room + n, cancellation);
    if (!is_even_) {
      std::copy_n(room, length_ / 2 + 1, to);
      return;
    }
    const Complex* const roots = roots_.flat<Complex>().data();
    for (int64_t k = 0; k <= n; ++k) {
      const Complex a = room[k % n], b = std::conj(room[(n - k) % n]);
      const Complex even = (a + b) * Real(0.5), difference = (a - b) * Real(0.5);
      to[k] = even + Product(roots[k], Complex(difference.imag(), -difference.real()));
    }
  }

  // Times `scale`. The imaginary parts of what has to be real are not read.
  void Inverse(const Complex* from, Real scale, Real* to, Complex* room,
               const Cancellation& cancellation) const {
    const int64_t n = plan_.n(), last = length_ / 2;
    const auto at = [&](int64_t k) {
      return k == 0 || (is_even_ && k == last) ? Complex(from[k].real(), 0) : from[k];
    };
    if (!is_even_) {
      for (int64_t k = 0; k < n; ++k) room[k] = k <= last ? at(k) : std::conj(at(n - k));
      plan_.Run(room, 1, room + n, cancellation);
      for (int64_t k = 0; k < n; ++k) to[k] = room[k].real() * scale;
      return;
    }
    const Complex* const roots = roots_.flat<Complex>().data();
    for (int64_t k = 0; k < n; ++k) {
      const Complex a = at(k), b = std::conj(at(n - k)), odd = Product(roots[k], a - b);
      room[k] = a + b + Complex(-odd.imag(), odd.real());
    }
    plan_.Run(room, 1, room + n, cancellation);
    for (int64_t j = 0; j < n; ++j) {
      to[2 * j] = room[j].real() * scale;
      to[2 * j + 1] = room[j].imag() * scale;
    }
  }

 private:
  static Complex Product(Complex a, Complex b) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }

  int64_t length_ = 0;
  bool is_even_ = false;
  FourierPlan<Real> plan_;
  Tensor roots_;  // of even lengths
};

// The batch and the last three dimensions; those that are not transformed belong to the batch.
struct Boxes {
  int64_t count = 1;
  std::array<int64_t, 3> dims = {1, 1, 1};
};

Boxes BoxesOf(const Shape& shape, int rank) {
  Boxes boxes;
  for (int i = 0; i < shape.rank(); ++i) {
    const int at = i - shape.rank() + 3;
    (at < 3 - rank ? boxes.count : boxes.dims[at]) *= shape.dim(i);
  }
  return boxes;
}

absl::Status CheckRank(const Shape& shape, int rank) {
  if (shape.rank() >= rank) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Input must have rank of at least ", rank, " but got: ", shape.ToString()));
}

// Along dimensions [first, end) of the boxes.
template <typename Real>
absl::Status TransformBoxes(KernelContext& context, const Boxes& boxes, int first, int end, FourierSign sign,
                            const ComplexOf<Real>* from, ComplexOf<Real>* to) {
  for (int axis = first; axis < end; ++axis) {
    int64_t outer = boxes.count, inner = 1;
    for (int i = 0; i < 3; ++i) (i < axis ? outer : inner) *= i == axis ? 1 : boxes.dims[i];
    const int64_t n = boxes.dims[axis];
    WEIR_ASSIGN_OR_RETURN(const auto plan, FourierPlan<Real>::Create(context, n, sign));
    const Real scale = sign == FourierSign::kForward ? Real(1) : Real(1) / static_cast<Real>(n);
    WEIR_RETURN_IF_ERROR(TransformAxis<Real>(context, plan, outer, inner, scale, from, to));
    from = to;
  }
  return absl::OkStatus();
}

template <typename Real>
absl::Status TransformComplex(KernelContext& context, int rank, FourierSign sign) {
  using Complex = std::complex<Real>;
  const Tensor& input = context.input(0);
  const Shape& shape = input.shape();
  WEIR_RETURN_IF_ERROR(CheckRank(shape, rank));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  return TransformBoxes<Real>(context, BoxesOf(shape, rank), 3 - rank, 3, sign, input.flat<Complex>().data(),
                              output->flat<Complex>().data());
}

template <FourierSign sign>
class ComplexTransform final : public Kernel {
 public:
  // The rank is in the name: FFT, IFFT2D.
  explicit ComplexTransform(const KernelConstruction& construction)
      : rank_(RankOf(construction.node().op_name())) {}

  static int RankOf(absl::string_view op) { return op.back() == 'D' ? op[op.size() - 2] - '0' : 1; }

  absl::Status Compute(KernelContext& context) override {
    return context.input(0).dtype() == DType::kComplex64 ? TransformComplex<float>(context, rank_, sign)
                                                         : TransformComplex<double>(context, rank_, sign);
  }

 private:
  const int rank_;
};

// Where the lengths of a transform of real numbers are, and the shapes that follow.
struct RealShapes {
  std::array<int64_t, 3> lengths = {1, 1, 1};
  Boxes input;
  Boxes spectrum;  // the lengths, the last one halved, plus 1
  Shape output;
};

absl::StatusOr<RealShapes> ReadLengths(const KernelContext& context, int rank, bool is_forward) {
  const Shape& shape = context.input(0).shape();
  const Tensor& lengths = context.input(1);
  WEIR_RETURN_IF_ERROR(CheckRank(shape, rank));
  if (lengths.shape() != Shape({rank})) {
    return absl::InvalidArgumentError(
        absl::StrCat("fft_length must have shape [", rank, "], is ", lengths.shape().ToString()));
  }
  RealShapes shapes;
  Dims dims(shape.dims().begin(), shape.dims().end());
  for (int i = 0; i < rank; ++i) {
    const int64_t length = lengths.flat<int32_t>()[i];
    if (length < 0) {
      return absl::InvalidArgumentError(absl::StrCat("fft_length[", i, "] must >= 0, but got: ", length));
    }
    const int at = shape.rank() - rank + i;
    const bool is_last = i == rank - 1;
    const int64_t least = !is_forward && is_last ? length / 2 + 1 : length;
    if (shape.dim(at) != 0 && shape.dim(at) < least) {
      return absl::InvalidArgumentError(absl::StrCat("Input dimension ", at, " must have length of at least ",
                                                     least, " but got: ", shape.dim(at)));
    }
    shapes.lengths[3 - rank + i] = length;
    dims[at] = is_forward && is_last && length != 0 ? length / 2 + 1 : length;
  }
  WEIR_ASSIGN_OR_RETURN(shapes.output, Shape::FromDims(dims));
  shapes.input = BoxesOf(shape, rank);
  shapes.spectrum = {shapes.input.count, shapes.lengths};
  shapes.spectrum.dims[2] = shapes.lengths[2] / 2 + 1;
  return shapes;
}

// Numbers of the types as messages have them.
absl::Status WrongTypes(absl::string_view direction, KernelContext& context) {
  return absl::InvalidArgumentError(absl::StrCat("Wrong types for ", direction,
                                                 " real FFT: in=", static_cast<int>(context.input(0).dtype()),
                                                 " out=", static_cast<int>(context.output_type(0))));
}

// Row i of boxes of these dimensions is which row of the larger ones that they are cut from.
int64_t RowIn(const Boxes& larger, const std::array<int64_t, 3>& dims, int64_t i) {
  const int64_t box = i / (dims[0] * dims[1]), z = i / dims[1] % dims[0], y = i % dims[1];
  return (box * larger.dims[0] + z) * larger.dims[1] + y;
}

template <typename Real>
class FromReal final : public Kernel {
 public:
  explicit FromReal(const KernelConstruction& construction)
      : rank_(ComplexTransform<FourierSign::kForward>::RankOf(construction.node().op_name())) {}

  absl::Status Compute(KernelContext& context) override {
    using Complex = std::complex<Real>;
    if (context.output_type(0) != DTypeOf<Complex>) return WrongTypes("forward", context);
    WEIR_ASSIGN_OR_RETURN(const RealShapes shapes, ReadLengths(context, rank_, /*is_forward=*/true));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shapes.output));
    if (output->num_elements() == 0) return absl::OkStatus();
    Complex* const to = output->flat<Complex>().data();
    const Tensor& input = context.input(0);
    if (input.num_elements() == 0) {
      std::fill_n(to, output->num_elements(), Complex(0));
      return absl::OkStatus();
    }
    WEIR_ASSIGN_OR_RETURN(const auto line,
                          RealFourier<Real>::Create(context, shapes.lengths[2], FourierSign::kForward));
    const Real* const from = input.flat<Real>().data();
    const int64_t width = shapes.spectrum.dims[2], rows = output->num_elements() / width;
    WEIR_RETURN_IF_ERROR(
        ForEachBlock<Real>(context, rows, line.cost(), line.room(), [&](int64_t i, Complex* room) {
          const int64_t row = RowIn(shapes.input, shapes.lengths, i);
          line.Forward(from + row * shapes.input.dims[2], to + i * width, room, context.cancellation());
        }));
    return TransformBoxes<Real>(context, shapes.spectrum, 3 - rank_, 2, FourierSign::kForward, to, to);
  }

 private:
  const int rank_;
};

template <typename Real>
class ToReal final : public Kernel {
 public:
  explicit ToReal(const KernelConstruction& construction)
      : rank_(ComplexTransform<FourierSign::kInverse>::RankOf(construction.node().op_name())) {}

  absl::Status Compute(KernelContext& context) override {
    using Complex = std::complex<Real>;
    if (context.input(0).dtype() != DTypeOf<Complex>) return WrongTypes("backward", context);
    WEIR_ASSIGN_OR_RETURN(const RealShapes shapes, ReadLengths(context, rank_, /*is_forward=*/false));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shapes.output));
    if (output->num_elements() == 0) return absl::OkStatus();
    Real* const to = output->flat<Real>().data();
    if (context.input(0).num_elements() == 0) {
      std::fill_n(to, output->num_elements(), Real(0));
      return absl::OkStatus();
    }
    const int64_t length = shapes.lengths[2], rows = output->num_elements() / length;
    WEIR_ASSIGN_OR_RETURN(Tensor spectrum, Spectrum(context, shapes));
    const Complex* const from = spectrum.flat<Complex>().data();
    const int64_t width = spectrum.num_elements() / rows;
    WEIR_ASSIGN_OR_RETURN(const auto line, RealFourier<Real>::Create(context, length, FourierSign::kInverse));
    const Real scale = Real(1) / static_cast<Real>(length);
    return ForEachBlock<Real>(context, rows, line.cost(), line.room(), [&](int64_t i, Complex* room) {
      line.Inverse(from + i * width, scale, to + i * length, room, context.cancellation());
    });
  }

 private:
  // What is left to transform along the last dimension: the input itself where that is the only one.
  absl::StatusOr<Tensor> Spectrum(KernelContext& context, const RealShapes& shapes) const {
    using Complex = std::complex<Real>;
    const Tensor& input = context.input(0);
    if (rank_ == 1) return input;
    const int64_t width = shapes.spectrum.dims[2];
    const int64_t rows = shapes.spectrum.count * shapes.lengths[0] * shapes.lengths[1];
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({rows, width}));
    WEIR_ASSIGN_OR_RETURN(Tensor spectrum, context.AllocateTemporary(DTypeOf<Complex>, shape));
    Complex* const to = spectrum.flat<Complex>().data();
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = RowIn(shapes.input, shapes.lengths, i);
      std::copy_n(input.flat<Complex>().data() + row * shapes.input.dims[2], width, to + i * width);
    }
    WEIR_RETURN_IF_ERROR(
        TransformBoxes<Real>(context, shapes.spectrum, 3 - rank_, 2, FourierSign::kInverse, to, to));
    return spectrum;
  }

  const int rank_;
};

}  // namespace

void RegisterFftKernels(DeviceKernels& kernels) {
  for (const char* const suffix : {"", "2D", "3D"}) {
    const std::vector<DType> types = {DType::kComplex64, DType::kComplex128};
    kernels.Add<ComplexTransform<FourierSign::kForward>>(absl::StrCat("FFT", suffix), {{"Tcomplex", types}});
    kernels.Add<ComplexTransform<FourierSign::kInverse>>(absl::StrCat("IFFT", suffix), {{"Tcomplex", types}});
    const Types<float, double> reals("Treal");
    kernels.Add<FromReal>(absl::StrCat("RFFT", suffix), reals);
    kernels.Add<ToReal>(absl::StrCat("IRFFT", suffix), reals);
  }
}

}  // namespace weir
