// SPDX-License-Identifier: Apache-2.0
// Seeds of fz_session_codec: each message with all of its fields, and a few that codecs often get wrong.
#include "ndbroker/v1/session.pb.h"
#include "tests/fuzz/seeds.h"

namespace nd::fuzz {
namespace {

namespace pb = ::ndbroker::v1;
using google::protobuf::FieldDescriptor;

void Fill(google::protobuf::Message* message) {
  const auto* type = message->GetDescriptor();
  const auto* access = message->GetReflection();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (field->containing_oneof() != nullptr) continue;
    if (field->is_repeated()) {
      Fill(access->AddMessage(message, field));
      continue;
    }
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        access->SetBool(message, field, true);
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        access->SetInt32(message, field, -7);
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        access->SetUInt32(message, field, field->name() == "family" ? 4 : 3);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        access->SetUInt64(message, field, 300);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        access->SetEnumValue(message, field, 1);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        access->SetString(message, field, field->name() == "ip" ? "abcd" : "text");
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        Fill(access->MutableMessage(message, field));
        break;
      default:
        break;
    }
  }
}

template <typename Message>
void AddEachKind(SeedWriter& writer, unsigned header) {
  const auto* oneof = Message::descriptor()->oneof_decl(0);
  for (int i = 0; i < oneof->field_count(); ++i) {
    Message message;
    Fill(&message);
    Fill(message.GetReflection()->MutableMessage(&message, oneof->field(i)));
    writer.Add("session_codec", oneof->field(i)->name(), Seed().U8(header).Text(message.SerializeAsString()));
  }
}

}  // namespace

void AddSessionCodecSeeds(SeedWriter& writer) {
  AddEachKind<pb::ClientMessage>(writer, 0);
  AddEachKind<pb::ServerMessage>(writer, 1);
  using namespace std::literals;
  const auto add = [&](const char* name, std::string_view bytes) {
    writer.Add("session_codec", name, Seed().U8(0).Text(bytes));
  };
  add("number-of-ten-bytes", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"sv);
  add("number-of-eleven-bytes", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv);
  add("length-of-six-bytes", "\x1a\x80\x80\x80\x80\x80\x01"sv);
  add("length-beyond-the-end", "\x62\x7f\x08\x01"sv);
  add("overlong-tag", "\x88\x80\x80\x80\x00\x05"sv);
  add("tag-of-six-bytes", "\x88\x80\x80\x80\x80\x00\x05"sv);
  add("unknown-group", "\x9b\x06\x08\x01\x9c\x06\x08\x05"sv);
  add("group-without-its-end", "\x9b\x06\x08\x01"sv);
  add("group-with-another-end", "\x9b\x06\xa4\x06"sv);
  add("name-with-a-surrogate", "\x22\x05\x0a\x03\xed\xa0\x80"sv);
}

}  // namespace nd::fuzz
