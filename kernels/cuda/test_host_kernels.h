// Kernels for a RecordingCudaApi: the bodies of the real ones, run on the host by one thread after the other.
//
// Reductions and softmax are made for a whole block and have no bodies: plain loops stand in for them, which
// say nothing about the real ones. The API and this must live as long as launches.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/batch_norm_bodies.h"
#include "kernels/cuda/choice_bodies.h"
#include "kernels/cuda/data_check_bodies.h"
#include "kernels/cuda/element_bodies.h"
#include "kernels/cuda/indexed_bodies.h"
#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/pool_bodies.h"
#include "kernels/cuda/recording_cuda_api.h"
#include "kernels/cuda/training_bodies.h"

namespace weir {

class HostKernels {
 public:
  explicit HostKernels(RecordingCudaApi& api) : api_(api) {
    AddElementwise();
    AddChecks();
    AddUpdates();
    AddIndexed();
    AddRowUpdates();
    AddChoices();
    AddRows();
    AddBatchNorm();
    AddPools();
  }
  const CudaKernelTable& table() const { return table_; }

 private:
  // `run` gets the grid and the arguments.
  template <typename... P, typename Run>
  void Add(const std::string& name, std::vector<DType> dtypes, const Run& run) {
    const void* const address = addresses_.emplace_back(std::make_unique<char>()).get();
    table_.AddAddress(name, std::move(dtypes), address, {CudaParameterOf<P>()...});
    api_.SetKernel(address, [run](const RecordingCudaApi::Launched& launched) {
      [&]<size_t... I>(std::index_sequence<I...>) { run(launched.grid, launched.argument<P>(I)...); }
      (std::index_sequence_for<P...>());
    });
  }

  // Calls body(thread) for every thread of the grid.
  template <typename Body>
  static void ForEachThread(const CudaGrid& grid, const Body& body) {
    const int64_t count = int64_t{grid.blocks[0]} * grid.threads[0];
    for (int64_t i = 0; i < count; ++i) body(cuda::ThreadPosition{i, count});
  }

  void AddElementwise() {
    cuda::VisitUnary([this]<typename F, typename T>(const char* name) {
      Add<const T*, T*, int64_t>(name, {DTypeOf<T>}, [](const CudaGrid& grid, const T* x, T* y, int64_t n) {
        ForEachThread(grid, [=](cuda::ThreadPosition thread) { cuda::UnaryBody<F>(thread, x, y, n); });
      });
    });
    cuda::VisitBinary([this]<typename F, typename T>(const char* name) {
      Add<const T*, int64_t, const T*, int64_t, T*, int64_t>(
          name, {DTypeOf<T>},
          [](const CudaGrid& grid, const T* x, int64_t x_step, const T* y, int64_t y_step, T* z, int64_t n) {
            ForEachThread(grid, [=](cuda::ThreadPosition thread) {
              cuda::BinaryBody<F>(thread, x, x_step, y, y_step, z, n);
            });
          });
    });
    cuda::VisitCasts([this]<typename From, typename To>() {
      Add<const From*, To*, int64_t>(
          "Cast", {DTypeOf<From>, DTypeOf<To>}, [](const CudaGrid& grid, const From* x, To* y, int64_t n) {
            ForEachThread(grid, [=](cuda::ThreadPosition thread) { cuda::CastBody(thread, x, y, n); });
          });
    });
    cuda::VisitFloats([this]<typename T>() {
      Add<const T*, const T*, T*, int64_t, int64_t, int64_t>(
          "BiasAdd", {DTypeOf<T>},
          [](const CudaGrid& grid, const T* x, const T* bias, T* y, int64_t n, int64_t channels,
             int64_t inner) {
            ForEachThread(grid, [=](cuda::ThreadPosition thread) {
              cuda::BiasBody(thread, x, bias, y, n, channels, inner);
            });
          });
    });
    cuda::VisitSizes([this]<typename T>() {
      Add<const T*, T*, int64_t, cuda::SpreadDims>(
          "Spread", {DTypeOf<T>},
          [](const CudaGrid& grid, const T* x, T* y, int64_t n, const cuda::SpreadDims& dims) {
            ForEachThread(grid,
                          [&](cuda::ThreadPosition thread) { cuda::SpreadBody(thread, x, y, n, dims); });
          });
    });
    cuda::VisitDistributions([this]<typename Distribution, typename T>(const char* name) {
      Add<Philox, uint64_t, Distribution, T*, int64_t>(
          name, {DTypeOf<T>},
          [](const CudaGrid& grid, Philox start, uint64_t blocks, Distribution distribution, T* output,
             int64_t n) {
            ForEachThread(grid, [&](cuda::ThreadPosition thread) {
              cuda::RandomBody(thread, start, blocks, distribution, output, n);
            });
          });
    });
  }

  void AddChecks() {
    cuda::VisitFloats([this]<typename T>() {
      Add<const T*, int64_t, cuda::DataErrorPlace>(
          "CheckNumerics", {DTypeOf<T>},
          [](const CudaGrid& grid, const T* x, int64_t n, const cuda::DataErrorPlace& place) {
            ForEachThread(grid,
                          [&](cuda::ThreadPosition thread) { cuda::CheckNumericsBody(thread, x, n, place); });
          });
    });
    cuda::VisitSizes([this]<typename T>() {
      Add<const T*, const T*, T*, int64_t, const volatile cuda::DataError*>(
          "Choose", {DTypeOf<T>},
          [](const CudaGrid& grid, const T* value, const T* old, T* to, int64_t n,
             const volatile cuda::DataError* errors) {
            ForEachThread(grid, [=](cuda::ThreadPosition thread) {
              cuda::ChooseBody(thread, value, old, to, n, errors);
            });
          });
    });
  }

  void AddUpdates() {
    cuda::VisitRules([this]<typename Rule, typename T>(const char* name) {
      Add<cuda::UpdatedArrays<T>, cuda::UpdateScalars<T>, cuda::DataErrorPlace>(
          name, {DTypeOf<T>},
          [](const CudaGrid& grid, const cuda::UpdatedArrays<T>& updated,
             const cuda::UpdateScalars<T>& scalars, const cuda::DataErrorPlace& place) {
            for (uint32_t block = 0; block < grid.blocks[0]; ++block) {
              for (uint32_t thread = 0; thread < grid.threads[0]; ++thread) {
                cuda::UpdateBody<Rule>(updated, scalars, place, block, grid.blocks[0], thread,
                                       grid.threads[0]);
              }
            }
          });
    });
  }

  void AddIndexed() {
    cuda::VisitIndices([this]<typename Index>() {
      Add<const Index*, int64_t, int64_t, cuda::DataErrorPlace>(
          "CheckIndices", {DTypeOf<Index>},
          [](const CudaGrid& grid, const Index* indices, int64_t n, int64_t limit,
             const cuda::DataErrorPlace& place) {
            ForEachThread(grid, [&](cuda::ThreadPosition thread) {
              cuda::CheckIndicesBody(thread, indices, n, limit, place);
            });
          });
      cuda::VisitKeys([this]<typename Key>() {
        Add<const Index*, Key*, Key*, int64_t, int64_t, bool, cuda::DataErrorPlace>(
            "RowKeys", {DTypeOf<Index>, DTypeOf<Key>},
            [](const CudaGrid& grid, const Index* indices, Key* keys, Key* positions, int64_t n,
               int64_t limit, bool drops_negative, const cuda::DataErrorPlace& place) {
              ForEachThread(grid, [&](cuda::ThreadPosition thread) {
                cuda::RowKeysBody(thread, indices, keys, positions, n, limit, drops_negative, place);
              });
            });
      });
      cuda::VisitSizes([this]<typename Word>() {
        Add<const Word*, const Index*, Word*, int64_t, cuda::GatherDims, cuda::DataErrorPlace>(
            "Gather", {DTypeOf<Word>, DTypeOf<Index>},
            [](const CudaGrid& grid, const Word* params, const Index* indices, Word* output, int64_t n,
               const cuda::GatherDims& dims, const cuda::DataErrorPlace& place) {
              ForEachThread(grid, [&](cuda::ThreadPosition thread) {
                cuda::GatherBody(thread, params, indices, output, n, dims, place);
              });
            });
      });
    });
  }

  void AddRowUpdates() {
    cuda::VisitKeys([this]<typename Key>() {
      using Sorted = cuda::SortedRows<Key>;
      cuda::VisitScatters([this]<typename F, typename T>(const char* name) {
        Add<Sorted, int64_t, const T*, int64_t, T*, const volatile cuda::DataError*>(
            name, {DTypeOf<T>, DTypeOf<Key>},
            [](const CudaGrid& grid, const Sorted& sorted, int64_t inner, const T* updates, int64_t step,
               T* values, const volatile cuda::DataError* errors) {
              ForEachThread(grid, [&](cuda::ThreadPosition thread) {
                cuda::ScatterRowsBody<F>(thread, sorted, inner, updates, step, values, errors);
              });
            });
      });
      cuda::VisitRowRules([this]<typename Rule, typename T>(const char* name) {
        Add<Sorted, cuda::UpdatedRows<T>, cuda::UpdateScalars<T>, cuda::DataErrorPlace>(
            std::string(name) + "Rows", {DTypeOf<T>, DTypeOf<Key>},
            [](const CudaGrid& grid, const Sorted& sorted, const cuda::UpdatedRows<T>& updated,
               const cuda::UpdateScalars<T>& scalars, const cuda::DataErrorPlace& place) {
              ForEachThread(grid, [&](cuda::ThreadPosition thread) {
                cuda::UpdateRowsBody<Rule>(thread, sorted, updated, scalars, place);
              });
            });
      });
    });
  }

  void AddChoices() {
    cuda::VisitComparisons([this]<typename F, typename T>(const char* name) {
      Add<const T*, int64_t, const T*, int64_t, bool*, int64_t>(
          name, {DTypeOf<T>},
          [](const CudaGrid& grid, const T* x, int64_t x_step, const T* y, int64_t y_step, bool* z,
             int64_t n) {
            ForEachThread(grid, [=](cuda::ThreadPosition thread) {
              cuda::CompareBody<F>(thread, x, x_step, y, y_step, z, n);
            });
          });
    });
    Add<const bool*, bool*, int64_t>(
        "LogicalNot", {DType::kBool}, [](const CudaGrid& grid, const bool* x, bool* y, int64_t n) {
          ForEachThread(grid, [=](cuda::ThreadPosition thread) { cuda::LogicalNotBody(thread, x, y, n); });
        });
    cuda::VisitSizes([this]<typename Word>() {
      Add<const bool*, const Word*, const Word*, Word*, int64_t, cuda::ChoiceSteps>(
          "Select", {DTypeOf<Word>},
          [](const CudaGrid& grid, const bool* condition, const Word* yes, const Word* no, Word* to,
             int64_t n, const cuda::ChoiceSteps& steps) {
            ForEachThread(grid, [&](cuda::ThreadPosition thread) {
              cuda::SelectBody(thread, condition, yes, no, to, n, steps);
            });
          });
      Add<cuda::JoinedMatrices<Word>, Word*, int64_t>(
          "Join", {DTypeOf<Word>},
          [](const CudaGrid& grid, const cuda::JoinedMatrices<Word>& joined, Word* to, int64_t n) {
            ForEachThread(grid, [&](cuda::ThreadPosition thread) { cuda::JoinBody(thread, joined, to, n); });
          });
    });
  }

  // A row, or a column, is reduced from its first element to its last.
  template <typename F, typename T, typename To, typename Number>
  static void ReduceRows(const CudaGrid&, const T* x, To* y, int64_t rows, int64_t columns, Number first,
                         Number scale) {
    for (int64_t r = 0; r < rows; ++r) {
      Number all = first;
      for (int64_t c = 0; c < columns; ++c) all = F()(all, cuda::Load(x[r * columns + c]));
      cuda::Store(y[r], all * scale);
    }
  }

  template <typename T, typename Number>
  static void SumColumns(const CudaGrid&, const T* x, Number* partial, int64_t matrices, int64_t rows,
                         int64_t columns, int64_t parts) {
    const int64_t rows_each = (rows + parts - 1) / parts;
    for (int64_t i = 0; i < matrices * parts * columns; ++i) {
      const int64_t part = i / columns % parts, matrix = i / (parts * columns);
      partial[i] = 0;
      for (int64_t r = part * rows_each; r < std::min((part + 1) * rows_each, rows); ++r) {
        partial[i] += cuda::Load(x[(matrix * rows + r) * columns + i % columns]);
      }
    }
  }

  template <typename T, typename Number>
  static void EndColumns(const CudaGrid&, const Number* partial, T* y, int64_t matrices, int64_t columns,
                         int64_t parts, Number scale) {
    for (int64_t m = 0; m < matrices; ++m) {
      for (int64_t c = 0; c < columns; ++c) {
        Number sum = 0;
        for (int64_t part = 0; part < parts; ++part) sum += partial[(m * parts + part) * columns + c];
        cuda::Store(y[m * columns + c], sum * scale);
      }
    }
  }

  // `label_of(row, column)` is what the row's labels give the class.
  template <typename T, typename LabelOf>
  static void EntropyOfRow(const T* x, T* loss, T* gradient, int64_t columns, const LabelOf& label_of) {
    using Number = std::decay_t<decltype(cuda::Load(*x))>;
    Number maximum = -std::numeric_limits<Number>::infinity(), sum = 0, all = 0;
    for (int64_t c = 0; c < columns; ++c) maximum = std::max(maximum, cuda::Load(x[c]));
    for (int64_t c = 0; c < columns; ++c) sum += std::exp(cuda::Load(x[c]) - maximum);
    for (int64_t c = 0; c < columns; ++c) {
      const Number shifted = cuda::Load(x[c]) - maximum, label = label_of(c);
      if (label != 0) all += label * (std::log(sum) - shifted);
      cuda::Store(gradient[c], std::exp(shifted) * (1 / sum) - label);
    }
    cuda::Store(*loss, all + (sum - sum));
  }

  template <typename T>
  static void EntropyOfRows(const CudaGrid&, const T* x, const T* labels, T* losses, T* gradient,
                            int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = r * columns;
      EntropyOfRow(x + at, losses + r, gradient + at, columns,
                   [&](int64_t c) { return cuda::Load(labels[at + c]); });
    }
  }

  template <typename T, typename Label>
  static void SparseEntropyOfRows(const CudaGrid&, const T* x, const Label* labels, T* losses, T* gradient,
                                  int64_t rows, int64_t columns, const cuda::DataErrorPlace& place) {
    using Number = std::decay_t<decltype(cuda::Load(*x))>;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = r * columns, label = labels[r];
      if (label >= 0 && label < columns) {
        EntropyOfRow(x + at, losses + r, gradient + at, columns,
                     [=](int64_t c) { return static_cast<Number>(c == label); });
        continue;
      }
      NoteDataError(place, 0);
      const Number nan = std::numeric_limits<Number>::quiet_NaN();
      cuda::Store(losses[r], nan);
      for (int64_t c = 0; c < columns; ++c) cuda::Store(gradient[at + c], nan);
    }
  }

  void AddRows() {
    cuda::VisitFloats([&]<typename T>() {
      using Number = std::decay_t<decltype(cuda::Load(std::declval<const T&>()))>;
      const std::vector<DType> dtype = {DTypeOf<T>};
      Add<const T*, T*, int64_t, int64_t, Number, Number>("RowSum", dtype,
                                                          &ReduceRows<elementwise::Add, T, T, Number>);
      Add<const T*, T*, int64_t, int64_t, Number, Number>("RowMax", dtype,
                                                          &ReduceRows<elementwise::Maximum, T, T, Number>);
      Add<const T*, T*, int64_t, int64_t, Number, Number>("RowMin", dtype,
                                                          &ReduceRows<elementwise::Minimum, T, T, Number>);
      if constexpr (!std::is_same_v<T, Number>) {
        Add<const T*, Number*, int64_t, int64_t, Number, Number>(
            "RowSumTo", {DTypeOf<T>, DTypeOf<Number>}, &ReduceRows<elementwise::Add, T, Number, Number>);
        Add<const Number*, T*, int64_t, int64_t, Number, Number>(
            "RowSumTo", {DTypeOf<Number>, DTypeOf<T>}, &ReduceRows<elementwise::Add, Number, T, Number>);
      }
      Add<const T*, Number*, int64_t, int64_t, int64_t, int64_t>("ColumnSum", dtype, &SumColumns<T, Number>);
      Add<const Number*, T*, int64_t, int64_t, int64_t, Number>("ColumnSumEnd", dtype,
                                                                &EndColumns<T, Number>);
      Add<const T*, const T*, T*, T*, int64_t, int64_t>("CrossEntropy", dtype, &EntropyOfRows<T>);
      const auto sparse = [&]<typename Label>(const Label*) {
        Add<const T*, const Label*, T*, T*, int64_t, int64_t, cuda::DataErrorPlace>(
            "SparseCrossEntropy", {DTypeOf<T>, DTypeOf<Label>}, &SparseEntropyOfRows<T, Label>);
      };
      sparse(static_cast<const int32_t*>(nullptr));
      sparse(static_cast<const int64_t*>(nullptr));
    });
  }

  void AddBatchNorm() {
    using cuda::BatchNormAttrs, cuda::BatchNormVectors, cuda::ChannelDims, cuda::ChannelParts;
    cuda::VisitNormalized([this]<typename T>() {
      const std::vector<DType> dtype = {DTypeOf<T>};
      Add<const T*, double*, ChannelDims, ChannelParts>(
          "BatchMoments", dtype,
          [](const CudaGrid& grid, const T* x, double* moments, const ChannelDims& dims,
             const ChannelParts& parts) {
            ForEachThread(grid, [&](cuda::ThreadPosition thread) {
              cuda::MomentsBody(thread, x, moments, dims, parts);
            });
          });
      Add<const T*, const T*, const float*, double*, ChannelDims, ChannelParts>(
          "BatchGradientSums", dtype,
          [](const CudaGrid& grid, const T* dy, const T* x, const float* mean, double* sums,
             const ChannelDims& dims, const ChannelParts& parts) {
            ForEachThread(grid, [&](cuda::ThreadPosition thread) {
              cuda::GradientSumsBody(thread, dy, x, mean, sums, dims, parts);
            });
          });
      Add<const T*, T*, int64_t, ChannelDims, const float*, const float*, const float*>(
          "BatchNormalize", dtype,
          [](const CudaGrid& grid, const T* x, T* y, int64_t n, const ChannelDims& dims, const float* mean,
             const float* factor, const float* offset) {
            ForEachThread(grid, [&](cuda::ThreadPosition thread) {
              cuda::NormalizeBody(thread, x, y, n, dims, mean, factor, offset);
            });
          });
      Add<const T*, const T*, T*, int64_t, ChannelDims, const float*, const float*>(
          "BatchBackprop", dtype,
          [](const CudaGrid& grid, const T* dy, const T* x, T* dx, int64_t n, const ChannelDims& dims,
             const float* mean, const float* slopes) {
            ForEachThread(grid, [&](cuda::ThreadPosition thread) {
              cuda::BackpropBody(thread, dy, x, dx, n, dims, mean, slopes);
            });
          });
    });
    const auto combine = [this](const char* name, auto body) {
      Add<const double*, double*, int64_t, ChannelParts>(
          name, {},
          [body](const CudaGrid& grid, const double* from, double* to, int64_t channels,
                 const ChannelParts& parts) {
            ForEachThread(grid,
                          [&](cuda::ThreadPosition thread) { body(thread, from, to, channels, parts); });
          });
    };
    combine("BatchCombineMoments", &cuda::CombineMomentsBody);
    combine("BatchCombineSums", &cuda::CombineSumsBody);
    Add<const double*, int64_t, int64_t, BatchNormAttrs, BatchNormVectors>(
        "BatchStatistics", {},
        [](const CudaGrid& grid, const double* moments, int64_t channels, int64_t count,
           const BatchNormAttrs& attrs, const BatchNormVectors& vectors) {
          ForEachThread(grid, [&](cuda::ThreadPosition thread) {
            cuda::BatchStatisticsBody(thread, moments, channels, count, attrs, vectors);
          });
        });
    Add<const double*, int64_t, int64_t, const float*, const float*, BatchNormAttrs, float*, float*, float*>(
        "BatchGradient", {},
        [](const CudaGrid& grid, const double* sums, int64_t channels, int64_t count, const float* scale,
           const float* variance, const BatchNormAttrs& attrs, float* scale_gradient, float* offset_gradient,
           float* slopes) {
          ForEachThread(grid, [&](cuda::ThreadPosition thread) {
            cuda::BatchGradientBody(thread, sums, channels, count, scale, variance, attrs, scale_gradient,
                                    offset_gradient, slopes);
          });
        });
  }

  void AddPools() {
    using cuda::PoolDims;
    cuda::VisitFloats([this]<typename T>() {
      // From one array to another.
      const auto add = [this](const char* name, auto body) {
        Add<const T*, T*, int64_t, PoolDims>(
            name, {DTypeOf<T>},
            [body](const CudaGrid& grid, const T* from, T* to, int64_t n, const PoolDims& dims) {
              ForEachThread(grid, [&](cuda::ThreadPosition thread) { body(thread, from, to, n, dims); });
            });
      };
      add("MaxPool", &cuda::MaxPoolBody<T>);
      add("AvgPool", &cuda::AvgPoolBody<T>);
      add("AvgPoolGrad", &cuda::AvgPoolGradBody<T>);
      Add<const T*, const T*, T*, int64_t, PoolDims>(
          "MaxPoolGrad", {DTypeOf<T>},
          [](const CudaGrid& grid, const T* x, const T* dy, T* dx, int64_t n, const PoolDims& dims) {
            ForEachThread(grid, [&](cuda::ThreadPosition thread) {
              cuda::MaxPoolGradBody(thread, x, dy, dx, n, dims);
            });
          });
    });
  }

  RecordingCudaApi& api_;
  std::vector<std::unique_ptr<char>> addresses_;  // functions that are nowhere
  CudaKernelTable table_;
};

}  // namespace weir
