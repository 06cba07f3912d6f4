// What of NCCL can be tried without a GPU: that it is opened, that its functions are the ones that are
// declared, and what it says where there is no driver.
#include "kernels/cuda/nccl_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <type_traits>

#include "kernels/cuda/cudart_api.h"
#include "kernels/cuda/recording_cuda_api.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

namespace weir {
namespace {

static_assert(ncclSuccess == static_cast<int>(kNcclSuccess));
static_assert(ncclInProgress == static_cast<int>(kNcclInProgress));
static_assert(ncclUint8 == static_cast<int>(kNcclUint8));
static_assert(ncclInt32 == static_cast<int>(kNcclInt32));
static_assert(ncclInt64 == static_cast<int>(kNcclInt64));
static_assert(ncclFloat32 == static_cast<int>(kNcclFloat32));
static_assert(ncclFloat64 == static_cast<int>(kNcclFloat64));
static_assert(ncclSum == static_cast<int>(kNcclSum));
static_assert(ncclProd == static_cast<int>(kNcclProd));
static_assert(ncclMax == static_cast<int>(kNcclMax));
static_assert(ncclMin == static_cast<int>(kNcclMin));

// Whether two functions are called alike: enums are as large as int, and pointers as pointers.
template <typename A, typename B>
constexpr bool kAreAlike = std::is_same_v<A, B> || (std::is_pointer_v<A> && std::is_pointer_v<B>) ||
                           (std::is_enum_v<A> && sizeof(A) == sizeof(int) && std::is_same_v<B, int>);
template <typename A, typename B>
struct SameCall : std::false_type {};
template <typename R, typename... A, typename S, typename... B>
requires(sizeof...(A) == sizeof...(B)) struct SameCall<R (*)(A...), S (*)(B...)>
    : std::bool_constant<kAreAlike<R, S> && (kAreAlike<A, B> && ...)> {
};

static_assert(SameCall<decltype(&ncclCommInitAll), decltype(NcclFunctions::init_all)>());
static_assert(SameCall<decltype(&ncclCommDestroy), decltype(NcclFunctions::destroy)>());
static_assert(SameCall<decltype(&ncclCommAbort), decltype(NcclFunctions::abort)>());
static_assert(SameCall<decltype(&ncclCommGetAsyncError), decltype(NcclFunctions::async_error)>());
static_assert(SameCall<decltype(&ncclGetErrorString), decltype(NcclFunctions::error_text)>());
static_assert(SameCall<decltype(&ncclGetLastError), decltype(NcclFunctions::last_error)>());
static_assert(SameCall<decltype(&ncclGroupStart), decltype(NcclFunctions::group_start)>());
static_assert(SameCall<decltype(&ncclGroupEnd), decltype(NcclFunctions::group_end)>());
static_assert(SameCall<decltype(&ncclAllReduce), decltype(NcclFunctions::all_reduce)>());
static_assert(SameCall<decltype(&ncclAllGather), decltype(NcclFunctions::all_gather)>());
static_assert(SameCall<decltype(&ncclBroadcast), decltype(NcclFunctions::broadcast)>());

}  // namespace
}  // namespace weir
#endif

namespace weir {
namespace {

using ::testing::HasSubstr;

class NcclLibraryTest : public ::testing::Test {
 protected:
  bool IsThere() {
    const absl::StatusOr<int> version = libraries_.Open(LibraryOfNccl());
    if (!version.ok()) std::printf("%s\n", version.status().ToString().c_str());
    return version.ok();
  }

  RecordingCudaApi api_{{.num_devices = 2}};
  CudaLibraries libraries_{CudaLibraryFolders()};
};

TEST_F(NcclLibraryTest, HasAllFunctionsAndSaysWhatIsWrong) {
  if (!IsThere()) GTEST_SKIP() << "no NCCL";
  const absl::StatusOr<NcclFunctions> functions = OpenNccl(libraries_);
  ASSERT_TRUE(functions.ok()) << functions.status();
  EXPECT_STREQ(functions->error_text(kNcclSuccess), "no error");
  const auto nccl = MakeNcclLibrary(api_, libraries_);
  EXPECT_TRUE(nccl->Open().ok());
  absl::MutexLock turn(&nccl->turn());
  float number = 1;
  const NcclRank nowhere = {.device = 1};
  const absl::Status status =
      nccl->AllReduce(nowhere, &number, &number, 1, DType::kFloat32, NcclReduction::kSum, {});
  EXPECT_THAT(std::string(status.message()), HasSubstr("ncclAllReduce: NCCL error 4 (invalid argument"));
  EXPECT_THAT(api_.log(), ::testing::ElementsAre("cudaSetDevice 1"));
}

TEST_F(NcclLibraryTest, WithoutADriverNothingIsConnected) {
  const std::unique_ptr<CudaApi> real = MakeCudartApi();
  if (!IsThere() || (real != nullptr && real->NumDevices().ok())) GTEST_SKIP() << "no NCCL, or a GPU";
  const auto nccl = MakeNcclLibrary(api_, libraries_);
  absl::MutexLock turn(&nccl->turn());
  const int devices[] = {0};
  const absl::Status status = nccl->Create(devices).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("ncclCommInitAll: NCCL error"));
}

// Under a name that no library has.
TEST_F(NcclLibraryTest, WithoutTheLibraryEveryCallSaysSo) {
  CudaLibrary missing = LibraryOfNccl();
  missing.file = "libnccl_that_is_not_there.so.2";
  const auto nccl = MakeNcclLibrary(api_, libraries_, missing);
  absl::MutexLock turn(&nccl->turn());
  for (const absl::Status& status : {nccl->Open(), nccl->BeginGroup(), nccl->EndGroup(), nccl->Open()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("NCCL, needed for collectives on GPUs, cannot be opened: "));
  }
}

TEST_F(NcclLibraryTest, AnOlderOneIsNotUsed) {
  if (!IsThere()) GTEST_SKIP() << "no NCCL";
  CudaLibrary newer = LibraryOfNccl();
  newer.oldest = 999999;
  CudaLibraries libraries(CudaLibraryFolders());
  const absl::Status status = MakeNcclLibrary(api_, libraries, newer)->Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is too old for collectives on GPUs"));
}

}  // namespace
}  // namespace weir
