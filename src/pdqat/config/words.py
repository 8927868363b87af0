"""The words that options take, known without importing what they name.

So `--help` answers at once, and a misspelt word is refused before torch is imported. The tests hold every list to the
registry that it speaks of.
"""

DATA = ("digits", "cifar10", "cifar100", "folder")
FETCHED_DATA = ("cifar10", "cifar100")
MODELS = (
    *("preresnet8", "preresnet20", "preresnet32", "preresnet56", "preresnet-small", "mobilenet-small"),
    *("resnet20", "resnet32", "resnet56"),
)
QUANTIZERS = (
    *("dorefa", "dorefa-unscaled", "dorefa-int8", "dorefa-bytes", "dorefa-lsq"),
    *("normal", "normal-bytes", "uniform", "uniform-channel", "lsq"),
)
GRADIENTS = ("exact", "norms", "straight-through")
OBJECTIVES = ("full", "low")
OUTPUT_DISTANCES = ("cross-entropy", "kl", "squared", "cosine")
LAYER_DISTANCES = ("squared", "absolute", "relative")
DUAL_RULES = ("ascent", "nupi", "multiplicative")
OPTIMIZERS = ("adam", "muon")
SCHEDULES = ("steps", "one-cycle")
TRACKERS = ("tensorboard", "mlflow", "wandb", "trackio")
PRESETS = ("best", "quickstart", "paper", "deployable")

RANKINGS = ("dual", "hessian", "gradient", "loss", "only-low", "only-high", "distance", "random", "first-and-last")
JUDGES = 1000
"""Images that judge layers."""

FORMATS = {
    "onnx": "integer kernels in ONNX Runtime and OpenVINO",
    "openvino": "the same for OpenVINO alone, with its binary kernel at 1 bit",
    "qonnx": "the simulated network for FPGA tools",
    "torch": "a program of torch.export",
    "c": "a folder of plain C for machines without a runtime",
}
SUITES = (
    *("table1", "ablation-output", "ablation-layer", "figure1", "duals"),
    *("schedule", "gap", "gap-1bit", "settling"),
    *("tiny", "ingredients", "scale"),
)
PROTOCOLS = {
    "full": "the paper's: width 5, 100 epochs",
    "budget": "for two CPU cores: width 1, 10 epochs",
    "quick": "the budget on 10,000 of the images, in a quarter of the time",
    "tiny": "MLPerf Tiny's ResNet-8, 30 epochs",
    "scale": "ResNet-8 on 10,000 images of 16 x 16 pixels, 2 epochs",
    "trial": "two epochs on the digits, to see that everything works",
}
OWN_PROTOCOLS = {"tiny": "tiny", "ingredients": "tiny", "scale": "scale"}
"""Of suites that have one; the others are trained under USUAL_PROTOCOL."""
USUAL_PROTOCOL = "budget"
