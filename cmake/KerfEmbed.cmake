# Writes the text of file IN as a C++ string literal to file OUT.
file(READ "${IN}" text)
file(WRITE "${OUT}" "R\"kerf(${text})kerf\"\n")
