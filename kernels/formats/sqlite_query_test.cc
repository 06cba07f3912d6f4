#include "kernels/formats/sqlite_query.h"

#include <sqlite3.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/allowed_files.h"
#include "kernels/formats/test_files.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  // Pictures of some megabytes are values of some tables.
  Write(path_, "create table u(s); insert into u values(zeroblob(20000000))");
  EXPECT_THAT(Texts("select length(s) from u"), ElementsAre("20000000"));
  EXPECT_EQ(Texts("select s from u")[0].size(), 20'000'000);
}

// They took days, and nothing could stop them.
TEST_F(SqliteQueryTest, FunctionsThatTakeLongAreErrors) {
  const absl::Time before = absl::Now();
  for (const char* query : {
           "select instr(hex(zeroblob(60000000)), hex(zeroblob(30000000)) || '1')",
           "select instr(hex(zeroblob(8000000)), hex(zeroblob(4000000)) || '1')",
           "select instr(zeroblob(16000000), zeroblob(8000000) || x'01')",
           "select replace(hex(zeroblob(8000000)), hex(zeroblob(4000000)) || '1', '')",
           "select hex(zeroblob(8000000)) like '%' || hex(zeroblob(20000)) || '1'",
           "select hex(zeroblob(8000000)) like '%' || hex(zeroblob(20000)) || '1' escape '!'",
           "select hex(zeroblob(8000000)) glob '*' || hex(zeroblob(20000)) || '1'",
           "select trim(hex(zeroblob(8000000)), replace(hex(zeroblob(100000)), '00', 'ab') || '0')",
           "select ltrim(hex(zeroblob(8000000)), replace(hex(zeroblob(100000)), '00', 'ab') || '0')",
           "select rtrim(hex(zeroblob(8000000)), replace(hex(zeroblob(100000)), '00', 'ab') || '0')",
           "select json_patch('{}', '{}')",
       }) {
    EXPECT_THAT(Texts(query), IsEmpty()) << query;
    EXPECT_EQ(last_.code(), absl::StatusCode::kUnknown) << query << ": " << last_;
  }
  EXPECT_LT(absl::Now() - before, absl::Seconds(60));
  EXPECT_THAT(Texts("select instr(hex(zeroblob(2000000)), hex(zeroblob(100)) || '1')"), IsEmpty());
  EXPECT_THAT(
      std::string(last_.message()),
      HasSubstr("instr() of 4000000 and 201 bytes takes too long: their product may be at most 268435456"));
}

TEST_F(SqliteQueryTest, FunctionsOfShortTextsAreSqlites) {
  for (const auto& [expression, result] : std::vector<std::pair<std::string, std::string>>{
           {"instr('a' || char(228) || 'bc', 'b')", "3"},
           {"instr(12345, 34)", "3"},
           {"instr(x'00ff01', x'01')", "3"},
           {"instr(null, 'a') is null", "1"},
           {"replace('banana', 'an', '<>')", "b<><>a"},
           {"replace('abc', '', 'x')", "abc"},
           {"'Banana' like 'b%A'", "1"},
           {"'Banana' not like 'b_x%'", "1"},
           {"'50%' like '50!%' escape '!'", "1"},
           {"'500' like '50!%' escape '!'", "0"},
           {"'Banana' glob 'B*a'", "1"},
           {"'Banana' glob '[a-z]*'", "0"},
           {"null like 'a' is null", "1"},
           {"trim('xxaxbxx', 'x') || ltrim('xxa', 'x') || rtrim('axx', 'x')", "axbaa"},
           {"trim('  a ')", "a"},
           {"typeof(instr('abc', 'c')) || typeof(replace(1, 2, 3))", "integertext"},
       }) {
    EXPECT_THAT(Texts("select " + expression), ElementsAre(result)) << expression << ": " << last_;
  }
  Texts("select 'a' like 'a' escape 'xx'");
  EXPECT_THAT(std::string(last_.message()), HasSubstr("ESCAPE expression must be a single character"));
}

// A question after so many rows as take a second each would come too late.
TEST_F(SqliteQueryTest, FunctionsOfManyRowsAreStopped) {
  const auto rows = Query(
                        "with recursive n(i) as (select 1 union all select i + 1 from n) "
                        "select sum(length(hex(zeroblob(10000000)) || i)) from n")
                        .value();
  const absl::Time before = absl::Now();
  const absl::StatusOr<bool> has_row = rows->Next([&] {
    return absl::Now() - before < absl::Seconds(1) ? absl::OkStatus() : absl::CancelledError("enough");
  });
  EXPECT_EQ(has_row.status(), absl::CancelledError("enough"));
  EXPECT_LT(absl::Now() - before, absl::Seconds(20));
}

}  // namespace
}  // namespace weir
