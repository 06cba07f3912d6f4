// Row-wise arithmetic of neural networks on plain arrays, vectorised with run-time dispatch for float and
// double.
//
// Matrices are dense and row-major. An output may be an input of the same size (in place) but must not
// overlap it otherwise. NaN and infinity in a row make its results NaN, as in TensorFlow. Thread safety: pure
// functions.
#pragma once

#include <cstdint>

namespace weir {

// y[r,c] = x[r,c] + bias[c]
template <typename T>
void AddToRows(int64_t rows, int64_t columns, const T* x, const T* bias, T* y);
// sums[c] += sum over r of x[r,c]; row r begins at x + r * stride.
template <typename T>
void AddColumnSums(int64_t rows, int64_t columns, const T* x, int64_t stride, T* sums);

// y[r,c] = exp(x[r,c]) / sum over c of exp(x[r,c]), without overflow; and its logarithm.
template <typename T>
void Softmax(int64_t rows, int64_t columns, const T* x, T* y);
template <typename T>
void LogSoftmax(int64_t rows, int64_t columns, const T* x, T* y);

// loss[r] = - sum over c of labels[r,c] * log softmax(logits)[r,c];  gradient = softmax(logits) - labels.
// Row r of the logits begins at logits + r * logits_stride (0: the same row again), the labels' likewise.
// Terms with a label of 0 count as 0. gradient may be logits or labels only if their stride is `columns`.
template <typename T>
void CrossEntropy(int64_t rows, int64_t columns, const T* logits, int64_t logits_stride, const T* labels,
                  int64_t labels_stride, T* loss, T* gradient);
// The same for labels that are 1 at labels[r] and 0 elsewhere. Precondition: 0 <= labels[r] < columns.
template <typename T, typename Label>
void SparseCrossEntropy(int64_t rows, int64_t columns, const T* logits, const Label* labels, T* loss,
                        T* gradient);

}  // namespace weir
