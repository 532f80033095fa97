// SPDX-License-Identifier: Apache-2.0
// Golden text of every output format, for a list, one object and one line.
#include "cli/format.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace nd::cli {
namespace {

Value Row(const std::string& id, const std::string& state, unsigned bytes) {
  Value owner = Value::MakeObject();
  owner.Set("pid", 17U);
  Value row = Value::MakeObject();
  row.Set("id", id).Set("state", state).Set("tx_bytes", bytes).Set("age_seconds", 61.0).Set("owner", owner);
  return row;
}

Shape TestShape() {
  return {"Connection",
          "id",
          {{"ID", "id"},
           {"STATE", "state", Show::kState},
           {"TX", "tx_bytes", Show::kBytes},
           {"AGE", "age_seconds", Show::kSeconds},
           {"PID", "owner.pid", Show::kNumber, true}},
          Row("", "", 0)};
}

std::string List(const std::string& format) {
  Output output;
  Failure failure = Output::Parse(format, &output);
  std::string text;
  if (!failure)
    failure = FormatList(TestShape(), {Row("1", "Connected", 2048), Row("2", "Dead", 5)}, output, &text);
  return failure ? "error: " + failure->message + " | " + failure->hint : text;
}

std::string One(const std::string& format) {
  Output output;
  Failure failure = Output::Parse(format, &output);
  std::string text;
  if (!failure) failure = FormatOne(TestShape(), Row("1", "Connected", 2048), output, &text);
  return failure ? "error: " + failure->message : text;
}

TEST(FormatList, Table) {
  EXPECT_EQ("ID  STATE        TX  AGE\n1   Connected  2.0K  1m01s\n2   Dead          5  1m01s\n",
            List("table"));
}

TEST(FormatList, WideAddsColumns) {
  EXPECT_EQ(
      "ID  STATE        TX  AGE    PID\n1   Connected  2.0K  1m01s   17\n2   Dead          5  1m01s   17\n",
      List("wide"));
}

TEST(FormatList, Json) {
  EXPECT_EQ(R"({
  "apiVersion": "ndbroker/v1",
  "kind": "ConnectionList",
  "items": [
    {
      "id": "1",
      "state": "Connected",
      "tx_bytes": 2048,
      "age_seconds": 61,
      "owner": {
        "pid": 17
      }
    },
    {
      "id": "2",
      "state": "Dead",
      "tx_bytes": 5,
      "age_seconds": 61,
      "owner": {
        "pid": 17
      }
    }
  ]
}
)",
            List("json"));
}

TEST(FormatList, JsonLines) {
  EXPECT_EQ(R"({"id":"1","state":"Connected","tx_bytes":2048,"age_seconds":61,"owner":{"pid":17}}
{"id":"2","state":"Dead","tx_bytes":5,"age_seconds":61,"owner":{"pid":17}}
)",
            List("jsonl"));
}

TEST(FormatList, Yaml) {
  EXPECT_EQ(R"(apiVersion: ndbroker/v1
kind: ConnectionList
items:
  - id: "1"
    state: Connected
    tx_bytes: 2048
    age_seconds: 61
    owner:
      pid: 17
  - id: "2"
    state: Dead
    tx_bytes: 5
    age_seconds: 61
    owner:
      pid: 17
)",
            List("yaml"));
}

TEST(FormatList, Name) {
  EXPECT_EQ("1\n2\n", List("name"));
}

TEST(FormatList, Custom) {
  EXPECT_EQ("PID  STATE\n 17  Connected\n 17  Dead\n", List("custom=owner.pid,state"));
}

TEST(FormatList, CustomByFieldShowsTheValueItself) {
  EXPECT_EQ("  TX  AGE    TX\n2048   61  2.0K\n   5   61     5\n", List("custom=tx_bytes,age_seconds,TX"));
}

TEST(FormatList, CsvHasPlainValuesOfEveryColumn) {
  EXPECT_EQ("id,state,tx_bytes,age_seconds,owner.pid\n1,Connected,2048,61,17\n2,Dead,5,61,17\n", List("csv"));
}

TEST(FormatList, CsvQuotesSpecialCharacters) {
  Output output;
  output.format = Format::kCsv;
  output.headers = false;
  std::string text;
  EXPECT_FALSE(FormatList(TestShape(), {Row("a,b", "say \"x\"", 1)}, output, &text));
  EXPECT_EQ("\"a,b\",\"say \"\"x\"\"\",1,61,17\n", text);
}

TEST(FormatList, CsvKeepsControlCharactersFromTheTerminal) {
  Output output;
  output.format = Format::kCsv;
  output.headers = false;
  std::string text;
  EXPECT_FALSE(FormatList(TestShape(), {Row("a\x1b[2J", "b\nc", 1)}, output, &text));
  EXPECT_EQ("a?[2J,b?c,1,61,17\n", text);
}

TEST(FormatList, LiveColumnsReplaceTotals) {
  Shape shape = TestShape();
  shape.columns[2].when = When::kOnce;
  shape.columns.push_back({"TX/s", "tx_bytes_per_second", Show::kBytes, false, When::kLive});
  Value row = Row("1", "Dead", 2048);
  row.Set("tx_bytes_per_second", 1024.0);
  Output output;
  std::string text;
  EXPECT_FALSE(FormatList(shape, {row}, output, &text));
  EXPECT_EQ("ID  STATE    TX  AGE\n1   Dead   2.0K  1m01s\n", text);
  output.live = true;
  EXPECT_FALSE(FormatList(shape, {row}, output, &text));
  EXPECT_EQ("ID  STATE  AGE    TX/s\n1   Dead   1m01s  1.0K\n", text);
}

TEST(FormatList, ListsAndTimes) {
  Value row = Value::MakeObject();
  row.Set("said", Value::MakeArray()).Set("unsaid", Value()).Set("time", "2026-11-21T10:00:00.123456Z");
  const Shape shape{"X",
                    "said",
                    {{"A", "said", Show::kList}, {"B", "unsaid", Show::kList}, {"T", "time", Show::kTime}},
                    row};
  std::string text;
  EXPECT_FALSE(FormatList(shape, {row}, {}, &text));
  EXPECT_EQ("A     B  T\nnone  -  2026-11-21T10:00:00Z\n", text);
}

TEST(FormatList, EmptyListHasHeaderAndEnvelope) {
  Output output;
  std::string text;
  EXPECT_FALSE(FormatList(TestShape(), {}, output, &text));
  EXPECT_EQ("ID  STATE  TX  AGE\n", text);
  output.format = Format::kJson;
  EXPECT_FALSE(FormatList(TestShape(), {}, output, &text));
  EXPECT_EQ("{\n  \"apiVersion\": \"ndbroker/v1\",\n  \"kind\": \"ConnectionList\",\n  \"items\": []\n}\n",
            text);
}

TEST(FormatOne, Card) {
  EXPECT_EQ(
      "id:           1\nstate:        Connected\ntx_bytes:     2048\nage_seconds:  1m01s\nowner.pid:    17\n",
      One("table").substr(0, 200));
}

TEST(FormatOne, CardGivesNamedItemsALineEach) {
  Value queue = Value::MakeObject();
  queue.Set("name", "queue").Set("seconds", 0.0000121);
  Value reply = Value::MakeObject();
  reply.Set("name", "reply").Set("seconds", 0.0031);
  Value row = Value::MakeObject();
  row.Set("id", "1").Set("phases", Value::Array{queue, reply}).Set("none", Value::MakeArray());
  std::string text;
  EXPECT_FALSE(FormatOne(TestShape(), row, {}, &text));
  EXPECT_EQ("id:            1\nphases.queue:  12.1 us\nphases.reply:  3.1 ms\nnone:          -\n", text);
}

TEST(FormatOne, JsonHasTheFieldsBesideTheKind) {
  EXPECT_EQ(
      R"({"apiVersion":"ndbroker/v1","kind":"Connection","id":"1","state":"Connected","tx_bytes":2048,"age_seconds":61,"owner":{"pid":17}})"
      "\n",
      One("jsonl"));
}

TEST(FormatOne, Name) {
  EXPECT_EQ("1\n", One("name"));
}

TEST(FormatLine, IsOneLineInEveryFormatForMachines) {
  Output output;
  std::string text;
  for (const Format format : {Format::kJson, Format::kJsonl, Format::kTable, Format::kName}) {
    output.format = format;
    EXPECT_FALSE(FormatLine(TestShape(), Row("1", "Dead", 1), output, &text));
    EXPECT_EQ(1, std::count(text.begin(), text.end(), '\n')) << text;
  }
}

TEST(Format, UnknownFormatsNameTheNearest) {
  EXPECT_EQ("error: unknown output format 'jsn' | did you mean 'json'?", List("jsn"));
  EXPECT_TRUE(List("custom=").starts_with("error: unknown output format")) << List("custom=");
  EXPECT_EQ("error: a Connection has no field 'stat' | did you mean 'STATE'?", List("custom=stat"));
}

TEST(Human, Numbers) {
  EXPECT_EQ("0 B", HumanBytes(0));
  EXPECT_EQ("1023 B", HumanBytes(1023));
  EXPECT_EQ("1.5 GiB", HumanBytes(1.5 * 1024 * 1024 * 1024));
  EXPECT_EQ("1023", CompactBytes(1023));
  EXPECT_EQ("1.5G", CompactBytes(1.5 * 1024 * 1024 * 1024));
  EXPECT_EQ("512G", CompactBytes(512.3 * 1024 * 1024 * 1024));
  EXPECT_EQ("99999", CompactCount(99999));
  EXPECT_EQ("100K", CompactCount(99999.5));
  EXPECT_EQ("790K", CompactCount(790347.5));
  EXPECT_EQ("1.0M", CompactCount(999999));
  EXPECT_EQ("12.3G", CompactCount(12345678901));
  EXPECT_EQ("100G", CompactCount(99.96e9));
  EXPECT_EQ("18.4E", CompactCount(18446744073709551615.0));
  EXPECT_EQ("0", CompactCount(0));
  EXPECT_EQ("0.5", CompactCount(0.5));
  EXPECT_EQ("1235", CompactCount(1234.56));
  EXPECT_EQ("45.1 us", HumanShort(45.1e-6));
  EXPECT_EQ("1.3 ms", HumanShort(1.3e-3));
  EXPECT_EQ("2.50 s", HumanShort(2.5));
  EXPECT_EQ("5m00s", HumanShort(300));
  EXPECT_EQ("0.2s", HumanSeconds(0.24));
  EXPECT_EQ("59s", HumanSeconds(59.9));
  EXPECT_EQ("2h03m", HumanSeconds(7380));
  EXPECT_EQ("3d4h", HumanSeconds(3 * 86400 + 4 * 3600));
  EXPECT_EQ("?", HumanSeconds(-1));
}

}  // namespace
}  // namespace nd::cli
