"""Running compiled programs: executables, segments, weights in files."""
