// SPDX-License-Identifier: Apache-2.0
// The parts of messages that several calls of actor.h send or receive.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/testing/actor.h"
#include "tests/testing/message.h"

namespace nd::testing {

inline Writer Say(Verb verb, std::uint32_t id) {
  return std::move(Writer().Put(verb).Put(id));
}

inline Work ReadWork(Reader& in) {
  Work work;
  work.status = in.Get<StatusCode>();
  work.bytes = in.U32();
  work.qp = in.U64();
  work.context = in.U64();
  work.type = in.Get<RequestType>();
  return work;
}

inline Object::Raw ReadRaw(Reader& in) {
  Object::Raw raw;
  raw.status = in.Status();
  raw.length = in.U64();
  raw.bytes = in.Text();
  return raw;
}

template <typename T>
std::vector<T> ReadList(const std::string& answer) {
  std::vector<T> list;
  if (answer.empty()) return list;
  Reader in(answer);
  list.resize(in.U32());
  for (T& item : list) item = in.Get<T>();
  return list;
}

}  // namespace nd::testing
