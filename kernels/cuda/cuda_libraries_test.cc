#include "kernels/cuda/cuda_libraries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The C library stands for one of NVIDIA's, which few machines have.
int LibcVersion(void* function) {
  const char* const text = reinterpret_cast<const char* (*)()>(function)();
  int major = 0, minor = 0;
  return std::sscanf(text, "%d.%d", &major, &minor) == 2 ? major * 10000 + minor * 100 : -1;
}
constexpr CudaLibrary kLibc = {"Libc", "libc.so.6", "gnu_get_libc_version", LibcVersion, 20000, "tests"};

TEST(CudaLibrariesTest, GivesTheVersionAndFunctions) {
  CudaLibraries libraries({});
  const absl::StatusOr<int> version = libraries.Open(kLibc);
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_GE(*version, 20000);
  ASSERT_TRUE(libraries.Function(kLibc, "strlen").ok());
  const absl::Status none = libraries.Function(kLibc, "no_such_function").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()), StartsWith("Libc 2."));
  EXPECT_THAT(none.message(), HasSubstr("has no function no_such_function"));
}

TEST(CudaLibrariesTest, AMissingOneIsOneSentence) {
  CudaLibraries libraries({"/nowhere"});
  CudaLibrary missing = kLibc;
  missing.file = "libthere_is_no_such.so.7";
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = libraries.Open(missing).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()),
                StartsWith("Libc, needed for tests on GPUs, cannot be opened: "));
    EXPECT_THAT(status.message(), HasSubstr("libthere_is_no_such.so.7"));
  }
}

TEST(CudaLibrariesTest, OneThatIsTooOldSaysWhichIsNeeded) {
  CudaLibraries libraries({});
  CudaLibrary newer = kLibc;
  newer.oldest = 990000;
  const absl::Status status = libraries.Open(newer).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("is too old for tests on GPUs: 99.0.0 or newer is needed"));
}

TEST(CudaLibrariesTest, OneThatIsSomethingElseIsRefused) {
  CudaLibraries libraries({});
  CudaLibrary other = kLibc;
  other.version_function = "no_such_function";
  EXPECT_EQ(libraries.Open(other).status().message(), "libc.so.6 does not say which version of Libc it is");
}

TEST(CudaLibrariesTest, NvidiasAreFoundOrSayWhyNot) {
  CudaLibraries libraries(CudaLibraryFolders());
  for (const CudaLibrary& library : CudaLibraryList()) {
    const absl::StatusOr<int> version = libraries.Open(library);
    std::printf("%s: %s\n", library.name,
                version.ok() ? CudaLibraryVersion(*version).c_str() : version.status().ToString().c_str());
    if (version.ok()) {
      EXPECT_GE(*version, library.oldest);
    } else {
      EXPECT_THAT(version.status().message(), HasSubstr(library.name));
    }
  }
}

}  // namespace
}  // namespace weir
