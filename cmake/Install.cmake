# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` lays out: the command, libraries, headers, and the files that find_package(fanout) reads.
include(CMakePackageConfigHelpers)

install(
  TARGETS fanout_language
          fanout_platform
          fanout_kernels
          fanout_device
          fanout_trace
          fanout_tensor
          fanout_autograd
          fanout_comm
          fanout_ops
          fanout_nn
          fanout_optim
          fanout_parallel
          fanout_datasets
          fanout_models
  EXPORT fanoutTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/fanout)

# The tree's own folders, so that an include reads the same inside and outside of it.
install(
  DIRECTORY kernels runtime models
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fanout
  FILES_MATCHING
  PATTERN "*.h"
  PATTERN "*.cuh")
install(DIRECTORY ${FANOUT_PLATFORM}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fanout/platform)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/fanout)
install(EXPORT fanoutTargets NAMESPACE fanout:: DESTINATION ${package_folder})
configure_package_config_file(cmake/fanoutConfig.cmake.in ${PROJECT_BINARY_DIR}/fanoutConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fanoutConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fanoutConfig.cmake ${PROJECT_BINARY_DIR}/fanoutConfigVersion.cmake
              cmake/FindNCCL.cmake DESTINATION ${package_folder})
