// Eigenvalues of Hermitian matrices and singular values of any, with their vectors. T is double or
// std::complex<double>; matrices are row by row.
//
// Thread safety: pure functions on memory that the caller gives. They return soon after the step is
// cancelled, with values that mean nothing. Inputs must be finite.
#pragma once

#include <complex>
#include <cstdint>

#include "kernels/cancellation.h"

namespace weir {

// The eigenvalues of `a` [n, n], of which the lower triangle is read, in ascending order. a is overwritten:
// by the eigenvectors, one in each row, if `wants_vectors`. `room` has n elements, `values` and
// `off_diagonal` have n too. False when the iteration did not converge.
//
// Householder's tridiagonalization and the implicit QR algorithm with Wilkinson's shift: Golub and Van Loan,
// "Matrix Computations", sections 8.3.1 and 8.3.3.
template <typename T>
bool HermitianEigenvalues(T* a, int64_t n, bool wants_vectors, T* vectors, T* room, double* values,
                          double* off_diagonal, const Cancellation& cancellation);

// The singular values of a matrix of `count` columns of `length` >= count elements, a column in each row of
// `columns`, in descending order. Afterwards row i of `columns` is the left singular vector of value i times
// that value. Unless `right` is null, its row i becomes the right singular vector, of `count` elements.
// `values` has room for count. False when the iteration did not converge.
//
// One-sided Jacobi rotations (Hestenes; Golub and Van Loan, section 8.6.3): small values are as exact as
// large ones.
template <typename T>
bool SingularValues(T* columns, int64_t count, int64_t length, T* right, double* values,
                    const Cancellation& cancellation);

// Makes of rows [0, count) of `rows` vectors of length 1, where `lengths` are theirs, and adds rows up to
// `total` so that all are orthogonal. Rows whose length is nothing beside the largest are made anew too.
// `room` has `size` elements, as a row has. Precondition: total <= size.
template <typename T>
void CompleteOrthonormal(T* rows, int64_t count, const double* lengths, int64_t total, int64_t size, T* room,
                         const Cancellation& cancellation);

}  // namespace weir
