"""The page of a diff in a browser: keys, filters, links to a place, what it may not do, and how much of it is there at a time."""

from __future__ import annotations

import collections

import pytest

from graphmp.diff import html
from graphmp.diff.changes import Body
from graphmp.diff.model import Diff
from tests.support import chromium
from tests.support.pages import HOSTILE, hostile, layers, sample, view

chromium.skip_without_one()
ROWS = "return [...document.querySelectorAll('[role=treeitem]')].map((row) => row.getAttribute('aria-label').split(',')[0])"
SELECTED = "const row = document.querySelector('[role=treeitem][aria-selected=true]'); return row && row.getAttribute('aria-label').split(',')[0]"
DETAILS = "return document.getElementById('details').innerText"
# The smallest contrast of text and what is behind it, and where.
CONTRAST = """
const luminance = (rgb) => {
  const [r, g, b] = rgb.map((part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const [r, g, b, a = 1] = parse(getComputedStyle(at).backgroundColor);
    if (a === 1) return [r, g, b];
  }
  return parse(getComputedStyle(document.documentElement).colorScheme === 'dark' ? 'rgb(0,0,0)' : 'rgb(255,255,255)');
};
let worst = [99, ''];
for (const element of document.querySelectorAll('body *')) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || !element.checkVisibility() || ['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(element.tagName)) continue;
  const style = getComputedStyle(element);
  const colour = element instanceof SVGElement ? style.fill : style.color;
  const [light, dark] = [luminance(parse(colour).slice(0, 3)), luminance(behind(element))].sort((a, b) => b - a);
  const contrast = (light + 0.05) / (dark + 0.05);
  if (contrast < worst[0]) worst = [contrast, `${element.tagName}.${element.getAttribute('class')} ${element.textContent}`];
}
return worst;
"""


@pytest.fixture(scope="module")
def sample_page(folder):
    return written(folder, "sample", sample())


@pytest.fixture(scope="module")
def large_page(folder):
    return written(folder, "large", layers(1000))


@pytest.fixture
def page(browser, sample_page):
    """The sample, just opened."""
    chromium.open_page(browser, sample_page)
    return browser


def written(folder, name, diff):
    path = folder / (name + ".html")
    diff.to_html(path)
    return path


def press(driver, *keys):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver).send_keys(*keys).perform()


def key(name):
    from selenium.webdriver.common.keys import Keys

    return getattr(Keys, name)


def rows(driver):
    return driver.execute_script(ROWS)


def selected(driver):
    return driver.execute_script(SELECTED)


def click(driver, selector):
    driver.execute_script("document.querySelector(arguments[0]).click()", selector)


def state(driver):
    """What stands behind #, once it is written."""
    chromium.wait_for(driver, "return location.hash.length > 1")
    driver.execute_async_script("setTimeout(arguments[0], 300)")
    return driver.execute_script("return location.hash.slice(1)")


# What is on the page


def test_starts_with_the_scopes_of_both_sides_and_their_counts(page):
    assert rows(page)[:4] == ["conv1", "Conv2D", "kernel", "kernel_graphmp_float16"]
    counts = page.execute_script(
        "return [...document.querySelectorAll('.row')].map((row) => [row.innerText.split('\\n')[0], row.querySelector('.count')?.innerText])"
    )
    assert dict(map(tuple, counts))["conv1"] == "3"


def test_what_is_unexplained_or_stale_leads_the_page(page):
    shown = page.execute_script("return document.getElementById('attention').innerText")
    assert "2 changes unexplained" in shown and "The report is stale: the graphs don't have 1 change" in shown
    assert "loss scale cancels" in page.execute_script("return document.querySelector('.check').innerText")  # failed checks come first


def test_a_row_has_both_sides_beside_each_other(page):
    cells = page.execute_script("""
      const row = [...document.querySelectorAll('.row')].find((row) => row.innerText.includes('images_graphmp_float16'));
      const [before, after] = row.querySelectorAll('.cell');
      const [left, right] = [before, after].map((cell) => cell.getBoundingClientRect());
      return [before.innerText, after.innerText, row.querySelector('.mark').innerText, left.top === right.top && left.right <= right.left];
    """)
    assert cells[0] == "" and "float16" in cells[1] and cells[2:] == ["+", True]


def test_a_renamed_node_has_its_old_name_at_left(page):
    chromium.open_page(page, path_of(page), "node=tower_1/result")
    assert page.execute_script("return document.querySelector('.row.selected .before .name').innerText") == "tower/out"
    assert "was tower/out" in page.execute_script(DETAILS).replace("\n", " ")


def path_of(driver):
    return driver.execute_script("return decodeURIComponent(location.pathname)")


def test_counts_of_filters_are_those_of_the_json_form(page):
    diff = sample()
    shown = page.execute_script("return [...document.querySelectorAll('.choice')].map((b) => [b.dataset.group, ...b.innerText.split('\\n')])")
    counts = {(group, name): int(count) for group, name, count in shown}
    expected = {("category", name): count for name, count in collections.Counter(c["category"] for c in diff.to_json()["changes"]).items()}
    kinds = collections.Counter(change.kind for change in diff.changes + diff.kept if change.kind)
    expected.update({("kind", name): count for name, count in kinds.items()})
    expected.update({("status", "unexplained"): len(diff.unexplained), ("status", "explained"): len(diff.changes) - len(diff.unexplained)})
    assert counts == expected


def test_every_filter_leaves_the_rows_that_it_counts(page):
    buttons = page.execute_script(
        "return [...document.querySelectorAll('.choice')].map((b) => [b.dataset.group, b.dataset.value, b.innerText.split('\\n')[0]])"
    )
    diff = sample()
    for group, value, name in buttons:
        selector = ".choice[data-group='%s'][data-value='%s']" % (group, value)
        click(page, selector)
        expected = {
            "status": [c for c in diff.changes if bool(c.reason) == (name == "explained")],
            "category": [c for c in diff.changes if c.category == name],
            "kind": [c for c in diff.changes + diff.kept if c.kind == name],
        }[group]
        found = page.execute_script("return document.getElementById('found').innerText")
        nodes = len({(c.body, c.node) for c in expected})
        assert found.startswith("%d found, " % nodes), name
        assert page.execute_script("return document.querySelector(arguments[0]).getAttribute('aria-pressed')", selector) == "true"
        click(page, selector)
    assert page.execute_script("return document.getElementById('clear').hidden")


def test_choices_of_a_group_add_up_and_groups_narrow(page):
    click(page, ".choice[data-group=category]:last-of-type")  # node added
    found = "return document.getElementById('found').innerText"
    assert page.execute_script(found) == "6 found, 6 changes"
    for name in ("cast up", "scale"):
        page.execute_script("[...document.querySelectorAll('.choice.kind')].find((b) => b.innerText.startsWith(arguments[0])).click()", name)
    assert page.execute_script(found) == "2 found, 2 changes"
    click(page, "#clear")
    assert page.execute_script(found) == "%d changes" % len(sample().changes)


def test_a_check_leads_to_its_nodes(page):
    click(page, ".check.failed")
    assert rows(page) == ["graphmp", "loss_scale", "scaled_loss"]
    assert selected(page) == "scaled_loss"


def test_a_pattern_leads_to_its_nodes(page):
    find = "[...document.querySelectorAll('.pattern')].find((pattern) => pattern.innerText.includes('3'))"
    assert "conv*/Conv2D" in page.execute_script("const found = %s; found.click(); return found.textContent" % find)
    assert page.execute_script("return document.getElementById('found').innerText") == "3 found, 3 changes"


def test_patterns_are_those_of_what_else_is_asked_for(page):
    page.execute_script("[...document.querySelectorAll('.choice.kind')].find((b) => b.innerText.startsWith('allow')).click()")
    assert page.execute_script("return [...document.querySelectorAll('.pattern-text')].map((text) => text.textContent)") == ["conv*/Conv2D"]
    assert page.execute_script("return document.getElementById('pattern-count').innerText").startswith("1 of ")


def test_every_question_has_an_answer(page):
    questions = page.execute_script("return [...document.querySelectorAll('.question span:first-child')].map((span) => span.innerText)")
    assert len(questions) == 6
    for question in questions:
        press(page, key("ESCAPE"), key("ESCAPE"))
        page.execute_script("[...document.querySelectorAll('.question')].find((b) => b.innerText.startsWith(arguments[0])).click()", question)
        assert selected(page) is not None, question
        assert page.execute_script("return document.getElementById('found').innerText").split(" found")[0] != "0", question


def test_details_say_why(page):
    chromium.open_page(page, path_of(page), "node=conv1/Conv2D")
    text = page.execute_script(DETAILS)
    for part in ("float32", "float16", "allow", "Conv2D is worth half precision", "3 alike", "conv1/kernel_graphmp_float16", "conv2/Conv2D"):
        assert part in text
    chromium.open_page(page, path_of(page), "node=conv2/kernel")
    text = page.execute_script(DETAILS)
    assert "stayed float32" in text and "stored in float32" in text and "3 of 3 float32" in text


def test_links_of_details_and_boxes_of_the_drawing_select(page):
    chromium.open_page(page, path_of(page), "node=conv1/Conv2D")
    page.execute_script("[...document.querySelectorAll('#details .link')].find((link) => link.innerText === 'conv2/Conv2D').click()")
    assert page.execute_script("return document.querySelector('#details h2').innerText") == "conv2/Conv2D"
    page.execute_script("document.querySelector('#drawing-before .box:not(.selected)').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    assert page.execute_script("return document.querySelector('#details h2').innerText") == "conv1/Conv2D"


def test_the_drawing_tells_casts_and_half_precision_apart(page):
    chromium.open_page(page, path_of(page), "node=conv1/Conv2D")
    classes = page.execute_script("return [...document.querySelectorAll('#drawing .box')].map((box) => box.getAttribute('class').split(' '))")
    assert sum("cast" in names for names in classes) == 2
    assert any("half" in names and "cast" not in names for names in classes)


# Keys


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
    pressed = "return [...document.querySelectorAll('.pattern')].findIndex((pattern) => pattern.getAttribute('aria-pressed') === 'true')"
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
    visible = "return [!document.getElementById('drawing').hidden, document.body.classList.contains('large-drawing')]"
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
    assert "next, previous change" in page.execute_script("return document.getElementById('help').innerText")
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
    assert found == [[True, True, True], [False, True, True], [False, False, True], [False, False, False]]


# Links to a place


def test_the_address_brings_others_to_the_same_place(page):
    press(page, "c", "/", "conv2d", key("ENTER"), "o", "g")
    page.execute_script("[...document.querySelectorAll('.choice')].find((b) => b.innerText.startsWith('allow')).click()")
    press(page, "n")
    before = (state(page), rows(page), selected(page))
    chromium.open_page(page, path_of(page), before[0])
    assert (state(page), rows(page), selected(page)) == before
    assert page.execute_script("return document.body.classList.contains('large-drawing')")


def test_a_new_address_is_followed(page):
    page.execute_script("location.hash = 'node=library/f/y'")
    chromium.wait_for(page, "return document.querySelector('#details h2')?.innerText === 'library/f/y'")


@pytest.mark.parametrize("wrong", ["node=nothing&kind=nonsense&pattern=99&open=all.zz.-1.x&drawing=huge", "%E0%A4%A", "&&==&"])
def test_an_address_that_names_nothing_is_harmless(page, wrong):
    chromium.open_page(page, path_of(page), wrong)
    assert rows(page)


# What it may not do


def test_names_are_text(browser, folder):
    chromium.open_page(browser, written(folder, "hostile", hostile()))
    press(browser, "e", "j")
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    shown = browser.execute_script("return document.body.innerText")
    assert "</script><img src=x onerror=alert(1)>" in shown and "\\x1b[31m\\u202e&amp;" in shown
    assert "\u202e" not in shown and "\x1b" not in shown
    assert HOSTILE not in shown


def test_a_notebook_shows_the_page_in_a_sandbox(browser, folder):
    path = folder / "notebook.html"
    path.write_text("<!DOCTYPE html><title>notebook</title>" + html.embed(sample().to_html()), encoding="utf-8")
    browser.get(path.as_uri())
    browser.switch_to.frame(0)
    chromium.wait_for(browser, "return document.body.classList.contains('ready')")
    browser.find_element("id", "tree").click()  # which gives the frame the focus
    press(browser, "ggjn")
    assert selected(browser) is not None
    press(browser, "/", "relu")
    assert rows(browser) == ["library", "f", "y"]
    browser.execute_script("document.querySelector('.row:last-of-type').click(); document.querySelector('#details .link').click()")
    assert selected(browser) == "x"
    browser.execute_async_script("setTimeout(arguments[0], 300)")  # the address would be written now
    assert rows(browser)
    browser.switch_to.default_content()


def test_without_scripts_there_is_a_summary(browser, sample_page):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(sample_page.as_uri())
        text = browser.find_element("tag name", "noscript").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "nothing divides by it" in text and "2 changes unexplained" in text.lower()


def test_a_browser_that_cannot_unpack_says_so(browser, sample_page):
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": "delete window.DecompressionStream"})
    try:
        browser.get("about:blank")
        browser.get(sample_page.as_uri())
        assert "DecompressionStream" in chromium.wait_for(browser, "return document.getElementById('failure').innerText")
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


# Diffs of other shapes


def test_a_diff_without_bodies(browser, folder):
    chromium.open_page(browser, written(folder, "bare", Diff(sample().changes)))
    assert "images_graphmp_float16" in rows(browser)
    press(browser, "e", "n", "g", "g")
    shown = browser.execute_script("return document.body.innerText")
    assert "unexplained" not in shown and "stale" not in shown


def test_identical_graphs(browser, folder):
    graph = view("a/b NoOp", "c NoOp ^a/b")
    chromium.open_page(browser, written(folder, "same", Diff((), bodies=(Body("", graph, graph, {}),))))
    press(browser, "e", "n", "N")
    shown = browser.execute_script("return document.body.innerText")
    assert "no changes" in shown and "The two graphs are the same" in shown
    chromium.open_page(browser, written(folder, "empty", Diff(())))
    press(browser, "e", "c", "j", "k", "n", "p", "N", "P", "o", "g", key("END"), key("ENTER"))


# How much of it is there at a time


def count_rows(driver):
    return driver.execute_script("return document.querySelectorAll('[role=treeitem]').length")


def test_few_rows_are_in_the_document_however_many_there_are(browser, large_page):
    chromium.open_page(browser, large_page)
    found = [count_rows(browser)]
    press(browser, "e")
    found.append(count_rows(browser))
    for place in ("50000", "this.scrollHeight"):
        browser.execute_script("const tree = document.getElementById('tree'); tree.scrollTop = %s" % place.replace("this", "tree"))
        browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        found.append(count_rows(browser))
    press(browser, "/", "relu", key("ENTER"), "n")
    found.append(count_rows(browser))
    assert all(10 < count < 200 for count in found), found
    assert browser.execute_script("return document.querySelectorAll('*').length") < 3000


def test_a_search_in_5000_nodes_is_instant(browser, large_page):
    chromium.open_page(browser, large_page)
    spent = browser.execute_script("""
      const box = document.getElementById('search');
      const start = performance.now();
      for (const text of ['r', 're', 'relu', 'relu layer9']) { box.value = text; box.dispatchEvent(new Event('input')); }
      return performance.now() - start;
    """)
    assert spent < 2000
    assert "found" in browser.execute_script("return document.getElementById('found').innerText")


def test_the_last_row_can_be_reached(browser, large_page):
    chromium.open_page(browser, large_page)
    press(browser, "e", key("END"))
    assert selected(browser) == rows(browser)[-1]
    assert browser.execute_script(
        "const row = document.querySelector('.row.selected').getBoundingClientRect(); return row.bottom <= innerHeight && row.top >= 0"
    )


# How it looks


@pytest.mark.parametrize("width, height", [(1280, 800), (1920, 1080), (480, 800)])
def test_nothing_sticks_out(browser, sample_page, width, height):
    chromium.resize(browser, width, height)
    try:
        chromium.open_page(browser, sample_page, "node=conv1/Conv2D")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.execute_script("return document.getElementById('tree').clientHeight") > 150
    finally:
        chromium.resize(browser, *chromium.WIDE)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("place", ["", "node=conv1/Conv2D", "node=summary/loss&status=unexplained", "node=loss&drawing=large", "node=conv2/kernel"])
def test_text_stands_out_in_both_schemes(browser, sample_page, scheme, place):
    chromium.prefer(browser, scheme)
    try:
        chromium.open_page(browser, sample_page, place)
        paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        contrast, where = browser.execute_script(CONTRAST)
    finally:
        chromium.prefer(browser, "light")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    assert contrast >= 4.5, where


def test_the_tree_speaks_to_screen_readers(page):
    press(page, "j")
    tree = page.execute_script(
        "const tree = document.getElementById('tree'); return [document.activeElement === tree, tree.getAttribute('aria-activedescendant')]"
    )
    assert tree == [True, page.execute_script("return document.querySelector('.row.selected').id")]
    found = page.execute_script("""return [...document.querySelectorAll('[role=treeitem]')].slice(0, 3).map((row) =>
      ['aria-level', 'aria-posinset', 'aria-setsize', 'aria-expanded', 'aria-selected'].map((name) => row.getAttribute(name)))""")
    assert found == [["1", "1", "12", "true", "true"], ["2", "1", "3", None, "false"], ["2", "2", "3", None, "false"]]
