"""Graphs in the making: what all frontends build with, whatever a program was written in."""
