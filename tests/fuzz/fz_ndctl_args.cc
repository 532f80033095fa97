// SPDX-License-Identifier: Apache-2.0
// The command line of ndctl: words either parse, or the error names one of them; then filters, sorting and
// columns on rows with arbitrary texts.
//
// Input: a header byte (low bit: command line, else rows; the other bits: the format of kFormats, 0: all),
// then texts, each after its length.
#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "cli/format.h"
#include "cli/globals.h"
#include "cli/parse.h"
#include "tests/fuzz/fuzz.h"

namespace nd::fuzz {
namespace {

using cli::Value;

std::vector<std::string> Texts(Input& input, std::size_t most) {
  std::vector<std::string> texts;
  while (!input.empty() && texts.size() < most) {
    // Arguments end at a zero byte, and a pattern of many stars would take fnmatch for ever.
    const auto bytes = input.Take(input.Number() % 48);
    std::string text(bytes.begin(), bytes.end());
    std::erase(text, '\0');
    if (std::count(text.begin(), text.end(), '*') > 4) std::erase(text, '*');
    texts.push_back(std::move(text));
  }
  return texts;
}

void CheckError(const cli::Error& error) {
  for (const bool json : {false, true}) {
    const std::string text = cli::FormatError(error, json);
    Require(!text.empty() && text.back() == '\n', "an error is a line");
    if (json) Require(text.front() == '{', "a JSON error is an object");
  }
}

void RunCommandLine(const std::vector<std::string>& words) {
  // Made once: building the commands takes longer than parsing a line, and parsing resets the state of the
  // line before.
  static cli::Context context;
  static const std::unique_ptr<cli::CommandLine> line = cli::MakeCommandLine(context);
  static const cli::CommandInfo commands = line->Describe();
  std::vector<const char*> argv = {"ndctl"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  context.run = nullptr;
  (void)cli::WantsJson(words);
  const cli::ParsedLine parsed = line->Parse(static_cast<int>(argv.size()), argv.data());
  if (parsed.kind == cli::ParsedLine::Kind::kRun) {
    Require(context.run != nullptr, "a line that parses runs a command");
  } else if (parsed.kind == cli::ParsedLine::Kind::kWrong) {
    const cli::Error told = cli::Diagnose(commands, words, parsed.text);
    Require(told.exit == cli::Exit::kUsage && !told.message.empty(), "a wrong line is a usage error");
    CheckError(told);
  }
}

Value Row(const std::string& text, double number) {
  Value owner = Value::MakeObject();
  owner.Set("pid", static_cast<std::uint64_t>(number)).Set("command", text);
  Value row = Value::MakeObject();
  row.Set("id", text).Set("state", "Connected").Set("bytes", number).Set("owner", owner);
  row.Set("list", Value::Array{Value(text), Value(), Value(true)});
  return row;
}

// "" lets the input choose the format.
constexpr std::string_view kFormats[] = {"", "table", "wide", "json", "jsonl", "yaml", "name"};

void RunRows(std::vector<std::string> texts, std::size_t only) {
  texts.resize(std::max<std::size_t>(texts.size(), 4));
  cli::Shape shape;
  shape.kind = "Thing";
  shape.id_path = "id";
  shape.columns = {{"ID", "id"},
                   {"STATE", "state", cli::Show::kState},
                   {"TX", "bytes", cli::Show::kBytes},
                   {"AGE", "bytes", cli::Show::kSeconds, true},
                   {"OWNER", "owner.command"},
                   {"LIST", "list"}};
  shape.sample = Row("x", 1);
  Value::Array rows;
  for (std::size_t i = 3; i < texts.size(); ++i) {
    rows.push_back(Row(texts[i], static_cast<double>(texts[i].size()) * 1e5 * static_cast<double>(i)));
  }
  const std::size_t before = rows.size();
  cli::Selection selection;
  if (!texts[0].empty()) selection.filters.push_back(texts[0]);
  selection.sort = texts[1];
  if (const auto failure = cli::Select(shape, selection, &rows)) {
    Require(failure->exit == cli::Exit::kUsage, "a wrong field is a usage error");
    return CheckError(*failure);
  }
  Require(rows.size() <= before, "a filter adds nothing");
  cli::Output output;
  for (std::size_t i = 0; i < std::size(kFormats); ++i) {
    if (only != 0 && i != (only - 1) % std::size(kFormats)) continue;
    const std::string format(i == 0 ? std::string_view(texts[2]) : kFormats[i]);
    if (const auto failure = cli::Output::Parse(format, &output)) {
      CheckError(*failure);
      continue;
    }
    std::string text;
    if (const auto failure = cli::FormatList(shape, rows, output, &text)) {
      Require(failure->exit == cli::Exit::kUsage, "a wrong column is a usage error");
      CheckError(*failure);
      continue;
    }
    const bool one_line_each = output.format == cli::Format::kTable || output.format == cli::Format::kJsonl;
    if (one_line_each) {
      const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
      Require(lines <= rows.size() + 1, "no text of a row makes a line of its own");
    }
    for (const char c : text) {
      Require(c == '\n' || c == '\t' || static_cast<unsigned char>(c) >= 0x20, "nothing steers the terminal");
    }
  }
}

}  // namespace
}  // namespace nd::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nd::fuzz;
  Input input(data, size);
  const auto header = input.Number();
  if ((header & 1) != 0) {
    RunCommandLine(Texts(input, 16));
  } else {
    RunRows(Texts(input, 12), header >> 1);
  }
  return 0;
}
