// Barriers and the memory of their device.
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/register_kernels.h"
#include "tests/conformance/kernel_under_test.h"

namespace weir {
namespace {

TEST(BarrierTest, WhatItHoldsIsTheDevicesMemory) {
  TestHost host(
      {[](DeviceKernels& kernels) { RegisterCpuKernels(kernels.registry(), kernels.device_type()); }},
      /*memory_limit=*/4000);
  KernelUnderTest barrier(host, "Barrier", {},
                          {{"component_types", std::vector<DType>{DType::kInt64}},
                           {"shapes", std::vector<PartialShape>{PartialShape({1000})}},
                           {"capacity", int64_t{-1}},
                           {"container", ""},
                           {"shared_name", ""}},
                          "barrier");
  const Tensor handle = barrier.Get({});
  KernelUnderTest insert(host, "BarrierInsertMany", {handle.dtype(), DType::kString, DType::kInt64},
                         {{"component_index", int64_t{0}}});
  const absl::Status status =
      insert.Run({handle, Tensor::Vector<std::string>({"key"}), Tensor(DType::kInt64, Shape({1, 1000}))})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

}  // namespace
}  // namespace weir
