# SPDX-License-Identifier: Apache-2.0
# The folders that are built for Windows, in the order of their dependencies. docs/windows.md says which are missing.

enable_language(RC)
if(MINGW)
  include(cmake/windows_mingw.cmake)
else()
  include(cmake/windows_vcpkg.cmake)
endif()

if(NDBROKER_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
endif()

add_subdirectory(base)
add_subdirectory(session)
add_subdirectory(proto)
add_subdirectory(provider)
add_subdirectory(daemon)
add_subdirectory(client-lib)
add_subdirectory(nd-provider)
add_subdirectory(cli)
if(NDBROKER_TESTS)
  add_subdirectory(tests/testing)
  add_subdirectory(tests/bench)
  add_subdirectory(tests/conformance)
  add_subdirectory(tests/windows)
endif()

# One name a line, for tests/windows/run.sh.
get_property(tests GLOBAL PROPERTY NDBROKER_WINDOWS_TESTS)
list(JOIN tests "\n" tests)
file(WRITE ${CMAKE_BINARY_DIR}/windows-tests.txt "${tests}\n")
