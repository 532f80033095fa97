// SPDX-License-Identifier: Apache-2.0
// The process as main() finds it: arguments in UTF-8, standard streams, and signals.
#pragma once

#include <string>
#include <vector>

namespace nd::cli {

class Console {
 public:
  // Once, first in main(). A reader of the output that ends is an error of a write from now on, and gRPC
  // writes no messages of its own. On Windows a console shows UTF-8 and colours; TERM says so.
  Console(int argc, char** argv);
  // Gives the console back as it was.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // The last call of main(), with its exit status. On Windows the process ends here: threads of gRPC that end
  // while the C library does can wait for each other.
  int End(int status);

  int argc() const { return static_cast<int>(arguments_.size()) - 1; }
  const char* const* argv() const { return arguments_.data(); }

 private:
  std::vector<std::string> texts_;            // Of the arguments, where the system has them in another form.
  std::vector<const char*> arguments_;        // With a null at the end.
  unsigned output_mode_ = 0, code_page_ = 0;  // What to give back; 0: nothing.
};

}  // namespace nd::cli
