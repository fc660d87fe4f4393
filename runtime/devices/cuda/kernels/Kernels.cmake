# The plug-in's own kernels: CUDA C++ that clang compiles to PTX without any
# CUDA toolkit, embedded as text. sm_80 is the oldest GPU that they run on; later
# ones translate the PTX when it is loaded. sm_90a is for that one GPU alone.

set(KERF_CUDA_KERNELS_DIR ${CMAKE_CURRENT_LIST_DIR})
find_program(KERF_CUDA_CLANG NAMES clang++-22 clang++
  HINTS /usr/lib/llvm-22/bin DOC "clang++ with the NVPTX backend")

# No toolkit is looked for: the PTX must not depend on what is installed.
set(KERF_CUDA_TO_PTX -x cuda --cuda-device-only
  -nocudainc -nocudalib --cuda-path=/nowhere -std=c++20 -O3 -Wall -Wextra
  -ffp-contract=fast -fcuda-flush-denormals-to-zero)
set(KERF_CUDA_FOR_sm_80 --cuda-gpu-arch=sm_80
  -Xclang -target-feature -Xclang +ptx78)
set(KERF_CUDA_FOR_sm_90a --cuda-gpu-arch=sm_90a
  -Xclang -target-feature -Xclang +ptx80)

# Can a kernel be compiled? Sets `result`, and `why` where not.
function(kerf_cuda_can_compile result why)
  set(${result} FALSE PARENT_SCOPE)
  if(NOT KERF_CUDA_CLANG)
    set(${why} "no clang++ is found" PARENT_SCOPE)
    return()
  endif()
  set(kernel ${CMAKE_CURRENT_BINARY_DIR}/kernels/can_compile.cu)
  file(WRITE ${kernel}
    "__attribute__((global)) void write(float *to) { *to = 1; }\n")
  execute_process(COMMAND ${KERF_CUDA_CLANG} ${KERF_CUDA_TO_PTX}
    ${KERF_CUDA_FOR_sm_90a} -S ${kernel} -o ${kernel}.ptx
    RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(status EQUAL 0)
    set(${result} TRUE PARENT_SCOPE)
  else()
    set(${why} "${KERF_CUDA_CLANG} cannot compile kernels to PTX" PARENT_SCOPE)
  endif()
endfunction()

# Compiles `source` with definitions into PTX for `arch`, and that into `symbol`.
# Appends to the lists kerf_ptx_files_ARCH and kerf_ptx_sources of the caller.
function(kerf_cuda_ptx_for arch symbol source)
  set(from ${KERF_CUDA_KERNELS_DIR}/${source})
  set(ptx ${CMAKE_CURRENT_BINARY_DIR}/kernels/${symbol}.ptx)
  set(cpp ${CMAKE_CURRENT_BINARY_DIR}/kernels/${symbol}.cpp)
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/kernels)
  list(TRANSFORM ARGN PREPEND -D)
  add_custom_command(OUTPUT ${ptx}
    COMMAND ${KERF_CUDA_CLANG} ${KERF_CUDA_TO_PTX} ${KERF_CUDA_FOR_${arch}}
      -I${KERF_CUDA_KERNELS_DIR}/../../../../include ${ARGN}
      -MD -MF ${ptx}.d -MT ${ptx} -S ${from} -o ${ptx}
    DEPENDS ${from} DEPFILE ${ptx}.d
    COMMENT "Compiling ${symbol}.ptx" VERBATIM)
  add_custom_command(OUTPUT ${cpp}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${ptx} -DOUTPUT=${cpp} -DSYMBOL=${symbol}
      -P ${KERF_CUDA_KERNELS_DIR}/Embed.cmake
    DEPENDS ${ptx} ${KERF_CUDA_KERNELS_DIR}/Embed.cmake VERBATIM)
  set(kerf_ptx_files_${arch} ${kerf_ptx_files_${arch}} ${ptx} PARENT_SCOPE)
  set(kerf_ptx_sources ${kerf_ptx_sources} ${cpp} PARENT_SCOPE)
endfunction()
# The same for all GPUs.
macro(kerf_cuda_ptx)
  kerf_cuda_ptx_for(sm_80 ${ARGN})
endmacro()

# Adds all kernels to a library.
function(kerf_cuda_kernels target)
  foreach(number f32 bf16 f16)
    kerf_cuda_ptx(kerf_ptx_attention_plain_${number} AttentionPlain.cu
      KERF_NUMBER=${number})
    kerf_cuda_ptx(kerf_ptx_attention_delta_${number} AttentionDelta.cu
      KERF_NUMBER=${number})
  endforeach()
  foreach(number bf16 f16)
    kerf_cuda_ptx(kerf_ptx_attention_forward_${number} AttentionForwardMma.cu
      KERF_NUMBER=${number})
    kerf_cuda_ptx(kerf_ptx_attention_backward_${number} AttentionBackwardMma.cu
      KERF_NUMBER=${number})
    kerf_cuda_ptx(kerf_ptx_grouped_mma_${number} GroupedMma.cu
      KERF_NUMBER=${number})
    kerf_cuda_ptx_for(sm_90a kerf_ptx_grouped_wgmma_${number} GroupedWgmma.cu
      KERF_NUMBER=${number})
  endforeach()
  kerf_cuda_ptx(kerf_ptx_beside Beside.cu)
  kerf_cuda_ptx(kerf_ptx_epilogue Epilogue.cu)
  kerf_cuda_ptx(kerf_ptx_grouped_plan GroupedPlan.cu)
  kerf_cuda_ptx(kerf_ptx_grouped_plain GroupedPlain.cu)
  kerf_cuda_ptx(kerf_ptx_builtin Builtin.cu)
  target_sources(${target} PRIVATE ${kerf_ptx_sources})
  set(KERF_CUDA_PTX_FILES ${kerf_ptx_files_sm_80} PARENT_SCOPE)
  set(KERF_CUDA_PTX_FILES_sm_90a ${kerf_ptx_files_sm_90a} PARENT_SCOPE)
endfunction()

# The programs that compare the kernels with plain loops, and measure them.
function(kerf_cuda_kernel_tests simulator)
  set(tests ${KERF_CUDA_KERNELS_DIR}/test)
  add_executable(kerf-cuda-kernels-test ${tests}/AttentionCase.cpp
    ${tests}/AttentionTest.cpp ${tests}/ChoiceTest.cpp ${tests}/FusedTest.cpp
    ${tests}/GroupedTest.cpp ${tests}/KernelsTest.cpp ${tests}/TilesTest.cpp
    ${tests}/../../test/Support.cpp)
  target_link_libraries(kerf-cuda-kernels-test PRIVATE kerf_device_cuda
    kerf_device_cuda_flags)
  foreach(which attention grouped)
    add_test(NAME kerf-cuda-${which} COMMAND kerf-cuda-kernels-test ${which})
    set_tests_properties(kerf-cuda-${which} PROPERTIES
      ENVIRONMENT "KERF_CUDA_PATH=${simulator}" SKIP_RETURN_CODE 77)
  endforeach()
  # Three processors: blocks then have several results each.
  set_property(TEST kerf-cuda-grouped APPEND PROPERTY ENVIRONMENT
    "KERF_SIM_PROCESSORS=3" "KERF_SIM_RACES=1")
  set(with_cudnn "")
  if(simulator)
    set(with_cudnn "${simulator}:${simulator}/cudnn")
  endif()
  add_test(NAME kerf-cuda-fused COMMAND kerf-cuda-kernels-test fused)
  add_test(NAME kerf-cuda-tiles COMMAND kerf-cuda-kernels-test tiles 600)
  set_tests_properties(kerf-cuda-fused kerf-cuda-tiles PROPERTIES
    ENVIRONMENT "KERF_CUDA_PATH=${with_cudnn}" SKIP_RETURN_CODE 77)
  add_executable(kerf-cuda-kernels-bench
    ${KERF_CUDA_KERNELS_DIR}/../bench/KernelsBench.cpp)
  target_link_libraries(kerf-cuda-kernels-bench PRIVATE kerf_device_cuda
    kerf_device_cuda_flags)
  add_test(NAME kerf-cuda-kernels-bench COMMAND kerf-cuda-kernels-bench tiny)
  set_tests_properties(kerf-cuda-kernels-bench PROPERTIES
    ENVIRONMENT "KERF_CUDA_PATH=${simulator}" SKIP_RETURN_CODE 77)
  # Where ptxas is: do all registers of the kernels fit?
  find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
  add_test(NAME kerf-cuda-assemble COMMAND ${Python3_EXECUTABLE}
    ${tests}/assemble.py sm_80,sm_90,sm_100,sm_120 ${KERF_CUDA_PTX_FILES}
    --for sm_90a ${KERF_CUDA_PTX_FILES_sm_90a})
  set_tests_properties(kerf-cuda-assemble PROPERTIES SKIP_RETURN_CODE 77)
endfunction()
