"""Jo-SRC against a transcription of the paper in plain loops and float64."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from batches import batch_of
from josrc.data.loaders import Batch
from josrc.methods.base import StepResult
from josrc.methods.josrc import JoSRC, JoSRCSettings

CLEAN, ID, OOD = 0, 1, 2
# The default: so much divergence of an OOD sample is rewarded.
CAP = 1.0
UNCAPPED = {"ood_divergence_cap": None}
Array = np.ndarray


# --- the paper, sample by sample -----------------------------------------------------------------


def softmax(z: Array) -> Array:
    e = np.exp(z - z.max())
    return e / e.sum()


def kl(p: Array, q: Array, base: float) -> float:
    return sum(a * math.log(a / b, base) for a, b in zip(p, q, strict=True) if a > 0)


@dataclass
class Expected:
    group: list[int]
    likelihood: list[float]
    classification: float
    consistency: float
    total: float


def paper_step(
    first: Array,
    second: Array,
    taught: Array,
    labels: list[int],
    *,
    tau: float,
    alpha: float = 0.5,
    variant: str = "full",
    warm: bool = False,
    epsilon: float = 0.6,
    scale: float = 10.0,
    base: float = 2.0,
    floor: float = 0.0,
    cap: float = math.inf,
) -> Expected:
    """One iteration of Algorithm 1 from the logits of two views and the teacher's prediction."""
    classes = first.shape[1]
    groups, likelihoods, losses, divergences = [], [], [], []
    for z, z2, t, label in zip(first, second, taught, labels, strict=True):
        p, p2 = softmax(z), softmax(z2)
        y = np.full(classes, epsilon / (classes - 1))
        y[label] = 1 - epsilon
        middle = (p + y) / 2
        likelihood = 1 - (kl(p, middle, 2) + kl(y, middle, 2)) / 2
        if likelihood >= tau:
            group, target = CLEAN, y
        elif p.argmax() == p2.argmax():
            group, target = ID, t
        else:
            group, target = OOD, softmax(t / scale)
        groups.append(group)
        likelihoods.append(likelihood)
        losses.append(-sum(target * np.log(p)) - sum(target * np.log(p2)))
        p, p2 = np.maximum(p, floor), np.maximum(p2, floor)
        divergence = kl(p, p2, base) + kl(p2, p, base)
        divergences.append(-min(divergence, cap) if group == OOD else divergence)
    allowed = {"c": [CLEAN], "ci": [CLEAN, ID]}.get(variant, [CLEAN, ID, OOD])
    allowed = [CLEAN] if warm else allowed
    used = [loss for loss, group in zip(losses, groups, strict=True) if group in allowed]
    classification, consistency = float(np.mean(used)), float(np.mean(divergences))
    weight = alpha if variant == "full" and not warm else 0.0
    total = (1 - weight) * classification + weight * consistency
    return Expected(groups, likelihoods, classification, consistency, total)


# --- a batch by hand -----------------------------------------------------------------------------

# View 1, view 2, label, and the group at a threshold of 0.85 with labels smoothed to 0.4 and 0.2.
SAMPLES = [
    ([0.4, 0.2, 0.2, 0.2], [0.5, 0.2, 0.2, 0.1], 0, CLEAN),
    ([0.3, 0.35, 0.2, 0.15], [0.4, 0.2, 0.2, 0.2], 1, CLEAN),  # the views disagree, yet clean
    ([0.05, 0.05, 0.85, 0.05], [0.1, 0.1, 0.7, 0.1], 0, ID),
    ([0.97, 0.01, 0.01, 0.01], [0.9, 0.04, 0.03, 0.03], 0, ID),  # right, but over-confident
    ([0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], 0, OOD),
    ([0.04, 0.06, 0.1, 0.8], [0.6, 0.1, 0.1, 0.2], 2, OOD),
]
TAU = 0.85
NEVER = 1.1  # no likelihood reaches it
FIRST, SECOND = (np.log([sample[view] for sample in SAMPLES]) for view in (0, 1))
LABELS = [sample[2] for sample in SAMPLES]
GROUPS = [sample[3] for sample in SAMPLES]

TEACHER_WEIGHT = np.diag([0.5, 0.8, 1.2, 0.7]) + 0.1
TEACHER_BIAS = np.array([0.3, 0.0, -0.2, 0.1])


def teach(view: Array) -> Array:
    return np.stack([softmax(row) for row in view @ TEACHER_WEIGHT.T + TEACHER_BIAS])


TAUGHT = (teach(FIRST) + teach(SECOND)) / 2


def make_batch(first: Array, second: Array, labels: list[int]) -> Batch:
    images = torch.tensor(np.concatenate([first, second]), dtype=torch.float32)
    return batch_of(images, torch.tensor(labels))


def make_method(**settings: Any) -> JoSRC:
    """The student hands its input on as logits; the teacher is another linear map."""
    method = JoSRC(JoSRCSettings(**settings), lambda: nn.Linear(4, 4))
    with torch.no_grad():
        method.network.weight.copy_(torch.eye(4))
        method.network.bias.zero_()
        method.mean_teacher.weight.copy_(torch.tensor(TEACHER_WEIGHT))
        method.mean_teacher.bias.copy_(torch.tensor(TEACHER_BIAS))
    return method


def scalars(method: JoSRC, tau: float, warm: bool = False) -> dict[str, Tensor]:
    """What the schedule gives in or after the warm-up, with a threshold of our own."""
    values = method.schedule(0 if warm else 199, 200) | {"threshold": tau}
    return {key: torch.tensor(value) for key, value in values.items()}


def step(method: JoSRC, *, tau: float = TAU, warm: bool = False) -> StepResult:
    return method.step(make_batch(FIRST, SECOND, LABELS), scalars(method, tau, warm))


@pytest.mark.parametrize("settings", [{}, UNCAPPED], ids=["capped", "uncapped"])
@pytest.mark.parametrize("warm", [True, False], ids=["in warm-up", "after warm-up"])
@pytest.mark.parametrize("variant", ["c", "ci", "cio", "full"])
def test_a_step_is_that_of_the_paper(variant: str, warm: bool, settings: dict[str, Any]) -> None:
    cap = CAP if not settings else math.inf
    expected = paper_step(
        FIRST, SECOND, TAUGHT, LABELS, tau=TAU, variant=variant, warm=warm, cap=cap
    )
    result = step(make_method(variant=variant, **settings), warm=warm)
    assert expected.group == GROUPS
    assert result.group is not None
    assert result.clean_likelihood is not None
    assert result.group.tolist() == GROUPS
    np.testing.assert_allclose(result.clean_likelihood, expected.likelihood, atol=1e-6)
    assert result.loss.item() == pytest.approx(expected.total, rel=1e-5)


def test_the_findings_are_those_of_view_1_and_of_the_teacher() -> None:
    result = step(make_method())
    p = np.exp(FIRST)
    np.testing.assert_array_equal(result.prediction, p.argmax(axis=1))
    everyone = (p + np.exp(SECOND)) / 4 + TAUGHT / 2
    np.testing.assert_allclose(result.mean_probabilities, everyone, rtol=1e-5)
    assert not result.mean_probabilities.requires_grad
    np.testing.assert_allclose(result.label_probability, p[range(6), LABELS], rtol=1e-5)
    np.testing.assert_allclose(result.sample_loss, -FIRST[range(6), LABELS], rtol=1e-5)
    assert result.agreement is not None
    assert result.second_prediction is not None
    assert result.agreement.tolist() == [1, 0, 1, 1, 0, 0]
    np.testing.assert_array_equal(result.second_prediction, TAUGHT.argmax(axis=1))
    assert result.second_label_probability is not None
    np.testing.assert_allclose(result.second_label_probability, TAUGHT[range(6), LABELS], rtol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"alpha": 0.0},
        {"alpha": 1.0},
        {"smoothing": 0.3},
        {"ood_scale": 1.0},
        {"consistency_base": math.e},
        {"ood_divergence_cap": 1.5},
        {"ood_divergence_cap": None},
    ],
    ids=str,
)
def test_a_random_batch_follows_the_settings(settings: dict[str, Any]) -> None:
    generator = np.random.default_rng(0)
    first = generator.normal(size=(60, 4)) * 2
    second = first + generator.normal(size=(60, 4)) * 3
    labels = generator.integers(0, 4, 60).tolist()
    taught = (teach(first) + teach(second)) / 2
    spelling = {
        "alpha": "alpha",
        "smoothing": "epsilon",
        "ood_scale": "scale",
        "consistency_base": "base",
        "ood_divergence_cap": "cap",
    }
    chosen = {"cap": CAP, "floor": 1e-7} | {spelling[key]: value for key, value in settings.items()}
    chosen["cap"] = math.inf if chosen["cap"] is None else chosen["cap"]
    expected = paper_step(first, second, taught, labels, tau=0.8, **chosen)
    default = paper_step(first, second, taught, labels, tau=0.8, cap=CAP, floor=1e-7)
    assert set(expected.group) == {CLEAN, ID, OOD}
    assert not settings or expected.total != pytest.approx(default.total, rel=1e-3)

    method = make_method(**settings)
    result = method.step(make_batch(first, second, labels), scalars(method, 0.8))
    assert result.group is not None
    assert result.group.tolist() == expected.group
    assert result.loss.item() == pytest.approx(expected.total, rel=1e-4)


# --- where paper and code differ -----------------------------------------------------------------


def test_a_sample_at_the_threshold_is_clean() -> None:
    # Disjoint from its unsmoothed label: a likelihood of exactly 0, the first epoch's threshold.
    wrong = np.array([[-500.0, 500.0, -500.0, -500.0]] * 2)
    method = make_method(smoothing=0.0)
    result = method.step(make_batch(wrong, wrong, [0, 0]), scalars(method, 0.0, warm=True))
    assert result.clean_likelihood is not None
    assert result.group is not None
    assert result.clean_likelihood.tolist() == [0, 0]
    assert result.group.tolist() == [CLEAN, CLEAN]


@pytest.mark.parametrize("views", ["first", "both"])
def test_the_teacher_sees_the_first_view_or_both(views: str) -> None:
    taught = teach(FIRST) if views == "first" else (teach(FIRST) + teach(SECOND)) / 2
    other = teach(FIRST) if views == "both" else (teach(FIRST) + teach(SECOND)) / 2
    expected = paper_step(FIRST, SECOND, taught, LABELS, tau=TAU, cap=CAP)
    wrong = paper_step(FIRST, SECOND, other, LABELS, tau=TAU, cap=CAP)
    loss = step(make_method(teacher_views=views)).loss.item()
    assert loss == pytest.approx(expected.total, rel=1e-5)
    assert loss != pytest.approx(wrong.total, rel=1e-3)


def normalised(values: Array) -> Array:
    return (values - values.mean(axis=0)) / np.sqrt(values.var(axis=0) + 1e-5)


def seen_by_batch_norm(joint: bool) -> tuple[Array, Array]:
    if not joint:
        return normalised(FIRST), normalised(SECOND)
    both = normalised(np.concatenate([FIRST, SECOND]))
    return both[:6], both[6:]


def mean_prediction(first: Array, second: Array) -> Array:
    return np.stack([(softmax(a) + softmax(b)) / 2 for a, b in zip(first, second, strict=True)])


# A threshold at which the batch-normalised samples fall into all three groups.
NORMALISED_TAU = 0.9


def normalising_method(**settings: Any) -> JoSRC:
    return JoSRC(JoSRCSettings(**settings), lambda: nn.BatchNorm1d(4))


def test_batch_statistics_are_those_of_both_views_or_of_each() -> None:
    losses = []
    for joint in (True, False):
        first, second = seen_by_batch_norm(joint)
        taught = mean_prediction(first, second)
        expected = paper_step(first, second, taught, LABELS, tau=NORMALISED_TAU, cap=CAP)
        assert set(expected.group) == {CLEAN, ID, OOD}
        result = step(normalising_method(joint_forward=joint), tau=NORMALISED_TAU)
        assert result.loss.item() == pytest.approx(expected.total, rel=1e-4)
        losses.append(expected.total)
    assert losses[0] != pytest.approx(losses[1], rel=1e-3)


def test_the_teacher_uses_batch_statistics_or_running_ones() -> None:
    first, second = seen_by_batch_norm(joint=True)
    # Running statistics before the first update: mean 0, variance 1.
    running = mean_prediction(FIRST / math.sqrt(1 + 1e-5), SECOND / math.sqrt(1 + 1e-5))
    losses = []
    for mode, taught in (("train", mean_prediction(first, second)), ("eval", running)):
        expected = paper_step(first, second, taught, LABELS, tau=NORMALISED_TAU, cap=CAP)
        result = step(normalising_method(teacher_mode=mode), tau=NORMALISED_TAU)
        assert result.loss.item() == pytest.approx(expected.total, rel=1e-4)
        losses.append(expected.total)
    assert losses[0] != pytest.approx(losses[1], rel=1e-3)


def test_the_teacher_in_eval_mode_takes_over_the_running_statistics_of_the_student() -> None:
    method = normalising_method(teacher_mode="eval")
    step(method, tau=NORMALISED_TAU)
    assert method.mean_teacher.running_mean.tolist() == [0] * 4
    method.after_update()
    # Batch norm moves its running mean by a tenth; the batch is both views.
    expected = 0.1 * np.concatenate([FIRST, SECOND]).mean(axis=0)
    np.testing.assert_allclose(method.mean_teacher.running_mean, expected, rtol=1e-5)


def test_the_teacher_in_eval_mode_may_have_no_running_statistics() -> None:
    method = make_method(teacher_mode="eval", teacher_decay=0.0)
    method.after_update()
    assert torch.equal(method.mean_teacher.weight, method.network.weight)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_the_teacher_keeps_its_mode_when_training_goes_on_after_a_test(mode: str) -> None:
    method = normalising_method(teacher_mode=mode)
    method.eval()
    assert not method.mean_teacher.training
    method.train()
    assert method.network.training
    assert method.mean_teacher.training == (mode == "train")


# --- guards --------------------------------------------------------------------------------------


def gradients(method: JoSRC, result: StepResult) -> Tensor:
    result.loss.backward()
    return torch.cat([p.grad.flatten() for p in method.network.parameters() if p.grad is not None])


@pytest.mark.parametrize("variant", ["c", "full"])
def test_a_batch_without_clean_samples_teaches_nothing_in_the_warm_up(variant: str) -> None:
    method = make_method(variant=variant)
    result = step(method, tau=NEVER, warm=True)
    assert result.loss.item() == 0
    assert gradients(method, result).tolist() == [0] * 20


def opposite_views(size: float) -> Batch:
    """Two OOD samples whose views are ever surer of different, wrong classes."""
    first = size * np.array([[0.0, 1, 0, 0], [0, 1, 0, 0]])
    second = size * np.array([[0.0, 0, 1, 0], [0, 0, 1, 0]])
    return make_batch(first, second, [0, 3])


def opposite_loss(size: float, **settings: Any) -> tuple[float, bool]:
    """Loss, and whether its gradients are finite; the consistency term alone."""
    method = make_method(alpha=1.0, **settings)
    result = method.step(opposite_views(size), scalars(method, TAU))
    assert result.group is not None
    assert result.group.tolist() == [OOD, OOD]
    return result.loss.item(), bool(gradients(method, result).isfinite().all())


def test_with_the_cap_the_disagreement_of_ood_samples_is_rewarded_up_to_it() -> None:
    for size in (5.0, 50.0, 5000.0):
        assert opposite_loss(size) == (-CAP, True)


def test_without_the_cap_diverging_logits_are_rewarded_ever_more() -> None:
    for size in (5.0, 10.0, 15.0):
        p = softmax(np.array([0, size, 0, 0]))
        by_hand = -2 * (p[1] - p[2]) * size / math.log(2)
        assert opposite_loss(size, **UNCAPPED)[0] == pytest.approx(by_hand, rel=1e-5)
    # The bounded logarithm alone holds it at two times log2(1e7).
    for size in (40.0, 5000.0):
        bounded, finite = opposite_loss(size, **UNCAPPED)
        assert bounded == pytest.approx(-2 * math.log2(1e7), rel=1e-4)
        assert finite


def test_the_cap_leaves_the_divergence_of_agreeing_samples_alone() -> None:
    first = np.array([[0.0, 12, 0, 0], [0, 12, 0, 0]])
    second = np.array([[0.0, 1, 0, 0], [0, 1, 0, 0]])
    p, q = softmax(first[0]), softmax(second[0])
    divergence = kl(p, q, 2) + kl(q, p, 2)
    assert divergence > 4
    method = make_method(alpha=1.0)
    result = method.step(make_batch(first, second, [0, 3]), scalars(method, TAU))
    assert result.loss.item() == pytest.approx(divergence, rel=1e-4)


def test_underflowing_probabilities_do_no_harm() -> None:
    sure = 500 * np.array([[0.0, 1, 0, 0], [0, 1, 0, 0]])
    method = make_method()
    result = method.step(make_batch(sure, sure, [0, 3]), scalars(method, TAU))
    assert result.loss.isfinite().item()
    assert gradients(method, result).isfinite().all().item()


def test_the_warm_up_loss_does_not_depend_on_the_consistency_term() -> None:
    first = np.array([[2.0, 0, 0, 0], [0.0, 500, 0, 0]])
    method = make_method(**UNCAPPED)
    result = method.step(make_batch(first, first, [0, 3]), scalars(method, TAU, warm=True))
    expected = paper_step(first[:1], first[:1], teach(first[:1]), [0], tau=TAU, warm=True)
    assert result.loss.item() == pytest.approx(expected.total, rel=1e-5)


# --- gradients -----------------------------------------------------------------------------------


def test_the_gradient_flows_through_both_views_and_through_no_target() -> None:
    method = make_method(variant="cio")
    batch = make_batch(FIRST, SECOND, LABELS)
    batch.images.requires_grad_()
    method.step(batch, scalars(method, TAU)).loss.backward()
    # The student hands its input on, so this is the gradient by the logits: p minus the target.
    expected = np.zeros((2, 6, 4))
    for i, (t, label, group) in enumerate(zip(TAUGHT, LABELS, GROUPS, strict=True)):
        smoothed = np.full(4, 0.2)
        smoothed[label] = 0.4
        target = {CLEAN: smoothed, ID: t, OOD: softmax(t / 10)}[group]
        expected[0, i] = (softmax(FIRST[i]) - target) / 6
        expected[1, i] = (softmax(SECOND[i]) - target) / 6
    assert batch.images.grad is not None
    np.testing.assert_allclose(batch.images.grad, expected.reshape(12, 4), atol=1e-6)


def test_the_teacher_receives_no_gradient_and_findings_carry_none() -> None:
    method = make_method()
    result = step(method)
    result.loss.backward()
    assert all(not p.requires_grad and p.grad is None for p in method.mean_teacher.parameters())
    findings = {key: value for key, value in vars(result).items() if key != "loss"}
    assert all(value is None or not value.requires_grad for value in findings.values())


@pytest.mark.parametrize("warm", [True, False])
def test_only_clean_samples_train_in_the_warm_up(warm: bool) -> None:
    method = make_method()
    batch = make_batch(FIRST, SECOND, LABELS)
    batch.images.requires_grad_()
    method.step(batch, scalars(method, TAU, warm)).loss.backward()
    assert batch.images.grad is not None
    trained = batch.images.grad.abs().sum(dim=1) > 0
    assert trained.tolist() == [group == CLEAN or not warm for group in GROUPS] * 2


# --- mean teacher, Eq. 8 -------------------------------------------------------------------------


def test_the_teacher_begins_as_the_student() -> None:
    method = JoSRC(JoSRCSettings(), lambda: nn.Linear(4, 4))
    assert torch.equal(method.mean_teacher.weight, method.network.weight)
    assert method.mean_teacher.weight is not method.network.weight


@pytest.mark.parametrize(
    ("decay", "after"), [(0.9, [1.2, 1.38]), (0.99, [1.02, 1.0398]), (0.0, [3, 3]), (1.0, [1, 1])]
)
def test_the_teacher_moves_towards_the_student(decay: float, after: list[float]) -> None:
    method = make_method(teacher_decay=decay)
    for network, value in ((method.mean_teacher, 1.0), (method.network, 3.0)):
        for parameter in network.parameters():
            parameter.detach().fill_(value)
    for expected in after:
        method.after_update()
        for parameter in method.mean_teacher.parameters():
            np.testing.assert_allclose(parameter, expected, rtol=1e-6)
        assert all((parameter == 3).all() for parameter in method.network.parameters())


def test_student_and_teacher_are_both_tested_the_student_first() -> None:
    method = make_method()
    assert method.tested == [method.network]
    assert method.teacher is method.mean_teacher


# --- schedule ------------------------------------------------------------------------------------


def plan(epochs: int, **settings: Any) -> list[dict[str, float]]:
    method = make_method(**settings)
    return [method.schedule(epoch, epochs) for epoch in range(epochs)]


@pytest.mark.parametrize(
    ("first_epoch", "thresholds", "warm_epochs"),
    [
        # zero-based epochs 0, 9, 10 and 199 of the published code
        (0, [0, 0.675, 0.75, 0.75 + 0.2 * 189 / 190], 10),
        # t = 1, 10, 11 and 200 of the paper, with the full loss from t = t_w on
        (1, [0.075, 0.75, 0.75 + 0.2 / 190, 0.95], 9),
    ],
)
def test_the_schedule_of_a_whole_run(
    first_epoch: int, thresholds: list[float], warm_epochs: int
) -> None:
    values = plan(200, first_epoch=first_epoch)
    assert [values[e]["threshold"] for e in (0, 9, 10, 199)] == pytest.approx(thresholds)
    assert [v["alpha"] for v in values] == [0] * warm_epochs + [0.5] * (200 - warm_epochs)
    assert [v["relabel"] for v in values] == [0] * warm_epochs + [1] * (200 - warm_epochs)
    rising = [v["threshold"] for v in values]
    assert rising == sorted(rising)


@pytest.mark.parametrize("variant", ["c", "ci", "cio"])
def test_only_the_full_variant_weighs_consistency(variant: str) -> None:
    assert {v["alpha"] for v in plan(20, variant=variant)} == {0}


@pytest.mark.parametrize("first_epoch", [0, 1])
@pytest.mark.parametrize("warm_up", [0, 1, 3, 10])
@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_short_runs_have_a_schedule(epochs: int, warm_up: int, first_epoch: int) -> None:
    values = plan(epochs, warm_up=warm_up, first_epoch=first_epoch)
    assert all(0 <= v["threshold"] <= 0.95 for v in values)
    warm = [v["relabel"] == 0 for v in values]
    assert warm == [epoch + first_epoch < warm_up for epoch in range(epochs)]
