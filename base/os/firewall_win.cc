// SPDX-License-Identifier: Apache-2.0
#include "base/os/firewall_win.h"

#include <windows.h>

#include <netfw.h>

#include <cstdio>
#include <memory>
#include <string>

namespace nd::os {
namespace {

constexpr const wchar_t* kRule = L"ndbrokerd (TCP-In)";

struct Releases {
  void operator()(IUnknown* object) const { object->Release(); }
};
template <typename Interface>
using Com = std::unique_ptr<Interface, Releases>;

struct FreesString {
  void operator()(wchar_t* text) const { ::SysFreeString(text); }
};
using String = std::unique_ptr<wchar_t, FreesString>;
String StringOf(const wchar_t* text) {
  return String(::SysAllocString(text));
}

Status Failed(const char* doing, HRESULT result) {
  char number[16];
  std::snprintf(number, sizeof number, "0x%08lx", static_cast<unsigned long>(result));
  return {StatusCode::kUnsuccessful, std::string("the Windows firewall did not ") + doing + ": " + number +
                                         "; is its service (mpssvc) running, and are you an administrator?"};
}

// During its lifetime this thread can use COM.
class Apartment {
 public:
  Apartment() : entered_(::CoInitializeEx(nullptr, COINIT_MULTITHREADED)) {}
  ~Apartment() {
    if (SUCCEEDED(entered_)) ::CoUninitialize();
  }
  Apartment(const Apartment&) = delete;
  Apartment& operator=(const Apartment&) = delete;

 private:
  const HRESULT entered_;
};

template <typename Interface>
Com<Interface> Create(const CLSID& of, HRESULT* result) {
  void* made = nullptr;
  *result = ::CoCreateInstance(of, nullptr, CLSCTX_INPROC_SERVER, __uuidof(Interface), &made);
  return Com<Interface>(SUCCEEDED(*result) ? static_cast<Interface*>(made) : nullptr);
}

Status Rules(Com<INetFwRules>* rules) {
  HRESULT result = S_OK;
  const Com<INetFwPolicy2> policy = Create<INetFwPolicy2>(__uuidof(NetFwPolicy2), &result);
  if (!policy) return Failed("answer", result);
  INetFwRules* all = nullptr;
  result = policy->get_Rules(&all);
  if (FAILED(result)) return Failed("show its rules", result);
  rules->reset(all);
  return Status::Ok();
}

}  // namespace

Status OpenFirewall() {
  wchar_t program[MAX_PATH];
  const DWORD length = ::GetModuleFileNameW(nullptr, program, MAX_PATH);
  if (length == 0 || length == MAX_PATH) return Failed("find the path of this program", E_FAIL);
  const Apartment apartment;
  Com<INetFwRules> rules;
  if (Status status = Rules(&rules); !status.ok()) return status;
  HRESULT result = S_OK;
  const Com<INetFwRule> rule = Create<INetFwRule>(__uuidof(NetFwRule), &result);
  if (!rule) return Failed("make a rule", result);
  const String name = StringOf(kRule), path = StringOf(program),
               text = StringOf(L"Brokers of other hosts connect to this one.");
  // The protocol comes before everything that depends on it.
  for (const HRESULT set :
       {rule->put_Name(name.get()), rule->put_Description(text.get()), rule->put_ApplicationName(path.get()),
        rule->put_Protocol(NET_FW_IP_PROTOCOL_TCP), rule->put_Direction(NET_FW_RULE_DIR_IN),
        rule->put_Profiles(NET_FW_PROFILE2_DOMAIN | NET_FW_PROFILE2_PRIVATE),
        rule->put_Action(NET_FW_ACTION_ALLOW), rule->put_Enabled(VARIANT_TRUE)}) {
    if (FAILED(set)) return Failed("take the rule's contents", set);
  }
  static_cast<void>(rules->Remove(name.get()));
  result = rules->Add(rule.get());
  return FAILED(result) ? Failed("add the rule", result) : Status::Ok();
}

Status CloseFirewall() {
  const Apartment apartment;
  Com<INetFwRules> rules;
  if (Status status = Rules(&rules); !status.ok()) return status;
  const HRESULT result = rules->Remove(StringOf(kRule).get());
  const bool none = result == HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND);
  return FAILED(result) && !none ? Failed("remove the rule", result) : Status::Ok();
}

}  // namespace nd::os
