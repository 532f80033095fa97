# SPDX-License-Identifier: Apache-2.0
# cmake -DOUTPUT=FILE -DFILES=A;B;... -P embed.cmake: the files as constants behind daemon/metrics/web_page.h.
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")

set(constants "")
set(table "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "^.*\\." "" extension ${name})
  if(NOT DEFINED type_${extension})
    message(FATAL_ERROR "${name}: embed.cmake knows no content type for .${extension}")
  endif()
  # As numbers: a compiler need not take a literal of more than 64 KiB.
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(MAKE_C_IDENTIFIER ${name} constant)
  string(APPEND constants "constexpr unsigned char ${constant}[] = {${bytes}};\n")
  set(path "/${name}")
  if(name STREQUAL "index.html")
    set(path "/")
  endif()
  string(APPEND table "    {\"${path}\", \"${type_${extension}}\", Text(${constant})},\n")
endforeach()

file(WRITE ${OUTPUT} "// Made by embed.cmake.
#include \"daemon/metrics/web_page.h\"

#include <array>

namespace nd::ops {
namespace {

${constants}
template <std::size_t N>
std::string_view Text(const unsigned char (&bytes)[N]) {
  return {reinterpret_cast<const char*>(bytes), N};
}

}  // namespace

std::span<const WebFile> WebFiles() {
  static const std::array files = std::to_array<WebFile>({
${table}  });
  return files;
}

}  // namespace nd::ops
")
