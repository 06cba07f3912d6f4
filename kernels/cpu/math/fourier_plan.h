// Discrete Fourier transforms of one length, of complex numbers: y[k] = sum over j of x[j] exp(-2 pi i jk /
// n), or with the other sign for the inverse, which is not divided by n.
//
// Mixed radix without reordering (Stockham; Van Loan, "Computational Frameworks for the Fast Fourier
// Transform", section 1.7) where all prime factors of n are small. Other lengths become a convolution of a
// power of two (Bluestein, ibid., section 4.2). All roots are computed in double.
//
// Thread safety: const after Create; each thread needs its own room.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cancellation.h"
#include "kernels/kernel_context.h"

namespace weir {

enum class FourierSign { kForward, kInverse };

// exp(-2 pi i k / n), or its conjugate. Precondition: 0 <= k < n.
std::complex<double> RootOfUnity(int64_t k, int64_t n, FourierSign sign);

// Cancelled when the step is, asked now and then on the way through a table of roots.
absl::Status CheckStep(const Cancellation& cancellation, int64_t at);

template <typename Real>
class FourierPlan {
 public:
  using Complex = std::complex<Real>;

  // Takes the memory of its tables from the context, in whose step it lives. n may be 0. Cancelled soon
  // after the step is.
  static absl::StatusOr<FourierPlan> Create(KernelContext& context, int64_t n, FourierSign sign);

  int64_t n() const { return n_; }
  // Nanoseconds of one transform on one core, roughly.
  double cost() const;
  // How many complex numbers Run needs room for, beside its data, for each of the columns.
  int64_t room() const { return is_convolution() ? 2 * padded_ : n_; }

  // Transforms the columns of `data`, [n, columns] row by row, in place. When the step is cancelled it leaves
  // any values. `room` has room() * columns elements.
  void Run(Complex* data, int64_t columns, Complex* room, const Cancellation& cancellation) const;

 private:
  bool is_convolution() const { return padded_ > 0; }
  absl::Status MakeConvolution(KernelContext& context, FourierSign sign);
  // Transforms with the factors and roots given; the result is in either array, and returned.
  Complex* MixedRadix(Complex* data, Complex* other, int64_t n, int64_t columns,
                      const std::vector<int>& factors, const Complex* roots,
                      const Cancellation& cancellation) const;
  void Convolve(Complex* data, int64_t columns, Complex* room, const Cancellation& cancellation) const;

  int64_t n_ = 0;
  std::vector<int> factors_;  // of n, or of the padded length
  Tensor roots_;              // as many as the product of the factors
  // Of a convolution only.
  int64_t padded_ = 0;
  Tensor chirp_;   // [n] exp(-pi i k^2 / n)
  Tensor filter_;  // [padded] the transform of its conjugate, divided by the padded length
};

extern template class FourierPlan<float>;
extern template class FourierPlan<double>;

}  // namespace weir
