# Writes the text file INPUT as a NUL-terminated array SYMBOL into OUTPUT, C++.
# One string per line; a compiler must take 64 KiB of one literal only, so lines
# are joined in an array of numbers instead.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT}
  "extern \"C\" {\n"
  "extern const char ${SYMBOL}[];\n"
  "const char ${SYMBOL}[] = {${bytes}0};\n}\n")
