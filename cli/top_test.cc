// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "cli/table.h"
#include "cli/top_model.h"

namespace nd::cli {
namespace {

TopSample Of(const std::string& id, const std::string& application, double tx,
             const std::string& peer = "10.0.0.1:1") {
  TopSample sample;
  sample.id = id;
  sample.state = "Connected";
  sample.application = application;
  sample.peer = peer;
  sample.adapter = "soft0";
  sample.transport = "iwarp";
  sample.tx_bytes = tx;
  return sample;
}

std::vector<std::string> Groups(const TopModel& model, TopView view) {
  std::vector<std::string> names;
  for (const TopLine& line : model.Render(&view, 120, 100)) {
    if (line.kind == TopLine::Kind::kGroup) names.push_back(line.group);
  }
  return names;
}

TEST(TopModel, RatesAreKnownFromTheSecondSampleOnAndSumUp) {
  TopModel model;
  TopView view;
  model.Add({Of("1", "fio", 1000), Of("2", "fio", 5000)}, 0);
  EXPECT_NE(model.Render(&view, 120, 10)[0].text.find("measuring"), std::string::npos);
  model.Add({Of("1", "fio", 1000 + 2048), Of("2", "fio", 5000 + 4096), Of("3", "fio", 1e9)}, 2);
  const std::string line = model.Render(&view, 120, 10)[2].text;
  EXPECT_NE(line.find("3.0K"), std::string::npos) << line;  // The new one has no rate yet.
  // A counter that goes back is a new queue pair, not a negative rate.
  model.Add({Of("1", "fio", 0)}, 1);
  EXPECT_NE(model.Render(&view, 120, 10)[0].text.find("tx 0 B/s"), std::string::npos);
}

TEST(TopModel, GroupsAreSortedAndStayInPlaceWhenEqual) {
  TopModel model;
  TopView view;
  model.Add({Of("1", "b", 0), Of("2", "a", 0), Of("3", "c", 0)}, 0);
  EXPECT_EQ(Groups(model, view), (std::vector<std::string>{"a", "b", "c"}));
  model.Add({Of("1", "b", 50), Of("2", "a", 10), Of("3", "c", 70)}, 1);
  EXPECT_EQ(Groups(model, view), (std::vector<std::string>{"c", "b", "a"}));
  view.ascending = true;
  EXPECT_EQ(Groups(model, view), (std::vector<std::string>{"a", "b", "c"}));
  view.sort = TopSort::kName;
  EXPECT_EQ(Groups(model, view), (std::vector<std::string>{"c", "b", "a"}));
  view.group = TopGroup::kAdapter;
  EXPECT_EQ(Groups(model, view), (std::vector<std::string>{"soft0"}));
}

TEST(TopModel, TheFilterLooksAtEveryText) {
  TopModel model;
  TopView view;
  model.Add({Of("1", "fio", 0, "10.0.0.1:1"), Of("2", "Redis", 0, "10.0.0.2:1")}, 0);
  view.filter = "redis";
  EXPECT_EQ(Groups(model, view), std::vector<std::string>{"Redis"});
  view.filter = "10.0.0.1";
  EXPECT_EQ(Groups(model, view), std::vector<std::string>{"fio"});
  view.filter = "nothing";
  EXPECT_EQ(model.Render(&view, 80, 10)[2].kind, TopLine::Kind::kNote);
}

TEST(TopModel, EveryLineIsExactlyAsWideAsTheScreen) {
  TopModel model;
  TopView view;
  std::vector<TopSample> samples;
  for (int i = 0; i < 50; ++i)
    samples.push_back(
        Of(std::to_string(i), "a-name-that-is-much-too-long-for-it-" + std::to_string(i), 1e18 * i));
  samples.push_back(Of("x", "zoë\x1b[31m\n", 5));
  model.Add(samples, 0);
  model.Add(samples, 1);
  for (const TopSample& sample : samples) view.expanded[sample.application] = true;
  for (const std::size_t width : {70u, 80u, 100u, 132u, 300u}) {
    for (const TopLine& line : model.Render(&view, width, 200))
      EXPECT_LE(DisplayWidth(line.text), width) << line.text;
  }
}

TEST(TopModel, TheSelectedLineIsAlwaysVisibleAndInRange) {
  TopModel model;
  TopView view;
  std::vector<TopSample> samples;
  for (int i = 0; i < 30; ++i) samples.push_back(Of(std::to_string(i), "app" + std::to_string(i), 0));
  model.Add(samples, 0);
  EXPECT_EQ(model.Entries(view), 30u);
  view.selected = 25;
  int selected = 0;
  for (const TopLine& line : model.Render(&view, 80, 10)) selected += line.selected ? 1 : 0;
  EXPECT_EQ(selected, 1);
  view.selected = 1000;
  selected = 0;
  for (const TopLine& line : model.Render(&view, 80, 10)) selected += line.selected ? 1 : 0;
  EXPECT_EQ(selected, 1);
  EXPECT_EQ(view.selected, 29u);
  view.expanded["app0"] = true;
  EXPECT_EQ(model.Entries(view), 31u);
  EXPECT_EQ(model.GroupAt(view, 1), "app0");
  EXPECT_EQ(model.GroupAt(view, 2), "app1");
}

TEST(TopModel, SparklinesScaleToTheirLargestValue) {
  EXPECT_EQ(Sparkline({0, 4, 8}, 4), "  ▄█");
  EXPECT_EQ(Sparkline({0.001, 1000}, 2), "▁█");
  EXPECT_EQ(Sparkline({}, 3), "   ");
  EXPECT_EQ(Sparkline({0, 0}, 2), "  ");
}

}  // namespace
}  // namespace nd::cli
