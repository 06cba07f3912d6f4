// Passes over files that are gone on with: after an error, and from a saved position.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/test_files.h"
#include "session/test_op_session.h"

namespace weir {
namespace {

using D = DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RestoredPassesTest : public TestOpSession {
 protected:
  struct Pass {
    Node* make;
    Output next;
    Node *save, *restore;
  };

  Output Text(const std::string& value) { return Const(Tensor::Scalar(value)); }
  Output Range(int64_t stop) {
    return g_.AddOp(
        "RangeDataset",
        {Const(Tensor::Scalar(int64_t{0})), Const(Tensor::Scalar(stop)), Const(Tensor::Scalar(int64_t{1}))},
        Numbers());
  }
  static AttrMap Numbers() {
    return {{"output_types", std::vector<DType>{D::kInt64}},
            {"output_shapes", std::vector<PartialShape>{PartialShape::OfRank(0)}}};
  }
  Pass Over(Output dataset) {
    AttrMap attrs = Numbers();
    attrs["shared_name"] = "";
    attrs["container"] = "";
    const Output iterator = g_.AddOp("IteratorV2", {}, attrs);
    Node* const save = g_.AddNode("SerializeIterator", {iterator});
    return {g_.AddNode("MakeIterator", {dataset, iterator}),
            g_.AddOp("IteratorGetNext", {iterator}, Numbers()), save,
            g_.AddNode("DeserializeIterator", {iterator, Saved()})};
  }
  // Fed with what `save` gave.
  Output Saved() {
    if (saved_.node == nullptr) {
      saved_ = g_.AddOp("Placeholder", {}, {{"dtype", D::kVariant}, {"shape", PartialShape::OfRank(0)}});
    }
    return saved_;
  }

  absl::Status RunNode(Node* node) { return session().Run({}, {}, {node}).status(); }
  Tensor Save(const Pass& pass) { return session().Run({}, {pass.save->output(0)}).value()[0]; }
  absl::Status Restore(const Pass& pass, const Tensor& position) {
    return session().Run({{Saved(), position}}, {}, {pass.restore}).status();
  }
  // Elements until the first error, which ends up in last_.
  std::vector<int64_t> Take(const Pass& pass, int count, absl::Duration timeout = absl::ZeroDuration()) {
    std::vector<int64_t> values;
    for (int i = 0; i < count; ++i) {
      const auto result = session().Run({}, {pass.next}, {}, {.timeout = timeout});
      last_ = result.status();
      if (!result.ok()) break;
      values.push_back((*result)[0].scalar<int64_t>());
    }
    return values;
  }

  Output saved_;
  absl::Status last_;
};

// SQLite begins a query anew that it did not come to the end of: its first row came once more.
TEST_F(RestoredPassesTest, AQueryGoesOnAfterAnError) {
  constexpr int64_t kFar = 4'000'000;  // a second
  const std::string query = absl::StrCat(
      "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t WHERE n < 3 OR n = ",
      kFar, " OR n = ", kFar + 1);
  const Pass pass = Over(g_.AddOp("SqlDataset", {Text("sqlite"), Text(":memory:"), Text(query)}, Numbers()));
  ASSERT_TRUE(RunNode(pass.make).ok());
  EXPECT_THAT(Take(pass, 2), ElementsAre(1, 2));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Take(pass, 1, absl::Milliseconds(50)), IsEmpty());
    EXPECT_EQ(last_.code(), absl::StatusCode::kDeadlineExceeded) << last_;
  }
  const Tensor position = Save(pass);
  EXPECT_THAT(Take(pass, 2), ElementsAre(kFar, kFar + 1));
  ASSERT_EQ(Restore(pass, position), absl::OkStatus());
  EXPECT_THAT(Take(pass, 1), ElementsAre(kFar)) << last_;
}

class RestoredCachesTest : public RestoredPassesTest {
 protected:
  Pass Cached(int64_t size) { return Over(g_.AddOp("CacheDataset", {Range(size), Text(name_)}, Numbers())); }
  void DeleteCache() {
    for (const char* suffix : {".index", ".data-00000-of-00001"})
      ASSERT_TRUE(PosixFileSystem().Remove(name_ + suffix).ok());
  }

  const std::string name_ = absl::StrCat(NewTestDirectory(), "/cache");
};

// Elements from the third on were written anew, under the names of others: later passes were empty.
TEST_F(RestoredCachesTest, APassWhoseCacheIsGoneIsRefused) {
  const Pass pass = Cached(4), other = Cached(4);
  ASSERT_TRUE(RunNode(pass.make).ok());
  ASSERT_THAT(Take(pass, 9), ElementsAre(0, 1, 2, 3));
  ASSERT_TRUE(RunNode(pass.make).ok());
  ASSERT_THAT(Take(pass, 2), ElementsAre(0, 1));
  const Tensor position = Save(pass);
  ASSERT_EQ(Restore(pass, position), absl::OkStatus());
  EXPECT_THAT(Take(pass, 9), ElementsAre(2, 3));
  DeleteCache();
  ASSERT_EQ(Restore(pass, position), absl::OkStatus());
  EXPECT_THAT(Take(pass, 9), IsEmpty());
  EXPECT_EQ(last_.code(), absl::StatusCode::kNotFound) << last_;
  EXPECT_THAT(std::string(last_.message()), HasSubstr(name_));
  EXPECT_THAT(std::string(last_.message()), HasSubstr("restored behind 2 elements"));
  ASSERT_TRUE(RunNode(other.make).ok());
  EXPECT_THAT(Take(other, 9), ElementsAre(0, 1, 2, 3)) << "nothing of the cache stayed";
}

TEST_F(RestoredCachesTest, APassBehindTheEndOfItsCacheIsRefused) {
  const Pass pass = Cached(4), other = Cached(1);
  ASSERT_TRUE(RunNode(pass.make).ok());
  ASSERT_THAT(Take(pass, 9), ElementsAre(0, 1, 2, 3));
  const Tensor end = Save(pass);
  ASSERT_EQ(Restore(pass, end), absl::OkStatus());
  EXPECT_THAT(Take(pass, 9), IsEmpty());
  EXPECT_EQ(last_.code(), absl::StatusCode::kOutOfRange) << last_;
  DeleteCache();
  ASSERT_TRUE(RunNode(other.make).ok());
  ASSERT_THAT(Take(other, 9), ElementsAre(0));
  ASSERT_EQ(Restore(pass, end), absl::OkStatus());
  EXPECT_THAT(Take(pass, 9), IsEmpty());
  EXPECT_EQ(last_.code(), absl::StatusCode::kFailedPrecondition) << last_;
  EXPECT_THAT(std::string(last_.message()), HasSubstr("has fewer than the 4 elements"));
}

}  // namespace
}  // namespace weir
