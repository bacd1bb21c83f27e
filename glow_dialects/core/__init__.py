"""What operators and instructions are made of: bases, types, attributes, errors."""
