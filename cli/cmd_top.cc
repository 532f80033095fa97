// SPDX-License-Identifier: Apache-2.0
// ndctl top: the screen and its keys; top_model computes the contents.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "base/os/self.h"
#include "cli/commands.h"
#include "cli/noun.h"
#include "cli/quantity.h"
#include "cli/rows.h"
#include "cli/top_model.h"
#include "cli/top_screen.h"

namespace nd::cli {
namespace {

using std::chrono::steady_clock;

struct Options {
  std::string interval_text = "1";
  double interval = 1;
  bool batch = false;
  int count = 0;  // 0: until the user ends it.
  std::string by = "app", filter;
};

Failure Sample(Context& context, std::vector<TopSample>* samples) {
  v1::ConnectionList list;
  if (Failure failure = context.admin().ListConnections(v1::ListRequest(), &list)) return failure;
  samples->clear();
  for (const v1::ConnectionRow& row : list.items()) {
    TopSample sample;
    sample.id = row.id();
    sample.state = row.state();
    sample.application =
        row.owner().application().empty() ? row.owner().command() : row.owner().application();
    sample.peer = AddressText(row.peer());
    sample.adapter = row.adapter();
    sample.transport = row.transport();
    const v1::Traffic& traffic = row.traffic();
    sample.tx_bytes = static_cast<double>(traffic.tx_bytes());
    sample.rx_bytes = static_cast<double>(traffic.rx_bytes());
    sample.operations = static_cast<double>(traffic.tx_sends()) + static_cast<double>(traffic.tx_writes()) +
                        static_cast<double>(traffic.tx_reads());
    sample.stalls = static_cast<double>(traffic.stalls());
    sample.errors = static_cast<double>(traffic.errors());
    sample.age = row.age_seconds();
    samples->push_back(std::move(sample));
  }
  return std::nullopt;
}

Failure Batch(Context& context, const Options& options, TopView view) {
  TopModel model;
  std::vector<TopSample> samples;
  auto last = steady_clock::now();
  for (int i = 0; options.count == 0 || i <= options.count; ++i) {
    if (Failure failure = Sample(context, &samples)) return failure;
    const auto now = steady_clock::now();
    model.Add(samples, i == 0 ? 0 : std::chrono::duration<double>(now - last).count());
    last = now;
    if (i > 0) {
      std::string text;
      for (const TopLine& line : model.Render(&view, 120, 1000)) {
        const std::size_t end = line.text.find_last_not_of(' ');
        text += line.text.substr(0, end == std::string::npos ? 0 : end + 1) + "\n";
      }
      if (Failure failure = context.Write(text + "\n")) return failure;
    }
    if (options.count != 0 && i == options.count) break;
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval));
  }
  return std::nullopt;
}

constexpr char kKeys[] =
    "q quit  arrows/jk move  space open  g group  s/S sort  r reverse  / filter  f freeze  +/- interval";
constexpr char kHelp[] =
    "n name  c connections  t TX  x RX  o operations  l stalls  e errors  a open all  any key goes back";

// Handles a key; returns false to end.
bool OnLetter(char letter, const TopModel& model, TopView* view, double* interval, bool* help) {
  static constexpr struct {
    char letter;
    TopSort sort;
  } kSorts[] = {{'n', TopSort::kName},  {'c', TopSort::kConnections}, {'t', TopSort::kTx},
                {'x', TopSort::kRx},    {'o', TopSort::kOperations},  {'l', TopSort::kStalls},
                {'e', TopSort::kErrors}};
  for (const auto& choice : kSorts) {
    if (choice.letter == letter) view->sort = choice.sort;
  }
  switch (letter) {
    case 'q':
      return false;
    case 'a':
      for (std::size_t i = 0, n = model.Entries(*view); i < n; ++i)
        view->expanded[model.GroupAt(*view, i)] = true;
      break;
    case 'g':
      view->group = static_cast<TopGroup>((static_cast<int>(view->group) + 1) % 3);
      view->expanded.clear();
      view->selected = 0;
      break;
    case 's':
    case 'S':
      view->sort = static_cast<TopSort>((static_cast<int>(view->sort) + (letter == 's' ? 1 : 6)) % 7);
      break;
    case 'r':
      view->ascending = !view->ascending;
      break;
    case 'f':
      view->frozen = !view->frozen;
      break;
    case '+':
      *interval = std::min(*interval * 2, 60.0);
      break;
    case '-':
      *interval = std::max(*interval / 2, 0.125);
      break;
    case 'h':
    case '?':
      *help = true;
      break;
    default:
      break;
  }
  return true;
}

void Move(TopKey key, const TopModel& model, TopView* view) {
  constexpr std::size_t kPage = 20;
  const std::size_t entries = model.Entries(*view);
  const std::size_t last = entries == 0 ? 0 : entries - 1;
  switch (key) {
    case TopKey::kDown:
      view->selected = std::min(view->selected + 1, last);
      break;
    case TopKey::kUp:
      view->selected -= std::min<std::size_t>(view->selected, 1);
      break;
    case TopKey::kPageDown:
      view->selected = std::min(view->selected + kPage, last);
      break;
    case TopKey::kPageUp:
      view->selected -= std::min(view->selected, kPage);
      break;
    case TopKey::kHome:
      view->selected = 0;
      break;
    case TopKey::kEnd:
      view->selected = last;
      break;
    case TopKey::kEnter: {
      bool& open = view->expanded[model.GroupAt(*view, view->selected)];
      open = !open;
      break;
    }
    default:
      break;
  }
}

void Type(const TopPressed& pressed, TopView* view, bool* typing) {
  view->selected = 0;
  if (pressed.key == TopKey::kCharacter) view->filter += pressed.character;
  if (pressed.key == TopKey::kBackspace && !view->filter.empty()) view->filter.pop_back();
  if (pressed.key == TopKey::kEscape) view->filter.clear();
  if (pressed.key == TopKey::kEscape || pressed.key == TopKey::kEnter) *typing = false;
}

const char* SortName(TopSort sort) {
  static constexpr const char* kNames[] = {"name",       "connections", "tx",    "rx",
                                           "operations", "stalls",      "errors"};
  return kNames[static_cast<std::size_t>(sort)];
}

Failure Live(Context& context, const Options& options, TopView view) {
  // Before the screen is initialised, so that an error stays readable.
  std::vector<TopSample> samples;
  if (Failure failure = Sample(context, &samples)) return failure;
  TopScreen screen;
  if (!screen.good()) {
    const char* term = std::getenv("TERM");
    return Error{Exit::kFailed,
                 "this terminal (TERM=" + std::string(term == nullptr ? "" : term) + ") cannot show a screen",
                 "ndctl top --batch prints lines instead",
                 {}};
  }
  TopModel model;
  model.Add(samples, 0);
  auto last = steady_clock::now();
  double interval = options.interval;
  bool help = false, typing = false;
  std::string trouble;
  int taken = 0;
  for (;;) {
    std::string foot = "sort: " + std::string(SortName(view.sort)) + (view.ascending ? " up" : "") +
                       "  every " + HumanShort(interval) + "  " + (help ? kHelp : kKeys);
    if (typing) foot = "filter: " + view.filter + "_   (enter keeps it, escape clears it)";
    if (!trouble.empty()) foot = trouble;
    screen.Draw(model.Render(&view, screen.width(), screen.height() - 1), foot);
    const auto due = last + std::chrono::microseconds(static_cast<long long>(interval * 1e6));
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(due - steady_clock::now()).count();
    const TopPressed pressed = screen.Wait(static_cast<int>(std::max<long long>(left, 0)));
    if (pressed.key == TopKey::kEnded) return std::nullopt;
    if (pressed.key != TopKey::kNone) {
      help = false;
      if (typing) {
        Type(pressed, &view, &typing);
      } else if (pressed.key != TopKey::kCharacter) {
        Move(pressed.key, model, &view);
      } else if (pressed.character == '/') {
        typing = true;
      } else if (pressed.character == ' ' || pressed.character == 'j' || pressed.character == 'k') {
        Move(pressed.character == ' '   ? TopKey::kEnter
             : pressed.character == 'j' ? TopKey::kDown
                                        : TopKey::kUp,
             model, &view);
      } else if (!OnLetter(pressed.character, model, &view, &interval, &help)) {
        return std::nullopt;
      }
      continue;
    }
    if (steady_clock::now() < due) continue;
    const auto now = steady_clock::now();
    if (!view.frozen) {
      // While the broker restarts, the last screen stays and says so.
      if (const Failure failure = Sample(context, &samples)) {
        trouble = failure->message;
        context.Reconnect();
      } else {
        trouble.clear();
        model.Add(samples, std::chrono::duration<double>(now - last).count());
        if (options.count != 0 && ++taken >= options.count) return std::nullopt;
      }
    }
    last = now;
  }
}

}  // namespace

void AddTop(Command root, Context& context) {
  Command app = root.Add("top", "Live screen of the traffic, by application, peer or adapter");
  const auto options = std::make_shared<Options>();
  app.Add("--interval", &options->interval_text, "Time between two looks: 1, 500ms").ShowDefault();
  app.Add("--by", &options->by, "app, peer or adapter").OneOf({"app", "peer", "adapter"});
  app.Add("--filter", &options->filter, "Only connections with this text in them");
  app.AddFlag("-b,--batch", &options->batch, "Print lines instead of a screen");
  app.Add("-n,--count", &options->count, "End after this many looks")
      .Within(0, std::numeric_limits<int>::max());
  app.OnRun(context, [&context, options]() -> Failure {
    if (Failure failure = ParseQuantity(options->interval_text, Unit::kSeconds, &options->interval)) {
      failure->message = "--interval: " + failure->message;
      return failure;
    }
    if (options->interval < 0.05 || options->interval > 3600) {
      return Error{
          Exit::kUsage, "--interval " + options->interval_text + " is not between 50 ms and 1 h", {}, {}};
    }
    TopView view;
    view.filter = options->filter;
    view.group = options->by == "peer"      ? TopGroup::kPeer
                 : options->by == "adapter" ? TopGroup::kAdapter
                                            : TopGroup::kApplication;
    const bool terminal = os::IsTerminal(os::Stream::kInput) && os::IsTerminal(os::Stream::kOutput);
    if (options->batch || !terminal) return Batch(context, *options, view);
    return Live(context, *options, view);
  });
}

}  // namespace nd::cli
