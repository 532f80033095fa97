// SPDX-License-Identifier: Apache-2.0
// The writers: valid for any text, numbers as numbers.
#include "cli/value.h"

#include <gtest/gtest.h>

#include <limits>

namespace nd::cli {
namespace {

Value Sample() {
  Value owner = Value::MakeObject();
  owner.Set("pid", 17U).Set("command", "a b");
  Value list = Value::MakeArray();
  list.array().emplace_back("10.0.0.1");
  list.array().emplace_back("::1");
  Value row = Value::MakeObject();
  row.Set("id", "c-1")
      .Set("up", true)
      .Set("age", 1.5)
      .Set("owner", owner)
      .Set("addresses", list)
      .Set("none", Value());
  row.Set("empty_list", Value::MakeArray()).Set("empty_map", Value::MakeObject());
  return row;
}

TEST(Value, JsonInOneLine) {
  EXPECT_EQ(
      R"({"id":"c-1","up":true,"age":1.5,"owner":{"pid":17,"command":"a b"},"addresses":["10.0.0.1","::1"],)"
      R"("none":null,"empty_list":[],"empty_map":{}})",
      Sample().ToJson(0));
}

TEST(Value, JsonIndented) {
  Value out = Value::MakeObject();
  Value::Array items = {1, 2};
  out.Set("items", items);
  EXPECT_EQ("{\n  \"items\": [\n    1,\n    2\n  ]\n}", out.ToJson(2));
}

TEST(Value, Yaml) {
  EXPECT_EQ(
      "id: c-1\nup: true\nage: 1.5\nowner:\n  pid: 17\n  command: a b\naddresses:\n  - \"10.0.0.1\"\n"
      "  - \"::1\"\nnone: null\nempty_list: []\nempty_map: {}\n",
      Sample().ToYaml());
}

TEST(Value, YamlListOfObjects) {
  Value out = Value::MakeObject();
  out.Set("items", Value::Array{Sample(), Sample()});
  const std::string yaml = out.ToYaml();
  EXPECT_TRUE(
      yaml.starts_with("items:\n  - id: c-1\n    up: true\n    age: 1.5\n    owner:\n      pid: 17\n"))
      << yaml;
}

TEST(Value, YamlQuotesTextThatLooksLikeAnotherType) {
  for (const char* text :
       {"yes", "No", "null", "1", "1e3", "", "- a", "a: b", "#x", "~", "a ", "0x1", "12:30"}) {
    Value value = Value::MakeObject();
    value.Set("x", text);
    EXPECT_EQ("x: " + QuoteJson(text) + "\n", value.ToYaml());
  }
}

TEST(Value, HostileTextStaysValidJson) {
  EXPECT_EQ(R"("a\"b\\c\n\u0001\u007f")", QuoteJson("a\"b\\c\n\x01\x7f"));
  EXPECT_EQ("\"\xC3\xA9\"", QuoteJson("\xC3\xA9"));
  EXPECT_EQ(R"("\ufffd")", QuoteJson("\xC3"));
  EXPECT_EQ(R"("\ufffdA")", QuoteJson("\xFF"
                                      "A"));
  EXPECT_EQ(R"("\ufffd\ufffd\ufffd")", QuoteJson("\xED\xA0\x80"));  // A surrogate.
  EXPECT_EQ(R"("\ufffd\ufffd")", QuoteJson("\xC0\x80"));            // Overlong.
}

TEST(Value, NumbersKeepEveryDigit) {
  EXPECT_EQ("18446744073709551615", Value(std::numeric_limits<std::uint64_t>::max()).ToJson(0));
  EXPECT_EQ("-9223372036854775808", Value(std::numeric_limits<std::int64_t>::min()).ToJson(0));
  EXPECT_EQ("0.1", Value(0.1).ToJson(0));
  EXPECT_EQ("null", Value(std::numeric_limits<double>::infinity()).ToJson(0));
}

TEST(Value, FindsNestedFields) {
  const Value row = Sample();
  ASSERT_NE(nullptr, row.Find("owner.pid"));
  EXPECT_EQ("17", row.Find("owner.pid")->Text());
  EXPECT_EQ(nullptr, row.Find("owner.uid"));
  EXPECT_EQ(nullptr, row.Find("id.x"));
  EXPECT_EQ(nullptr, row.Find(""));
  EXPECT_EQ("10.0.0.1,::1", row.Find("addresses")->Text());
}

TEST(Value, FindsKeysWithDots) {
  Value row = Value::MakeObject();
  row.Set("a.b", 1);
  EXPECT_EQ("1", row.Find("a.b")->Text());
}

TEST(Value, ComparesNumbersByValue) {
  EXPECT_LT(Value::Compare(9, 10), 0);
  EXPECT_GT(Value::Compare("9", "10"), 0);
  EXPECT_EQ(Value::Compare(3U, 3), 0);
  EXPECT_LT(Value::Compare(Value(), 0), 0);
  EXPECT_LT(Value::Compare(std::numeric_limits<std::uint64_t>::max() - 1,
                           std::numeric_limits<std::uint64_t>::max()),
            0);
}

}  // namespace
}  // namespace nd::cli
