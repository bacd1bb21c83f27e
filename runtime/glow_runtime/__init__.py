"""What runs compiled programs: executables, segments, weights in files."""
