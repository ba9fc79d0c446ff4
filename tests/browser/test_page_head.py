"""What stands above the tree of a diff's page: title, summary, the way of the loss scale, checks, the map, questions."""

from __future__ import annotations

import pytest

from tests.browser.test_page import CONTRAST, click, key, path_of, press, rows, selected, written
from tests.support import chromium
from tests.support.pages import layers, sample, trained

chromium.skip_without_one()
FOUND = "return document.getElementById('found').innerText"
BOXES = "return [...document.querySelectorAll('.map-box')].map((box) => box.getAttribute('aria-label'))"
STAGES = "return [...document.querySelectorAll('.stage')].map((stage) => stage.textContent)"


@pytest.fixture(scope="module")
def sample_page(folder):
    return written(folder, "sample", sample())


@pytest.fixture(scope="module")
def trained_page(folder):
    return written(folder, "trained", trained())


@pytest.fixture
def page(browser, trained_page):
    """A conversion with a loss scale, just opened."""
    chromium.open_page(browser, trained_page)
    return browser


def focused(driver):
    """The label of what has the focus."""
    return driver.execute_script("return document.activeElement.getAttribute('aria-label') || document.activeElement.textContent")


# Checks


def test_checks_are_a_line_and_failed_ones_are_not_folded(browser, sample_page):
    chromium.open_page(browser, sample_page)
    visible = "return [...document.querySelectorAll('.check')].filter((check) => check.checkVisibility()).map((check) => check.textContent)"
    assert browser.execute_script("return document.querySelector('#other-checks summary').innerText").endswith("1 passed, 1 not applicable")
    assert len(browser.execute_script(visible)) == 1 and "nothing divides by it" in browser.execute_script(visible)[0]
    browser.execute_script("document.querySelector('#other-checks summary').focus()")
    press(browser, key("ENTER"))
    assert len(browser.execute_script(visible)) == 3
    click(browser, "#other-checks summary")
    assert len(browser.execute_script(visible)) == 1


# The way of the loss scale


def test_the_way_of_the_loss_scale_is_drawn_in_order(page):
    titles = page.execute_script("return [...document.querySelectorAll('.stage-title')].map((title) => title.textContent)")
    assert titles == ["loss", "\u00d7 scale", "gradient code", "\u00f7 unscale", "finite check", "clip", "gate", "update"]
    spoken = page.execute_script("return document.querySelector('#flow svg').getAttribute('aria-label')")
    assert "\u00d7 scale, fixed 128; gradient code, gradients; \u00f7 unscale, 2 divisions" in spoken


def test_a_stage_selects_its_nodes_one_after_the_other(page):
    stage = "[...document.querySelectorAll('.stage')].find((stage) => stage.textContent.includes('unscale'))"
    found = []
    for _ in range(3):
        page.execute_script(stage + ".dispatchEvent(new MouseEvent('click', {bubbles: true}))")
        found.append(selected(page))
    assert found == ["unscale", "unscale_1", "unscale"]


def test_a_stage_goes_by_keyboard(page):
    page.execute_script("document.querySelector('.stage[role=button]').focus()")
    press(page, key("ENTER"))
    assert selected(page) == "loss"
    assert page.execute_script("return document.activeElement.id") == "tree"


def test_what_is_not_there_is_no_button(page):
    absent = "return [...document.querySelectorAll('.stage.absent')].map((stage) => [stage.getAttribute('role'), stage.textContent.includes('none')])"
    assert page.execute_script(absent) == [[None, True]]


# The map


def test_a_box_of_the_map_counts_what_is_inside_by_dtype(page):
    boxes = page.execute_script(BOXES)
    assert "second: 5 nodes (1 float16, 2 cast, 2 float32)" in boxes
    assert "gradients: 2 nodes (2 float32)" in boxes
    legend = page.execute_script("return [...document.querySelectorAll('#map-legend li')].map((item) => item.textContent.trim())")
    assert legend == ["float16 1", "cast 3", "loss scale 6", "float32 11"]


def test_boxes_are_as_wide_as_their_share(page):
    sizes = page.execute_script("""
      const frame = document.getElementById('map-boxes').clientWidth;
      return [...document.querySelectorAll('.map-box')].map((box) => [box.dataset.row, box.offsetLeft, box.offsetWidth, box.offsetTop, frame]);
    """)
    top = [size for size in sizes if size[3] == 0]
    assert sum(width + 1 for _, _, width, _, _ in top) == pytest.approx(top[0][4], abs=len(top) + 1)
    assert all(left >= 0 and left + width <= frame + 1 for _, left, width, _, frame in sizes)


def test_a_box_selects_its_scope_and_then_fills_the_map(page):
    box = ".map-box[aria-label^='second:']"
    click(page, box)
    assert selected(page) == "second"
    assert page.execute_script("return document.querySelector('.map-box[aria-current]').textContent") == "second"
    click(page, box)
    assert page.execute_script(BOXES)[0].startswith("second:")
    assert page.execute_script("return document.querySelector('.map-box').offsetWidth > document.getElementById('map-boxes').clientWidth - 3")
    click(page, "#map-whole")
    assert len([label for label in page.execute_script(BOXES) if label.startswith("first:")]) == 1


def test_the_map_goes_by_keyboard(page):
    press(page, "m")
    assert focused(page).startswith("first:")
    press(page, key("ARROW_RIGHT"))
    assert focused(page).startswith("gradients:")
    press(page, key("ARROW_DOWN"))
    assert focused(page).startswith("gradients/first:")
    press(page, key("ARROW_UP"), key("ARROW_LEFT"), key("ENTER"))
    assert selected(page) == "first"
    press(page, key("ENTER"))
    assert page.execute_script(BOXES)[0].startswith("first:")
    press(page, key("ESCAPE"))
    assert any(label.startswith("gradients:") for label in page.execute_script(BOXES))


def test_the_map_follows_the_selection(page):
    chromium.open_page(page, path_of(page), "node=gradients/second/MatMul")
    assert page.execute_script("return document.querySelector('.map-box[aria-current]').title").startswith("gradients/second/MatMul:")


def test_the_map_can_be_sized_by_matmuls(page):
    click(page, "#map-sizes button:last-child")
    boxes = page.execute_script(BOXES)
    assert "first: 1 matmul or convolution (1 float32)" in boxes and "gradients: 2 matmuls and convolutions (2 float32)" in boxes
    assert not any(label.startswith("graphmp") for label in boxes)


def test_scopes_too_narrow_for_boxes_are_counted_in_one(browser, folder):
    chromium.open_page(browser, written(folder, "large", layers(1000)))
    boxes = browser.execute_script(BOXES)
    assert any("more scopes of net" in label for label in boxes) or len(boxes) > 100
    assert len(boxes) < 700


def test_a_graph_without_nodes_has_no_map(browser, folder):
    from graphmp.diff.model import Diff

    chromium.open_page(browser, written(folder, "bare", Diff(sample().changes)))
    shown = browser.execute_script("return [document.getElementById('map').hidden, document.getElementById('flow').hidden]")
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


# Questions and answers


def test_questions_stay_in_sight(page):
    in_sight = """
      const box = document.querySelector('.question').getBoundingClientRect();
      return box.top >= 0 && box.bottom <= innerHeight && document.querySelector('.question').checkVisibility();
    """
    assert page.execute_script(in_sight)
    press(page, "e", key("END"))
    page.execute_script("document.getElementById('details').scrollTop = 10000; document.getElementById('tree').scrollTop = 10000")
    assert page.execute_script(in_sight)


def test_a_asks_by_keyboard_and_again_takes_the_question_back(page):
    press(page, "a")
    assert focused(page).startswith("What does the report not explain?")
    press(page, key("ENTER"))
    asked = "return [...document.querySelectorAll('.question[aria-pressed=true]')].length"
    assert page.execute_script(asked) == 1
    press(page, "a", key("ENTER"))
    assert page.execute_script(asked) == 0 and page.execute_script("return document.getElementById('clear').hidden")


def ask(driver, question):
    driver.execute_script("[...document.querySelectorAll('.question')].find((b) => b.innerText.startsWith(arguments[0])).click()", question)


def test_answers_come_by_importance(page):
    ask(page, "What stayed float32")
    answers = page.execute_script("return [...document.querySelectorAll('.pattern-text')].map((text) => text.textContent)")
    assert answers[0] == "first/MatMul"  # a matmul, then what is work, then what only holds values
    assert page.execute_script("return document.getElementById('details').querySelector('h2').textContent") == "first/MatMul"
    assert page.execute_script("return document.getElementById('pattern-title').textContent") == "Answers"


def test_an_answer_leads_to_its_nodes(page):
    ask(page, "What stayed float32")
    page.execute_script("[...document.querySelectorAll('.pattern')].find((b) => b.textContent.includes('kernel')).click()")
    assert page.execute_script(FOUND).startswith("1 found")


# Names and room


def test_the_node_of_a_link_is_in_sight(page):
    chromium.open_page(page, path_of(page), "node=train/update_second&open=all")
    row, tree = page.execute_script("""
      return ['.row.selected', '#tree'].map((selector) => document.querySelector(selector).getBoundingClientRect());
    """)
    assert tree["top"] <= row["top"] and row["bottom"] <= tree["bottom"]


def test_a_name_keeps_its_start_and_its_end(browser, folder):
    chromium.open_page(browser, written(folder, "long", long_names()))
    shown = browser.execute_script("""
      const text = document.querySelector('.pattern-text');
      const [head, tail] = text.children;
      return [head.textContent, tail.textContent, head.scrollWidth > head.clientWidth, getComputedStyle(head).textOverflow,
        text.closest('.pattern').title, text.getBoundingClientRect().right <= text.closest('.pattern').getBoundingClientRect().right];
    """)
    assert shown[0].startswith("generator/") and shown[1] == "/MatMul"
    assert shown[2:4] == [True, "ellipsis"] and shown[4].startswith("generator/" + "block/" * 20 + "MatMul") and shown[5]


def long_names():
    """One change deep inside scopes."""
    from graphmp.diff.changes import Body, Change
    from graphmp.diff.model import Diff
    from tests.support.pages import view

    name = "generator/" + "block/" * 20 + "MatMul"
    sides = view(name + " NoOp T=float32"), view(name + " NoOp T=float16")
    return Diff((Change(name, "dtype", "float32", "float16", "why", "T", kind="allow"),), True, bodies=(Body("", *sides, {}),))


@pytest.mark.parametrize("size", [(500, 700), (1366, 600)])
def test_what_the_map_selects_comes_into_a_small_window(browser, trained_page, size):
    chromium.resize(browser, *size)
    try:
        chromium.open_page(browser, trained_page)
        click(browser, ".map-box[aria-label^='train:']")
        row = browser.execute_script("return document.querySelector('.row.selected').getBoundingClientRect()")
        assert row["top"] >= 0 and row["bottom"] <= size[1]
        assert browser.execute_script("return document.getElementById('tree').clientHeight") > 200
    finally:
        chromium.resize(browser, *chromium.WIDE)


def test_s_hides_the_summary(page):
    shown = "return [document.getElementById('review').checkVisibility(), document.getElementById('toggle-review').getAttribute('aria-expanded')]"
    found = [page.execute_script(shown)]
    for _ in range(2):
        press(page, "s")
        found.append(page.execute_script(shown))
    assert found == [[True, "true"], [False, "false"], [True, "true"]]


@pytest.mark.parametrize("width", [500, 360, 760, 900, 1000])
def test_little_room_is_used_without_scrolling_sideways(browser, trained_page, width):
    chromium.resize(browser, width, 900)
    try:
        chromium.open_page(browser, trained_page, "node=second/MatMul")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        cut = """
          const texts = [...document.querySelectorAll('.row .cell:not(.none) .name, #questions span, h1')];
          const isCut = (element) => element.checkVisibility() && element.clientWidth && element.scrollWidth > element.clientWidth + 1;
          return texts.filter(isCut).map((element) => element.textContent);
        """
        assert width < 500 or [name for name in browser.execute_script(cut) if len(name) < 12] == []
        row = "return document.querySelector('.row.selected').innerText.replace(/\\s+/g, ' ')"
        assert "float32→float16" in browser.execute_script(row).replace("→ ", "→")
    finally:
        chromium.resize(browser, *chromium.WIDE)


def test_questions_stay_above_what_scrolls_where_there_is_little_room(browser, trained_page):
    chromium.resize(browser, 500, 900)
    try:
        chromium.open_page(browser, trained_page)
        browser.execute_script("window.scrollTo(0, document.documentElement.scrollHeight)")
        place = browser.execute_script("const box = document.querySelector('#ask').getBoundingClientRect(); return [box.top, box.bottom]")
        assert 0 <= place[0] < place[1] <= 900
        click(browser, "#ask summary")
        ask(browser, "What stayed float32")
        assert rows(browser)
    finally:
        chromium.resize(browser, *chromium.WIDE)
