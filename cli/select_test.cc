// SPDX-License-Identifier: Apache-2.0
// --filter and --sort.
#include <gtest/gtest.h>

#include "cli/format.h"

namespace nd::cli {
namespace {

Value ConnectionRow(const std::string& id, const std::string& peer, unsigned tx) {
  Value row = Value::MakeObject();
  row.Set("id", id).Set("peer", peer).Set("tx_bytes", tx);
  return row;
}

Shape ConnectionShape() {
  return {"Connection", "id", {{"ID", "id"}, {"PEER", "peer"}}, ConnectionRow("", "", 0)};
}

// Ids of the rows that remain, in order; or the error.
std::string Ids(const Selection& selection) {
  Value::Array rows = {ConnectionRow("1", "10.0.0.1:7", 9), ConnectionRow("2", "[::1]:5", 100),
                       ConnectionRow("3", "10.0.0.2:7", 20)};
  if (Failure failure = Select(ConnectionShape(), selection, &rows)) {
    EXPECT_EQ(Exit::kUsage, failure->exit);
    return failure->message + " | " + failure->hint;
  }
  std::string ids;
  for (const Value& row : rows) ids += row.Find("id")->Text();
  return ids;
}

TEST(Select, FiltersByColumnOrField) {
  EXPECT_EQ("2", Ids({{"PEER=[::1]:5"}, ""}));
  EXPECT_EQ("2", Ids({{"peer=[::1]:5"}, ""}));
  EXPECT_EQ("13", Ids({{"peer=10.*"}, ""}));
  EXPECT_EQ("2", Ids({{"peer!=10.*"}, ""}));
  EXPECT_EQ("1", Ids({{"tx_bytes=9"}, ""}));
  EXPECT_EQ("", Ids({{"peer="}, ""}));
}

TEST(Select, AllFiltersMustHold) {
  EXPECT_EQ("3", Ids({{"peer=10.*", "id!=1"}, ""}));
}

TEST(Select, SortsNumbersAsNumbers) {
  EXPECT_EQ("132", Ids({{}, "tx_bytes"}));
  EXPECT_EQ("231", Ids({{}, "-tx_bytes"}));
}

TEST(Select, ComparesBySizeWithUnits) {
  EXPECT_EQ("23", Ids({{"tx_bytes>9"}, ""}));
  EXPECT_EQ("123", Ids({{"tx_bytes>=9"}, ""}));
  EXPECT_EQ("1", Ids({{"tx_bytes<20B"}, ""}));
  EXPECT_EQ("13", Ids({{"tx_bytes<=20"}, ""}));
  EXPECT_EQ("123", Ids({{"tx_bytes<1KiB"}, ""}));
  EXPECT_EQ(
      "'peer>5' compares by size, but peer is not a number | write --filter FIELD=VALUE or FIELD!=VALUE",
      Ids({{"peer>5"}, ""}));
  EXPECT_EQ("unknown unit 'kib' in '1kib' | did you mean 'KiB'?", Ids({{"tx_bytes>1kib"}, ""}));
  EXPECT_TRUE(Ids({{"tx_bytes>5s"}, ""}).starts_with("unknown unit 's'")) << Ids({{"tx_bytes>5s"}, ""});
}

TEST(Select, NamesTheWrongWord) {
  EXPECT_EQ("a Connection has no field 'pear' | did you mean 'PEER'?", Ids({{"pear=1"}, ""}));
  EXPECT_EQ("a Connection has no field 'tx_byte' | did you mean 'tx_bytes'?", Ids({{}, "tx_byte"}));
  EXPECT_EQ("'peer' is not a filter | write --filter FIELD=VALUE, FIELD!=VALUE or FIELD>NUMBER",
            Ids({{"peer"}, ""}));
  EXPECT_EQ("'=5' is not a filter | write --filter FIELD=VALUE, FIELD!=VALUE or FIELD>NUMBER",
            Ids({{"=5"}, ""}));
}

}  // namespace
}  // namespace nd::cli
