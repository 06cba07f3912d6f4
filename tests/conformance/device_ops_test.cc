#include "kernels/device_ops.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

// A name that no schema has would be passed over without a word.
TEST(DeviceOps, EachNameIsThatOfAnOpAndOfItsArguments) {
  KernelRegistry kernels;
  std::vector<std::string> missing;
  for (const std::string& name : NamesOfDeviceOps()) {
    const Op* const op = StandardOps().Find(name);
    if (op == nullptr) {
      missing.push_back(name);
      continue;
    }
    kernels.Register({.op = name, .device_type = "GPU"});
  }
  EXPECT_TRUE(missing.empty()) << missing.front();
  SetHostArguments(kernels, "GPU", StandardOps());
  for (const std::string& name : NamesOfDeviceOps()) {
    const Op& op = *StandardOps().Find(name);
    const auto has = [](const std::vector<ArgDef>& args, const std::string& wanted) {
      return std::any_of(args.begin(), args.end(), [&](const ArgDef& arg) { return arg.name == wanted; });
    };
    for (const KernelDef* def : kernels.DefsFor(name)) {
      EXPECT_FALSE(def->is_on_host) << name;
      for (const std::string& input : def->host_inputs) EXPECT_TRUE(has(op.inputs(), input)) << name << input;
      for (const std::string& output : def->host_outputs) {
        EXPECT_TRUE(has(op.outputs(), output)) << name << output;
      }
    }
  }
}

}  // namespace
}  // namespace weir
