"""Images of no class among the accused."""

from __future__ import annotations

import numpy as np
import pytest

from josrc.verdicts.calibration import Looks
from josrc.verdicts.foreign import foreign_evidence


@pytest.mark.parametrize("by_score", [False, True])
def test_images_are_foreign_only_if_they_are_far_more_doubtful_than_planted_errors(
    by_score: bool,
) -> None:
    generator = np.random.default_rng(3)
    planted, at_home = generator.normal(0, 1, 300), generator.normal(0, 1, 2000)
    scores = [generator.normal(0, 1, count) for count in (300, 2000, 1000)]
    known, accused = Looks(scores[0], planted), Looks(scores[1], at_home)
    alike = foreign_evidence(known, accused, 0.1, by_score=by_score)
    assert alike is not None
    assert (alike.at(at_home) >= 0.5).mean() < 0.12
    foreign = generator.normal(4, 0.5, 1000)
    both = Looks(np.concatenate(scores[1:]), np.concatenate([at_home, foreign]))
    some = foreign_evidence(known, both, 0.15, by_score=by_score)
    assert some is not None
    assert (some.at(foreign) >= 0.5).mean() > 0.9
    assert (some.at(at_home) >= 0.5).mean() < 0.15
    few = known.part(np.arange(20))
    assert foreign_evidence(few, accused, 0.1, by_score=by_score) is None


def test_doubt_that_comes_with_the_score_is_no_evidence_of_foreign_images() -> None:
    generator = np.random.default_rng(5)
    # The accused look less wrong than planted errors, and labels that do are of doubtful images.
    planted_scores, scores = generator.normal(0, 1, 400), generator.normal(1, 0.7, 3000)
    planted = Looks(planted_scores, planted_scores + generator.normal(0, 0.3, 400))
    accused = Looks(scores, scores + generator.normal(0, 0.3, 3000))
    found = foreign_evidence(planted, accused, 0.2, by_score=True)
    assert found is not None
    assert (found.at(accused.doubt) >= 0.5).mean() < 0.1


def test_accused_that_are_less_doubtful_than_planted_errors_are_not_foreign() -> None:
    generator = np.random.default_rng(6)
    planted, accused = generator.normal(1, 1, 200), generator.normal(0, 1, 500)
    alike = Looks(planted, planted), Looks(planted[:1].repeat(500), accused)
    found = foreign_evidence(*alike, 0.1, by_score=True)
    assert found is not None
    assert (found.at(accused) >= 0.5).mean() < 0.05
