# Six sources of a part in one read their headers once: a build from nothing
# takes a fifth less. A change of one source then compiles six, so who works on
# the code leaves it off.
option(KERF_UNITY "Compile sources of a part together, for builds from nothing" OFF)

# Sources that have file-local names which another one of the part has, too:
# they are compiled alone. The loops of the device `cpu` are, all of them: what
# is inlined there is not to depend on how it was built.
set(KERF_COMPILED_ALONE
  lib/Artifact/Check.cpp
  lib/Artifact/CheckStages.cpp
  lib/Artifact/CheckTables.cpp
  lib/Codegen/Index.cpp
  lib/FactorGraph/FactorGraphReduce.cpp
  lib/Ingest/FormFields.cpp
  lib/Kernels/Overlap.cpp
  lib/Kernels/Sketch.cpp
  lib/Kernels/SketchEpilogues.cpp
  lib/Memory/Place.cpp
  lib/Memory/PlaceProblem.cpp
  lib/Pipeline/BlameDifference.cpp
  lib/Pipeline/InspectInterpret.cpp
  lib/Pipeline/InspectMain.cpp
  lib/Plan/VerifySolution.cpp
  lib/Report/ReportJson.cpp
  lib/Step/StepFile.cpp
  lib/Support/SafetensorsWriter.cpp
  runtime/devices/cuda/GroupedMatmul.cpp
  runtime/devices/cuda/Simple.cpp
  runtime/train/Run.cpp
  runtime/train/RunPage.cpp
  runtime/train/StateIndex.cpp)

# kerf_compile_together(TARGET)
function(kerf_compile_together target)
  if(NOT KERF_UNITY)
    return()
  endif()
  # A file-local function without a caller is one whose callers found another.
  target_compile_options(${target} PRIVATE -Werror=unused-function)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON
    UNITY_BUILD_BATCH_SIZE 6)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    if(path IN_LIST KERF_COMPILED_ALONE)
      set_source_files_properties(${source} PROPERTIES
        SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()
