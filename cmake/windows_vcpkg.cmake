# SPDX-License-Identifier: Apache-2.0
# The libraries of vcpkg.json, for the compiler of Visual Studio and for its clang-cl. docs/windows.md says how far this was tried.
find_package(absl CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(re2 CONFIG REQUIRED)
find_package(protobuf CONFIG REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED COMPONENTS core)
find_package(ZLIB REQUIRED)
set(GRPC_CPP_PLUGIN $<TARGET_FILE:gRPC::grpc_cpp_plugin> CACHE STRING "The generator of gRPC's code")
find_path(NDBROKER_TOML toml++/toml.h REQUIRED)
add_library(tomlplusplus::tomlplusplus INTERFACE IMPORTED GLOBAL)
set_target_properties(tomlplusplus::tomlplusplus PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${NDBROKER_TOML})

# Two files use gRPC's inner interfaces, whose headers vcpkg does not install.
set(NDBROKER_GRPC_SOURCE "" CACHE PATH "The source of gRPC that vcpkg built, with third_party/upb")
if(NOT EXISTS "${NDBROKER_GRPC_SOURCE}/src/core/lib/iomgr/endpoint.h")
  message(FATAL_ERROR "NDBROKER_GRPC_SOURCE (\"${NDBROKER_GRPC_SOURCE}\") has no src/core/lib/iomgr/endpoint.h. Give the source of the "
                      "gRPC that vcpkg built: buildtrees/grpc/src/* in the folder of vcpkg")
endif()
set(NDBROKER_INSIDE_GRPC "/DNDEBUG;/external:W0;/external:I${NDBROKER_GRPC_SOURCE};/external:I${NDBROKER_GRPC_SOURCE}/third_party/upb")
find_program(NDBROKER_MESSAGE_COMPILER mc REQUIRED)

# mingw.cmake has the same.
add_compile_definitions(_WIN32_WINNT=0x0A00 WINVER=0x0A00 NTDDI_VERSION=0x0A000000 WIN32_LEAN_AND_MEAN NOMINMAX UNICODE _UNICODE)
