"""From a trained network to the file that runs: freeze, integer reference, ONNX, verification."""
