"""What every kernel is written with: builders, vectors, arithmetic, blocks of registers."""
