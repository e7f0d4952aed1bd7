# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, C++ that defines NAMESPACE::VARIABLE, declared in HEADER, as a span of the bytes of INPUT.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}") # 16 bytes a line
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(
  WRITE ${OUTPUT}
  "#include \"${HEADER}\"

namespace ${NAMESPACE} {
namespace {
constexpr std::uint8_t kBytes[] = {
${bytes}
};
}  // namespace
const std::span<const std::uint8_t> ${VARIABLE}(kBytes);
}  // namespace ${NAMESPACE}
")
