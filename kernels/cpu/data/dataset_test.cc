#include "kernels/cpu/data/dataset.h"

#include "absl/status/status.h"
#include "graph/types/allocator.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/data/held_elements.h"
#include "kernels/cpu/data/iterator_resource.h"
#include "kernels/cpu/data/list_dataset.h"
#include "kernels/cpu/data/saved_position.h"
#include "kernels/cpu/data_flow/held_tensor.h"
#include "kernels/cpu/data_flow/tensor_list.h"
#include "kernels/thread_pool.h"

namespace weir {
namespace {

// A buffer that counts its bytes must come to an end, whatever is in it.
TEST(NumBytesTest, EmptyTensorsAndErrorsCountToo) {
  const Element empty = {Tensor(DType::kFloat32, Shape({0}))};
  EXPECT_GT(NumBytes(Element()), 0);
  EXPECT_GT(NumBytes(empty), NumBytes(Element()));
  EXPECT_GT(NumBytes(absl::StatusOr<Element>(absl::InternalError(""))), 0);
}

TEST(NumBytesTest, AWindowCountsWithItsElements) {
  const Element large = {Tensor(DType::kFloat32, Shape({1000}))};
  HeldElements elements(1, "a window");
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(elements.Add(large, HostAllocator()).ok());
  const auto window = ListDataset::Variant({{DType::kFloat32}, {PartialShape({1000})}}, std::move(elements));
  ASSERT_TRUE(window.ok()) << window.status();
  EXPECT_GE(NumBytes(Element{*window}), 2 * NumBytes(large));
}

// A prefetch of lists held gigabytes, because it counted their handles.
TEST(NumBytesTest, AListCountsWithItsElementsAndEachOfThemOnce) {
  const Tensor large(DType::kFloat32, Shape({1000}));
  auto list = MakeRef<TensorList>(DType::kFloat32, PartialShape());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(list->PushBack(large).ok());
  Tensor variant = VariantOf(std::move(list));
  EXPECT_GE(NumBytes(Element{variant}), 3 * 4000);
  // Pushed into itself 60 times it is 2^60 lists for who counts each.
  for (int i = 0; i < 60; ++i) {
    auto twice = MakeRef<TensorList>(DType::kVariant, PartialShape());
    for (int k = 0; k < 2; ++k) ASSERT_TRUE(twice->PushBack(variant).ok());
    variant = VariantOf(std::move(twice));
  }
  EXPECT_LT(NumBytes(Element{variant}), 100000);
}

// A tensor in tiles of tiles is written as often as it is referred to.
TEST(SavedPositionTest, TilesOfTilesAreRefused) {
  const auto position_of = [](int count) {
    Tensor tensor = Tensor::Scalar<int64_t>(5);
    for (int depth = 1; depth <= 3; ++depth) {
      const Tensor held = VariantOf(MakeRef<HeldTensor>(tensor, depth));
      tensor = Tensor(DType::kVariant, Shape({count}));
      for (ResourceHandle& variant : tensor.flat<ResourceHandle>()) variant = held.flat<ResourceHandle>()[0];
    }
    return VariantOf(MakeRef<SavedPosition>(std::vector<Tensor>{tensor}));
  };
  EXPECT_TRUE(StringsOfPositions(position_of(3)).ok());
  EXPECT_EQ(StringsOfPositions(position_of(4000)).status().code(), absl::StatusCode::kResourceExhausted);
}

// Iterators of names may hold each other's handles, in chains as long as a graph: letting one go must not be
// a call for each link.
TEST(IteratorResourceTest, AChainOfIteratorsIsLetGoOneByOne) {
  ThreadPool threads(1);
  const std::unique_ptr<CpuDevice> device = MakeCpuDevice("localhost", 0, 0, threads);
  Cancellation cancellation;
  const IteratorResource::Caller caller = {*device, cancellation};
  const Dataset::Signature signature = {{DType::kResource}, {PartialShape::OfRank(0)}};
  Tensor handle;
  for (int i = 0; i < 200000; ++i) {
    auto iterator =
        MakeRef<IteratorResource>(IteratorResource::Owner::kSessionOrContainer, signature, nullptr);
    HeldElements elements(1, "a list");
    if (handle.is_valid()) ASSERT_TRUE(elements.Add({handle}, HostAllocator()).ok());
    const auto held = MakeRef<ListDataset>(signature, std::move(elements));
    ASSERT_TRUE(iterator->Initialize(caller, DatasetPtr::Share(held.get())).ok());
    ResourceHandle next;
    next.resource = std::move(iterator);
    handle = Tensor::Scalar(std::move(next));
  }
  handle = Tensor();
}

}  // namespace
}  // namespace weir
