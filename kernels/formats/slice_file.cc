#include "kernels/formats/slice_file.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/interchange/proto/checkpoint.pb.h"
#include "graph/interchange/tensor_proto.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using ::tensorflow::SavedSliceMeta;
using ::tensorflow::SavedTensorSlices;
using ::tensorflow::TensorProto;
using ::tensorflow::TensorSliceProto;

// A message holds no more than 2 GiB, and a value takes up to ten bytes in it.
constexpr int64_t kMaxValueBytes = (int64_t{1} << 31) - (int64_t{1} << 20);

// More than a variable is ever cut into. Each is compared with all others of its tensor.
constexpr int kMaxSlices = 4096;

void SliceToProto(const TensorSlice& slice, TensorSliceProto* proto) {
  for (const TensorSlice::Extent& extent : slice.extents) {
    TensorSliceProto::Extent* const written = proto->add_extent();
    if (extent.length == TensorSlice::Extent::kAll) continue;
    written->set_start(extent.start);
    written->set_length(extent.length);
  }
}

TensorSlice SliceFromProto(const TensorSliceProto& proto) {
  TensorSlice slice;
  for (const TensorSliceProto::Extent& extent : proto.extent()) {
    const bool is_all = extent.has_length_hack_case() == TensorSliceProto::Extent::HAS_LENGTH_HACK_NOT_SET;
    slice.extents.push_back({extent.start(), is_all ? TensorSlice::Extent::kAll : extent.length()});
  }
  return slice;
}

template <typename T, typename List>
void Append(const Tensor& tensor, List* list) {
  for (const T value : tensor.flat<T>()) list->Add(value);
}

absl::Status AppendValues(const Tensor& tensor, TensorProto* proto) {
  proto->set_dtype(static_cast<tensorflow::DataType>(tensor.dtype()));
  switch (tensor.dtype()) {
    case DType::kFloat32:
      Append<float>(tensor, proto->mutable_float_val());
      return absl::OkStatus();
    case DType::kFloat64:
      Append<double>(tensor, proto->mutable_double_val());
      return absl::OkStatus();
    case DType::kInt8:
      Append<int8_t>(tensor, proto->mutable_int_val());
      return absl::OkStatus();
    case DType::kInt16:
      Append<int16_t>(tensor, proto->mutable_int_val());
      return absl::OkStatus();
    case DType::kInt32:
      Append<int32_t>(tensor, proto->mutable_int_val());
      return absl::OkStatus();
    case DType::kUint8:
      Append<uint8_t>(tensor, proto->mutable_int_val());
      return absl::OkStatus();
    case DType::kUint16:
      Append<uint16_t>(tensor, proto->mutable_int_val());
      return absl::OkStatus();
    case DType::kInt64:
      Append<int64_t>(tensor, proto->mutable_int64_val());
      return absl::OkStatus();
    case DType::kBool:
      Append<bool>(tensor, proto->mutable_bool_val());
      return absl::OkStatus();
    case DType::kHalf:
      for (const Half value : tensor.flat<Half>()) proto->add_half_val(value.bits());
      return absl::OkStatus();
    case DType::kComplex64:
      for (const std::complex<float> value : tensor.flat<std::complex<float>>()) {
        proto->add_scomplex_val(value.real());
        proto->add_scomplex_val(value.imag());
      }
      return absl::OkStatus();
    case DType::kComplex128:
      for (const std::complex<double> value : tensor.flat<std::complex<double>>()) {
        proto->add_dcomplex_val(value.real());
        proto->add_dcomplex_val(value.imag());
      }
      return absl::OkStatus();
    case DType::kString:
      for (const std::string& value : tensor.flat<std::string>()) proto->add_string_val(value);
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(absl::StrCat("Trying to save a tensor of type ",
                                                     DTypeName(tensor.dtype()),
                                                     ", which checkpoints of the first format lack"));
  }
}

// The values that the message spells out.
int64_t NumValues(const TensorProto& proto) {
  return int64_t{proto.float_val_size()} + proto.double_val_size() + proto.int_val_size() +
         proto.int64_val_size() + proto.bool_val_size() + proto.half_val_size() +
         proto.scomplex_val_size() / 2 + proto.dcomplex_val_size() / 2 + proto.string_val_size() +
         proto.uint32_val_size() + proto.uint64_val_size();
}

// Of two boxes that overlap, spelled out.
int64_t NumCommonElements(const TensorSlice& a, const TensorSlice& b) {
  int64_t num_elements = 1;
  for (size_t i = 0; i < a.extents.size(); ++i) {
    const TensorSlice::Extent& x = a.extents[i];
    const TensorSlice::Extent& y = b.extents[i];
    num_elements *= std::min(x.start + x.length, y.start + y.length) - std::max(x.start, y.start);
  }
  return num_elements;
}

absl::Status WithName(const std::string& name, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("tensor '", name, "': ", status.message()));
}

}  // namespace

absl::Status WriteSliceFile(FileSystem& files, const std::string& path, absl::Span<const SavedSlice> slices) {
  SavedTensorSlices meta;
  meta.mutable_meta()->mutable_versions()->set_producer(1);
  std::map<std::string, std::string> records;  // in the order of their keys
  std::map<std::string, std::pair<SavedSliceMeta*, std::vector<TensorSlice>>> tensors;
  for (const SavedSlice& saved : slices) {
    const std::string& name = saved.name;
    absl::StatusOr<TensorSlice> box = saved.slice.WithinShape(saved.full_shape);
    if (!box.ok()) return WithName(name, box.status());
    if (box->shape() != saved.tensor.shape()) {
      return WithName(name, absl::InvalidArgumentError(absl::StrCat(
                                "Slice in shape_and_slice specification does not match the shape of the "
                                "tensor to save: ",
                                saved.slice.ToString(), " of ", saved.full_shape.ToString(),
                                ", tensor: ", saved.tensor.shape().ToString())));
    }
    auto& [tensor, boxes] = tensors[name];
    if (tensor == nullptr) {
      tensor = meta.mutable_meta()->add_tensor();
      tensor->set_name(name);
      tensor->set_type(static_cast<tensorflow::DataType>(saved.tensor.dtype()));
      ShapeToProto(PartialShape(saved.full_shape), tensor->mutable_shape());
    }
    WEIR_ASSIGN_OR_RETURN(const Shape known, ShapeFromProto(tensor->shape()));
    if (known != saved.full_shape || tensor->type() != static_cast<int>(saved.tensor.dtype())) {
      return WithName(name, absl::InvalidArgumentError("its slices are of tensors that differ"));
    }
    for (const TensorSlice& other : boxes) {
      if (!other.Overlaps(*box) && !(other == *box)) continue;
      return WithName(name, absl::InvalidArgumentError(absl::StrCat("slices overlap: ", other.ToString(),
                                                                    " and ", box->ToString())));
    }
    boxes.push_back(*box);
    SliceToProto(saved.slice, tensor->add_slice());
    SavedTensorSlices record;
    record.mutable_data()->set_name(name);
    SliceToProto(saved.slice, record.mutable_data()->mutable_slice());
    if (absl::Status status = AppendValues(saved.tensor, record.mutable_data()->mutable_data());
        !status.ok()) {
      return WithName(name, status);
    }
    if (static_cast<int64_t>(record.ByteSizeLong()) > kMaxValueBytes) {
      return WithName(name,
                      absl::InvalidArgumentError(absl::StrCat("Tensor slice is too large to serialize (",
                                                              record.ByteSizeLong(), " bytes)")));
    }
    records[saved.slice.KeyFor(name)] = record.SerializeAsString();
  }
  SortedTableBuilder table;
  WEIR_RETURN_IF_ERROR(table.Add("", meta.SerializeAsString()));
  for (const auto& [key, record] : records) WEIR_RETURN_IF_ERROR(table.Add(key, record));
  return WriteFileAtomically(files, path, table.Finish());
}

absl::StatusOr<std::unique_ptr<SliceFileReader>> SliceFileReader::Open(FileSystem& files,
                                                                       absl::Span<const std::string> paths) {
  auto reader = std::make_unique<SliceFileReader>();
  for (const std::string& path : paths) {
    if (reader->path_.empty()) reader->path_ = path;
    WEIR_ASSIGN_OR_RETURN(const std::string content, ReadWholeFile(files, path));
    WEIR_ASSIGN_OR_RETURN(SortedTable table, SortedTable::Parse(content, path));
    const auto damaged = [&path](const auto&... what) {
      return absl::DataLossError(absl::StrCat(path, ": ", what...));
    };
    SavedTensorSlices meta;
    const std::string* const record = table.Find("");
    if (record == nullptr || !meta.ParseFromString(*record) || !meta.has_meta()) {
      return damaged("is no checkpoint of the first format: it does not say what it holds");
    }
    for (const SavedSliceMeta& tensor : meta.meta().tensor()) {
      const absl::StatusOr<Shape> shape = ShapeFromProto(tensor.shape());
      if (!shape.ok() || !IsKnownDType(tensor.type())) {
        return damaged("tensor '", tensor.name(), "' has no shape or type that is known");
      }
      Entry& entry = reader->entries_[tensor.name()];
      if (entry.dtype == DType::kInvalid) {
        entry.dtype = static_cast<DType>(tensor.type());
        entry.shape = *shape;
      }
      if (entry.dtype != static_cast<DType>(tensor.type()) || entry.shape != *shape) {
        return damaged("tensor '", tensor.name(), "' is another one than in the files before");
      }
      entry.num_announced += tensor.slice_size();
      if (entry.num_announced > kMaxSlices) {
        return damaged("tensor '", tensor.name(), "' has ", entry.num_announced, " slices");
      }
      for (const TensorSliceProto& proto : tensor.slice()) {
        const TensorSlice slice = SliceFromProto(proto);
        const absl::StatusOr<TensorSlice> box = slice.WithinShape(*shape);
        if (!box.ok()) {
          return damaged("tensor '", tensor.name(), "' has a slice ", slice.ToString(), " outside of ",
                         shape->ToString());
        }
        const auto is_box = [&box](const SavedBox& saved) { return saved.box == *box; };
        if (std::any_of(entry.slices.begin(), entry.slices.end(), is_box)) continue;
        for (const SavedBox& other : entry.slices) {
          if (!other.box.Overlaps(*box)) continue;
          return damaged("tensor '", tensor.name(), "' has slices that overlap: ", other.box.ToString(),
                         " and ", box->ToString());
        }
        entry.slices.push_back({slice, *box});
      }
    }
    reader->tables_.push_back(std::move(table));
  }
  return reader;
}

const SliceFileReader::Entry* SliceFileReader::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

const std::string* SliceFileReader::FindRecord(const std::string& name, const TensorSlice& slice) const {
  const std::string key = slice.KeyFor(name);
  for (const SortedTable& table : tables_) {
    if (const std::string* const record = table.Find(key)) return record;
  }
  return nullptr;
}

absl::Status SliceFileReader::Damaged(const std::string& name, const SavedBox& saved) const {
  return absl::DataLossError(absl::StrCat(path_, ": slice ", saved.slice.ToString(), " of tensor '", name,
                                          "' is not there, or has not as many values as elements"));
}

absl::StatusOr<Tensor> SliceFileReader::ReadSaved(const std::string& name, const Entry& entry,
                                                  const SavedBox& saved, Allocator& allocator) const {
  const std::string* const record = FindRecord(name, saved.slice);
  SavedTensorSlices message;
  if (record == nullptr || !message.ParseFromString(*record)) return Damaged(name, saved);
  TensorProto& values = *message.mutable_data()->mutable_data();
  const Shape shape = saved.box.shape();
  if (NumValues(values) != shape.num_elements()) return Damaged(name, saved);
  values.set_dtype(static_cast<tensorflow::DataType>(entry.dtype));
  ShapeToProto(PartialShape(shape), values.mutable_tensor_shape());
  return TensorFromProto(values, allocator);
}

absl::StatusOr<Tensor> SliceFileReader::Read(const std::string& name, const TensorSlice& slice,
                                             Allocator& allocator) const {
  const Entry* const entry = Find(name);
  if (entry == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("Tensor name \"", name, "\" not found in checkpoint files ", path_));
  }
  absl::StatusOr<TensorSlice> wanted = slice.WithinShape(entry->shape);
  if (!wanted.ok()) return WithName(name, wanted.status());
  std::vector<const SavedBox*> parts;
  int64_t num_covered = 0;
  for (const SavedBox& saved : entry->slices) {
    if (saved.box == *wanted) return ReadSaved(name, *entry, saved, allocator);
    if (!saved.box.Overlaps(*wanted)) continue;
    // Every value takes a byte at least, which bounds what a damaged shape can make a reader allocate.
    const std::string* const record = FindRecord(name, saved.slice);
    if (record == nullptr || saved.box.shape().num_elements() > static_cast<int64_t>(record->size())) {
      return Damaged(name, saved);
    }
    parts.push_back(&saved);
    num_covered += NumCommonElements(saved.box, *wanted);
  }
  if (num_covered != wanted->shape().num_elements()) {
    return absl::NotFoundError(absl::StrCat("Tensor name \"", name, "\": the checkpoint files ", path_,
                                            " have not all elements of slice ", slice.ToString(), " of ",
                                            entry->shape.ToString()));
  }
  if (!parts.empty() && !IsPlainBytes(entry->dtype)) {
    return absl::UnimplementedError(
        absl::StrCat("tensor '", name, "': a part of a slice of ", DTypeName(entry->dtype)));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(entry->dtype, wanted->shape(), allocator));
  for (const SavedBox* const saved : parts) {
    WEIR_ASSIGN_OR_RETURN(const Tensor part, ReadSaved(name, *entry, *saved, allocator));
    CopyOverlap(saved->box, static_cast<const char*>(part.data()), *wanted, static_cast<char*>(result.data()),
                DTypeSize(entry->dtype));
  }
  return result;
}

}  // namespace weir
