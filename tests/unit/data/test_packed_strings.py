"""Many strings in one block of bytes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from josrc.data.packed_strings import PackedStrings
from properties import same


@same
@given(
    st.lists(
        st.text(
            st.characters(codec="utf-8") | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF)
        )
    )
)
def test_strings_come_back_from_their_block(strings: list[str]) -> None:
    raw = [string.encode("utf-8", "surrogateescape") for string in strings]
    packed = PackedStrings.of(strings)
    assert [one.encode("utf-8", "surrogateescape") for one in packed] == raw
    order = np.arange(len(strings))[::-1]
    assert list(packed.take(order)) == list(packed)[::-1]
