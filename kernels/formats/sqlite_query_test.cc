#include "kernels/formats/sqlite_query.h"

#include <sqlite3.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/allowed_files.h"
#include "kernels/formats/test_files.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SqliteQueryTest : public testing::Test {
 protected:
  SqliteQueryTest() : folder_(NewTestDirectory()), path_(folder_ + "/numbers.db") {
    Write(path_,
          "create table t(i integer, r real, s text);"
          "insert into t values(1, 0.5, 'one'), (-5000000000, 1e300, x'6100'), (null, null, null)");
  }

  static void Write(const std::string& path, const std::string& statements) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(database, statements.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
  }

  absl::StatusOr<std::unique_ptr<SqliteQuery>> Query(const std::string& query) {
    return SqliteQuery::Create(path_, query, files_);
  }
  // The first column as text, of all rows.
  std::vector<std::string> Texts(const std::string& query) {
    std::vector<std::string> texts;
    last_ = absl::OkStatus();
    auto rows = Query(query);
    while (rows.ok()) {
      const absl::StatusOr<bool> has_row = (*rows)->Next([] { return absl::OkStatus(); });
      last_ = has_row.status();
      if (!has_row.ok() || !*has_row) return texts;
      texts.push_back((*rows)->Text(0));
    }
    last_ = rows.status();
    return texts;
  }

  const std::string folder_;
  const std::string path_;
  std::shared_ptr<FileSystem> files_{&PosixFileSystem(), [](FileSystem*) {}};
  absl::Status last_;
};

TEST_F(SqliteQueryTest, GivesRowsInTheirOrder) {
  const auto rows = Query("select i, r, s from t").value();
  EXPECT_EQ(rows->num_columns(), 3);
  const auto next = [&] { return rows->Next([] { return absl::OkStatus(); }).value(); };
  ASSERT_TRUE(next());
  EXPECT_EQ(rows->Integer(0), 1);
  EXPECT_EQ(rows->Real(1), 0.5);
  EXPECT_EQ(rows->Text(2), "one");
  ASSERT_TRUE(next());
  EXPECT_EQ(rows->Integer(0), -5000000000);
  EXPECT_EQ(rows->Text(2), std::string("a\0", 2));
  ASSERT_TRUE(next());
  EXPECT_EQ(rows->Integer(0), 0);
  EXPECT_EQ(rows->Text(2), "");
  EXPECT_FALSE(next());
}

TEST_F(SqliteQueryTest, ASortNeedsNoFile) {
  EXPECT_THAT(Texts("select i from t where i is not null order by i"), ElementsAre("-5000000000", "1"));
}

TEST_F(SqliteQueryTest, ADatabaseInWriteAheadModeIsRead) {
  Write(path_, "pragma journal_mode = wal; insert into t values(7, 7, '7')");
  EXPECT_THAT(Texts("select i from t where i > 0"), ElementsAre("1", "7"));
}

TEST_F(SqliteQueryTest, NothingIsWrittenAndNoOtherFileRead) {
  const std::string other = folder_ + "/other.db";
  Write(other, "create table secret(s); insert into secret values('s')");
  for (const std::string& query :
       {std::string("insert into t values(1, 1, 1)"), std::string("create table u(i)"),
        std::string("delete from t"), "attach '" + other + "' as other",
        "vacuum into '" + folder_ + "/new.db'", std::string("pragma journal_mode = delete"),
        std::string("select load_extension('/tmp/x')"),
        std::string("create temp table u as select * from t")}) {
    Texts(query);
    EXPECT_EQ(last_.code(), absl::StatusCode::kUnknown) << query << ": " << last_;
  }
  EXPECT_THAT(Texts("select count(*) from t"), ElementsAre("3"));
  EXPECT_FALSE(PosixFileSystem().Exists(folder_ + "/new.db"));
}

TEST_F(SqliteQueryTest, WhatIsWrongIsNamed) {
  Texts("select nope from t");
  EXPECT_EQ(last_, absl::UnknownError("Prepare() failed: [1] no such column: nope: select nope from t"));
  Texts("select abs(-9223372036854775807 - 1)");
  EXPECT_THAT(std::string(last_.message()), HasSubstr("Step() failed: [1] integer overflow"));
  const absl::Status absent = SqliteQuery::Create(folder_ + "/none.db", "select 1", files_).status();
  EXPECT_EQ(absent.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(absent.message()), HasSubstr("none.db) failed: unable to open database file"));
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), folder_ + "/junk", std::string(5000, 'x')).ok());
  EXPECT_EQ(SqliteQuery::Create(folder_ + "/junk", "select * from t", files_).status().code(),
            absl::StatusCode::kUnknown);
}

TEST_F(SqliteQueryTest, FilesOutsideTheAllowedFoldersAreNotRead) {
  const std::string allowed = NewTestDirectory();
  files_ = AllowedFiles::In({allowed}).value();
  EXPECT_EQ(Query("select 1").status().code(), absl::StatusCode::kPermissionDenied);
  files_ = AllowedFiles::In({folder_}).value();
  EXPECT_THAT(Texts("select s from t where i = 1"), ElementsAre("one"));
}

TEST_F(SqliteQueryTest, AQueryWithoutEndIsStopped) {
  const auto rows =
      Query("with recursive n(i) as (select 1 union all select i + 1 from n) select i from n where i < 0")
          .value();
  int num_questions = 0;
  const absl::StatusOr<bool> has_row =
      rows->Next([&] { return ++num_questions < 3 ? absl::OkStatus() : absl::CancelledError("enough"); });
  EXPECT_EQ(has_row.status(), absl::CancelledError("enough"));
}

TEST_F(SqliteQueryTest, AValueThatIsTooLargeIsAnError) {
  Texts("select randomblob(900000000)");
  EXPECT_EQ(last_.code(), absl::StatusCode::kUnknown) << last_;
}

}  // namespace
}  // namespace weir
