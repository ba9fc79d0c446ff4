"""The page's map of the model: scopes by dtype, by mouse and keyboard."""

from __future__ import annotations

import pytest

from tests.support import chromium
from tests.support.page_head import focused
from tests.support.page_in_browser import CONTRAST, click, key, path_of, press, selected, written
from tests.support.pages import layers, sample

chromium.skip_without_one()


BOXES = (
    "return [...document.querySelectorAll('.map-box')].map((box) => box.getAttribute('aria-label'))"
)


def test_a_box_of_the_map_counts_what_is_inside_by_dtype(scaled):
    boxes = scaled.execute_script(BOXES)
    assert "second: 5 nodes (1 float16, 2 cast, 2 float32)" in boxes
    assert "gradients: 2 nodes (2 float32)" in boxes
    legend = scaled.execute_script(
        "return [...document.querySelectorAll('#map-legend li')].map((item) =>"
        " item.textContent.trim())"
    )
    assert legend == ["float16 1", "cast 3", "loss scale 6", "float32 11"]


def test_boxes_are_as_wide_as_their_share(scaled):
    sizes = scaled.execute_script("""
      const frame = document.getElementById('map-boxes').clientWidth;
      return [...document.querySelectorAll('.map-box')].map((box) => [box.dataset.row, box.offsetLeft, box.offsetWidth, box.offsetTop, frame]);
    """)
    top = [size for size in sizes if size[3] == 0]
    assert sum(width + 1 for _, _, width, _, _ in top) == pytest.approx(top[0][4], abs=len(top) + 1)
    assert all(left >= 0 and left + width <= frame + 1 for _, left, width, _, frame in sizes)


def test_a_box_selects_its_scope_and_then_fills_the_map(scaled):
    box = ".map-box[aria-label^='second:']"
    click(scaled, box)
    assert selected(scaled) == "second"
    assert (
        scaled.execute_script("return document.querySelector('.map-box[aria-current]').textContent")
        == "second"
    )
    click(scaled, box)
    assert scaled.execute_script(BOXES)[0].startswith("second:")
    assert scaled.execute_script(
        "return document.querySelector('.map-box').offsetWidth >"
        " document.getElementById('map-boxes').clientWidth - 3"
    )
    click(scaled, "#map-whole")
    assert len([label for label in scaled.execute_script(BOXES) if label.startswith("first:")]) == 1


def test_the_map_goes_by_keyboard(scaled):
    press(scaled, "m")
    assert focused(scaled).startswith("first:")
    press(scaled, key("ARROW_RIGHT"))
    assert focused(scaled).startswith("gradients:")
    press(scaled, key("ARROW_DOWN"))
    assert focused(scaled).startswith("gradients/first:")
    press(scaled, key("ARROW_UP"), key("ARROW_LEFT"), key("ENTER"))
    assert selected(scaled) == "first"
    press(scaled, key("ENTER"))
    assert scaled.execute_script(BOXES)[0].startswith("first:")
    press(scaled, key("ESCAPE"))
    assert any(label.startswith("gradients:") for label in scaled.execute_script(BOXES))


def test_the_map_follows_the_selection(scaled):
    chromium.open_page(scaled, path_of(scaled), "node=gradients/second/MatMul")
    assert scaled.execute_script(
        "return document.querySelector('.map-box[aria-current]').title"
    ).startswith("gradients/second/MatMul:")


def test_the_map_can_be_sized_by_matmuls(scaled):
    click(scaled, "#map-sizes button:last-child")
    boxes = scaled.execute_script(BOXES)
    assert (
        "first: 1 matmul or convolution (1 float32)" in boxes
        and "gradients: 2 matmuls and convolutions (2 float32)" in boxes
    )
    assert not any(label.startswith("graphmp") for label in boxes)


def test_scopes_too_narrow_for_boxes_are_counted_in_one(browser, folder):
    chromium.open_page(browser, written(folder, "large", layers(1000)))
    boxes = browser.execute_script(BOXES)
    assert any("more scopes of net" in label for label in boxes) or len(boxes) > 100
    assert len(boxes) < 700


def test_a_graph_without_nodes_has_no_map(browser, folder):
    from graphmp.compare.api import Diff

    chromium.open_page(browser, written(folder, "bare", Diff(sample().changes)))
    shown = browser.execute_script(
        "return [document.getElementById('map').hidden, document.getElementById('flow').hidden]"
    )
    assert shown[1] is True


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_names_stand_out_on_the_colours_of_the_map(browser, trained_page, scheme):
    chromium.prefer(browser, scheme)
    try:
        chromium.open_page(browser, trained_page)
        # Each colour of the map as the plain background of a line of its own.
        browser.execute_script("""
          for (const swatch of document.querySelectorAll('#map-legend .swatch')) {
            swatch.textContent = 'x';
            document.getElementById('map-legend').append(swatch);
          }
        """)
        contrast, where = browser.execute_script(CONTRAST)
    finally:
        chromium.prefer(browser, "light")
    assert contrast >= 4.5, where
