"""Functions as native code: scalars in registers, closures as captured values, real calls and loops."""
