import re

import pytest

from adacorr import InputError, plotting


def draw(slope=1.0):
    figure = plotting.new_figure(4, 3)
    axes = figure.subplots(1, 2)
    axes[0].plot([0, 1], [0, slope], label="line")
    axes[0].legend()
    axes[1].scatter([0, 1], [1, slope])
    return figure


def test_the_same_data_give_the_same_bytes(tmp_path):
    first = plotting.save(draw(), tmp_path / "a.b")
    second = plotting.save(draw(), tmp_path / "again")
    assert [path.name for path in first] == ["a.b.png", "a.b.svg"]
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
    assert len(list(tmp_path.iterdir())) == 4


def test_two_figures_share_a_page_without_sharing_ids():
    one, two = plotting.to_svg(draw()), plotting.to_svg(draw(slope=2.0))
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (one, two)]
    assert ids[0]
    assert not ids[0] & ids[1]
    for svg, known in zip((one, two), ids, strict=True):
        used = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg)
        assert used
        assert {a or b for a, b in used} <= known
        assert svg.startswith("<svg")
        assert svg.endswith("</svg>")


def test_settings_of_the_caller_stay_as_they_were():
    import matplotlib

    before = dict(matplotlib.rcParams)
    plotting.to_svg(draw())
    assert dict(matplotlib.rcParams) == before


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="expected an existing output folder, got no "):
        plotting.save(draw(), tmp_path / "none" / "figure")
