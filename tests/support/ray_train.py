"""What test_launch.py starts: one run in two workers of Ray Train.

python tests/support/ray_train.py OUT
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

OPTIONS: dict[str, Any] = {
    "noise": "symmetric",
    "rate": 0.5,
    "epochs": 2,
    "batch_size": 101,
    "device": "cpu",
}

OPTIONS: dict[str, Any] = {
    "noise": "symmetric",
    "rate": 0.5,
    "epochs": 2,
    "batch_size": 101,
    "device": "cpu",
}


def train(settings: dict[str, Any]) -> None:
    import torch
    import torch.distributed as dist

    import josrc

    torch.set_num_threads(1)
    run = josrc.train("digits-o", **settings)
    assert run.summary["epochs"] == settings["epochs"]
    assert dist.is_initialized(), "the group is Ray's"


if __name__ == "__main__":
    import ray
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80 * 2**20)
    try:
        with tempfile.TemporaryDirectory() as storage:
            TorchTrainer(
                train,
                train_loop_config={**OPTIONS, "out": str(Path(sys.argv[1]).absolute())},
                scaling_config=ScalingConfig(num_workers=2),
                run_config=RunConfig(storage_path=storage),
            ).fit()
    finally:
        ray.shutdown()
