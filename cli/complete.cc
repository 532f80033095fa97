// SPDX-License-Identifier: Apache-2.0
// Walks the same tree of commands that parses a command line, so that the two cannot differ.
#include "cli/complete.h"

#include <algorithm>
#include <map>

namespace nd::cli {
namespace {

// Values that no broker is asked for. The parser checks them; here they are only offered.
const std::map<std::string, std::vector<std::string>>& KnownValues() {
  static const std::map<std::string, std::vector<std::string>> values = {
      {"output", {"table", "wide", "json", "jsonl", "yaml", "name", "csv", "custom="}},
      {"color", {"auto", "always", "never"}},
      {"by", {"app", "peer", "adapter"}},
      {"SHELL", {"bash", "zsh", "fish"}},
  };
  return values;
}

bool Hidden(const CLI::App& app) {
  return app.get_group().empty();
}

// The option that `word` names, here or in a command above.
CLI::Option* FindOption(CLI::App* app, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  for (; app != nullptr; app = app->get_parent()) {
    if (CLI::Option* option = app->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

CLI::App* FindCommand(CLI::App* app, const std::string& word) {
  for (CLI::App* sub : app->get_subcommands([](CLI::App*) { return true; })) {
    if (!Hidden(*sub) && sub->check_name(word)) return sub;
  }
  return nullptr;
}

std::string Sentence(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

void OfferValues(const CLI::Option& option, const Noun* noun, std::vector<Candidate>* out) {
  for (const std::string& name : option.get_lnames()) {
    if (const auto known = KnownValues().find(name); known != KnownValues().end()) {
      for (const std::string& value : known->second) out->push_back({value, {}});
    }
    if (noun != nullptr && (name == "sort" || name == "filter")) {
      for (const Column& column : noun->shape.columns) {
        out->push_back({column.path + (name == "filter" ? "=" : ""), column.header});
      }
    }
  }
}

void OfferOptions(CLI::App* app, std::vector<Candidate>* out) {
  for (; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_lnames().empty() || option->get_group().empty()) continue;
      out->push_back({"--" + option->get_lnames().front(), Sentence(option->get_description())});
    }
  }
}

}  // namespace

std::vector<Candidate> Complete(CLI::App& root, const std::vector<std::string>& words,
                                const std::function<const Noun*(const std::string&)>& noun_of,
                                const std::function<std::vector<Candidate>(const Noun&)>& ids) {
  std::vector<Candidate> out;
  if (words.empty()) return out;
  const std::string& typed = words.back();
  CLI::App* app = &root;
  const Noun* noun = nullptr;
  const CLI::Option* open = nullptr;  // An option that still wants its value.
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (open != nullptr) {
      open = nullptr;
    } else if (word.starts_with("-")) {
      const CLI::Option* option = FindOption(app, word);
      if (option != nullptr && option->get_expected_min() > 0 && word.find('=') == std::string::npos)
        open = option;
    } else if (CLI::App* sub = FindCommand(app, word)) {
      app = sub;
      if (noun == nullptr) noun = noun_of(word);
    }
  }
  if (open != nullptr) {
    OfferValues(*open, noun, &out);
  } else if (typed.starts_with("-")) {
    const std::size_t equals = typed.find('=');
    if (equals == std::string::npos) {
      OfferOptions(app, &out);
    } else if (const CLI::Option* option = FindOption(app, typed)) {
      OfferValues(*option, noun, &out);
      for (Candidate& candidate : out) candidate.word = typed.substr(0, equals + 1) + candidate.word;
    }
  } else {
    for (const CLI::App* sub : app->get_subcommands([](CLI::App*) { return true; })) {
      if (!Hidden(*sub)) out.push_back({sub->get_name(), Sentence(sub->get_description())});
    }
    for (const CLI::Option* option : app->get_options()) {
      if (!option->get_positional()) continue;
      const std::string name = option->get_name(true, false);
      if (noun != nullptr && name == "ID") {
        for (Candidate& id : ids(*noun)) out.push_back(std::move(id));
      }
      if (const auto known = KnownValues().find(name); known != KnownValues().end()) {
        for (const std::string& value : known->second) out.push_back({value, {}});
      }
    }
  }
  std::erase_if(out, [&](const Candidate& candidate) { return !candidate.word.starts_with(typed); });
  return out;
}

// clang-format off
const char* CompletionScript(const std::string& shell) {
  // bash splits words at colons and equals signs too; ndctl does not, so the part in front is taken off again.
  if (shell == "bash") {
    return R"SH(# eval "$(ndctl completion bash)"
_ndctl() {
  local line=${COMP_LINE:0:COMP_POINT} words word about
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  local last=${words[${#words[@]}-1]} piece=${COMP_WORDS[COMP_CWORD]}
  case $piece in : | =) piece= ;; esac
  local front=${last%"$piece"}
  COMPREPLY=()
  while IFS=$'\t' read -r word about; do
    COMPREPLY+=("${word#"$front"}")
  done < <("${words[0]}" __complete "${words[@]:1}" 2> /dev/null)
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
  return 0
}
complete -F _ndctl ndctl
)SH";
  }
  if (shell == "zsh") {
    return R"SH(#compdef ndctl
# eval "$(ndctl completion zsh)", or put it as _ndctl into a directory of $fpath
_ndctl() {
  local -a lines
  local word about
  while IFS=$'\t' read -r word about; do
    lines+=("${word//:/\\:}:$about")
  done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2> /dev/null)
  _describe -V ndctl lines
}
compdef _ndctl ndctl
)SH";
  }
  if (shell == "fish") {
    return R"SH(# ndctl completion fish | source
complete -c ndctl -f -a '(ndctl __complete (commandline -opc)[2..-1] (commandline -ct) 2> /dev/null)'
)SH";
  }
  return nullptr;
}
// clang-format on

std::string AnswerShell(Context& context, CLI::App& root, const std::vector<std::string>& words) {
  context.globals.timeout = 0.2;  // Somebody waits with a finger on the key.
  const std::vector<Candidate> found = Complete(
      root, words, [&](const std::string& name) { return context.FindNoun(name); },
      [&](const Noun& noun) {
        std::vector<Candidate> ids;
        Value::Array rows;
        if (noun.fetch(context, {}, &rows)) return ids;
        for (const Value& row : rows) {
          const Value* id = row.Find(noun.shape.id_path);
          const Value* state = row.Find("state");
          const Value* application = row.Find("owner.application");
          if (id == nullptr) continue;
          ids.push_back(
              {id->Text(), (state == nullptr ? std::string() : state->Text()) +
                               (application == nullptr ? std::string() : " " + application->Text())});
        }
        return ids;
      });
  std::string text;
  for (const Candidate& candidate : found) text += candidate.word + "\t" + candidate.about + "\n";
  return text;
}

}  // namespace nd::cli
