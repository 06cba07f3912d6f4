#include "kernels/resource_manager.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

class Table final : public Resource {
 public:
  static constexpr char kTypeName[] = "Table";
  std::string ToString() const override { return "Table"; }
};

class Counter final : public Resource {
 public:
  static constexpr char kTypeName[] = "Counter";
  std::string ToString() const override { return "Counter"; }
};

TEST(ResourceManagerTest, ResourcesOfDifferentTypesMayHaveTheSameName) {
  ResourceManager resources("home");
  const auto table = resources.LookupOrCreate<Table>("", "words", [] { return MakeRef<Table>(); });
  const auto counter = resources.LookupOrCreate<Counter>("", "words", [] { return MakeRef<Counter>(); });
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_TRUE(counter.ok()) << counter.status();
  EXPECT_EQ(resources.Lookup<Table>("home", "words")->get(), table->get());
  EXPECT_EQ(resources.Lookup<Counter>("", "words")->get(), counter->get());

  ASSERT_TRUE(resources.Delete({.container = "home", .name = "words", .type_name = "Table"}).ok());
  EXPECT_EQ(resources.Lookup<Table>("", "words").status().message(),
            "no resource 'words' of type Table in container 'home'; of that name there is: Counter");
  EXPECT_TRUE(resources.Lookup<Counter>("", "words").ok());
}

TEST(ResourceManagerTest, ACreatorThatFailsLeavesNothing) {
  ResourceManager resources("home");
  const auto fails = []() -> absl::StatusOr<RefPtr<Table>> { return absl::DataLossError("no such file"); };
  EXPECT_EQ(resources.LookupOrCreate<Table>("", "words", fails).status().message(), "no such file");
  EXPECT_TRUE(absl::IsNotFound(resources.Lookup<Table>("", "words").status()));
  EXPECT_TRUE(resources.LookupOrCreate<Table>("", "words", [] { return MakeRef<Table>(); }).ok());
}

TEST(ResourceManagerTest, ResettingDropsWhatIsInTheContainers) {
  ResourceManager resources("home");
  for (const char* container : {"", "a", "b"}) {
    ASSERT_TRUE(resources.LookupOrCreate<Table>(container, "t", [] { return MakeRef<Table>(); }).ok());
  }
  resources.ResetContainers({});
  EXPECT_FALSE(resources.Lookup<Table>("home", "t").ok());
  resources.ResetContainers({"a"});
  EXPECT_FALSE(resources.Lookup<Table>("a", "t").ok());
  EXPECT_TRUE(resources.Lookup<Table>("b", "t").ok());
}

}  // namespace
}  // namespace weir
