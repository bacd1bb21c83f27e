"""Kernels as descriptions: nests of loops on views, their schedules, the instructions they are made for."""
