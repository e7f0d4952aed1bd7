# SPDX-License-Identifier: Apache-2.0
# fanout_test(NAME SOURCES file... LINK target... [ENVIRONMENT VARIABLE=value...] [ONE_STREAM] [CHOOSES_MODE]): a Catch2
# program `NAME_tests`, each case a test of its own.
#
# Where devices are simulated, the program is also run as a whole in late mode, once for each of FANOUT_LATE_SEEDS
# seeds, as the test "NAME, late" with the label `late`; cases tagged [eager] stay out. A program with ONE_STREAM has one
# order of its operations, so one seed will do; one with CHOOSES_MODE chooses the mode itself.
find_package(Catch2 REQUIRED)
include(Catch)

set(FANOUT_LATE_SEEDS 20 CACHE STRING "Seeds with which every test program is run in late mode")

function(fanout_test name)
  cmake_parse_arguments(ARG "ONE_STREAM;CHOOSES_MODE" "" "SOURCES;LINK;ENVIRONMENT" ${ARGN})
  set(device_sources ${ARG_SOURCES})
  list(FILTER device_sources INCLUDE REGEX "[.]cu$")
  if(device_sources)
    set_source_files_properties(${device_sources} PROPERTIES LANGUAGE ${FANOUT_DEVICE_LANGUAGE} COMPILE_OPTIONS "${FANOUT_DEVICE_OPTIONS}")
  endif()
  add_executable(${name}_tests ${ARG_SOURCES})
  set_target_properties(${name}_tests PROPERTIES CXX_EXTENSIONS OFF)
  target_link_libraries(${name}_tests PRIVATE ${ARG_LINK} fanout_language fanout_warnings Catch2::Catch2WithMain)
  # Test code is compiled more often than run.
  target_compile_options(${name}_tests PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
  # Through the launcher, since discovery takes a list of variables apart.
  set_target_properties(${name}_tests PROPERTIES CROSSCOMPILING_EMULATOR
                        "${CMAKE_COMMAND};-E;env;FANOUT_SIM_POISON=1;FANOUT_SIM_PROTECT=1;FANOUT_SIM_RACES=1;${ARG_ENVIRONMENT}")
  catch_discover_tests(${name}_tests TEST_PREFIX "${name}: " DISCOVERY_MODE PRE_TEST
                       PROPERTIES TIMEOUT 300 FAIL_REGULAR_EXPRESSION "No tests ran")
  if(FANOUT_PLATFORM STREQUAL "sim" AND NOT ARG_CHOOSES_MODE)
    set(seeds ${FANOUT_LATE_SEEDS})
    if(ARG_ONE_STREAM)
      set(seeds 1)
    endif()
    add_test(NAME "${name}, late" COMMAND ${PROJECT_SOURCE_DIR}/scripts/late_seeds.sh ${seeds}
                                          $<TARGET_FILE:${name}_tests>)
    set_tests_properties("${name}, late" PROPERTIES TIMEOUT 1800 LABELS late ENVIRONMENT "${ARG_ENVIRONMENT}")
  endif()
endfunction()
