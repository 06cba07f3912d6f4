#include "kernels/formats/sqlite_query.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Of SQLite's virtual machine: some rows. One step may call a function that takes some milliseconds.
constexpr int kStepsBetweenQuestions = 100;
constexpr int kMaxQueryBytes = 1 << 20;

// A database that SQLite reads. SQLite makes this struct's memory, with its own in front.
struct OpenFile {
  sqlite3_file base;
  ReadableFile* file;
};

ReadableFile& FileOf(sqlite3_file* file) { return *reinterpret_cast<OpenFile*>(file)->file; }

int Close(sqlite3_file* file) {
  delete reinterpret_cast<OpenFile*>(file)->file;
  return SQLITE_OK;
}

int Read(sqlite3_file* file, void* to, int count, sqlite3_int64 offset) {
  const absl::StatusOr<size_t> found = FileOf(file).Read(static_cast<uint64_t>(offset), count, to);
  if (!found.ok()) return SQLITE_IOERR_READ;
  if (*found == static_cast<size_t>(count)) return SQLITE_OK;
  std::memset(static_cast<char*>(to) + *found, 0, count - *found);  // as SQLite wants it
  return SQLITE_IOERR_SHORT_READ;
}

// Pages of the header that say "write-ahead log" say "journal" here: SQLite would look for the log otherwise.
int ReadPage(sqlite3_file* file, void* to, int count, sqlite3_int64 offset) {
  const int result = Read(file, to, count, offset);
  for (const sqlite3_int64 version : {18, 19}) {
    char* const byte = static_cast<char*>(to) + (version - offset);
    if (offset <= version && version < offset + count && *byte == 2) *byte = 1;
  }
  return result;
}

int Size(sqlite3_file* file, sqlite3_int64* size) {
  *size = static_cast<sqlite3_int64>(FileOf(file).num_bytes());
  return SQLITE_OK;
}

int Refuse(sqlite3_file*, const void*, int, sqlite3_int64) { return SQLITE_READONLY; }
int RefuseSize(sqlite3_file*, sqlite3_int64) { return SQLITE_READONLY; }
int NothingToSync(sqlite3_file*, int) { return SQLITE_OK; }
int NoLock(sqlite3_file*, int) { return SQLITE_OK; }
int IsLocked(sqlite3_file*, int* is_locked) {
  *is_locked = 0;
  return SQLITE_OK;
}
int NoControl(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int SectorSize(sqlite3_file*) { return 0; }
int Characteristics(sqlite3_file*) { return SQLITE_IOCAP_IMMUTABLE; }

const sqlite3_io_methods kMethods = {.iVersion = 1,
                                     .xClose = Close,
                                     .xRead = ReadPage,
                                     .xWrite = Refuse,
                                     .xTruncate = RefuseSize,
                                     .xSync = NothingToSync,
                                     .xFileSize = Size,
                                     .xLock = NoLock,
                                     .xUnlock = NoLock,
                                     .xCheckReservedLock = IsLocked,
                                     .xFileControl = NoControl,
                                     .xSectorSize = SectorSize,
                                     .xDeviceCharacteristics = Characteristics};

int NoDelete(sqlite3_vfs*, const char*, int) { return SQLITE_READONLY; }
int NoOtherFiles(sqlite3_vfs*, const char*, int, int* is_there) {
  *is_there = 0;
  return SQLITE_OK;
}
int SamePath(sqlite3_vfs*, const char* path, int size, char* to) {
  const size_t length = std::strlen(path);
  if (length + 1 > static_cast<size_t>(size)) return SQLITE_CANTOPEN;
  std::memcpy(to, path, length + 1);
  return SQLITE_OK;
}

// What a query may do: read, and call functions, but one that compares every name of one object with those of
// another. Extensions, other databases and settings are none of its business.
int MayDo(void*, int action, const char*, const char* name, const char*, const char*) {
  switch (action) {
    case SQLITE_FUNCTION:
      return sqlite3_stricmp(name, "json_patch") == 0 ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
      return SQLITE_OK;
    default:
      return SQLITE_DENY;
  }
}

}  // namespace

// SQLite's view of a file system: one file can be opened, by the name under which it was asked for.
class SqliteQuery::Files {
 public:
  explicit Files(std::shared_ptr<FileSystem> files) : files_(std::move(files)) {
    const sqlite3_vfs& system = *sqlite3_vfs_find(nullptr);  // for clocks and random numbers
    vfs_ = system;
    vfs_.pNext = nullptr;
    name_ = absl::StrFormat("weir-%p", this);
    vfs_.zName = name_.c_str();
    vfs_.pAppData = this;
    vfs_.szOsFile = sizeof(OpenFile);
    vfs_.mxPathname = 1 << 16;
    vfs_.iVersion = 1;
    vfs_.xOpen = Open;
    vfs_.xDelete = NoDelete;
    vfs_.xAccess = NoOtherFiles;
    vfs_.xFullPathname = SamePath;
    is_registered_ = sqlite3_vfs_register(&vfs_, 0) == SQLITE_OK;
  }
  ~Files() {
    if (is_registered_) sqlite3_vfs_unregister(&vfs_);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  const char* name() const { return name_.c_str(); }
  const absl::Status& status() const { return status_; }

 private:
  static int Open(sqlite3_vfs* vfs, const char* path, sqlite3_file* to, int flags, int* out_flags) {
    to->pMethods = nullptr;
    if (path == nullptr || (flags & SQLITE_OPEN_MAIN_DB) == 0) return SQLITE_CANTOPEN;
    Files& self = *static_cast<Files*>(vfs->pAppData);
    absl::StatusOr<std::unique_ptr<ReadableFile>> file = self.files_->OpenForReading(path);
    if (!file.ok()) {
      self.status_ = file.status();
      return SQLITE_CANTOPEN;
    }
    reinterpret_cast<OpenFile*>(to)->file = file->release();
    to->pMethods = &kMethods;
    if (out_flags != nullptr) *out_flags = SQLITE_OPEN_READONLY;
    return SQLITE_OK;
  }

  const std::shared_ptr<FileSystem> files_;
  std::string name_;
  sqlite3_vfs vfs_;
  bool is_registered_ = false;
  absl::Status status_;  // of opening the file
};

absl::StatusOr<std::unique_ptr<SqliteQuery>> SqliteQuery::Create(const std::string& path,
                                                                 const std::string& query,
                                                                 std::shared_ptr<FileSystem> files) {
  if (sqlite3_initialize() != SQLITE_OK) return absl::InternalError("SQLite does not begin");
  sqlite3_hard_heap_limit64(kMaxHeapBytes);
  std::unique_ptr<SqliteQuery> result(new SqliteQuery);
  result->files_ = std::make_unique<Files>(std::move(files));
  WEIR_RETURN_IF_ERROR(result->Open(path));
  WEIR_RETURN_IF_ERROR(result->Prepare(query));
  return result;
}

SqliteQuery::~SqliteQuery() {
  sqlite3_finalize(statement_);
  sqlite3_close(database_);
}

absl::Status SqliteQuery::Open(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError("the path of a database is empty, or has a zero byte");
  }
  const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
  const int opened = sqlite3_open_v2(path.c_str(), &database_, flags, files_->name());
  if (!files_->status().ok() && !absl::IsNotFound(files_->status())) return files_->status();
  if (opened != SQLITE_OK) {
    return absl::InvalidArgumentError(
        absl::StrCat("Sqlite::Open(", path, ") failed: ", sqlite3_errstr(opened),
                     files_->status().ok() ? "" : absl::StrCat(": ", files_->status().message())));
  }
  sqlite3_limit(database_, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(database_, SQLITE_LIMIT_LENGTH, kMaxValueBytes);
  sqlite3_limit(database_, SQLITE_LIMIT_SQL_LENGTH, kMaxQueryBytes);
  WEIR_ASSIGN_OR_RETURN(functions_, SqliteFunctions::AddTo(database_, kMaxValueBytes));
  sqlite3_exec(database_, "PRAGMA temp_store = MEMORY", nullptr, nullptr, nullptr);
  sqlite3_set_authorizer(database_, MayDo, nullptr);
  return absl::OkStatus();
}

absl::Status SqliteQuery::Prepare(const std::string& query) {
  if (query.size() > std::numeric_limits<int>::max())
    return absl::InvalidArgumentError("the query is too long");
  const int prepared =
      sqlite3_prepare_v2(database_, query.data(), static_cast<int>(query.size()), &statement_, nullptr);
  if (prepared == SQLITE_OK) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat("Prepare() failed: [", sqlite3_extended_errcode(database_), "] ",
                                         sqlite3_errmsg(database_), ": ", query));
}

int SqliteQuery::num_columns() const { return sqlite3_column_count(statement_); }

absl::StatusOr<bool> SqliteQuery::Next(absl::FunctionRef<absl::Status()> may_go_on) {
  struct Question {
    absl::FunctionRef<absl::Status()> ask;
    absl::Status answer;
  } question = {may_go_on, absl::OkStatus()};
  const auto ask = [](void* about) {
    auto& question = *static_cast<Question*>(about);
    question.answer = question.ask();
    return question.answer.ok() ? 0 : 1;
  };
  if (statement_ == nullptr) return false;  // a query of nothing but white space
  sqlite3_progress_handler(database_, kStepsBetweenQuestions, ask, &question);
  const int stepped = sqlite3_step(statement_);
  sqlite3_progress_handler(database_, 0, nullptr, nullptr);
  if (stepped == SQLITE_ROW) return true;
  if (stepped == SQLITE_DONE) return false;
  if (!question.answer.ok()) return question.answer;
  return absl::UnknownError(absl::StrCat("Step() failed: [", sqlite3_extended_errcode(database_), "] ",
                                         sqlite3_errmsg(database_), ": ", sqlite3_sql(statement_)));
}

int64_t SqliteQuery::Integer(int column) const { return sqlite3_column_int64(statement_, column); }

double SqliteQuery::Real(int column) const { return sqlite3_column_double(statement_, column); }

std::string SqliteQuery::Text(int column) const {
  const void* const bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return size > 0 && bytes != nullptr ? std::string(static_cast<const char*>(bytes), size) : std::string();
}

}  // namespace weir
