# cmake -DIN=FILE -DOUT=FILE [-DTITLE=TEXT] -P page.cmake
# Makes a page of docs/reference of what mlir-tblgen wrote: without the labels that
# verifiers cite ('// matmul_c2'), without '[TOC]', and with a title if one is given.
file(READ "${IN}" text)
string(REGEX REPLACE " // [a-z0-9_]+_c[0-9]+" "" text "${text}")
string(REPLACE "[TOC]\n\n" "" text "${text}")
if(TITLE)
  string(REGEX REPLACE "^(<!--[^\n]*-->\n)" "\\1\n# ${TITLE}\n" text "${text}")
endif()
file(WRITE "${OUT}" "${text}")
