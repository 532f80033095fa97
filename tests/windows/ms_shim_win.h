// SPDX-License-Identifier: Apache-2.0
// Lets the sources of github.com/microsoft/NetworkDirect compile with mingw-w64 as they are: g++ -include
// ms_shim_win.h. Nothing here changes what their code does.
#pragma once

// Ahead of the names of SAL 1 below: the C++ library has identifiers __in and __out.
#include <winsock2.h>

#include <ws2spi.h>
#include <ws2tcpip.h>

#include <windows.h>

#include <sal.h>
#include <specstrings.h>
#include <unknwn.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <string>

// Annotations of SAL 1, which mean nothing to the compiler. mingw-w64 10 lacks them.
#define __in
#define __out
#define __inout
#define __in_opt
#define __out_opt
#define __inout_opt
#define __deref_out
#define __callback
#undef __in_bcount
#define __in_bcount(x)
#define __in_bcount_opt(x)
#define __in_ecount_opt(x)
#define __inout_bcount_opt(x)
#define __out_bcount_opt(x)
#define __out_bcount_part_opt(x, y)
#undef __out_ecount_part
#define __out_ecount_part(x, y)
#define __out_ecount_part_opt(x, y)
#define _Analysis_noreturn_

// What a program has printed is in the log also when its time ends first.
inline const int unbuffered_stdout = std::setvbuf(stdout, nullptr, _IONBF, 0);

// Macros for interfaces, of the Windows SDK.
#ifndef IFACEMETHOD
#define IFACEMETHOD(method) STDMETHOD(method)
#define IFACEMETHOD_(type, method) STDMETHOD_(type, method)
#endif

// FIELD_OFFSET of mingw-w64 is offsetof, a constant, as list.h wants it. ndfrmwrk.cpp wants it with an index
// that is known only at run time. So list.h comes first.
// clang-format off
#include "assertutil.h"
#include "ndutil.h"
#include "list.h"
// clang-format on
#undef FIELD_OFFSET
#define FIELD_OFFSET(type, field) ((LONG)(LONG_PTR) & (((type*)0)->field))

// windows.h of MSVC defines these in C++ too.
template <typename A, typename B>
constexpr auto min(A a, B b) {
  return a < b ? a : b;
}
template <typename A, typename B>
constexpr auto max(A a, B b) {
  return a < b ? b : a;
}

// With libstdc++, mingw-w64 uses a printf family of its own, in which %s of wprintf is narrow. With MSVC it
// is wide.
#define wprintf __ms_wprintf

// A program that is ended when its time is over leaves what it has printed, also the progress within a line.
static const int unbuffered = std::setvbuf(stdout, nullptr, _IONBF, 0);
