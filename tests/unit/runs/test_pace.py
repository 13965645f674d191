"""How long a run will take."""

from __future__ import annotations

from pathlib import Path

import pytest

from josrc.data.prepare import spec_for
from josrc.engine.state import create_method
from josrc.runs import pace


def test_a_long_run_on_a_cpu_gets_fewer_epochs_and_says_so(
    photos: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from josrc._console import Terminal
    from josrc.runs.start import plan

    monkeypatch.setattr(pace, "time_steps", lambda *given: (600.0, 5.0))
    config, _ = plan(str(photos), console=Terminal(), device="cpu")
    assert config.epochs == 6  # 1,200 s over 36 images of 5 s each
    said = capsys.readouterr().out.replace("\n", " ")
    assert "6 epochs instead of 40: one takes about 3 min here" in said
    config, _ = plan(str(photos), console=Terminal(), device="cpu", epochs=40)
    assert config.epochs == 40


def test_steps_are_timed_without_reading_an_image(photos: Path) -> None:
    from josrc.runs.start import plan

    for options in ({"train": "head"}, {"model": "cnn7"}):
        config, source = plan(str(photos), device="cpu", **options)
        assert source is not None
        method = create_method(config, spec_for(source, config.model), source.closed)
        before, per_sample = pace.time_steps(config, source, method)
        assert (before > 0) == ("train" in options)
        assert 0 < per_sample < 5
