"""onnxruntime and OpenVINO in bench/inference.py: MiniLM as a graph, optimised by each tool's own means.

onnxruntime   its optimiser for BERT (fused attention, GELU, norms); int8: `quantize_dynamic`
OpenVINO      the plain graph, compiled for float32 or bfloat16; int8: `quantize_static`, for OpenVINO computes in 8
              bits only with scales that are known beforehand; what is not quantised is bfloat16

What is unusual: each is timed with one run at a time over two threads and with two runs side by side of one thread, and
the quicker counts.
What it does not know: time.
"""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from inference_models import encoder_folder, made, sentences
from inference_peers import WORKERS, Encoder, in_batches

HEADS, WIDTH = 12, 384
"""Of MiniLM."""


def write_graph(path: Path) -> None:
    """ids, real (B, T) -> hidden (B, T, D), by torch's exporter."""
    import torch
    from transformers import AutoModel

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_pretrained(encoder_folder(), attn_implementation="eager").eval()

        def forward(self, ids: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=ids, attention_mask=real).last_hidden_state

    ids, free = torch.ones(2, 9, dtype=torch.long), {0: "B", 1: "T"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the older exporter, whose graph onnxruntime's optimiser knows
        torch.onnx.export(Hidden(), (ids, ids), str(path), input_names=["ids", "real"], output_names=["hidden"],
                          dynamic_axes=dict.fromkeys(("ids", "real", "hidden"), free), dynamo=False,
                          opset_version=17)  # fmt: skip


def write_fused(path: Path) -> None:
    """The graph with onnxruntime's own operators for BERT."""
    from onnxruntime.transformers.optimizer import optimize_model

    graph = made("minilm.onnx", write_graph)
    optimised = optimize_model(str(graph), model_type="bert", num_heads=HEADS, hidden_size=WIDTH)
    optimised.save_model_to_file(str(path))


def write_quantised(path: Path) -> None:
    """The fused graph in 8 bits, a scale for each column of a matrix."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(made("minilm.fused.onnx", write_fused), path, weight_type=QuantType.QInt8, per_channel=True,
                     extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})  # fmt: skip


def write_static(path: Path) -> None:
    """The plain graph in 8 bits with scales of activations from the very sentences, which is in its favour.

    The second product of each feed-forward layer is left out: of a few activations a hundred times larger than the rest
    the others would be lost (cosine 0.91 to the true vectors instead of 0.98).
    """
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    seen: list[dict[str, np.ndarray]] = []

    def keep(ids: np.ndarray, real: np.ndarray) -> np.ndarray:
        seen.append({"ids": ids, "real": real})
        return np.ones((*ids.shape, WIDTH), dtype=np.float32)

    in_batches(keep)(sentences())
    batches = iter(seen)

    class Batches(CalibrationDataReader):
        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(batches, None)

    source = made("minilm.onnx", write_graph)
    products = [node.name for node in onnx.load(source).graph.node if node.op_type == "MatMul"]
    left_out = [name for name in products if "/output/dense" in name and "attention" not in name]
    quantize_static(
        str(source), str(path), Batches(), quant_format=QuantFormat.QDQ, op_types_to_quantize=["MatMul"],
        per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, nodes_to_exclude=left_out,
        extra_options={"MatMulConstBOnly": True},
    )  # fmt: skip


def onnxruntime_encoders(kind: str) -> list[Encoder]:
    """One of each setting of workers."""
    import onnxruntime

    path = {"fp32": ("minilm.fused.onnx", write_fused), "int8": ("minilm.int8.onnx", write_quantised)}[kind]
    found = []
    for workers, threads in WORKERS:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        session = onnxruntime.InferenceSession(str(made(*path)), options, providers=["CPUExecutionProvider"])
        found.append(in_batches(_session(session), workers))
    return found


def _session(session: Any) -> Any:
    return lambda ids, real: session.run(["hidden"], {"ids": ids, "real": real})[0]


def openvino_encoders(kind: str) -> list[Encoder]:
    """One of each setting of workers."""
    import openvino

    path = ("minilm.static.onnx", write_static) if kind == "int8" else ("minilm.onnx", write_graph)
    hints = {"INFERENCE_PRECISION_HINT": "f32" if kind == "fp32" else "bf16", "INFERENCE_NUM_THREADS": 2}
    return [
        in_batches(_compiled(openvino.Core().compile_model(str(made(*path)), "CPU", {**hints, "NUM_STREAMS": workers})),
                   workers)
        for workers, _ in WORKERS
    ]  # fmt: skip


def _compiled(model: Any) -> Any:
    own = threading.local()

    def encode(ids: np.ndarray, real: np.ndarray) -> np.ndarray:
        if not hasattr(own, "request"):
            own.request = model.create_infer_request()
        return np.array(own.request.infer({"ids": ids, "real": real})["hidden"])

    return encode
