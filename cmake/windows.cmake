# SPDX-License-Identifier: Apache-2.0
# The folders that are built for Windows, in the order of their dependencies. docs/windows.md says which are missing.

if(NDBROKER_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
endif()

add_subdirectory(base)
add_subdirectory(session)
add_subdirectory(provider)
if(NDBROKER_TESTS)
  add_subdirectory(tests/windows)
endif()

# One name a line, for tests/windows/run.sh.
get_property(tests GLOBAL PROPERTY NDBROKER_WINDOWS_TESTS)
list(JOIN tests "\n" tests)
file(WRITE ${CMAKE_BINARY_DIR}/windows-tests.txt "${tests}\n")
