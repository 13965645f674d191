"""The pictures of ``josrc demo``: clip art whose authors gave it to the public domain.

    apt-get download openclipart-png && dpkg-deb -x openclipart-png_*.deb SCRATCH
    python tools/demo_pictures.py SCRATCH/usr/share/openclipart/png

writes ``src/josrc/data/demo_pictures.zip``: a folder for each class. What is in a folder of
the collection and does not show its class was left out by eye: the only wrong labels are to be
those that the demo puts there.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 96
OUT = Path(__file__).resolve().parents[1] / "src" / "josrc" / "data" / "demo_pictures.zip"
# Where each class lies in the collection, and what is left out there: beginnings of names.
CLASSES = {
    "bird": (
        "animals/birds",
        "acquila_architetto_franc_04 baby contour_bat duck_yellow_kurt eagle_01 manager mirjam "
        "ninja plush simbolo stormo turkey_on wing",
    ),
    "flower": ("plants/flowers", "cactus cartoon_tree simple_five mazzo dream lotas magnolia"),
    "fruit": (
        "food/fruit",
        "apple_juice apple_mateya banana_mateya candied champignon eris gumnut juice_glass "
        "kallisti pie_ slate straw tile tree turkey applf",
    ),
    "house": ("buildings/homes", "lowtec lighthouse house_gabrielle"),
    "insect": (
        "animals/bugs",
        "bug_nicu butterfly_from caterpillar coccinella_arch lumaca mostri ragn spider virus "
        "zanzara_cretina",
    ),
    "instrument": (
        "recreation/music",
        "45_rpm rca a_man bach bass_clef beethoveo boombox double fifties funny gramophone handel "
        "headphones jazz microphone musical_note quaver simple_croche sixteenth treble "
        "piano_theory trumpet_herald trumpet_harmon trumpet_straight vinyl war_drum cello_mo_02 "
        "flute tpt",
    ),
    "sweet": ("food/desserts", "apple_pie cake_mateya pie_apple_bw pie_cherry_bw"),
    "vehicle": (
        "transportation/vehicles",
        "autos bicicletta crossroads curve cycle_ lighthouse m1_ parking quay road_runner rocket "
        "shelby_cobra_b sledge the_mad toy wing _chevrolet redcar bus_symbol vtt hummer_0 "
        "military old_truck",
    ),
}


def main() -> None:
    """Write the archive; every date is the same, so the same pictures make the same file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection", type=Path, help="the folder png of openclipart")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    with zipfile.ZipFile(options.out, "w") as archive:
        for label, (folder, left_out) in CLASSES.items():
            files = sorted((options.collection / folder).rglob("*.png"))
            kept = [file for file in files if not file.stem.startswith(tuple(left_out.split()))]
            count = sum(add(archive, label, file) for file in kept)
            print(f"{label}: {count}")


def add(archive: zipfile.ZipFile, label: str, file: Path) -> bool:
    """Put one picture on white, cut its margin off, and add it as WebP; too small ones are left."""
    image = Image.open(file).convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    white.alpha_composite(image)
    image = white.convert("RGB")
    inked = np.argwhere(np.asarray(image).min(axis=2) < 245)
    if not len(inked):
        return False
    (top, left), (bottom, right) = inked.min(axis=0), inked.max(axis=0) + 1
    if max(bottom - top, right - left) < SIDE // 2:
        return False
    image = image.crop((left, top, right, bottom))
    image.thumbnail((SIDE - 4, SIDE - 4), Image.Resampling.LANCZOS)
    square = Image.new("RGB", (SIDE, SIDE), "white")
    square.paste(image, ((SIDE - image.width) // 2, (SIDE - image.height) // 2))
    content = io.BytesIO()
    square.save(content, "webp", quality=80, method=6)
    archive.writestr(zipfile.ZipInfo(f"{label}/{file.stem}.webp"), content.getvalue())
    return True


if __name__ == "__main__":
    main()
