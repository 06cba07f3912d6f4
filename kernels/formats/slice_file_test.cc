#include "kernels/formats/slice_file.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/interchange/proto/checkpoint.pb.h"
#include "gtest/gtest.h"
#include "kernels/formats/memory_files.h"

namespace weir {
namespace {

using ::tensorflow::SavedSliceMeta;
using ::tensorflow::SavedTensorSlices;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Has no more than a limit, and knows what was asked for and given.
class LimitedAllocator final : public Allocator {
 public:
  RefPtr<Buffer> Allocate(size_t num_bytes) override {
    most_asked = std::max(most_asked, num_bytes);
    if (num_bytes > limit) return nullptr;
    RefPtr<Buffer> buffer = HostAllocator().Allocate(num_bytes);
    given.insert(buffer->data());
    return buffer;
  }
  int64_t num_bytes_in_use() const override { return 0; }

  size_t limit = 1 << 20;
  size_t most_asked = 0;
  std::set<const void*> given;
};

TensorSlice Box(std::vector<TensorSlice::Extent> extents) {
  TensorSlice slice;
  slice.extents = std::move(extents);
  return slice;
}

SavedSlice Part(const std::string& name, int64_t length, int64_t start, const std::vector<float>& values) {
  const auto count = static_cast<int64_t>(values.size());
  Tensor tensor = Tensor::Allocate(DType::kFloat32, Shape({count})).value();
  std::copy(values.begin(), values.end(), tensor.flat<float>().begin());
  return {name, Shape({length}), Box({{start, count}}), tensor};
}

std::vector<float> Values(const Tensor& tensor) {
  return {tensor.flat<float>().begin(), tensor.flat<float>().end()};
}

// What a file says that it has, without any values.
class Announced {
 public:
  Announced(DType dtype, std::vector<int64_t> dims) {
    tensor_ = message_.mutable_meta()->add_tensor();
    tensor_->set_name("v");
    tensor_->set_type(static_cast<tensorflow::DataType>(dtype));
    for (const int64_t dim : dims) tensor_->mutable_shape()->add_dim()->set_size(dim);
  }
  Announced& Slice(const TensorSlice& slice) {
    tensorflow::TensorSliceProto* const proto = tensor_->add_slice();
    for (const TensorSlice::Extent& extent : slice.extents) {
      tensorflow::TensorSliceProto::Extent* const written = proto->add_extent();
      if (extent.length == TensorSlice::Extent::kAll) continue;
      written->set_start(extent.start);
      written->set_length(extent.length);
    }
    return *this;
  }
  void WriteTo(MemoryFiles& files, const std::string& path,
               const std::vector<SortedTable::Entry>& records = {}) const {
    SortedTableBuilder table;
    ASSERT_TRUE(table.Add("", message_.SerializeAsString()).ok());
    for (const auto& [key, record] : records) ASSERT_TRUE(table.Add(key, record).ok());
    files.Put(path, table.Finish());
  }

 private:
  SavedTensorSlices message_;
  SavedSliceMeta* tensor_;
};

TEST(SliceFileTest, ReadsPartsOfSeveralFiles) {
  MemoryFiles files;
  ASSERT_TRUE(WriteSliceFile(files, "/0", {Part("v", 6, 0, {1, 2, 3})}).ok());
  ASSERT_TRUE(WriteSliceFile(files, "/1", {Part("v", 6, 3, {4, 5, 6})}).ok());
  const auto reader = SliceFileReader::Open(files, {"/0", "/1"});
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto read = [&](int64_t start, int64_t length) {
    return Values((*reader)->Read("v", Box({{start, length}}), HostAllocator()).value());
  };
  EXPECT_THAT(read(0, 6), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(read(0, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(read(2, 3), ElementsAre(3, 4, 5));
  EXPECT_THAT(read(4, 1), ElementsAre(5));
  EXPECT_THAT(read(4, 0), ElementsAre());
}

// Two tasks may each have saved it.
TEST(SliceFileTest, ASliceThatTwoFilesHaveIsReadOnce) {
  MemoryFiles files;
  ASSERT_TRUE(WriteSliceFile(files, "/0", {Part("v", 4, 0, {1, 2})}).ok());
  ASSERT_TRUE(WriteSliceFile(files, "/1", {Part("v", 4, 0, {1, 2}), Part("v", 4, 2, {3, 4})}).ok());
  const auto reader = SliceFileReader::Open(files, {"/0", "/1"});
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto all = (*reader)->Read("v", TensorSlice::WholeOf(Shape({4})), HostAllocator());
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(Values(*all), ElementsAre(1, 2, 3, 4));
  // Twice one half is not the whole.
  const auto half = SliceFileReader::Open(files, {"/0", "/0"});
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ((*half)->Read("v", TensorSlice::WholeOf(Shape({4})), HostAllocator()).status().code(),
            absl::StatusCode::kNotFound);
}

// They have as many elements as the tensor, and none has the last.
TEST(SliceFileTest, SlicesThatOverlapAreDamage) {
  MemoryFiles files;
  ASSERT_TRUE(WriteSliceFile(files, "/0", {Part("v", 6, 0, {1, 2, 3})}).ok());
  ASSERT_TRUE(WriteSliceFile(files, "/1", {Part("v", 6, 2, {3, 4, 5})}).ok());
  const absl::Status status = SliceFileReader::Open(files, {"/0", "/1"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("/1"), HasSubstr("'v'"), HasSubstr("overlap")));
}

TEST(SliceFileTest, TooManySlicesAreDamage) {
  MemoryFiles files;
  Announced announced(DType::kFloat32, {100'000});
  for (int64_t i = 0; i < 100'000; ++i) announced.Slice(Box({{i, 1}}));
  announced.WriteTo(files, "/m");
  const absl::Status status = SliceFileReader::Open(files, {"/m"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("slices"));
}

// A few bytes announce what would take gigabytes.
TEST(SliceFileTest, WhatIsOnlyAnnouncedTakesNoMemory) {
  const int64_t kMany = int64_t{1} << 31;
  const TensorSlice all = Box({{0, TensorSlice::Extent::kAll}});
  const TensorSlice halves[] = {Box({{0, kMany / 2}}), Box({{kMany / 2, kMany / 2}})};
  MemoryFiles files;
  const auto read = [&](const Announced& announced, const std::vector<SortedTable::Entry>& records = {}) {
    announced.WriteTo(files, "/m", records);
    LimitedAllocator allocator;
    const auto reader = SliceFileReader::Open(files, {"/m"});
    if (!reader.ok()) return reader.status();
    const absl::Status status = (*reader)->Read("v", all, allocator).status();
    EXPECT_EQ(allocator.most_asked, 0u);
    return status;
  };
  for (const DType dtype : {DType::kString, DType::kFloat32}) {
    SCOPED_TRACE(DTypeName(dtype));
    EXPECT_EQ(read(Announced(dtype, {kMany})).code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(read(Announced(dtype, {kMany}).Slice(halves[0])).code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(read(Announced(dtype, {kMany}).Slice(all)).code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(read(Announced(dtype, {kMany}).Slice(all), {{all.KeyFor("v"), ""}}).code(),
              absl::StatusCode::kDataLoss);
  }
  const Announced two = Announced(DType::kFloat32, {kMany}).Slice(halves[0]).Slice(halves[1]);
  EXPECT_EQ(read(two).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(read(two, {{halves[0].KeyFor("v"), std::string(100, 'x')}, {halves[1].KeyFor("v"), "x"}}).code(),
            absl::StatusCode::kDataLoss);
}

// A session's limit on memory counts there.
TEST(SliceFileTest, TensorsAreOfTheGivenAllocator) {
  MemoryFiles files;
  ASSERT_TRUE(WriteSliceFile(files, "/m", {Part("v", 1000, 0, std::vector<float>(1000, 1.f))}).ok());
  const auto reader = SliceFileReader::Open(files, {"/m"});
  ASSERT_TRUE(reader.ok()) << reader.status();
  LimitedAllocator allocator;
  for (const int64_t length : {1000, 500}) {
    allocator.limit = 4000;
    const auto tensor = (*reader)->Read("v", Box({{0, length}}), allocator);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_TRUE(allocator.given.contains(tensor->data()));
    allocator.limit = 4 * length - 1;
    EXPECT_EQ((*reader)->Read("v", Box({{0, length}}), allocator).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace weir
