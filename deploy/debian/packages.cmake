# SPDX-License-Identifier: Apache-2.0
# One Debian package for each group of install components; `cpack -G DEB` (./run.sh --deb) writes them.
find_program(GZIP gzip)
set(debian ${CMAKE_CURRENT_SOURCE_DIR}/debian)
set(made ${CMAKE_CURRENT_BINARY_DIR}/debian)
file(MAKE_DIRECTORY ${made})

# Files that Debian wants compressed, without a time inside.
set(compressed)
function(nd_gzip source name)
  add_custom_command(OUTPUT ${made}/${name} COMMAND ${GZIP} -9 -n -c ${source} > ${made}/${name} DEPENDS ${source} VERBATIM)
  set(compressed ${compressed} ${made}/${name} PARENT_SCOPE)
endfunction()
nd_gzip(${debian}/changelog changelog.Debian.gz)
set(man ${PROJECT_BINARY_DIR}/docs/man)
if(TARGET man)
  foreach(page ndbrokerd.8 ndbroker-gateway.8 ndbroker-csi.8 ndbrokerd.toml.5 ndctl.1)
    nd_gzip(${man}/${page} ${page}.gz)
  endforeach()
endif()
# The tool under its Debian name: ndctl(1) there is a program for non-volatile memory.
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${made}/ndbctl.${shell}
                     COMMAND sh -c "$<TARGET_FILE:ndctl> completion ${shell} | sed 's/ndctl/ndbctl/g' > ${made}/ndbctl.${shell}"
                     DEPENDS ndctl VERBATIM)
  list(APPEND compressed ${made}/ndbctl.${shell})
endforeach()
# In the package's control folder the file must be called "symbols".
file(MAKE_DIRECTORY ${made}/library)
add_custom_command(OUTPUT ${made}/library/symbols
                   COMMAND ${debian}/symbols.sh $<TARGET_FILE:nd_client> ${PROJECT_VERSION} ${debian}/libndbroker1.symbols
                           > ${made}/library/symbols
                   DEPENDS nd_client ${debian}/symbols.sh ${debian}/libndbroker1.symbols VERBATIM)
list(APPEND compressed ${made}/library/symbols)
# Not part of `all`: only packages need it (deploy/debian/build.sh).
add_custom_target(debian_files DEPENDS ${compressed})

# nd_debian(COMPONENT...): install() rules that count only for Debian packages.
function(nd_debian component)
  install(${ARGN} COMPONENT debian_${component} EXCLUDE_FROM_ALL)
endfunction()
function(nd_debian_docs component package)
  nd_debian(${component} FILES ${debian}/copyright ${made}/changelog.Debian.gz DESTINATION /usr/share/doc/${package})
endfunction()

nd_debian_docs(daemon ndbroker)
nd_debian(daemon FILES ${PROJECT_SOURCE_DIR}/deploy/ndbrokerd.toml DESTINATION /etc/ndbroker)
nd_debian_docs(library libndbroker1)
nd_debian_docs(library_grpc libndbroker-grpc0)
nd_debian_docs(development libndbroker-dev)
nd_debian_docs(dashboards ndbroker-dashboards)
nd_debian_docs(tests ndbroker-tests)
nd_debian_docs(cli ndbroker-cli)
nd_debian_docs(ndctl ndbroker-ndctl)
if(TARGET man)
  nd_debian(daemon FILES ${made}/ndbrokerd.8.gz ${made}/ndbroker-gateway.8.gz ${made}/ndbroker-csi.8.gz DESTINATION /usr/share/man/man8)
  nd_debian(daemon FILES ${made}/ndbrokerd.toml.5.gz DESTINATION /usr/share/man/man5)
  nd_debian(cli FILES ${made}/ndctl.1.gz DESTINATION /usr/share/man/man1 RENAME ndbctl.1.gz)
endif()

nd_debian(cli TARGETS ndctl RUNTIME DESTINATION /usr/lib/ndbroker/bin)
nd_debian(cli FILES ${made}/ndbctl.bash DESTINATION /usr/share/bash-completion/completions RENAME ndbctl)
nd_debian(cli FILES ${made}/ndbctl.zsh DESTINATION /usr/share/zsh/vendor-completions RENAME _ndbctl)
nd_debian(cli FILES ${made}/ndbctl.fish DESTINATION /usr/share/fish/vendor_completions.d RENAME ndbctl.fish)
function(nd_debian_link component target path)
  get_filename_component(name ${path} NAME)
  get_filename_component(folder ${path} DIRECTORY)
  file(MAKE_DIRECTORY ${made}/links/${component})
  file(CREATE_LINK ${target} ${made}/links/${component}/${name} SYMBOLIC)
  nd_debian(${component} FILES ${made}/links/${component}/${name} DESTINATION ${folder})
endfunction()
if(TARGET nd_verbs)
  nd_debian_docs(verbs ndbroker-verbs)
  nd_debian(verbs TARGETS nd_verbs nd_share_memory LIBRARY DESTINATION /usr/lib/ndbroker/verbs)
endif()
nd_debian_link(cli ../lib/ndbroker/bin/ndctl /usr/bin/ndbctl)
nd_debian_link(ndctl ../lib/ndbroker/bin/ndctl /usr/bin/ndctl)
nd_debian_link(ndctl ndbctl.1.gz /usr/share/man/man1/ndctl.1.gz)

# ---- The packages ----------------------------------------------------------------------------------------
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ndbroker)
set(CPACK_PACKAGE_CONTACT "ndbroker maintainers <maintainers@ndbroker.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Libraries of other packages here are looked for where they are built.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# nd_package(NAME SECTION components... DEPENDS... CONTROL... DESCRIPTION text)
function(nd_package name)
  cmake_parse_arguments(ARG "WITHOUT_SHLIBDEPS" "SECTION;DEPENDS;RECOMMENDS;SUGGESTS;CONFLICTS;ARCHITECTURE;DESCRIPTION" "COMPONENTS;CONTROL" ${ARGN})
  string(TOUPPER ${name} variable)
  foreach(component ${ARG_COMPONENTS})
    string(TOUPPER ${component} upper)
    set(CPACK_COMPONENT_${upper}_GROUP ${name} PARENT_SCOPE)
  endforeach()
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${ARG_COMPONENTS} PARENT_SCOPE)
  set(CPACK_DEBIAN_${variable}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${variable}_PACKAGE_SECTION ${ARG_SECTION} PARENT_SCOPE)
  set(CPACK_COMPONENT_GROUP_${variable}_DESCRIPTION ${ARG_DESCRIPTION} PARENT_SCOPE)
  set(CPACK_DEBIAN_${variable}_DESCRIPTION ${ARG_DESCRIPTION} PARENT_SCOPE)
  foreach(field DEPENDS RECOMMENDS SUGGESTS CONFLICTS ARCHITECTURE)
    if(ARG_${field})
      set(CPACK_DEBIAN_${variable}_PACKAGE_${field} ${ARG_${field}} PARENT_SCOPE)
    endif()
  endforeach()
  if(ARG_CONTROL)
    set(CPACK_DEBIAN_${variable}_PACKAGE_CONTROL_EXTRA ${ARG_CONTROL} PARENT_SCOPE)
  endif()
  if(ARG_ARCHITECTURE OR ARG_WITHOUT_SHLIBDEPS)
    set(CPACK_DEBIAN_${variable}_PACKAGE_SHLIBDEPS OFF PARENT_SCOPE)
  endif()
endfunction()

set(exactly "(= ${PROJECT_VERSION}-1)")
nd_package(ndbroker SECTION net COMPONENTS daemon debian_daemon
           DEPENDS "systemd, init-system-helpers (>= 1.52)" RECOMMENDS "ndbroker-cli"
           CONTROL ${debian}/control/conffiles ${debian}/control/postinst ${debian}/control/prerm ${debian}/control/postrm
           DESCRIPTION "RDMA connection broker
One small daemon per host owns the RDMA device, the port space and the
handshakes of Network Direct connections. Applications ask it to listen or
connect and get an established queue pair that lives in their own process.
Connections outlive the daemon, which can be restarted and upgraded without
being noticed.")
nd_package(ndbroker-cli SECTION admin COMPONENTS debian_cli
           DEPENDS "libndbroker1 (>= ${PROJECT_VERSION})" SUGGESTS "ndbroker, ndbroker-ndctl"
           DESCRIPTION "administration of the RDMA connection broker
The program ndbctl shows sessions, listeners, connections and traffic of a
broker, explains failures and changes what may be changed while it runs.
/usr/lib/ndbroker/bin has it under its own name, ndctl, which in Debian
belongs to another program.")
if(TARGET nd_verbs)
  nd_package(ndbroker-verbs SECTION net COMPONENTS debian_verbs WITHOUT_SHLIBDEPS
             DEPENDS "ndbroker-cli (>= ${PROJECT_VERSION}), libc6 (>= 2.36), libgcc-s1 (>= 4.0), libibverbs1 (>= 44), librdmacm1, libstdc++6 (>= 12)"
             RECOMMENDS "ndbroker"
             DESCRIPTION "RDMA connection broker for unmodified verbs programs
The library that 'ndbctl run' preloads, so that programs that were written for
rdma_cm and libibverbs use the broker of this host. They need no RDMA device,
no kernel module and no change.")
endif()
nd_package(ndbroker-ndctl SECTION admin COMPONENTS debian_ndctl ARCHITECTURE all
           DEPENDS "ndbroker-cli (>= ${PROJECT_VERSION})" CONFLICTS "ndctl"
           DESCRIPTION "administration of the RDMA connection broker under the name ndctl
The names ndctl and ndctl(1) for the program of ndbroker-cli, for hosts
without Debian's package of that name, which administers non-volatile memory.")
nd_package(libndbroker1 SECTION libs COMPONENTS library debian_library RECOMMENDS "ndbroker"
           CONTROL ${debian}/control/library/shlibs ${made}/library/symbols ${debian}/control/library/triggers
           DESCRIPTION "RDMA connections through a broker - shared library
Connections, queue pairs and completion queues of Network Direct in the
application's own process, made by the ndbroker daemon of the host.")
nd_package(libndbroker-grpc0 SECTION libs COMPONENTS library_grpc debian_library_grpc
           DEPENDS "libndbroker1 (>= ${PROJECT_VERSION})" CONTROL ${debian}/control/library_grpc/shlibs ${debian}/control/library/triggers
           DESCRIPTION "RDMA connections through a broker - sessions by gRPC
The carrier that lets programs of libndbroker1 hold their sessions by gRPC.")
nd_package(libndbroker-dev SECTION libdevel COMPONENTS client debian_development DEPENDS "libndbroker1 ${exactly}, libndbroker-grpc0 ${exactly}"
           DESCRIPTION "RDMA connections through a broker - development files
Headers, the CMake package and the pkg-config file of libndbroker, with four
small programs as examples.")
nd_package(ndbroker-dashboards SECTION net COMPONENTS dashboards debian_dashboards ARCHITECTURE all
           DESCRIPTION "dashboards and alerts for the RDMA connection broker
Four Grafana dashboards, the alerting rules for Prometheus and an example of
its configuration.")
nd_package(ndbroker-tests SECTION net COMPONENTS tests debian_tests
           DEPENDS "libndbroker1 (>= ${PROJECT_VERSION})"
           DESCRIPTION "measurements and checks for the RDMA connection broker
The program ndperf measures one operation between two processes; nd-traffic
keeps connections busy and says what they noticed of a restart.")
include(CPack)
