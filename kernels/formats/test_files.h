// For tests: paths of TensorFlow's own files, and a folder for what a test writes.
#pragma once

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "kernels/formats/file_system.h"

namespace weir {

inline std::string TestData(const std::string& name) { return "kernels/formats/testdata/" + name; }

// A new empty folder of this test.
inline std::string NewTestDirectory() {
  const char* root = std::getenv("TEST_TMPDIR");
  std::string path = std::string(root != nullptr ? root : "/tmp") + "/XXXXXX";
  EXPECT_NE(mkdtemp(path.data()), nullptr);
  return path;
}

// The whole file without any check.
inline std::string ReadBytes(const std::string& path) {
  const absl::StatusOr<std::string> bytes = ReadWholeFile(PosixFileSystem(), path);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.value_or("");
}

inline void WriteBytes(const std::string& path, absl::string_view bytes) {
  const auto file = PosixFileSystem().Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append(bytes).ok());
  ASSERT_TRUE((*file)->Close().ok());
}

}  // namespace weir
