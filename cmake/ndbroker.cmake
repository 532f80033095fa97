# SPDX-License-Identifier: Apache-2.0
# The things every folder needs.

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
  # GCC 12 forgets that a precompiled header is a system header, and warns about the inlined inside of the C++ library.
  set(wrong_with_pch -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread
                     -Wno-maybe-uninitialized)
  set(werror $<AND:$<BOOL:${NDBROKER_WERROR}>,$<NOT:$<BOOL:${NDBROKER_PCH}>>>)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wconversion
                         $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>
                         # Clang's -Wconversion means more than GCC's.
                         $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>
                         "$<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${NDBROKER_PCH}>>:${wrong_with_pch}>"
                         $<${werror}:-Werror>)
endfunction()

# nd_precompile(NAME HEADERS...): headers from outside the tree that most files of the target include. A file
# still includes all that it uses: with NDBROKER_PCH off it must compile as well.
function(nd_precompile name)
  if(NDBROKER_PCH)
    target_precompile_headers(${name} PRIVATE ${ARGN})
  endif()
endfunction()

# nd_precompile_standard(NAMES...): the headers of the C++ library, as nd_base has them.
function(nd_precompile_standard)
  if(NDBROKER_PCH)
    foreach(name ${ARGN})
      target_precompile_headers(${name} REUSE_FROM nd_base)
    endforeach()
  endif()
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
