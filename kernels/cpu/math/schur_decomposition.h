// The Schur form of square matrices, and what triangular matrices make easy: eigenvectors, square roots,
// logarithms. Matrices are row by row, n by n.
//
// Thread safety: pure functions on memory that the caller gives. They return soon after the step is
// cancelled, with values that mean nothing.
#pragma once

#include <complex>
#include <cstdint>

#include "kernels/cancellation.h"

namespace weir {

// a = u t u* with a unitary matrix u and an upper triangular one t, which takes the place of a. Inputs must
// be finite. `room` has n elements. False when the iteration did not converge.
//
// Householder's reduction to Hessenberg form, and the QR algorithm with Wilkinson's shift: Golub and Van
// Loan, "Matrix Computations", sections 7.4.2 and 7.5.
bool SchurForm(std::complex<double>* a, int64_t n, std::complex<double>* u, std::complex<double>* room,
               const Cancellation& cancellation);

// The eigenvectors of u t u*, of length 1, in the columns of `vectors`. `room` has n elements. Those of one
// eigenvalue more than once may be the same.
void EigenvectorsOfSchurForm(const std::complex<double>* t, const std::complex<double>* u, int64_t n,
                             std::complex<double>* room, std::complex<double>* vectors,
                             const Cancellation& cancellation);

// root * root = t, of the principal roots of the diagonal. A zero on the diagonal may give NaN. Bjorck and
// Hammarling, "A Schur method for the square root of a matrix" (1983).
void RootOfTriangular(const std::complex<double>* t, int64_t n, std::complex<double>* root,
                      const Cancellation& cancellation);

// exp(log) = t, of the principal logarithms of the diagonal. t is overwritten; `room` has 2 n^2 elements.
// Precondition: no zero on the diagonal.
//
// Roots are taken until t is near 1, where a quotient of polynomials is the logarithm (Higham, "Functions of
// Matrices", section 11.5), here as the sum of its partial fractions.
void LogarithmOfTriangular(std::complex<double>* t, int64_t n, std::complex<double>* room,
                           std::complex<double>* log, const Cancellation& cancellation);

// result = u m u* of an upper triangular matrix m. `room` has n^2 elements.
void TurnBack(const std::complex<double>* m, const std::complex<double>* u, int64_t n,
              std::complex<double>* room, std::complex<double>* result, const Cancellation& cancellation);

}  // namespace weir
