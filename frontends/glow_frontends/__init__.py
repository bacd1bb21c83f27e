"""Models in: ONNX, Caffe2, graphs and functions written in Python."""
