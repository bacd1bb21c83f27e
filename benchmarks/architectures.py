"""Architectures of torchvision and timm with random weights, exported to a folder for the benchmarks.

    pip install torch torchvision timm onnxscript
    python -m benchmarks.architectures FOLDER                    # all of NAMES
    python -m benchmarks.architectures FOLDER swin_t timm:levit_128s

Batch 1; opset 17, written by PyTorch's exporter. What the exporter refuses is named and left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

NAMES = (
    "convnext_tiny",
    "deeplabv3_mobilenet_v3_large",
    "densenet121",
    "efficientnet_b0",
    "googlenet",
    "inception_v3",
    "maxvit_t",
    "mnasnet1_0",
    "mobilenet_v3_small",
    "r3d_18",
    "regnet_y_400mf",
    "resnext50_32x4d",
    "shufflenet_v2_x1_0",
    "swin_t",
    "timm:cait_xxs24_224",
    "timm:coat_tiny",
    "timm:crossvit_tiny_240",
    "timm:edgenext_xx_small",
    "timm:efficientformer_l1",
    "timm:fastvit_t8",
    "timm:ghostnet_100",
    "timm:hrnet_w18_small",
    "timm:lambda_resnet26t",
    "timm:levit_128s",
    "timm:mobilenetv4_conv_small",
    "timm:mobileone_s0",
    "timm:mobilevit_xs",
    "timm:poolformer_s12",
    "timm:repvgg_a0",
    "timm:res2net50_26w_4s",
    "timm:tiny_vit_5m_224",
    "timm:vit_tiny_patch16_224",
    "timm:xcit_nano_12_p16_224",
)


def architecture(name: str) -> tuple[Any, Any]:
    """The network, ready for inference, and an input for it."""
    import torch

    torch.manual_seed(0)
    if name.startswith("timm:"):
        import timm

        network = timm.create_model(name.removeprefix("timm:"), pretrained=False, exportable=True)
        return network.eval(), torch.randn(1, *network.default_cfg["input_size"])
    from torchvision import models

    nested = "segmentation" in models.get_model_builder(name).__module__
    network = models.get_model(name, weights=None, **({"weights_backbone": None} if nested else {}))
    video = ".video" in type(network).__module__
    side = 299 if name == "inception_v3" else 224
    return network.eval(), torch.randn(1, 3, 16, 112, 112) if video else torch.randn(1, 3, side, side)


def export(name: str, folder: Path) -> Path:
    """Write one network; normalisations get statistics that are not 0 and 1."""
    import torch

    network, example = architecture(name)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                module.running_mean.normal_(std=0.1)
                module.running_var.uniform_(0.5, 1.5)
        path = folder / f"{name.replace('timm:', '')}.onnx"
        torch.onnx.export(network, (example,), path, dynamo=False, opset_version=17)
    return path


def main() -> None:
    """Export the networks asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=NAMES)
    a = parser.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    for name in a.names:
        try:
            print(export(name, a.folder), flush=True)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error).strip().splitlines()[-1][:200]}", flush=True)


if __name__ == "__main__":
    main()
