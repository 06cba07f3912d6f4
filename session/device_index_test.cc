// The position of a node's device among types of devices.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "session/test_op_session.h"

namespace weir {
namespace {

class DeviceIndexTest : public TestOpSession {
 protected:
  Output IndexIn(const std::string& device, std::vector<std::string> names) {
    auto scope = g_.DeviceScope(device);
    return g_.AddOp("DeviceIndex", {}, {{"device_names", std::move(names)}});
  }
};

TEST_F(DeviceIndexTest, IsThatOfTheType) {
  const std::string cpu = "/device:CPU:0", gpu = "/device:GPU:0";
  const auto values = RunAnew({IndexIn(cpu, {"CPU", "GPU"}), IndexIn(gpu, {"CPU", "GPU"}),
                               IndexIn(cpu, {"GPU", "CPU"}), IndexIn(cpu, {"cpu"})});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<int32_t>(), 0);
  EXPECT_EQ((*values)[1].scalar<int32_t>(), 1);
  EXPECT_EQ((*values)[2].scalar<int32_t>(), 1);
  EXPECT_EQ((*values)[3].scalar<int32_t>(), 1);
}

}  // namespace
}  // namespace weir
