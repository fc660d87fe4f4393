# What `cpack` makes: a Debian package, which names the packages that it needs, and
# a tarball with LLVM's libraries in it, which runs where none is installed.
set(CPACK_PACKAGE_NAME kerf)
set(CPACK_PACKAGE_VENDOR Kerf)
set(CPACK_PACKAGE_CONTACT "Kerf developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
  "Auto-parallelizing compiler for Transformer training")
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/cmake/PackageFormats.cmake)

find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
# Left to the system: the C and C++ libraries. What plug-ins need besides (MPI, CUDA)
# is the machine's, too.
string(CONFIGURE [[
  file(GET_RUNTIME_DEPENDENCIES LIBRARIES "$<TARGET_FILE:Kerf>"
    RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
    PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|gcc_s|stdc[+][+])[.]so")
  if(missing)
    message(FATAL_ERROR "libraries to pack are missing: ${missing}")
  endif()
  file(INSTALL ${found} DESTINATION "${CMAKE_INSTALL_PREFIX}/lib" TYPE SHARED_LIBRARY
    FOLLOW_SYMLINK_CHAIN)
  file(GLOB programs "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/bin/*")
  execute_process(COMMAND "@Python3_EXECUTABLE@" "@PROJECT_SOURCE_DIR@/cmake/search_path.py"
    ${programs} COMMAND_ERROR_IS_FATAL ANY)
]] bundle @ONLY)
install(CODE "${bundle}" COMPONENT bundled EXCLUDE_FROM_ALL)
file(WRITE ${PROJECT_BINARY_DIR}/cmake/PackageFormats.cmake "
if(CPACK_GENERATOR STREQUAL \"TGZ\")
  set(CPACK_PACKAGING_INSTALL_PREFIX /)
  list(APPEND CPACK_INSTALL_CMAKE_PROJECTS \"${PROJECT_BINARY_DIR}\" Kerf bundled /)
endif()
")
include(CPack)
