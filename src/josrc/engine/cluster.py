"""Ray for josrc: started on this machine, or a cluster that is running; quiet, and left clean."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from josrc.errors import UserError, install_command

# Runs hand over numbers and names alone.
STORE_BYTES = 80 * 2**20
# A worker is one process, whatever the machine it runs on was started by; and it stays where the
# driver is, as paths may count from there.
WORKER_VARIABLES = {"WORLD_SIZE": "1", "RAY_CHDIR_TO_TRIAL_DIR": "0"}
QUIET_VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
}
# To a named address Ray sends its token only if it is told to; one with `auto` gets it anyway.
TOKEN = (
    "Put RAY_AUTH_MODE=token before the command, and the cluster's token (ray get-auth-token "
    "there) into ~/.ray/auth_token or RAY_AUTH_TOKEN."
)


def check_ray(wanted_by: str) -> None:
    """Raise an error that names the extra if Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise UserError(f"{wanted_by} runs on Ray, which is missing: {install_command('ray')}")


@contextmanager
def connected(address: str | None, cpus: int | None = None) -> Iterator[None]:
    """Ray while it is needed.

    Args:
        address: of a running cluster, ``auto`` for that of this machine; none starts one here,
            which ends with this process.
        cpus: cores to use of this machine; all of them by default.
    """
    os.environ.update(QUIET_VARIABLES)
    import ray
    from ray.exceptions import AuthenticationError

    own: dict[str, Any] = {
        "include_dashboard": False,
        "object_store_memory": STORE_BYTES,
        "num_cpus": cpus,
    }
    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": WORKER_VARIABLES},
            **({} if address else own),
        )
    except AuthenticationError:
        raise UserError(f"The Ray cluster at {address} asks for a token. {TOKEN}") from None
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        place = f"the cluster at {address}" if address else "this machine"
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        asks = f" If it asks for a token: {TOKEN}" if address else ""
        raise UserError(
            f"Ray can't be reached or started on {place}: {reason}. Is it running there (ray "
            f"status), with the same version?{asks}"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def check_resources(cpus: float, gpus: float) -> None:
    """Raise an error if no machine of the cluster can ever hold a run."""
    import ray

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
        return
    most = max((node.get("CPU", 0) for node in nodes), default=0)
    gpus_there = max((node.get("GPU", 0) for node in nodes), default=0)
    raise UserError(
        f"A run needs {cpus:g} cores and {gpus:g} GPUs, but the largest machine in the Ray "
        f"cluster has {most:g} and {gpus_there:g}: lower cpus or gpus."
    )
