// SPDX-License-Identifier: Apache-2.0
// make_seeds DIRECTORY: writes the hand-made seeds, each under its name. Inputs that fuzzing found are beside
// them.
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "tests/fuzz/seeds.h"

namespace nd::fuzz {

void SeedWriter::Add(std::string_view target, std::string_view name, const Seed& seed) {
  const std::filesystem::path folder = directory_ / target;
  std::filesystem::create_directories(folder);
  std::ofstream file(folder / name, std::ios::binary);
  file.write(reinterpret_cast<const char*>(seed.bytes().data()),
             static_cast<std::streamsize>(seed.bytes().size()));
  if (!file.flush()) {
    std::cerr << "cannot write " << folder / name << '\n';
    std::exit(1);
  }
  ++count_;
}

}  // namespace nd::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_seeds DIRECTORY\n";
    return 2;
  }
  nd::fuzz::SeedWriter writer(argv[1]);
  nd::fuzz::AddHandshakeSeeds(writer);
  nd::fuzz::AddFrameSeeds(writer);
  nd::fuzz::AddRdmapSeeds(writer);
  nd::fuzz::AddRingSeeds(writer);
  nd::fuzz::AddSessionSeeds(writer);
  nd::fuzz::AddSessionCodecSeeds(writer);
  nd::fuzz::AddControlSeeds(writer);
  std::cout << writer.count() << " seeds\n";
  return 0;
}
