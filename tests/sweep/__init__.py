"""Every public function of JAX's numerical modules: exported, run in ONNX Runtime, held against JAX."""
