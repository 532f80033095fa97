# SPDX-License-Identifier: Apache-2.0
# The three things every folder needs.

# nd_library(NAME SOURCES...): a static library with the project's warnings. Dependencies are added by the
# folder with target_link_libraries.
function(nd_library name)
  add_library(${name} STATIC ${ARGN})
  nd_settings(${name})
endfunction()

function(nd_executable name)
  add_executable(${name} ${ARGN})
  nd_settings(${name})
endfunction()

function(nd_settings name)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wconversion
                         $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>
                         # Clang's -Wconversion means more than GCC's.
                         $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>
                         $<$<BOOL:${NDBROKER_WERROR}>:-Werror>)
endfunction()

# nd_test(NAME SOURCES... LIBS...): a GoogleTest program whose cases ctest knows one by one.
function(nd_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;PROPERTIES" ${ARGN})
  if(NOT NDBROKER_TESTS)
    return()
  endif()
  nd_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 120 ${ARG_PROPERTIES})
endfunction()
