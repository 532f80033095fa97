# SPDX-License-Identifier: Apache-2.0
# The folders that are built for Windows, in the order of their dependencies. docs/windows.md says which are missing.

enable_language(RC)
find_package(absl REQUIRED)
# Header-only; deploy/windows/build.sh puts them beside the libraries.
find_path(NDBROKER_HEADER_LIBRARIES toml++/toml.h REQUIRED)
foreach(name spdlog::spdlog tomlplusplus::tomlplusplus CLI11::CLI11)
  add_library(${name} INTERFACE IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${NDBROKER_HEADER_LIBRARIES})
endforeach()
target_compile_definitions(spdlog::spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)

if(NDBROKER_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
endif()

add_subdirectory(base)
add_subdirectory(session)
add_subdirectory(provider)
add_subdirectory(daemon)
add_subdirectory(client-lib)
add_subdirectory(nd-provider)
if(NDBROKER_TESTS)
  add_subdirectory(tests/windows)
endif()

# One name a line, for tests/windows/run.sh.
get_property(tests GLOBAL PROPERTY NDBROKER_WINDOWS_TESTS)
list(JOIN tests "\n" tests)
file(WRITE ${CMAKE_BINARY_DIR}/windows-tests.txt "${tests}\n")
