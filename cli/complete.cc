// SPDX-License-Identifier: Apache-2.0
// Walks the tree of commands that parses the command line, so that the two cannot differ.
#include "cli/complete.h"

#include <algorithm>
#include <map>

namespace nd::cli {
namespace {

// Values that need no broker. The parser checks them; completion only offers them.
const std::map<std::string, std::vector<std::string>>& KnownValues() {
  static const std::map<std::string, std::vector<std::string>> values = {
      {"output", {"table", "wide", "json", "jsonl", "yaml", "name", "csv", "custom="}},
      {"color", {"auto", "always", "never"}},
      {"by", {"app", "peer", "adapter"}},
      {"SHELL", {"bash", "zsh", "fish"}},
  };
  return values;
}

const CommandInfo* FindVisible(const CommandInfo& command, const std::string& word) {
  const CommandInfo* found = command.Find(word);
  return found == nullptr || found->hidden ? nullptr : found;
}

std::string Sentence(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

void OfferValues(const OptionInfo& option, const Noun* noun, std::vector<Candidate>* out) {
  for (const std::string& name : option.long_names) {
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

void OfferOptions(const CommandPath& path, std::vector<Candidate>* out) {
  for (auto command = path.rbegin(); command != path.rend(); ++command) {
    for (const OptionInfo& option : (*command)->options) {
      if (option.long_names.empty() || option.hidden) continue;
      out->push_back({"--" + option.long_names.front(), Sentence(option.about)});
    }
  }
}

}  // namespace

std::vector<Candidate> Complete(const CommandInfo& root, const std::vector<std::string>& words,
                                const std::function<const Noun*(const std::string&)>& noun_of,
                                const std::function<std::vector<Candidate>(const Noun&)>& ids) {
  std::vector<Candidate> out;
  if (words.empty()) return out;
  const std::string& typed = words.back();
  const auto option_of = [](const CommandPath& path, const std::string& word) {
    return FindOption(path, word.substr(0, word.find('=')));
  };
  CommandPath path = {&root};
  const Noun* noun = nullptr;
  const OptionInfo* open = nullptr;  // An option whose value is missing.
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (open != nullptr) {
      open = nullptr;
    } else if (word.starts_with("-")) {
      const OptionInfo* option = option_of(path, word);
      if (option != nullptr && option->values_min > 0 && word.find('=') == std::string::npos) open = option;
    } else if (const CommandInfo* sub = FindVisible(*path.back(), word)) {
      path.push_back(sub);
      if (noun == nullptr) noun = noun_of(word);
    }
  }
  if (open != nullptr) {
    OfferValues(*open, noun, &out);
  } else if (typed.starts_with("-")) {
    const std::size_t equals = typed.find('=');
    if (equals == std::string::npos) {
      OfferOptions(path, &out);
    } else if (const OptionInfo* option = option_of(path, typed)) {
      OfferValues(*option, noun, &out);
      for (Candidate& candidate : out) candidate.word = typed.substr(0, equals + 1) + candidate.word;
    }
  } else {
    for (const CommandInfo& sub : path.back()->commands) {
      if (!sub.hidden) out.push_back({sub.name, Sentence(sub.about)});
    }
    for (const OptionInfo& option : path.back()->options) {
      if (!option.positional()) continue;
      if (noun != nullptr && option.position == "ID") {
        for (Candidate& id : ids(*noun)) out.push_back(std::move(id));
      }
      if (const auto known = KnownValues().find(option.position); known != KnownValues().end()) {
        for (const std::string& value : known->second) out.push_back({value, {}});
      }
    }
  }
  std::erase_if(out, [&](const Candidate& candidate) { return !candidate.word.starts_with(typed); });
  return out;
}

// clang-format off
const char* CompletionScript(const std::string& shell) {
  // bash also splits words at colons and equals signs, so the part before them is removed from candidates.
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

std::string AnswerShell(Context& context, const CommandInfo& root, const std::vector<std::string>& words) {
  context.globals.timeout = 0.2;  // The user is waiting.
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
