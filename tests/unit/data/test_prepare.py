"""Every file is read once before training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from josrc.errors import UserError
from streams import source_of


def test_small_sets_stay_in_memory_and_large_ones_do_not(folder: Path) -> None:
    needed = 47 * 16 * 16 * 3
    assert source_of(folder, free=4 * needed).images.in_memory
    assert not source_of(folder, free=4 * needed - 4).images.in_memory


def test_pictures_and_paths_stay_with_their_samples(folder: Path) -> None:
    (folder / "cat" / "00.png").write_bytes(b"broken")
    for resident in (True, False):
        source = source_of(folder, resident=resident, val=0.2)
        assert source.val is not None
        for part in (source, source.val):
            for index in (0, len(part) - 1):
                number = int(Path(part.paths[index]).stem)
                pixels = np.random.default_rng(number).integers(0, 256, (20, 26, 3), dtype=np.uint8)
                assert np.array_equal(np.asarray(part.images.picture(index)), pixels)
                assert part.ids[index] == f"{('cat', 'dog')[number % 2]}/{number:02}.png"
                assert part.given[index] == number % 2


@pytest.mark.parametrize("resident", [True, False])
def test_bad_files_are_left_out_with_a_reason(folder: Path, resident: bool) -> None:
    whole = source_of(folder, resident=resident)
    (folder / "cat" / "04.png").write_bytes(b"")
    (folder / "dog" / "notes").write_text("not a dog")
    source = source_of(folder, resident=resident)
    assert source.skipped == (
        (str(folder / "cat" / "04.png"), "the file is empty"),
        (str(folder / "dog" / "notes"), "not an image in a known format"),
    )
    kept = [index for index, name in enumerate(whole.ids) if name != "cat/04.png"]
    assert list(source.ids) == [whole.ids[index] for index in kept]
    index = np.arange(len(source))
    np.testing.assert_array_equal(source.images.tiles(index), whole.images.tiles(np.array(kept)))
    np.testing.assert_array_equal(source.given, whole.given[kept])


def test_a_resumed_run_looks_for_no_bad_files_but_leaves_out_those_it_left_out(
    folder: Path,
) -> None:
    first = source_of(folder, resident=False)
    source = source_of(folder, resident=False, known=[str(folder / "cat" / "02.png")])
    assert list(source.ids) == [name for name in first.ids if name != "cat/02.png"]
    (folder / "dog" / "03.png").unlink()
    (folder / "dog" / "03.png").write_bytes(b"")
    with pytest.raises(
        UserError,
        match=r"03\.png could be read before, but now: the file is "
        r"empty",
    ):
        source_of(folder, resident=True, known=[])


def test_more_than_a_few_bad_files_stop_the_run(folder: Path) -> None:
    for number in (0, 2, 4):
        (folder / "cat" / f"{number:02}.png").write_bytes(b"junk")
    message = r"3 of 47 files could not be read, more than 5%(.|\n)*3 times: not an image"
    with pytest.raises(UserError, match=message):
        source_of(folder)
    assert len(source_of(folder, allow_skipped=True)) == 44


def test_a_class_without_a_readable_image_and_no_image_at_all(folder: Path) -> None:
    for path in (folder / "cat").iterdir():
        path.write_bytes(b"junk")
    with pytest.raises(UserError, match="no image of class 'cat' can be read"):
        source_of(folder, allow_skipped=True)
    for path in (folder / "dog").iterdir():
        path.write_bytes(b"junk")
    with pytest.raises(UserError, match="contains no images"):
        source_of(folder, allow_skipped=True)


def test_noise_added_on_purpose_makes_the_labels_of_the_folder_the_truth(folder: Path) -> None:
    plain = source_of(folder)
    noisy = source_of(folder, noise="symmetric", rate=0.5)
    assert plain.true is None
    np.testing.assert_array_equal(noisy.true, plain.given)
    assert noisy.kind is not None
    assert 10 < noisy.kind.sum() < 37
    assert ((noisy.given != noisy.true) == (noisy.kind == 1)).all()
