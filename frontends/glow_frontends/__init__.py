"""Importers: ONNX, PyTorch, StableHLO, Caffe2, language models, and graphs and functions written in
Python.
"""
