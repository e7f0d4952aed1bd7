# SPDX-License-Identifier: Apache-2.0
# How every target of the project is made: `fanout_library` and what it carries.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# Language level and code generation, for host compilers and, through nvcc, for the host half of device code. An installed
# fanout asks programs for the language level alone.
set(code_generation -march=${FANOUT_CPU} -fno-math-errno -fno-trapping-math -ffp-contract=fast)
add_library(fanout_language INTERFACE)
set_target_properties(fanout_language PROPERTIES EXPORT_NAME language)
target_compile_options(
  fanout_language
  INTERFACE "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:${code_generation}>>"
            # CMake 3.25 does not know C++20 for nvcc 13.
            $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
target_compile_features(fanout_language INTERFACE cxx_std_20)
target_include_directories(fanout_language INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                     $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/fanout>)

set(FANOUT_SANITIZE "" CACHE STRING "Sanitizers to build with, as for -fsanitize=")
if(FANOUT_SANITIZE)
  target_compile_options(fanout_language INTERFACE -fsanitize=${FANOUT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(fanout_language INTERFACE -fsanitize=${FANOUT_SANITIZE})
endif()

add_library(fanout_warnings INTERFACE)
target_compile_options(
  fanout_warnings
  INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual>
            # Loops are marked for one compiler or another; the others do without.
            $<$<COMPILE_LANGUAGE:CXX>:-Wno-unknown-pragmas>
            # GCC 12.2 warns of its own AVX-512 header wherever Eigen uses it.
            "$<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,12.3>,$<COMPILE_LANGUAGE:CXX>>:-Wno-uninitialized;-Wno-maybe-uninitialized>"
            $<$<AND:$<BOOL:${FANOUT_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>
            $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>
            $<$<AND:$<BOOL:${FANOUT_WERROR}>,$<COMPILE_LANGUAGE:CUDA>>:-Werror=all-warnings>)

# fanout_library(NAME SOURCES file... [LINK target...]): a static library `fanout_NAME`, known as fanout::NAME.
# A `.cu` file is CUDA where the platform compiles CUDA, and C++ elsewhere.
function(fanout_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  set(device_sources ${ARG_SOURCES})
  list(FILTER device_sources INCLUDE REGEX "[.]cu$")
  if(device_sources)
    set_source_files_properties(${device_sources} PROPERTIES LANGUAGE ${FANOUT_DEVICE_LANGUAGE} COMPILE_OPTIONS "${FANOUT_DEVICE_OPTIONS}")
  endif()
  add_library(fanout_${name} STATIC ${ARG_SOURCES})
  add_library(fanout::${name} ALIAS fanout_${name})
  set_target_properties(fanout_${name} PROPERTIES EXPORT_NAME ${name} CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(fanout_${name} PUBLIC fanout_language ${ARG_LINK} PRIVATE $<BUILD_INTERFACE:fanout_warnings>)
endfunction()
