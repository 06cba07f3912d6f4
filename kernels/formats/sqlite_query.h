// Rows that a query gives of an SQLite database, which is only read.
//
// SQLite reads the database, and nothing else, through a FileSystem: no journal, no write-ahead log, no
// temporary file, no attached database. A database in write-ahead mode gives what its main file has; one with
// a journal beside it, which a killed writer left, is read as it is. Nobody may write it meanwhile.
//
// Thread safety: one thread at a time. Memory: what SQLite takes for a row, a sort or a temporary table, up
// to kMaxHeapBytes for all queries of the process together; beyond that the query ends with an error. A
// value, and a row, has at most kMaxValueBytes: SQLite asks nobody while a function computes. So functions
// that take long for long texts have bounds of their own (sqlite_functions.h), or are refused (json_patch).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/sqlite_functions.h"

struct sqlite3;
struct sqlite3_stmt;

namespace weir {

class SqliteQuery {
 public:
  static constexpr int64_t kMaxHeapBytes = int64_t{1} << 30;
  static constexpr int kMaxValueBytes = 1 << 25;

  // Errors as TensorFlow's: InvalidArgument where there is no such database; Unknown where the query is none,
  // or writes; else those of `files`.
  static absl::StatusOr<std::unique_ptr<SqliteQuery>> Create(const std::string& path,
                                                             const std::string& query,
                                                             std::shared_ptr<FileSystem> files);
  ~SqliteQuery();

  int num_columns() const;

  // Goes to the next row, or gives false at the end. Asks may_go_on() now and then and ends with its error.
  absl::StatusOr<bool> Next(absl::FunctionRef<absl::Status()> may_go_on);

  // Of the present row, converted as SQLite does: 0 or an empty string for a value that is none.
  int64_t Integer(int column) const;
  double Real(int column) const;
  std::string Text(int column) const;

 private:
  class Files;

  SqliteQuery() = default;
  absl::Status Open(const std::string& path);
  absl::Status Prepare(const std::string& query);

  std::unique_ptr<Files> files_;
  std::unique_ptr<SqliteFunctions> functions_;
  sqlite3* database_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace weir
