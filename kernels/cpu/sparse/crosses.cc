// SparseCross, SparseCrossV2, SparseCrossHashed, RaggedCross: every combination of one feature of each
// column, in each row of a batch, as strings or as hashes.
//
// The hash of a combination is that of its first feature and the others taken in one after another, with the
// finalizer of MurmurHash64A (Austin Appleby, public domain); models keep rows of embeddings under it.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "farmhash.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/row_splits.h"
#include "kernels/cpu/strings/sip_hash.h"
#include "kernels/cpu/strings/string_budget.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

uint64_t ShiftMix(uint64_t value) { return value ^ value >> 47; }

uint64_t Joined(uint64_t a, uint64_t b) {
  constexpr uint64_t kFactor = 0xc6a4a7935bd1e995;
  uint64_t hash = (a ^ kFactor ^ ShiftMix(b * kFactor) * kFactor) * kFactor;
  hash = ShiftMix(hash) * kFactor;
  return ShiftMix(hash);
}

uint64_t Fingerprint(absl::string_view text) { return util::Fingerprint64(text.data(), text.size()); }

int64_t BucketOf(uint64_t hash, int64_t num_buckets) {
  const int64_t count = num_buckets > 0 ? num_buckets : std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(hash % static_cast<uint64_t>(count));
}

// The features of one row: elements [begin, end) of the column's values.
struct Run {
  int64_t row = 0, begin = 0, end = 0;
};

struct Column {
  const Tensor* values = nullptr;
  bool is_sparse = false;
  std::vector<Run> runs;  // of a sparse column: the rows that have features, in order

  bool is_text() const { return values->dtype() == DType::kString; }
  const std::string& text(int64_t i) const { return values->flat<std::string>()[i]; }
  int64_t number(int64_t i) const { return values->flat<int64_t>()[i]; }
};

// The columns of a kernel: sparse ones first. A batch may claim any number of rows, so only those are looked
// at that have features in every column.
class Columns {
 public:
  static absl::StatusOr<Columns> Read(const KernelContext& context, int num_sparse, int num_dense);

  int64_t num_rows() const { return num_rows_; }
  const std::vector<Column>& all() const { return columns_; }
  // Calls `on_row` with the runs of each row that has a feature in every column.
  absl::Status ForEachRow(absl::FunctionRef<absl::Status(absl::Span<const Run> runs)> on_row) const;

 private:
  std::vector<Column> columns_;
  int num_sparse_ = 0;
  int64_t num_rows_ = 0;
};

absl::Status CheckSparse(const Tensor& indices, const Tensor& values, const Tensor& shape, int place) {
  const auto wrong = [place](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(what..., " at position ", place));
  };
  if (indices.shape().rank() != 2) {
    return wrong("Input indices should be a matrix but received shape ", indices.shape().ToString());
  }
  if (indices.shape().dim(1) != 2) {
    return wrong("Expected D2 of index to be 2 got ", indices.shape().dim(1));
  }
  if (values.shape().rank() != 1) {
    return wrong("Input values should be a vector but received shape ", values.shape().ToString());
  }
  if (values.num_elements() != indices.shape().dim(0)) {
    return wrong("Expected size of values to be ", indices.shape().dim(0), " got ", values.num_elements());
  }
  if (shape.shape() != Shape({2})) {
    return wrong("shape should imply a 2D tensor, but got shape ", shape.ToString(4));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Run>> RunsOf(const Tensor& indices, int64_t num_rows, int place) {
  const auto at = indices.flat<int64_t>();
  std::vector<Run> runs;
  for (int64_t i = 0; i < indices.shape().dim(0); ++i) {
    const int64_t row = at[2 * i];
    if (row < 0 || row >= num_rows || (!runs.empty() && row < runs.back().row)) {
      return absl::InvalidArgumentError(absl::StrCat("indices[", i, "] at position ", place, " has row ", row,
                                                     ": rows must be in order, and in a batch of ",
                                                     num_rows));
    }
    if (runs.empty() || row != runs.back().row) runs.push_back({row, i, i});
    ++runs.back().end;
  }
  return runs;
}

absl::StatusOr<Columns> Columns::Read(const KernelContext& context, int num_sparse, int num_dense) {
  Columns read;
  read.num_sparse_ = num_sparse;
  if (num_sparse + num_dense == 0) return absl::InvalidArgumentError("there is no column to cross");
  std::vector<int64_t> rows;
  for (int i = 0; i < num_sparse; ++i) {
    const Tensor& shape = context.input(2 * num_sparse + i);
    WEIR_RETURN_IF_ERROR(CheckSparse(context.input(i), context.input(num_sparse + i), shape, i));
    rows.push_back(shape.flat<int64_t>()[0]);
    read.columns_.push_back({&context.input(num_sparse + i), /*is_sparse=*/true, {}});
  }
  for (int i = 0; i < num_dense; ++i) {
    const Tensor& values = context.input(3 * num_sparse + i);
    if (values.shape().rank() != 2) {
      return absl::InvalidArgumentError(absl::StrCat("Dense inputs should be a matrix but received shape ",
                                                     values.shape().ToString(), " at position ", i));
    }
    rows.push_back(values.shape().dim(0));
    read.columns_.push_back({&values, /*is_sparse=*/false, {}});
  }
  read.num_rows_ = rows[0];
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= 0 && rows[i] == rows[0]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("Expected batch size ", rows[0], " got ", rows[i], " at position ", i));
  }
  for (int i = 0; i < num_sparse; ++i) {
    WEIR_ASSIGN_OR_RETURN(read.columns_[i].runs, RunsOf(context.input(i), read.num_rows_, i));
  }
  return read;
}

absl::Status Columns::ForEachRow(absl::FunctionRef<absl::Status(absl::Span<const Run>)> on_row) const {
  for (size_t i = num_sparse_; i < columns_.size(); ++i) {
    if (columns_[i].values->shape().dim(1) == 0) return absl::OkStatus();
  }
  std::vector<Run> runs(columns_.size());
  std::vector<size_t> next(num_sparse_, 0);
  int64_t row = 0;
  while (row < num_rows_) {
    int64_t wanted = row;
    for (int i = 0; i < num_sparse_; ++i) {
      const std::vector<Run>& of_column = columns_[i].runs;
      while (next[i] < of_column.size() && of_column[next[i]].row < wanted) ++next[i];
      if (next[i] == of_column.size()) return absl::OkStatus();
      runs[i] = of_column[next[i]];
      wanted = runs[i].row;
    }
    // A later column may have passed over the row that an earlier one has.
    const bool all_have_it = std::all_of(runs.begin(), runs.begin() + num_sparse_,
                                         [wanted](const Run& run) { return run.row == wanted; });
    row = wanted;
    if (!all_have_it) continue;
    for (size_t i = num_sparse_; i < columns_.size(); ++i) {
      const int64_t width = columns_[i].values->shape().dim(1);
      runs[i] = {row, row * width, (row + 1) * width};
    }
    WEIR_RETURN_IF_ERROR(on_row(runs));
    ++row;
  }
  return absl::OkStatus();
}

// One feature of each column.
using Combination = absl::Span<const int64_t>;

// The combinations of a row, the last column's features changing fastest.
absl::Status ForEachCombination(absl::Span<const Run> runs,
                                absl::FunctionRef<absl::Status(Combination)> on_combination) {
  std::vector<int64_t> combination;
  for (const Run& run : runs) combination.push_back(run.begin);
  while (true) {
    WEIR_RETURN_IF_ERROR(on_combination(combination));
    size_t i = runs.size();
    while (i > 0 && ++combination[i - 1] == runs[i - 1].end) {
      combination[i - 1] = runs[i - 1].begin;
      --i;
    }
    if (i == 0) return absl::OkStatus();
  }
}

// How many combinations there are, and in the row that has most.
struct Extent {
  int64_t total = 0, widest = 0;
};

absl::StatusOr<Extent> ExtentOf(const Columns& columns) {
  Extent extent;
  const absl::Status status = columns.ForEachRow([&extent](absl::Span<const Run> runs) {
    int64_t count = 1;
    bool fits = true;
    for (const Run& run : runs) fits = fits && MultiplyWithoutOverflow(count, run.end - run.begin, &count);
    if (!fits || count > std::numeric_limits<int64_t>::max() - extent.total) {
      return absl::InvalidArgumentError("the columns have more combinations than an int64 can count");
    }
    extent.total += count;
    extent.widest = std::max(extent.widest, count);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return extent;
}

// The sparse tensor of what `join` makes of each combination.
template <typename T>
absl::Status SetCrosses(KernelContext& context, const Columns& columns,
                        absl::FunctionRef<absl::StatusOr<T>(Combination)> join) {
  WEIR_ASSIGN_OR_RETURN(const Extent extent, ExtentOf(columns));
  WEIR_ASSIGN_OR_RETURN(const Shape pairs, Shape::FromDims({extent.total, 2}));
  WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, pairs));
  WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, Shape({extent.total})));
  const auto at = indices->flat<int64_t>();
  const auto crosses = values->flat<T>();
  int64_t i = 0;
  WEIR_RETURN_IF_ERROR(columns.ForEachRow([&](absl::Span<const Run> runs) {
    int64_t place = 0;
    return ForEachCombination(runs, [&](Combination combination) -> absl::Status {
      if (i % 1024 == 0 && context.cancellation().is_cancelled()) return context.cancellation().reason();
      WEIR_ASSIGN_OR_RETURN(crosses[i], join(combination));
      at[2 * i] = runs[0].row;
      at[2 * i + 1] = place++;
      ++i;
      return absl::OkStatus();
    });
  }));
  context.set_output(2, Tensor::Vector<int64_t>({columns.num_rows(), extent.widest}));
  return absl::OkStatus();
}

// At least the bytes that AppendFeature appends without the separator.
int64_t MostBytes(const Column& column, int64_t i) {
  constexpr int64_t kDigits = 20;
  return column.is_text() ? static_cast<int64_t>(column.text(i).size()) : kDigits;
}

void AppendFeature(const Column& column, int64_t i, absl::string_view separator, std::string* text) {
  if (column.is_text()) {
    absl::StrAppend(text, separator, column.text(i));
  } else {
    absl::StrAppend(text, separator, column.number(i));
  }
}

// The text of a combination, of the columns that column_of(i) gives. Asks for room first: one long feature
// may be that of every column.
absl::StatusOr<std::string> TextOf(Combination combination,
                                   absl::FunctionRef<const Column&(size_t)> column_of,
                                   absl::string_view separator, StringBudget& budget) {
  auto num_bytes = static_cast<int64_t>(separator.size() * (combination.size() - 1));
  for (size_t i = 0; i < combination.size(); ++i) num_bytes += MostBytes(column_of(i), combination[i]);
  WEIR_RETURN_IF_ERROR(budget.Take(num_bytes));
  std::string text;
  for (size_t i = 0; i < combination.size(); ++i) {
    AppendFeature(column_of(i), combination[i], i > 0 ? separator : "", &text);
  }
  return text;
}

class Cross : public Kernel {
 public:
  explicit Cross(const KernelConstruction& construction)
      : num_sparse_(static_cast<int>(construction.attr<int64_t>("N"))),
        num_values_(static_cast<int>(construction.attr<std::vector<DType>>("sparse_types").size())),
        num_dense_(static_cast<int>(construction.attr<std::vector<DType>>("dense_types").size())) {}

 protected:
  absl::StatusOr<Columns> ReadColumns(const KernelContext& context) const {
    if (num_values_ == num_sparse_) return Columns::Read(context, num_sparse_, num_dense_);
    return absl::InvalidArgumentError(
        absl::StrCat("Expected ", num_sparse_, " input values, got ", num_values_));
  }
  // The inputs behind the columns.
  const Tensor& option(const KernelContext& context, int i) const {
    return context.input(3 * num_sparse_ + num_dense_ + i);
  }

  static absl::Status CrossTexts(KernelContext& context, const Columns& columns,
                                 absl::string_view separator) {
    StringBudget budget(context);
    const auto column_of = [&](size_t i) -> const Column& { return columns.all()[i]; };
    return SetCrosses<std::string>(context, columns, [&](Combination combination) {
      return TextOf(combination, column_of, separator, budget);
    });
  }

 private:
  const int num_sparse_;
  const int num_values_;
  const int num_dense_;
};

class SparseCross final : public Cross {
 public:
  explicit SparseCross(const KernelConstruction& construction)
      : Cross(construction),
        gives_hashes_(construction.attr<DType>("out_type") == DType::kInt64),
        takes_numbers_(construction.attr<DType>("internal_type") == DType::kInt64),
        num_buckets_(construction.attr<int64_t>("num_buckets")),
        key_(static_cast<uint64_t>(construction.attr<int64_t>("hash_key"))) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Columns columns, ReadColumns(context));
    for (const Column& column : columns.all()) {
      if (column.is_text() || takes_numbers_) continue;
      return absl::InvalidArgumentError("Input values should be of internal type string but received int64");
    }
    if (!gives_hashes_) return CrossTexts(context, columns, "_X_");
    return SetCrosses<int64_t>(context, columns, [&](Combination combination) -> absl::StatusOr<int64_t> {
      uint64_t hash = key_;
      for (size_t i = 0; i < combination.size(); ++i) {
        const Column& column = columns.all()[i];
        hash = Joined(hash, column.is_text() ? Fingerprint(column.text(combination[i]))
                                             : static_cast<uint64_t>(column.number(combination[i])));
      }
      return BucketOf(hash, num_buckets_);
    });
  }

 private:
  const bool gives_hashes_, takes_numbers_;
  const int64_t num_buckets_;
  const uint64_t key_;
};

class SparseCrossV2 final : public Cross {
 public:
  using Cross::Cross;

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Columns columns, ReadColumns(context));
    const Tensor& separator = option(context, 0);
    if (!separator.shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Input separator should be a scalar, is ", separator.shape().ToString()));
    }
    return CrossTexts(context, columns, separator.scalar<std::string>());
  }
};

class SparseCrossHashed final : public Cross {
 public:
  using Cross::Cross;

  absl::Status Compute(KernelContext& context) override {
    // First: behind how many columns the options are is known after that.
    WEIR_ASSIGN_OR_RETURN(const Columns columns, ReadColumns(context));
    WEIR_ASSIGN_OR_RETURN(const int64_t num_buckets, ReadInteger(option(context, 0), "num_buckets"));
    const Tensor& is_strong = option(context, 1);
    const Tensor& salt = option(context, 2);
    if (!is_strong.shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("strong_hash must be a scalar, is ", is_strong.shape().ToString()));
    }
    if (salt.shape() != Shape({2})) {
      return absl::InvalidArgumentError(
          absl::StrCat("Input \"salt\" must have length 2 but has shape ", salt.shape().ToString()));
    }
    const SipHash keyed(static_cast<uint64_t>(salt.flat<int64_t>()[0]),
                        static_cast<uint64_t>(salt.flat<int64_t>()[1]));
    const auto hash_of = [&](const Column& column, int64_t i) {
      if (!column.is_text()) {
        // As in TensorFlow: of a sparse column the fingerprint of the last four bytes, of a dense one itself.
        if (!column.is_sparse) return static_cast<uint64_t>(column.number(i));
        const auto number = static_cast<uint32_t>(column.number(i));
        return Fingerprint({reinterpret_cast<const char*>(&number), sizeof number});
      }
      return is_strong.scalar<bool>() ? keyed.Of(column.text(i)) : Fingerprint(column.text(i));
    };
    return SetCrosses<int64_t>(context, columns, [&](Combination combination) -> absl::StatusOr<int64_t> {
      uint64_t hash = hash_of(columns.all()[0], combination[0]);
      for (size_t i = 1; i < combination.size(); ++i) {
        hash = Joined(hash, hash_of(columns.all()[i], combination[i]));
      }
      return BucketOf(hash, num_buckets);
    });
  }
};

// Its columns in the order of the letters of input_order: R(agged), S(parse), D(ense).
class RaggedCross final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    auto kernel = std::make_unique<RaggedCross>(construction);
    if (kernel->num_ragged_ != construction.attr<std::vector<DType>>("ragged_splits_types").size()) {
      return absl::InvalidArgumentError("ragged values and splits must have the same length");
    }
    if (kernel->num_sparse_ != construction.attr<std::vector<DType>>("sparse_values_types").size()) {
      return absl::InvalidArgumentError("sparse indices, values, and shapes must have the same length");
    }
    if (kernel->num_columns() == 0) return absl::InvalidArgumentError("there is no column to cross");
    const auto count = [&](char letter) {
      return static_cast<size_t>(std::count(kernel->order_.begin(), kernel->order_.end(), letter));
    };
    if (kernel->order_.size() == kernel->num_columns() && count('R') == kernel->num_ragged_ &&
        count('S') == kernel->num_sparse_ && count('D') == kernel->num_dense_) {
      return kernel;
    }
    return absl::InvalidArgumentError(absl::StrCat("Invalid input_order '", kernel->order_, "' for ",
                                                   kernel->num_ragged_, " ragged, ", kernel->num_sparse_,
                                                   " sparse and ", kernel->num_dense_, " dense columns"));
  }
  explicit RaggedCross(const KernelConstruction& construction)
      : order_(construction.attr<std::string>("input_order")),
        num_ragged_(construction.attr<std::vector<DType>>("ragged_values_types").size()),
        num_sparse_(static_cast<size_t>(construction.attr<int64_t>("Nsparse"))),
        num_dense_(construction.attr<std::vector<DType>>("dense_types").size()),
        gives_hashes_(construction.attr<DType>("out_values_type") == DType::kInt64),
        is_hashed_(construction.attr<bool>("hashed_output")),
        num_buckets_(construction.attr<int64_t>("num_buckets")),
        key_(static_cast<uint64_t>(construction.attr<int64_t>("hash_key"))) {}

  absl::Status Compute(KernelContext& context) override {
    if (gives_hashes_ != is_hashed_) {
      return absl::InvalidArgumentError("hashed_output and out_values_type disagree: hashes are int64");
    }
    std::vector<RowsOfColumn> columns;
    size_t num_of[3] = {0, 0, 0};
    for (const char letter : order_) {
      const int kind = letter == 'R' ? 0 : letter == 'S' ? 1 : 2;
      const size_t i = num_of[kind]++;
      WEIR_ASSIGN_OR_RETURN(RowsOfColumn column, kind == 0   ? ReadRagged(context, i)
                                                 : kind == 1 ? ReadSparse(context, i)
                                                             : ReadDense(context, i));
      if (!columns.empty() && column.num_rows != columns[0].num_rows) {
        return absl::InvalidArgumentError(absl::StrCat("inputs must all have the same batch dimension size: ",
                                                       columns[0].num_rows, " and ", column.num_rows));
      }
      columns.push_back(std::move(column));
    }
    if (gives_hashes_) {
      return SetRagged<int64_t>(context, columns, [&](Combination combination) -> absl::StatusOr<int64_t> {
        uint64_t hash = key_;
        for (size_t i = 0; i < combination.size(); ++i) {
          const Column& column = columns[i].column;
          hash = Joined(hash, column.is_text() ? Fingerprint(column.text(combination[i]))
                                               : static_cast<uint64_t>(column.number(combination[i])));
        }
        return BucketOf(hash, num_buckets_);
      });
    }
    StringBudget budget(context);
    const auto column_of = [&](size_t i) -> const Column& { return columns[i].column; };
    return SetRagged<std::string>(context, columns, [&](Combination combination) {
      return TextOf(combination, column_of, "_X_", budget);
    });
  }

 private:
  // Row r is [splits[r], splits[r + 1]) of a ragged column, the run of that row, if there is one, of a sparse
  // one, and `width` features of a dense one.
  struct RowsOfColumn {
    Column column;
    int64_t num_rows = 0;
    std::vector<int64_t> splits;
    int64_t width = 0;
    size_t next = 0;  // of the runs

    // Rows are asked for in their order.
    Run At(int64_t row) {
      if (!splits.empty()) return {row, splits[row], splits[row + 1]};
      if (!column.is_sparse) return {row, row * width, (row + 1) * width};
      while (next < column.runs.size() && column.runs[next].row < row) ++next;
      if (next < column.runs.size() && column.runs[next].row == row) return column.runs[next];
      return {row, 0, 0};
    }
  };

  size_t num_columns() const { return num_ragged_ + num_sparse_ + num_dense_; }

  absl::StatusOr<RowsOfColumn> ReadRagged(const KernelContext& context, size_t i) const {
    RowsOfColumn rows;
    rows.column.values = &context.input(static_cast<int>(i));
    if (rows.column.values->shape().rank() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("tf.ragged.cross only supports inputs with rank=2; the "
                       "values at position ",
                       i, " are ", rows.column.values->shape().ToString()));
    }
    const Tensor& splits = context.input(static_cast<int>(num_ragged_ + i));
    WEIR_ASSIGN_OR_RETURN(auto nested, ReadNestedSplits({&splits}, rows.column.values->num_elements()));
    rows.splits = std::move(nested[0]);
    rows.num_rows = static_cast<int64_t>(rows.splits.size()) - 1;
    return rows;
  }

  absl::StatusOr<RowsOfColumn> ReadSparse(const KernelContext& context, size_t i) const {
    const int first = static_cast<int>(2 * num_ragged_ + i), count = static_cast<int>(num_sparse_);
    const Tensor &indices = context.input(first), &shape = context.input(first + 2 * count);
    RowsOfColumn rows;
    rows.column.values = &context.input(first + count);
    rows.column.is_sparse = true;
    WEIR_RETURN_IF_ERROR(CheckSparse(indices, *rows.column.values, shape, static_cast<int>(i)));
    rows.num_rows = shape.flat<int64_t>()[0];
    WEIR_ASSIGN_OR_RETURN(rows.column.runs, RunsOf(indices, rows.num_rows, static_cast<int>(i)));
    return rows;
  }

  absl::StatusOr<RowsOfColumn> ReadDense(const KernelContext& context, size_t i) const {
    RowsOfColumn rows;
    rows.column.values = &context.input(static_cast<int>(2 * num_ragged_ + 3 * num_sparse_ + i));
    const Shape& shape = rows.column.values->shape();
    if (shape.rank() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("tf.ragged.cross only supports inputs with rank=2; the "
                       "dense input at position ",
                       i, " is ", shape.ToString()));
    }
    rows.num_rows = shape.dim(0);
    rows.width = shape.dim(1);
    return rows;
  }

  // The ragged tensor of what `join` makes of each combination.
  template <typename T>
  absl::Status SetRagged(KernelContext& context, std::vector<RowsOfColumn>& columns,
                         absl::FunctionRef<absl::StatusOr<T>(Combination)> join) const {
    const int64_t num_rows = columns[0].num_rows;
    if (num_rows < 0) return absl::InvalidArgumentError(absl::StrCat("a batch of ", num_rows, " rows"));
    WEIR_ASSIGN_OR_RETURN(const int64_t num_splits, AddRows(num_rows, 1));
    WEIR_ASSIGN_OR_RETURN(Tensor * out_splits, context.AllocateOutput(1, Shape({num_splits})));
    // Rows of no features take no memory: there may be any number of them.
    WEIR_RETURN_IF_ERROR(context.AllocateTemporary(DType::kInt64, Shape({num_splits})).status());
    std::vector<int64_t> splits = {0};
    std::vector<Run> runs(columns.size());
    const auto go_to = [&](int64_t row) {
      for (size_t i = 0; i < columns.size(); ++i) runs[i] = columns[i].At(row);
      return std::all_of(runs.begin(), runs.end(), [](const Run& run) { return run.end > run.begin; });
    };
    for (int64_t row = 0; row < num_rows; ++row) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      int64_t count = go_to(row) ? 1 : 0;
      bool fits = true;
      for (const Run& run : runs) fits = fits && MultiplyWithoutOverflow(count, run.end - run.begin, &count);
      if (!fits || count > std::numeric_limits<int64_t>::max() - splits.back()) {
        return absl::InvalidArgumentError("the columns have more combinations than an int64 can count");
      }
      splits.push_back(splits.back() + count);
    }
    WEIR_RETURN_IF_ERROR(WriteRowSplits(splits, *out_splits));
    WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(0, Shape({splits.back()})));
    T* next = values->flat<T>().data();
    for (RowsOfColumn& column : columns) column.next = 0;
    for (int64_t row = 0; row < num_rows; ++row) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      if (!go_to(row)) continue;
      int64_t num_joined = 0;
      WEIR_RETURN_IF_ERROR(ForEachCombination(runs, [&](Combination combination) -> absl::Status {
        if (++num_joined % 1024 == 0 && context.cancellation().is_cancelled()) {
          return context.cancellation().reason();
        }
        WEIR_ASSIGN_OR_RETURN(*next++, join(combination));
        return absl::OkStatus();
      }));
    }
    return absl::OkStatus();
  }

  const std::string order_;
  const size_t num_ragged_, num_sparse_, num_dense_;
  const bool gives_hashes_, is_hashed_;
  const int64_t num_buckets_;
  const uint64_t key_;
};

}  // namespace

void RegisterCrossesKernels(DeviceKernels& kernels) {
  kernels.Add<SparseCross>("SparseCross");
  kernels.Add<SparseCrossV2>("SparseCrossV2");
  kernels.Add<SparseCrossHashed>("SparseCrossHashed");
  kernels.Add<RaggedCross>("RaggedCross");
}

}  // namespace weir
