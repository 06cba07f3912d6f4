#include "kernels/prepared_forms.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir {
namespace {

class PreparedFormsTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<const int>> Find(int key) {
    return forms_.FindOrCreate(key, [&]() -> absl::StatusOr<std::shared_ptr<const int>> {
      made_.push_back(key);
      if (key < 0) return absl::UnimplementedError("none");
      if (key == 0) return absl::InternalError("broken");
      return std::make_shared<const int>(10 * key);
    });
  }

  PreparedForms<int, int> forms_{3};
  std::vector<int> made_;
};

TEST_F(PreparedFormsTest, TheLeastRecentlyUsedGoesWhenThereAreTooMany) {
  for (const int key : {1, 2, 3, 1, 4}) EXPECT_EQ(**Find(key), 10 * key);  // 2 goes
  EXPECT_EQ(made_, std::vector<int>({1, 2, 3, 4}));
  for (const int key : {1, 3, 4, 2}) EXPECT_EQ(**Find(key), 10 * key);  // 1 goes
  EXPECT_EQ(made_, std::vector<int>({1, 2, 3, 4, 2}));
  Find(1).IgnoreError();
  EXPECT_EQ(made_.back(), 1);
}

TEST_F(PreparedFormsTest, ThatThereIsNoneIsKeptAndOtherErrorsAreNot) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(absl::IsUnimplemented(Find(-1).status()));
    EXPECT_TRUE(absl::IsInternal(Find(0).status()));
  }
  EXPECT_EQ(made_, std::vector<int>({-1, 0, 0}));
}

TEST_F(PreparedFormsTest, ClearedAllAreMadeAnew) {
  const auto kept = Find(1);
  forms_.Clear();
  EXPECT_EQ(**kept, 10);
  Find(1).IgnoreError();
  EXPECT_EQ(made_, std::vector<int>({1, 1}));
}

}  // namespace
}  // namespace weir
