// Kernels for a RecordingCudaApi: the bodies of the real ones, run on the host by one thread after the other.
//
// Reductions and softmax are made for a whole block and have no bodies: they are only written down. The API
// and this must live as long as launches.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/element_bodies.h"
#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/recording_cuda_api.h"
#include "kernels/cuda/training_bodies.h"

namespace weir {

class HostKernels {
 public:
  explicit HostKernels(RecordingCudaApi& api) : api_(api) {
    AddElementwise();
    AddUpdates();
    AddRows();
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

  void AddUpdates() {
    cuda::VisitRules([this]<typename Rule, typename T>(const char* name) {
      Add<cuda::UpdatedArrays<T>, Rule>(
          name, {DTypeOf<T>},
          [](const CudaGrid& grid, const cuda::UpdatedArrays<T>& updated, const Rule& rule) {
            for (uint32_t block = 0; block < grid.blocks[0]; ++block) {
              for (uint32_t thread = 0; thread < grid.threads[0]; ++thread) {
                cuda::UpdateBody(updated, rule, block, grid.blocks[0], thread, grid.threads[0]);
              }
            }
          });
    });
  }

  void AddRows() {
    const auto ignore = [](const CudaGrid&, const auto&...) {};
    cuda::VisitFloats([&]<typename T>() {
      using Number = std::decay_t<decltype(cuda::Load(std::declval<const T&>()))>;
      for (const char* name : {"RowSum", "RowMax", "RowMin"}) {
        Add<const T*, T*, int64_t, int64_t, Number, Number>(name, {DTypeOf<T>}, ignore);
      }
      Add<const T*, Number*, int64_t, int64_t, int64_t>("ColumnSum", {DTypeOf<T>}, ignore);
      Add<const Number*, T*, int64_t, int64_t>("ColumnSumEnd", {DTypeOf<T>}, ignore);
      Add<const T*, const T*, T*, T*, int64_t, int64_t>("CrossEntropy", {DTypeOf<T>}, ignore);
      for (const DType label : {DType::kInt32, DType::kInt64}) {
        Add<const T*, const void*, T*, T*, int64_t, int64_t, uint64_t*>("SparseCrossEntropy",
                                                                        {DTypeOf<T>, label}, ignore);
      }
    });
  }

  RecordingCudaApi& api_;
  std::vector<std::unique_ptr<char>> addresses_;  // functions that are nowhere
  CudaKernelTable table_;
};

}  // namespace weir
