// SPDX-License-Identifier: Apache-2.0
// The order here is the order of `ndctl --help`.
#include "cli/commands.h"

namespace nd::cli {

std::span<const Command> Commands() {
  static constexpr Command kCommands[] = {
      {AddStatus}, {AddAdapter},    {AddListener}, {AddConnection}, {AddEndpoint}, {AddPort},    {AddSession},
      {AddQp},     {AddMr},         {AddStats},    {AddTop},        {AddEvents},   {AddHistory}, {AddPing},
      {AddTrace}, {AddCapture},  {AddDoctor},     {AddExplain},  {AddPolicy},     {AddConfig},   {AddDrain},   {AddWait},
      {AddDebug},  {AddCompletion}, {AddTls},      {AddVersion},    {AddTesting}};
  return kCommands;
}

}  // namespace nd::cli
