// Fourier transforms, by their definition.
#include <cmath>
#include <complex>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;

// The transform along one axis; sign -1 is forward, 1 inverse and divided by the length.
Array Transform(const Array& x, int axis, int sign) {
  const int64_t n = x.dim(axis);
  return Generate(x.dims(), [&](const Index& at) {
    Number sum = 0;
    Index from = at;
    for (int64_t j = 0; j < n; ++j) {
      from[axis] = j;
      const double angle = sign * 2 * M_PI * static_cast<double>(j * at[axis] % n) / static_cast<double>(n);
      sum += x.at(from).number * std::polar(1.0, angle);
    }
    return Value(sign > 0 ? sum / static_cast<double>(n) : sum);
  });
}

reference::Reference Complex(int rank, int sign) {
  return [=](Call& call) {
    Array x = call.in(0);
    for (int i = 1; i <= rank; ++i) x = Transform(x, x.rank() - i, sign);
    call.outputs[0] = x;
  };
}

// The part of an array from its first element on.
Array Corner(const Array& x, const Index& dims) {
  return Generate(dims, [&](const Index& at) { return x.size() == 0 ? Value(0.0) : x.at(at); });
}

reference::Reference RealToComplex(int rank) {
  return [=](Call& call) {
    Index dims = call.in(0).dims();
    const Index lengths = call.in(1).integers();
    std::copy(lengths.begin(), lengths.end(), dims.end() - rank);
    Array x = Corner(call.in(0), dims);
    for (int i = 1; i <= rank; ++i) x = Transform(x, x.rank() - i, -1);
    dims.back() = dims.back() / 2 + 1;
    call.outputs[0] = Corner(x, dims);
  };
}

// The last axis last, of the half that is there and its conjugates.
reference::Reference ComplexToReal(int rank) {
  return [=](Call& call) {
    Index dims = call.in(0).dims();
    const Index lengths = call.in(1).integers();
    std::copy(lengths.begin(), lengths.end(), dims.end() - rank);
    const int64_t n = dims.back();
    Index half = dims;
    half.back() = n / 2 + 1;
    Array x = Corner(call.in(0), half);
    for (int i = 2; i <= rank; ++i) x = Transform(x, x.rank() - i, 1);
    const Array whole = Generate(dims, [&](Index at) {
      const int64_t k = at.back();
      if (k <= n / 2) return k == 0 || 2 * k == n ? Value(x.at(at).real()) : x.at(at);
      at.back() = n - k;
      return Value(std::conj(x.at(at).number));
    });
    const Array result = Transform(whole, whole.rank() - 1, 1);
    call.outputs[0] = Generate(dims, [&](const Index& at) { return Value(result.at(at).real()); });
  };
}

double ToleranceOfSums(D d) { return d == D::kComplex64 || d == D::kFloat32 ? 5e-5 : 1e-12; }

// Lengths of all kinds of factors, and primes.
const std::vector<int64_t> kLengths = {1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 22, 25, 31, 37, 60, 74, 101};

void AddComplex(Suite& suite, int rank, int sign) {
  const std::string suffix = rank == 1 ? "" : rank == 2 ? "2D" : "3D";
  OpRecord& record = suite.Op((sign < 0 ? "FFT" : "IFFT") + suffix).Reference(Complex(rank, sign));
  record.NoGradient();  // tensorflow_test.py has them
  for (const D d : kComplexes) {
    record.Tolerance(ToleranceOfSums(d));
    for (const int64_t n : kLengths) {
      if (rank == 1) record.Call({Sample(d, {n})});
    }
    record.Call({Sample(d, {2, 3, 4, 6})}).Call({Sample(d, {2, 2, 40, 37})}).Call({Sample(d, {5, 7, 9})});
  }
  record.Call({Empty({2, 0, 3}, D::kComplex64)}).Call({Empty({0, 2, 3}, D::kComplex64)});
  record.Hostile({Sample(D::kComplex64, Index(rank - 1, 2))},
                 "Input must have rank of at least " + std::to_string(rank) + " but got: ");
}

Tensor Lengths(std::vector<int32_t> lengths, int rank) { return Ints({lengths.end() - rank, lengths.end()}); }

void AddReal(Suite& suite, int rank, bool is_forward) {
  const std::string op = std::string(is_forward ? "RFFT" : "IRFFT") + (rank == 1   ? ""
                                                                       : rank == 2 ? "2D"
                                                                                   : "3D");
  OpRecord& record = suite.Op(op).Reference(is_forward ? RealToComplex(rank) : ComplexToReal(rank));
  record.NoGradient();
  for (const auto& [real, complex] :
       {std::pair(D::kFloat32, D::kComplex64), std::pair(D::kFloat64, D::kComplex128)}) {
    const D d = is_forward ? real : complex;
    const AttrMap attrs = {{is_forward ? "Tcomplex" : "Treal", is_forward ? complex : real}};
    record.Tolerance(ToleranceOfSums(d));
    for (const int64_t n : kLengths) {
      const int64_t given = is_forward ? n : n / 2 + 1;
      if (rank == 1) record.Call({Sample(d, {2, given}), Ints({static_cast<int32_t>(n)})}, attrs);
    }
    // Whole, and a part of each dimension.
    const Tensor x = Sample(d, {2, 3, 4, is_forward ? 6 : 4});
    record.Call({x, Lengths({3, 4, 6}, rank)}, attrs).Call({x, Lengths({2, 3, 5}, rank)}, attrs);
    record.Call({x, Lengths({3, 1, 2}, rank)}, attrs)
        .Call({Empty({0, 3, 4, 6}, d), Lengths({2, 3, 4}, rank)}, attrs);
  }
  const D d = is_forward ? D::kFloat32 : D::kComplex64;
  record.Call({Empty({2, 3, 0}, d), Lengths({2, 3, 4}, rank)});  // zeros
  const Tensor x = Sample(d, {2, 2, 3}), good = Lengths({2, 2, 3}, rank);
  record.Hostile({Sample(d, Index(rank - 1, 2)), good}, "Input must have rank of at least ");
  record.Hostile({x, Ints({2, 2, 2, 2})}, "fft_length must have");
  record.Hostile({x, Int(3)}, "fft_length must have");
  record.Hostile({x, Lengths({2, 2, -1}, rank)}, "] must >= 0, but got: -1");
  record.Hostile({x, Lengths({2, 2, 9}, rank)}, is_forward
                                                    ? "Input dimension 2 must have length of at least 9"
                                                    : "Input dimension 2 must have length of at least 5");
  record.Hostile({x, good},
                 is_forward ? "Wrong types for forward real FFT" : "Wrong types for backward real FFT",
                 {{is_forward ? "Tcomplex" : "Treal", is_forward ? D::kComplex128 : D::kFloat64}});
  record.OutOfMemory({Empty({2, 3, 0}, d), Lengths({2, 3, kHuge}, rank)});
}

}  // namespace

void AddFftRecords(Suite& suite) {
  for (const int rank : {1, 2, 3}) {
    AddComplex(suite, rank, -1);
    AddComplex(suite, rank, 1);
    AddReal(suite, rank, true);
    AddReal(suite, rank, false);
  }
}

}  // namespace weir::conformance
