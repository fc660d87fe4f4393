# How far a build is. Reads ninja's lines with NINJA_STATUS='@%f/%t %e ' (steps done, all steps, seconds); shows the
# share of steps and the minutes that the others will take at the same pace. What else ninja says, errors and warnings,
# passes as it is. Variable `terminal`: 1 on a terminal, where one line is written over.

function left(done, all, seconds) {
  minutes = done > 0 ? seconds * (all - done) / done / 60 : 0
  return minutes < 1 ? "less than a minute left" : sprintf("about %d minute%s left", minutes + 0.5, minutes < 1.5 ? "" : "s")
}

function clear() {
  if (terminal && shown)
    printf "\r\033[K"
  shown = 0
}

/^ninja: (Entering directory|no work to do)/ { next }

/^@[0-9]+\/[0-9]+ [0-9.]+ / {
  split(substr($1, 2), steps, "/")
  done = steps[1]; all = steps[2]
  if (!terminal && $2 < last + 60)
    next
  last = $2
  text = sprintf("building: %d %% of %d steps, %s", 100 * done / all, all, left(done, all, $2))
  printf terminal ? "\r\033[K%s" : "%s\n", text
  shown = 1
  fflush()
  next
}

{ clear(); print; fflush() }

END { clear() }
