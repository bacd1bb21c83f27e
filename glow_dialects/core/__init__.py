"""The parts of operators and instructions: bases, types, attributes, errors."""
