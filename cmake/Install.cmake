# What `cmake --install` copies: a package for find_package(Kerf). Programs find
# their libraries, and the runtime its devices, relative to themselves: the folder
# can be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(tools GLOBAL PROPERTY KERF_TOOLS)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Kerf)

set_target_properties(Kerf ${tools} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS Kerf kerf_runtime kerf_llvm EXPORT KerfTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS ${tools} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# What users run, without tests, simulator and benchmarks.
add_custom_target(kerf-programs DEPENDS ${tools})
foreach(plugin kerf_device_cpu kerf_device_cuda kerf_wire_mpi)
  if(TARGET ${plugin})
    add_dependencies(kerf-programs ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/kerf)
  endif()
endforeach()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kerf
  ${PROJECT_SOURCE_DIR}/runtime/include/kerf
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.td")
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/kerf
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.inc")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples
  DESTINATION ${CMAKE_INSTALL_DATADIR}/kerf USE_SOURCE_PERMISSIONS)

install(EXPORT KerfTargets NAMESPACE Kerf:: DESTINATION ${package})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/KerfConfig.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/KerfConfig.cmake INSTALL_DESTINATION ${package}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_BINDIR)
# Plug-ins are bound to the classes of one version.
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/cmake/KerfConfigVersion.cmake COMPATIBILITY ExactVersion)
configure_file(${PROJECT_SOURCE_DIR}/cmake/KerfPlugin.cpp.in
  ${PROJECT_BINARY_DIR}/cmake/KerfPlugin.cpp @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cmake/KerfConfig.cmake
  ${PROJECT_BINARY_DIR}/cmake/KerfPlugin.cpp
  ${PROJECT_SOURCE_DIR}/cmake/KerfEmbed.cmake
  ${PROJECT_BINARY_DIR}/cmake/KerfConfigVersion.cmake DESTINATION ${package})
