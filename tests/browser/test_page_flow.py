"""The drawing of the way of the loss scale on the page."""

from __future__ import annotations

from tests.support import chromium
from tests.support.page_in_browser import key, press, selected

chromium.skip_without_one()


def test_the_way_of_the_loss_scale_is_drawn_in_order(scaled):
    titles = scaled.execute_script(
        "return [...document.querySelectorAll('.stage-title')].map((title) => title.textContent)"
    )
    assert titles == [
        "loss",
        "\u00d7 scale",
        "gradient code",
        "\u00f7 unscale",
        "finite check",
        "clip",
        "gate",
        "update",
    ]
    spoken = scaled.execute_script(
        "return document.querySelector('#flow svg').getAttribute('aria-label')"
    )
    assert (
        "\u00d7 scale, fixed 128; gradient code, gradients; \u00f7 unscale, 2 divisions" in spoken
    )


def test_a_stage_selects_its_nodes_one_after_the_other(scaled):
    stage = (
        "[...document.querySelectorAll('.stage')].find((stage) =>"
        " stage.textContent.includes('unscale'))"
    )
    found = []
    for _ in range(3):
        scaled.execute_script(stage + ".dispatchEvent(new MouseEvent('click', {bubbles: true}))")
        found.append(selected(scaled))
    assert found == ["unscale", "unscale_1", "unscale"]


def test_a_stage_goes_by_keyboard(scaled):
    scaled.execute_script("document.querySelector('.stage[role=button]').focus()")
    press(scaled, key("ENTER"))
    assert selected(scaled) == "loss"
    assert scaled.execute_script("return document.activeElement.id") == "tree"


def test_what_is_not_there_is_no_button(scaled):
    absent = (
        "return [...document.querySelectorAll('.stage.absent')].map((stage) =>"
        " [stage.getAttribute('role'), stage.textContent.includes('none')])"
    )
    assert scaled.execute_script(absent) == [[None, True]]
