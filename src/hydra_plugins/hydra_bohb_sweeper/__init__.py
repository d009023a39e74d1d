"""The plugin that Hydra finds: `hydra/sweeper=bohb`. Hydra imports it in every program, so it imports little."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import MISSING, DictConfig, OmegaConf


@dataclass
class BOHBSweeperConf:
    """The options of the sweeper.

    params: what to sweep over, as on the command line; overrides of the command line come after it.
    max_budget, min_budget, eta: the budgets.
    budget: the key that a job gets its budget under.
    checkpoint: the key that a job gets its checkpoint directory under; None for none.
    checkpoint_dir: where these directories are.
    preset, direction, seed: as for `bohb.minimize`.
    journal, study: where the study is stored, and its name.
    max_brackets, max_trials: when the sweep ends.
    batch_size: how many jobs are launched together; None for a whole rung.
    """

    _target_: str = "hydra_plugins.hydra_bohb_sweeper.BOHBSweeper"
    params: dict[str, str] = field(default_factory=dict)
    max_budget: float = MISSING
    min_budget: float = 1
    eta: float = 3
    budget: str = "budget"
    checkpoint: str | None = None
    checkpoint_dir: str = "${hydra.sweep.dir}/checkpoints"
    preset: str = "best"
    direction: str = "minimize"
    seed: int | None = None
    journal: str = "${hydra.sweep.dir}/study.db"
    study: str = "sweep"
    max_brackets: int | None = None
    max_trials: int | None = None
    batch_size: int | None = None


ConfigStore.instance().store(group="hydra/sweeper", name="bohb", node=BOHBSweeperConf, provider="bohb")


class BOHBSweeper(Sweeper):
    """Runs a sweep as a study: the jobs of a rung are launched together, with their budget as an override."""

    def __init__(self, **options: Any) -> None:
        self._options = BOHBSweeperConf(**options)
        # A job may change the working directory, so that paths must not depend on it.
        self._options.checkpoint_dir = str(Path(self._options.checkpoint_dir).absolute())
        if "://" not in self._options.journal:
            self._options.journal = str(Path(self._options.journal).absolute())

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Create the launcher."""
        self.hydra_context, self.config = hydra_context, config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Run the sweep, write its best configuration, and return its loss."""
        from bohb.integrations.hydra import Sweep

        assert self.hydra_context is not None
        assert self.config is not None
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        params = [f"{name}={text}" for name, text in self._options.params.items()]
        given = {o.get_key_element(): o for o in parser.parse_overrides([*params, *arguments])}
        folder = Path(self.config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, folder / "multirun.yaml")
        study = Sweep(self._options, self._launch).run(list(given.values()))
        best = {"name": "bohb", "best_evaluated_params": study.best_config, "best_evaluated_result": study.best_loss}
        OmegaConf.save(OmegaConf.create(best), folder / "optimization_results.yaml")
        return study.best_loss

    def _launch(self, overrides: list[list[str]], first: int) -> Any:
        assert self.launcher is not None
        self.validate_batch_is_legal(overrides)
        return self.launcher.launch(overrides, initial_job_idx=first)
