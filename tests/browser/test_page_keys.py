"""The page by keyboard."""

from __future__ import annotations

from tests.support import chromium
from tests.support.page_in_browser import key, path_of, press, rows, selected

chromium.skip_without_one()


def test_j_and_k_and_the_arrows_step_through_rows(page):
    press(page, "jj")
    assert selected(page) == "Conv2D"
    press(page, "k", key("ARROW_DOWN"), key("ARROW_DOWN"), key("ARROW_UP"))
    assert selected(page) == "Conv2D"
    press(page, key("END"))
    assert selected(page) == rows(page)[-1]
    press(page, key("HOME"))
    assert selected(page) == "conv1"


def test_arrows_enter_and_space_open_and_close(page):
    expanded = "return document.querySelector('.row.selected').getAttribute('aria-expanded')"
    press(page, key("HOME"))
    found = []
    for name in ("ARROW_LEFT", "ARROW_RIGHT", "ENTER", "SPACE"):
        press(page, key(name))
        found.append(page.execute_script(expanded))
    assert found == ["false", "true", "false", "true"]
    press(page, key("ARROW_RIGHT"))
    assert selected(page) == "Conv2D"
    press(page, key("ARROW_LEFT"))
    assert selected(page) == "conv1"


def test_n_and_p_go_from_change_to_change(page):
    press(page, "nn")
    assert selected(page) == "kernel_graphmp_float16"
    press(page, "p")
    assert selected(page) == "Conv2D"
    press(page, "p")
    assert selected(page) == "collection_def/losses"  # from the first to the last


def test_capital_n_and_p_go_from_pattern_to_pattern(page):
    pressed = (
        "return [...document.querySelectorAll('.pattern')].findIndex((pattern) =>"
        " pattern.getAttribute('aria-pressed') === 'true')"
    )
    press(page, "NN")
    assert page.execute_script(pressed) == 1
    press(page, "P")
    assert page.execute_script(pressed) == 0
    assert selected(page) is not None


def test_o_hides_what_did_not_change(page):
    press(page, "o")
    assert "images" not in rows(page) and "images_graphmp_float16" in rows(page)
    press(page, "o")
    assert "images" in rows(page)


def test_slash_searches_names_and_ops(page):
    press(page, "/", "mean")
    assert rows(page) == ["loss"]  # by its op
    press(page, key("ESCAPE"), "/", "tower/out")
    assert rows(page) == ["tower_1", "result"]  # by its old name
    press(page, key("ENTER"))
    assert selected(page) == "result"
    press(page, key("ESCAPE"))
    assert "loss" in rows(page)


def test_g_makes_the_drawing_larger_and_takes_it_away(page):
    visible = (
        "return [!document.getElementById('drawing').hidden,"
        " document.body.classList.contains('large-drawing')]"
    )
    chromium.open_page(page, path_of(page), "node=conv1/Conv2D")
    found = [page.execute_script(visible)]
    for _ in range(3):
        press(page, "g")
        found.append(page.execute_script(visible))
    assert found == [[True, False], [True, True], [False, False], [True, False]]


def test_e_and_c_expand_and_collapse_all(page):
    press(page, "c")
    assert rows(page) == [
        "conv1",
        "conv2",
        "conv10",
        "graphmp",
        "images",
        "images_graphmp_float16",
        "init",
        "loss",
        "summary",
        "tower_1",
        "library",
        "meta graph",
    ]
    press(page, "e")
    assert "Conv2D" in rows(page)
    press(page, key("END"))
    assert {"scaled_loss", "y", "collection_def/losses"} <= set(rows(page))


def test_question_mark_lists_the_keys(page):
    press(page, "?")
    assert page.execute_script("return document.getElementById('help').open")
    assert "next, previous change" in page.execute_script(
        "return document.getElementById('help').innerText"
    )
    press(page, key("ESCAPE"))
    assert not page.execute_script("return document.getElementById('help').open")


def test_escape_leaves_step_by_step(page):
    chromium.open_page(page, path_of(page), "node=conv1/Conv2D&drawing=large&kind=allow")
    script = """return [document.body.classList.contains('large-drawing'), !document.getElementById('clear').hidden,
      document.querySelector('.row.selected') !== null]"""
    found = [page.execute_script(script)]
    for _ in range(3):
        press(page, key("ESCAPE"))
        found.append(page.execute_script(script))
    assert found == [
        [True, True, True],
        [False, True, True],
        [False, False, True],
        [False, False, False],
    ]
