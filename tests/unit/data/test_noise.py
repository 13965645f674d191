import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from josrc.config import DataConfig, DataKind
from josrc.data.images import ArrayImages
from josrc.data.noise import draw_by_image, draw_labels, groups_of, transition_matrix
from josrc.data.prepare import prepare_source
from josrc.data.registry import describe_data, open_source
from josrc.data.source import with_noise
from josrc.errors import UserError
from josrc.runs.start import configure, plan

KINDS = ["symmetric", "asymmetric", "block", "superclass"]
# Seven closed classes in superclasses of three, three and one, then two open classes:
# one of a known superclass, one of its own.
FAMILIES = [0, 1, 0, 1, 2, 0, 1, 2, 3]


def matrix_by_hand(flips: dict[int, dict[int, float]], classes: int, closed: int) -> np.ndarray:
    """A matrix from its non-zero closed entries; open rows are spread over the closed classes."""
    matrix = np.zeros((classes, classes))
    for row, entries in flips.items():
        for column, value in entries.items():
            matrix[row, column] = value
    for row in range(closed, classes):
        for column in range(closed):
            matrix[row, column] = 1 / closed
    return matrix


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.45, 0.8, 1.0])
def test_every_row_is_a_distribution_over_the_closed_classes(kind, rate):
    matrix = transition_matrix(kind, rate, 9, 7, FAMILIES)
    assert matrix.shape == (9, 9)
    assert (matrix >= 0).all()
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert not matrix[:, 7:].any()


def test_symmetric_noise_spreads_the_rate_over_the_other_classes():
    expected = [
        [0.7, 0.1, 0.1, 0.1, 0],
        [0.1, 0.7, 0.1, 0.1, 0],
        [0.1, 0.1, 0.7, 0.1, 0],
        [0.1, 0.1, 0.1, 0.7, 0],
        [0.25, 0.25, 0.25, 0.25, 0],
    ]
    np.testing.assert_allclose(transition_matrix("symmetric", 0.3, 5, 4), expected)


def test_asymmetric_noise_flips_each_class_to_the_next_closed_one_and_the_last_to_the_first():
    expected = [[0.6, 0.4, 0, 0], [0, 0.6, 0.4, 0], [0.4, 0, 0.6, 0], [1 / 3, 1 / 3, 1 / 3, 0]]
    np.testing.assert_allclose(transition_matrix("asymmetric", 0.4, 4, 3), expected)


def test_block_noise_stays_inside_blocks_of_five_and_the_last_block_may_be_shorter():
    flips = {c: {c: 0.6, after: 0.4} for c, after in enumerate([1, 2, 3, 4, 0, 6, 5])}
    expected = matrix_by_hand(flips, classes=9, closed=7)
    np.testing.assert_allclose(transition_matrix("block", 0.4, 9, 7), expected)


def test_a_class_alone_in_its_block_stays_clean():
    assert transition_matrix("block", 0.4, 6, 6)[5, 5] == pytest.approx(1)


def test_superclass_noise_stays_among_the_closed_members_and_a_lone_member_stays_clean():
    following = {0: 2, 2: 5, 5: 0, 1: 3, 3: 6, 6: 1}
    flips = {here: {here: 0.6, there: 0.4} for here, there in following.items()} | {4: {4: 1.0}}
    expected = matrix_by_hand(flips, classes=9, closed=7)
    np.testing.assert_allclose(transition_matrix("superclass", 0.4, 9, 7, FAMILIES), expected)


@pytest.mark.parametrize("kind", [*KINDS, "none"])
def test_without_a_rate_only_the_open_classes_are_relabelled(kind):
    expected = matrix_by_hand({c: {c: 1.0} for c in range(7)}, classes=9, closed=7)
    np.testing.assert_array_equal(transition_matrix(kind, 0.0, 9, 7, FAMILIES), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_rate_of_one_leaves_no_right_label_where_there_is_another_one_to_take(kind):
    diagonal = np.diag(transition_matrix(kind, 1.0, 9, 7, FAMILIES))
    alone = {4} if kind == "superclass" else set()
    assert set(np.flatnonzero(diagonal)) == alone


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_of_a_single_class_stays_clean(kind):
    np.testing.assert_allclose(transition_matrix(kind, 0.5, 2, 1, [0, 0]), [[1.0, 0.0], [1.0, 0.0]])


# --- the draw ------------------------------------------------------------------------------------


def reference_matrix(kind: str, rate: float, classes: int, closed: int) -> np.ndarray:
    matrix = np.zeros((classes, classes))
    for row in range(classes):
        for column in range(closed):
            if row >= closed:
                matrix[row, column] = 1.0 / closed
            elif row == column:
                matrix[row, column] = 1.0 - rate
            elif kind == "symmetric":
                matrix[row, column] = rate / (closed - 1)
            elif kind == "asymmetric" and column == (row + 1) % closed:
                matrix[row, column] = rate
            elif kind == "block" and row // 5 == column // 5:
                last = min(row // 5 * 5 + 4, closed - 1)
                after = row // 5 * 5 if row == last else row + 1
                matrix[row, column] = rate if column == after else 0.0
    return matrix


def reference_draw(true: np.ndarray, matrix: np.ndarray, seed: int) -> np.ndarray:
    stream = np.random.RandomState(seed)
    given = []
    for label in true:
        counts = stream.multinomial(1, matrix[label], 1)[0]
        given.append(np.where(counts == 1)[0][0])
    return np.array(given)


def shuffled_classes(count: int, classes: int) -> np.ndarray:
    return np.random.default_rng(7).permutation(np.arange(count) % classes)


@pytest.mark.parametrize(("kind", "rate"), [("symmetric", 0.2), ("symmetric", 0.8),
                                            ("asymmetric", 0.4), ("block", 0.4)])  # fmt: skip
@pytest.mark.parametrize(("classes", "closed"), [(100, 80), (100, 100), (10, 8)])
def test_the_draw_is_one_multinomial_a_sample_in_data_order(kind, rate, classes, closed):
    true = shuffled_classes(3000, classes)
    given = draw_labels(true, transition_matrix(kind, rate, classes, closed), seed=3)
    expected = reference_draw(true, reference_matrix(kind, rate, classes, closed), seed=3)
    np.testing.assert_array_equal(given, expected)
    assert given.dtype == np.int64
    assert given.max() < closed


@pytest.mark.parametrize(("kind", "rate"), [("symmetric", 0.2), ("asymmetric", 0.4)])
def test_leaving_out_the_empty_columns_of_open_classes_would_draw_other_labels(kind, rate):
    true = shuffled_classes(2000, 100)
    full = transition_matrix(kind, rate, 100, 80)
    narrow = reference_draw(true, full[:, :80], seed=0)
    # Not all labels change: the two streams fall in step again from time to time.
    assert (draw_labels(true, full, seed=0) != narrow).mean() > 0.01


def test_the_first_samples_get_the_same_labels_however_many_follow():
    true = shuffled_classes(600, 10)
    matrix = transition_matrix("symmetric", 0.5, 10, 8)
    np.testing.assert_array_equal(draw_labels(true[:300], matrix), draw_labels(true, matrix)[:300])


def test_the_draw_neither_reads_nor_moves_numpys_global_generator():
    true, matrix = shuffled_classes(200, 10), transition_matrix("symmetric", 0.5, 10, 8)
    np.random.seed(1)
    first, after = draw_labels(true, matrix), np.random.random()
    np.random.seed(1)
    assert np.random.random() == after
    np.testing.assert_array_equal(draw_labels(true, matrix), first)


def test_runs_with_other_seeds_share_their_noise():
    given = []
    for seed in (0, 1):
        user = {"seed": seed, "data": {"noise": "symmetric", "rate": 0.5}}
        given.append(open_source(configure("digits-o", layers=[user]).data).given)
    np.testing.assert_array_equal(*given)


def test_another_noise_seed_gives_other_labels(make_source):
    source = make_source(count=300)
    given = [
        with_noise(
            source,
            DataConfig(name="x", kind=DataKind.BUILTIN, noise="symmetric", rate=0.5, noise_seed=s),
        ).given
        for s in (0, 0, 1)
    ]
    np.testing.assert_array_equal(given[0], given[1])
    assert (given[0] != given[2]).any()


@pytest.mark.parametrize(("kind", "rate"), [("symmetric", 0.2), ("asymmetric", 0.4)])
def test_the_realised_rate_of_a_cifar_sized_draw_is_the_requested_one(kind, rate):
    true = np.arange(50_000) % 100
    given = draw_labels(true, transition_matrix(kind, rate, 100, 100))
    three_sigma = 3 * math.sqrt(rate * (1 - rate) / len(true))
    assert (given != true).mean() == pytest.approx(rate, abs=three_sigma)


def test_open_classes_are_spread_evenly_over_the_closed_ones():
    true = np.full(8000, 9)
    counts = np.bincount(draw_labels(true, transition_matrix("none", 0, 10, 8)), minlength=10)
    three_sigma = 3 * math.sqrt(8000 * 1 / 8 * 7 / 8)
    assert counts[:8] == pytest.approx(1000, abs=three_sigma)
    assert not counts[8:].any()


# --- noise by image -------------------------------------------------------------------------------


def images(count: int, side: int = 8, seed: int = 0) -> ArrayImages:
    generator = np.random.default_rng(seed)
    return ArrayImages(generator.integers(0, 256, (count, side, side, 3), dtype=np.uint8))


def reference_by_image(pixels, true, rate, closed, seed):
    """Sample by sample, as the published code goes about it; flip rates are cut off on one side."""
    stream = np.random.RandomState(seed)
    rates = [rate + 0.1 * float(ndtri(ndtr(-rate / 0.1) + u * (1 - 2 * ndtr(-rate / 0.1))))
             for u in stream.random_sample(len(true))]  # fmt: skip
    matrices = stream.randn(closed, pixels[0].size, closed)
    chances = []
    for image, label, flip in zip(pixels, true, rates, strict=True):
        scores = np.transpose(image, (2, 0, 1)).reshape(1, -1).astype(float) @ matrices[label]
        scores = scores[0]
        scores[label] = -np.inf
        row = np.exp(scores - scores.max())
        row = flip * row / row.sum()
        row[label] += 1 - flip
        chances.append(row)
    return [stream.choice(closed, p=row) for row in chances]


def test_noise_by_image_is_that_of_the_published_code():
    true, some = shuffled_classes(400, 5), images(400)
    given = draw_by_image(some, true, 0.3, 5, seed=2)
    np.testing.assert_array_equal(given, reference_by_image(some.pixels, true, 0.3, 5, seed=2))
    assert given.dtype == np.int64


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.2, 0.4, 0.9, 1.0])
def test_the_mean_flip_rate_of_noise_by_image_is_the_rate(rate):
    true = shuffled_classes(20_000, 10)
    given = draw_by_image(images(20_000, side=4), true, rate, 10)
    three_sigma = 3 * math.sqrt(rate * (1 - rate) / len(true))
    assert (given != true).mean() == pytest.approx(rate, abs=three_sigma)


def test_noise_by_image_depends_on_seed_and_pixels_alone():
    true, some = shuffled_classes(600, 5), images(600)
    np.random.seed(1)
    first = draw_by_image(some, true, 0.4, 5)
    np.random.seed(2)
    np.testing.assert_array_equal(draw_by_image(some, true, 0.4, 5), first)
    assert (draw_by_image(some, true, 0.4, 5, seed=1) != first).any()
    other = draw_by_image(images(600, seed=1), true, 0.4, 5)
    wrong = (first != true) & (other != true)
    assert (other != first)[wrong].mean() > 0.2


def test_copies_of_an_image_flip_to_one_class_and_other_images_to_others():
    pixels = np.repeat(images(40).pixels, 50, axis=0)
    given = draw_by_image(ArrayImages(pixels), np.zeros(2000, dtype=np.int64), 0.5, 5)
    flips = [set(group[group != 0].tolist()) for group in given.reshape(40, 50)]
    assert {len(group) for group in flips} == {1}
    assert len(set.union(*flips)) > 1


@pytest.mark.parametrize("side", [33, 70])
def test_of_larger_images_every_so_many_th_pixel_counts(side):
    true, some = shuffled_classes(100, 3), images(100, side)
    step = 2 if side == 33 else 3
    fewer = ArrayImages(some.pixels[:, ::step, ::step])
    np.testing.assert_array_equal(
        draw_by_image(some, true, 0.5, 3), draw_by_image(fewer, true, 0.5, 3)
    )


def test_noise_by_image_gives_open_classes_any_label_and_a_lone_class_stays_clean():
    true = np.arange(9000) % 3
    given = draw_by_image(images(9000, side=2), true, 0.0, 2)
    np.testing.assert_array_equal(given[true < 2], true[true < 2])
    three_sigma = 3 * math.sqrt(0.25 / 3000)
    assert given[true == 2].mean() == pytest.approx(0.5, abs=three_sigma)
    assert not draw_by_image(images(20), np.arange(20) % 2, 0.5, 1).any()


def test_noise_by_image_is_a_kind_of_noise():
    source = open_source(describe_data("digits-o", noise="instance", rate=0.3))
    closed = source.true < 8
    assert (source.kind == 1)[closed].mean() == pytest.approx(0.3, abs=0.05)
    again = open_source(describe_data("digits-o", noise="instance", rate=0.3))
    np.testing.assert_array_equal(again.given, source.given)


def test_noise_by_image_needs_images_in_memory(pictures):
    settings = {"inject": "instance:0.3"}
    run, opened = plan(str(pictures), model="cnn7", workers=0, **settings)
    source = prepare_source(opened, run, free_memory=2**40)
    assert 0.1 < (source.given != source.true).mean() < 0.5
    with pytest.raises(UserError, match=r"needs the pixels.*data\.resident=true"):
        prepare_source(opened, run, free_memory=0)


# --- kinds and mistakes --------------------------------------------------------------------------


def test_a_sample_is_clean_or_noisy_or_of_an_open_class():
    true, given = np.array([0, 1, 2, 3, 4]), np.array([0, 2, 2, 2, 0])
    kind = groups_of(given, true, closed=3)
    np.testing.assert_array_equal(kind, [0, 1, 0, 2, 2])
    assert kind.dtype == np.int8


@pytest.mark.parametrize("kind", [*KINDS, "none"])
@pytest.mark.parametrize("rate", [-0.01, 1.01, math.nan, math.inf])
def test_a_rate_that_is_no_share_is_refused(kind, rate):
    with pytest.raises(UserError, match=f"between 0 and 1.*{rate}"):
        transition_matrix(kind, rate, 9, 7, FAMILIES)


@pytest.mark.parametrize(
    ("kind", "rate", "message"),
    [
        ("none", 0.2, "'none'.*0.2"),
        ("pairflip", 0.2, "'pairflip'.*symmetric, asymmetric, block, superclass, none"),
        ("pairflip", 0.0, "'pairflip'"),
        ("superclass", 0.2, "no superclasses"),
        ("superclass", 0.0, "no superclasses"),
    ],
)
def test_noise_that_makes_no_sense_is_refused(kind, rate, message):
    with pytest.raises(UserError, match=message):
        transition_matrix(kind, rate, 9, 7)
