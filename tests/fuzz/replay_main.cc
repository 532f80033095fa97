// SPDX-License-Identifier: Apache-2.0
// Replaces libFuzzer where it is missing: runs every file of a corpus once, then deterministic mutations of
// them, so that an ordinary test run covers more than the corpus.
//
// fuzz_NAME [--mutations TOTAL] [--first NUMBER] FILE-OR-DIRECTORY...
// Mutations have numbers, and each number is another mutation: runs with other numbers add to the earlier
// ones.
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>

#include "tests/fuzz/fuzz.h"

extern "C" {
// Only some targets define it.
[[gnu::weak]] std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                                  unsigned seed);
[[gnu::weak]] int LLVMFuzzerInitialize(int* argc, char*** argv);
// NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): a function of the sanitizer.
[[gnu::weak]] void __sanitizer_set_death_callback(void (*callback)());
}

namespace {

using Bytes = std::vector<std::uint8_t>;

std::minstd_rand generator;
std::string current_name;
const Bytes* current = nullptr;

std::size_t Below(std::size_t bound) {
  return generator() % std::max<std::size_t>(bound, 1);
}

void PrintCurrentInput() {
  if (current == nullptr) return;
  const char* kept = "fuzz-failure.bin";
  std::ofstream(kept, std::ios::binary)
      .write(reinterpret_cast<const char*>(current->data()), static_cast<std::streamsize>(current->size()));
  std::cerr << "while running " << current_name << "; the input is in " << kept << std::endl;
  current = nullptr;
}

void OnSignal(int signal) {
  PrintCurrentInput();  // Not safe in a signal handler, but the process ends anyway.
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void Run(const Bytes& input, std::string name) {
  current_name = std::move(name);
  const Bytes exact(input.begin(), input.end());
  current = &exact;
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  current = nullptr;
}

Bytes ReadFile(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    std::cerr << path << ": cannot be read\n";
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace

std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size) {
  constexpr std::uint8_t kEdges[] = {0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF};
  if (size == 0) {
    data[0] = static_cast<std::uint8_t>(generator());
    return 1;
  }
  const std::size_t at = Below(size);
  switch (Below(6)) {
    case 0:
      data[at] ^= static_cast<std::uint8_t>(1u << Below(8));
      return size;
    case 1:
      data[at] = kEdges[Below(std::size(kEdges))];
      return size;
    case 2:
      data[at] = static_cast<std::uint8_t>(data[at] + Below(9) - 4);
      return size;
    case 3: {  // Removes a part.
      const std::size_t gone = 1 + Below(std::min<std::size_t>(size - at, 16));
      std::memmove(data + at, data + at + gone, size - at - gone);
      return size - gone;
    }
    case 4: {  // Duplicates a part.
      const std::size_t more = std::min({1 + Below(16), size - at, max_size - size});
      std::memmove(data + at + more, data + at, size - at);
      return size + more;
    }
    default: {
      const std::size_t count = std::min<std::size_t>(1 + Below(8), size - at);
      for (std::size_t i = 0; i < count; ++i) data[at + i] = static_cast<std::uint8_t>(generator());
      return size;
    }
  }
}

int main(int argc, char** argv) {
  std::size_t mutations = 0, first = 0;
  std::vector<std::filesystem::path> files;
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--mutations" && i + 1 < argc) {
      mutations = std::strtoul(argv[++i], nullptr, 10);
    } else if (argument == "--first" && i + 1 < argc) {
      first = std::strtoul(argv[++i], nullptr, 10);
    } else if (std::filesystem::is_directory(argument)) {
      for (const auto& entry : std::filesystem::directory_iterator(argument)) files.push_back(entry.path());
    } else {
      files.emplace_back(argument);
    }
  }
  if (files.empty()) {
    std::cerr << "usage: " << argv[0] << " [--mutations TOTAL] [--first NUMBER] FILE-OR-DIRECTORY...\n"
              << "No input was found, which proves nothing.\n";
    return 2;
  }
  std::sort(files.begin(), files.end());
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) std::signal(signal, OnSignal);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(PrintCurrentInput);

  Run({}, "the empty input");
  std::vector<Bytes> inputs;
  for (const auto& file : files) {
    inputs.push_back(ReadFile(file));
    Run(inputs.back(), file.string());
  }
  for (std::size_t i = first; i < first + mutations; ++i) {
    const std::size_t which = i % inputs.size();
    const std::string name = files[which].string() + ", mutation " + std::to_string(i);
    // The first numbers of neighbouring seeds differ by the same amount.
    constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15u;
    generator.seed(static_cast<unsigned>((i + 1) * kMix >> 32));
    Bytes input = inputs[which];
    std::size_t size = input.size();
    const std::size_t most = size + 64;
    input.resize(most);
    for (std::size_t rounds = 1 + Below(4); rounds != 0; --rounds) {
      size = LLVMFuzzerCustomMutator != nullptr
                 ? LLVMFuzzerCustomMutator(input.data(), size, most, static_cast<unsigned>(generator()))
                 : LLVMFuzzerMutate(input.data(), size, most);
    }
    input.resize(size);
    Run(input, name);
  }
  std::cout << files.size() << " files and " << mutations << " mutations of them\n";
  return 0;
}
