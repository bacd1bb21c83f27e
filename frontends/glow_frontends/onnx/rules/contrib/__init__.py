"""Rules of com.microsoft: operators that onnxruntime's optimiser and quantiser write."""
