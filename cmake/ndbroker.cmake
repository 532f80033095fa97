# SPDX-License-Identifier: Apache-2.0
# The things every folder needs.

# nd_library(NAME SOURCES... [OS STEMS...] [LINUX STEMS...] [WINDOWS STEMS...]): a static library with the project's
# warnings. Dependencies are added by the folder with target_link_libraries. An OS STEM stands for STEM_linux.cc or
# STEM_win.cc, whichever the system of the build needs; a LINUX or WINDOWS STEM exists for one system only.
function(nd_library name)
  cmake_parse_arguments(ARG "" "" "OS;LINUX;WINDOWS" ${ARGN})
  if(WIN32)
    set(system win)
    list(APPEND ARG_OS ${ARG_WINDOWS})
  else()
    set(system linux)
    list(APPEND ARG_OS ${ARG_LINUX})
  endif()
  list(TRANSFORM ARG_OS APPEND _${system}.cc)
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS} ${ARG_OS})
  nd_settings(${name})
  nd_unity(${name})
endfunction()

# nd_project_libraries(VARIABLE NAMES...): the libraries of this project that these need, themselves included.
function(nd_project_libraries variable)
  set(waiting ${ARGN})
  set(found)
  while(waiting)
    list(POP_FRONT waiting name)
    if(NOT TARGET ${name} OR name IN_LIST found)
      continue()
    endif()
    get_target_property(type ${name} TYPE)
    get_target_property(imported ${name} IMPORTED)
    if(type STREQUAL STATIC_LIBRARY AND NOT imported)
      list(APPEND found ${name})
      get_target_property(needed ${name} LINK_LIBRARIES)
      if(needed)
        list(APPEND waiting ${needed})
      endif()
    endif()
  endwhile()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

# nd_unity(NAME): the target's files are compiled NDBROKER_UNITY at a time.
function(nd_unity name)
  if(NDBROKER_UNITY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${NDBROKER_UNITY})
  endif()
endfunction()

function(nd_executable name)
  add_executable(${name} ${ARGN})
  nd_settings(${name})
endfunction()

function(nd_settings name)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  if(MSVC)
    target_compile_options(${name} PRIVATE /W3 /permissive- /utf-8 /bigobj /Zc:__cplusplus)
    return()
  endif()
  # GCC 12 forgets that a precompiled header is a system header, and warns about the inlined inside of the C++ library.
  set(wrong_with_pch -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread
                     -Wno-maybe-uninitialized)
  set(werror $<AND:$<BOOL:${NDBROKER_WERROR}>,$<NOT:$<BOOL:${NDBROKER_PCH}>>>)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wconversion
                         $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>
                         # Clang's -Wconversion means more than GCC's.
                         $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>
                         "$<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${NDBROKER_PCH}>>:${wrong_with_pch}>"
                         # GCC takes the anonymous types of a file for those of a header when several files are one unit.
                         $<$<BOOL:${NDBROKER_UNITY}>:-Wno-subobject-linkage>
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

# nd_test(NAME SOURCES... [OS STEMS...] [LINUX SOURCES...] [WINDOWS SOURCES...] LIBS... [SLOW FILTER] [QUICK_PROGRAM NAME]):
# a GoogleTest program whose cases ctest knows one by one. SLOW: the cases that take seconds; they have the label slow,
# and NDBROKER_TESTS=QUICK leaves them out. QUICK_PROGRAM: there, the program that has the sources of several, because
# what they include is compiled once; nd_quick_program() makes it. OS: as in nd_library. LINUX, WINDOWS: sources of the program on one system only;
# docs/windows.md has the reason for each of LINUX. A program without other sources does not exist on Windows, and one
# whose PROPERTIES say slow does not exist with NDBROKER_TESTS=QUICK.
function(nd_test name)
  cmake_parse_arguments(ARG "" "SLOW;QUICK_PROGRAM" "SOURCES;OS;LINUX;WINDOWS;LIBS;PROPERTIES" ${ARGN})
  if(WIN32)
    set(system win)
    list(APPEND ARG_SOURCES ${ARG_WINDOWS})
  else()
    set(system linux)
    list(APPEND ARG_SOURCES ${ARG_LINUX})
  endif()
  list(TRANSFORM ARG_OS APPEND _${system}.cc)
  list(APPEND ARG_SOURCES ${ARG_OS})
  if(NOT NDBROKER_TESTS OR NOT ARG_SOURCES)
    return()
  endif()
  if(NDBROKER_TESTS STREQUAL QUICK AND "slow" IN_LIST ARG_PROPERTIES)
    return()
  endif()
  if(NDBROKER_TESTS STREQUAL QUICK AND ARG_QUICK_PROGRAM)
    set_property(GLOBAL APPEND PROPERTY ${ARG_QUICK_PROGRAM}_SOURCES ${ARG_SOURCES})
    set_property(GLOBAL APPEND PROPERTY ${ARG_QUICK_PROGRAM}_LIBS ${ARG_LIBS})
    return()
  endif()
  nd_executable(${name} ${ARG_SOURCES})
  if(NDBROKER_UNITY)
    nd_unity(${name})
    # Optimizing a test takes longer than the test gains.
    target_compile_options(${name} PRIVATE $<IF:$<BOOL:${MSVC}>,/Od,-O0>)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest GTest::gtest_main)
  if(WIN32)
    # Run by tests/windows/run.sh: asking a program for its cases would need Wine for each build.
    set_property(GLOBAL APPEND PROPERTY NDBROKER_WINDOWS_TESTS ${name})
  else()
    set(common DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES PROPERTIES TIMEOUT 120 ${ARG_PROPERTIES})
    gtest_discover_tests(${name} TEST_FILTER "-${ARG_SLOW}" ${common})
    if(ARG_SLOW AND NOT NDBROKER_TESTS STREQUAL QUICK)
      gtest_discover_tests(${name} TEST_FILTER "${ARG_SLOW}" ${common} LABELS slow)
    endif()
  endif()
endfunction()

# nd_quick_program(NAME): with NDBROKER_TESTS=QUICK, the program of the tests that name it.
function(nd_quick_program name)
  get_property(sources GLOBAL PROPERTY ${name}_SOURCES)
  get_property(libraries GLOBAL PROPERTY ${name}_LIBS)
  list(REMOVE_DUPLICATES libraries)
  nd_test(${name} SOURCES ${sources} LIBS ${libraries})
endfunction()
