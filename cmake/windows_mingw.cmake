# SPDX-License-Identifier: Apache-2.0
# The libraries that deploy/windows/build.sh has built with mingw-w64.
find_package(absl REQUIRED)
# Header-only; deploy/windows/build.sh puts them beside the libraries.
find_path(NDBROKER_HEADER_LIBRARIES toml++/toml.h REQUIRED)
foreach(name spdlog::spdlog tomlplusplus::tomlplusplus CLI11::CLI11)
  add_library(${name} INTERFACE IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${NDBROKER_HEADER_LIBRARIES})
endforeach()
target_compile_definitions(spdlog::spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)

# The libraries of deploy/windows/build.sh that have no package file there. Each names what it needs, so that the linker
# reads them in the order of their dependencies. Generators of code are programs of this host.
set(ZLIB_USE_STATIC_LIBS ON)
find_package(ZLIB REQUIRED)
find_package(re2 CONFIG REQUIRED)
find_program(NDBROKER_PROTOC protoc REQUIRED)
add_executable(protobuf::protoc IMPORTED GLOBAL)
set_target_properties(protobuf::protoc PROPERTIES IMPORTED_LOCATION ${NDBROKER_PROTOC})
# windows_library(TARGET FILE LIBRARIES...)
function(windows_library target file)
  find_library(NDBROKER_LIBRARY_${file} ${file} REQUIRED)
  add_library(${target} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${NDBROKER_LIBRARY_${file}}
                        INTERFACE_INCLUDE_DIRECTORIES ${NDBROKER_HEADER_LIBRARIES} INTERFACE_LINK_LIBRARIES "${ARGN}")
endfunction()
windows_library(protobuf::libprotobuf protobuf Threads::Threads)
windows_library(prometheus-cpp::core prometheus-cpp-core)
windows_library(SQLite::SQLite3 sqlite3)
windows_library(gRPC::gpr gpr absl::base absl::core_headers absl::flat_hash_set absl::memory absl::random_random absl::status
                absl::cord absl::str_format absl::strings absl::synchronization absl::time absl::optional dbghelp bcrypt)
windows_library(gRPC::upb upb)
windows_library(gRPC::address_sorting address_sorting gRPC::gpr)
windows_library(gRPC::grpc grpc_unsecure gRPC::upb gRPC::address_sorting gRPC::gpr re2::re2 ZLIB::ZLIB absl::any_invocable
                absl::bind_front absl::cleanup absl::flat_hash_map absl::hash absl::inlined_vector absl::statusor absl::span
                absl::type_traits absl::utility absl::variant ws2_32 crypt32 iphlpapi)
windows_library(gRPC::grpc++ grpc++_unsecure gRPC::grpc protobuf::libprotobuf)

# For the two files that use gRPC's inner interfaces. NDEBUG like gRPC itself: without it its classes have more members.
set(NDBROKER_INSIDE_GRPC "-DNDEBUG;-isystem;${NDBROKER_HEADER_LIBRARIES}/grpc-inner")
set(NDBROKER_MESSAGE_COMPILER ${CMAKE_MC_COMPILER})
