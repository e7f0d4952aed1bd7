# SPDX-License-Identifier: Apache-2.0
# Installs FANOUT_BUILD under SCRATCH, builds project/ against that, and runs it.
set(prefix ${SCRATCH}/installed)
set(build ${SCRATCH}/build)
file(REMOVE_RECURSE ${prefix} ${build})

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${FANOUT_BUILD} --prefix ${prefix})
run(${prefix}/bin/fanout --version)
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/project -B ${build} -G Ninja -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=${BUILD_TYPE})
run(${CMAKE_COMMAND} --build ${build})
run(${build}/train_step)
