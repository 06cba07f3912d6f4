#include "graph/interchange/tensor_proto.h"

#include <cmath>
#include <complex>
#include <limits>

#include "gmock/gmock.h"
#include "graph/interchange/proto/graph.pb.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::tensorflow::TensorProto;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorProto ProtoOf(int dtype, std::initializer_list<int64_t> dims) {
  TensorProto proto;
  proto.set_dtype(static_cast<tensorflow::DataType>(dtype));
  for (int64_t dim : dims) proto.mutable_tensor_shape()->add_dim()->set_size(dim);
  return proto;
}

std::string ErrorOf(const TensorProto& proto) {
  const absl::StatusOr<Tensor> tensor = TensorFromProto(proto);
  return tensor.ok() ? "no error: " + tensor->ToString() : std::string(tensor.status().message());
}

std::vector<Tensor> OneOfEachDType() {
  std::vector<Tensor> tensors = {
      Tensor::From<float>({2, 2}, {1.5f, -0.0f, INFINITY, 3}),
      Tensor::Vector<double>({1e300, -2}),
      Tensor::Vector<int32_t>({-1, 2147483647}),
      Tensor::Vector<uint8_t>({0, 255}),
      Tensor::Vector<int16_t>({-32768, 32767}),
      Tensor::Vector<int8_t>({-128, 127}),
      Tensor::Vector<std::string>({"", std::string("a\0b", 3), std::string(300, 'x')}),
      Tensor::Vector<std::complex<float>>({{1, 2}, {3, -4}}),
      Tensor::Vector<int64_t>({std::numeric_limits<int64_t>::min(), 5}),
      Tensor::Vector<bool>({true, false, true}),
      Tensor::Vector<Bfloat16>({Bfloat16(1.5f), Bfloat16(-2.0f)}),
      Tensor::Vector<uint16_t>({0, 65535}),
      Tensor::Vector<std::complex<double>>({{1, 2}, {3, -4}}),
      Tensor::Vector<Half>({Half(1.5f), Half(-2.0f)}),
      Tensor::Vector<uint32_t>({0, 4294967295u}),
      Tensor::Vector<uint64_t>({0, std::numeric_limits<uint64_t>::max()}),
      Tensor::Scalar<float>(7),
      Tensor::Scalar("text"),
      Tensor(DType::kFloat32, Shape({3, 0})),
      Tensor(DType::kString, Shape({0})),
      Tensor::From<int32_t>({2, 3}, {4, 4, 4, 4, 4, 4}),
      Tensor::From<bool>({3}, {true, true, true}),
      Tensor::From<std::complex<float>>({2}, {{1, 2}, {1, 2}}),
      Tensor::From<Half>({2}, {Half(-1.0f), Half(-1.0f)}),
  };
  tensors.push_back(Tensor(DType::kResource, Shape({1})));
  tensors.back().flat<ResourceHandle>()[0] = {"/job:ps/task:0", "box", "w", "Var", nullptr};
  return tensors;
}

TEST(TensorProtoTest, EveryDTypeComesBack) {
  for (const Tensor& tensor : OneOfEachDType()) {
    for (bool as_attr : {false, true}) {
      TensorProto proto;
      ASSERT_TRUE((as_attr ? TensorToAttrProto(tensor, &proto) : TensorToProto(tensor, &proto)).ok());
      TensorProto parsed;
      ASSERT_TRUE(parsed.ParseFromString(proto.SerializeAsString()));
      const absl::StatusOr<Tensor> back = TensorFromProto(parsed);
      ASSERT_TRUE(back.ok()) << tensor.ToString() << ": " << back.status();
      EXPECT_EQ(back->dtype(), tensor.dtype());
      EXPECT_EQ(back->shape(), tensor.shape());
      EXPECT_EQ(back->ToString(100), tensor.ToString(100));
    }
  }
}

TEST(TensorProtoTest, AttrsAreSplatAndReadable) {
  TensorProto proto;
  ASSERT_TRUE(TensorToAttrProto(Tensor::From<float>({3}, {2, 2, 2}), &proto).ok());
  EXPECT_THAT(proto.float_val(), ElementsAre(2));
  EXPECT_EQ(proto.tensor_content(), "");
  // +0 and -0 are equal numbers but other bits.
  ASSERT_TRUE(TensorToAttrProto(Tensor::From<float>({2}, {0.0f, -0.0f}), &proto).ok());
  EXPECT_EQ(proto.tensor_content().size(), 8);
  ASSERT_TRUE(TensorToAttrProto(Tensor::Vector<std::string>({"a", "b"}), &proto).ok());
  EXPECT_THAT(proto.string_val(), ElementsAre("a", "b"));
}

TEST(TensorProtoTest, ShortListsRepeatTheirLastValue) {
  TensorProto proto = ProtoOf(tensorflow::DT_INT32, {2, 2});
  EXPECT_THAT(TensorFromProto(proto)->flat<int32_t>(), ElementsAre(0, 0, 0, 0));
  proto.add_int_val(1);
  proto.add_int_val(2);
  EXPECT_THAT(TensorFromProto(proto)->flat<int32_t>(), ElementsAre(1, 2, 2, 2));
  proto = ProtoOf(tensorflow::DT_STRING, {2});
  proto.add_string_val("s");
  EXPECT_THAT(TensorFromProto(proto)->flat<std::string>(), ElementsAre("s", "s"));
}

TEST(TensorProtoTest, BoolBytesAreNormalised) {
  TensorProto proto = ProtoOf(tensorflow::DT_BOOL, {3});
  proto.set_tensor_content(std::string("\0\1\7", 3));
  EXPECT_THAT(TensorFromProto(proto)->flat<bool>(), ElementsAre(false, true, true));
}

TEST(TensorProtoTest, QuantizedNumbersTravelAsIntegers) {
  TensorProto proto = ProtoOf(tensorflow::DT_QINT16, {3});
  proto.add_int_val(-32768);
  proto.add_int_val(7);
  const auto tensor = TensorFromProto(proto);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->ToString(), "qint16[3] {-32768, 7, 7}");
  for (const bool is_attr : {false, true}) {
    TensorProto written;
    ASSERT_TRUE((is_attr ? TensorToAttrProto(*tensor, &written) : TensorToProto(*tensor, &written)).ok());
    EXPECT_EQ(written.dtype(), tensorflow::DT_QINT16);
    EXPECT_EQ(TensorFromProto(written)->ToString(), tensor->ToString());
  }
  proto.set_int_val(0, 40000);
  EXPECT_THAT(ErrorOf(proto), HasSubstr("qint16[3]: value 0 is out of range"));
  proto = ProtoOf(tensorflow::DT_QUINT8, {2});
  proto.set_tensor_content("abc");
  EXPECT_THAT(ErrorOf(proto), HasSubstr("quint8[2]: tensor_content has 3 bytes"));
}

TEST(TensorProtoTest, FloatsOfEightBitsAreBytes) {
  TensorProto proto = ProtoOf(tensorflow::DT_FLOAT8_E4M3FN, {3});
  proto.set_float8_val("\x38\xbc");  // the last one stands for the rest
  const auto tensor = TensorFromProto(proto);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->ToString(), "float8_e4m3fn[3] {1, -1.5, -1.5}");
  for (const bool is_attr : {false, true}) {
    TensorProto written;
    ASSERT_TRUE((is_attr ? TensorToAttrProto(*tensor, &written) : TensorToProto(*tensor, &written)).ok());
    EXPECT_EQ(TensorFromProto(written)->ToString(), tensor->ToString());
  }
  // A number alone, in an attr, has TensorFlow's field.
  TensorProto one;
  ASSERT_TRUE(TensorToAttrProto(tensor->Slice(0, 1), &one).ok());
  EXPECT_EQ(one.float8_val(), "\x38");
  EXPECT_EQ(TensorFromProto(one)->ToString(), "float8_e4m3fn[1] {1}");
  proto.set_float8_val("abcd");
  EXPECT_THAT(ErrorOf(proto), HasSubstr("4 values for 3 elements"));
}

TEST(TensorProtoTest, RefusesWhatDoesNotFit) {
  EXPECT_THAT(ErrorOf(ProtoOf(tensorflow::DT_INVALID, {})), HasSubstr("DT_INVALID"));
  EXPECT_THAT(ErrorOf(ProtoOf(tensorflow::DT_FLOAT4_E2M1FN, {})), HasSubstr("DT_FLOAT4_E2M1FN"));
  EXPECT_THAT(ErrorOf(ProtoOf(tensorflow::DT_FLOAT_REF, {})), HasSubstr("DT_FLOAT_REF"));
  EXPECT_THAT(ErrorOf(ProtoOf(tensorflow::DT_VARIANT, {})), HasSubstr("DT_VARIANT"));
  EXPECT_THAT(ErrorOf(ProtoOf(9999, {})), HasSubstr("9999"));
  EXPECT_THAT(ErrorOf(ProtoOf(1, {-1})), HasSubstr("not fully known"));
  EXPECT_THAT(ErrorOf(ProtoOf(1, {-2})), HasSubstr("-2"));
  EXPECT_THAT(ErrorOf(ProtoOf(1, {int64_t{1} << 40, int64_t{1} << 40})), HasSubstr("63 bits"));
  // A handle has its strings for each element.
  tensorflow::TensorProto handles = ProtoOf(20, {1000});
  handles.add_resource_handle_val()->set_name(std::string(1 << 20, 'n'));
  EXPECT_THAT(ErrorOf(handles), HasSubstr("would expand"));
  EXPECT_GE(NumTensorBytes(handles), int64_t{1000} << 20);
  EXPECT_THAT(ErrorOf(ProtoOf(1, {int64_t{1} << 61})), HasSubstr("would expand"));
  EXPECT_THAT(ErrorOf(ProtoOf(1, {int64_t{1} << 30})), HasSubstr("would expand"));
  EXPECT_THAT(ErrorOf(ProtoOf(7, {int64_t{1} << 40})), HasSubstr("would expand"));

  TensorProto proto = ProtoOf(tensorflow::DT_FLOAT, {2});
  proto.set_tensor_content("1234567");
  EXPECT_THAT(ErrorOf(proto), HasSubstr("float[2]: tensor_content has 7 bytes"));
  proto = ProtoOf(tensorflow::DT_FLOAT, {1});
  proto.add_float_val(1);
  proto.add_float_val(2);
  EXPECT_THAT(ErrorOf(proto), HasSubstr("2 values for 1 elements"));
  proto = ProtoOf(tensorflow::DT_INT8, {1});
  proto.add_int_val(128);
  EXPECT_THAT(ErrorOf(proto), HasSubstr("out of range"));
  proto = ProtoOf(tensorflow::DT_HALF, {1});
  proto.add_half_val(65536);
  EXPECT_THAT(ErrorOf(proto), HasSubstr("out of range"));
  proto = ProtoOf(tensorflow::DT_COMPLEX64, {1});
  proto.add_scomplex_val(1);
  EXPECT_THAT(ErrorOf(proto), HasSubstr("odd number"));
  proto = ProtoOf(tensorflow::DT_FLOAT, {});
  proto.mutable_tensor_shape()->set_unknown_rank(true);
  EXPECT_THAT(ErrorOf(proto), HasSubstr("not fully known"));
}

// It was refused as malformed.
TEST(TensorProtoTest, ZerosOfNoElementsMayHaveAValue) {
  TensorProto proto = ProtoOf(tensorflow::DT_STRING, {0});
  proto.add_string_val("");
  const absl::StatusOr<Tensor> tensor = TensorFromProto(proto);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->shape(), Shape({0}));
  proto.add_string_val("");
  EXPECT_THAT(ErrorOf(proto), HasSubstr("2 values for 0 elements"));
}

TEST(TensorProtoTest, RefusesMalformedStrings) {
  TensorProto proto = ProtoOf(tensorflow::DT_STRING, {2});
  proto.set_tensor_content(std::string("\2\1abc", 5));
  EXPECT_THAT(TensorFromProto(proto)->flat<std::string>(), ElementsAre("ab", "c"));
  for (const std::string& content :
       {std::string("\2\1ab", 4), std::string("\2\1abcd", 6), std::string("\5"), std::string(12, '\xff'),
        std::string("\2\xff\xff\xff\xff\x0f"
                    "ab",
                    8)}) {
    proto.set_tensor_content(content);
    EXPECT_FALSE(TensorFromProto(proto).ok()) << content.size();
  }
}

// A message of 256 KiB must not ask for 256 MiB.
TEST(TensorProtoTest, LongStringsAreNotRepeatedWithoutEnd) {
  TensorProto proto = ProtoOf(tensorflow::DT_STRING, {1 << 10});
  proto.add_string_val(std::string(1 << 18, 'x'));
  EXPECT_THAT(ErrorOf(proto), HasSubstr("has only 1 values and would expand"));
  proto = ProtoOf(tensorflow::DT_STRING, {3});
  proto.add_string_val(std::string(1 << 10, 'x'));
  EXPECT_TRUE(TensorFromProto(proto).ok()) << TensorFromProto(proto).status();
}

TEST(TensorProtoTest, NothingCannotBeWritten) {
  TensorProto proto;
  EXPECT_FALSE(TensorToProto(Tensor(), &proto).ok());
}

TEST(ShapeProtoTest, PartialShapesComeBack) {
  for (const PartialShape& shape : {PartialShape(), PartialShape({}), PartialShape({-1, 0, 3})}) {
    tensorflow::TensorShapeProto proto;
    ShapeToProto(shape, &proto);
    EXPECT_EQ(PartialShapeFromProto(proto).value(), shape);
  }
  tensorflow::TensorShapeProto proto;
  for (int i = 0; i < 255; ++i) proto.add_dim()->set_size(1);
  EXPECT_THAT(std::string(PartialShapeFromProto(proto).status().message()), HasSubstr("255 dimensions"));
}

}  // namespace
}  // namespace weir
