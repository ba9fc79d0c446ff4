"""The contents of the page: tree, filters, patterns, details."""

from __future__ import annotations

import collections

from tests.support import chromium
from tests.support.page_in_browser import click, key, path_of, press, rows, selected
from tests.support.pages import sample

chromium.skip_without_one()


DETAILS = "return document.getElementById('details').innerText"


def test_starts_with_the_scopes_of_both_sides_and_their_counts(page):
    assert rows(page)[:4] == ["conv1", "Conv2D", "kernel", "kernel_graphmp_float16"]
    counts = page.execute_script(
        "return [...document.querySelectorAll('.row')].map((row) => [row.innerText.split('\\n')[0],"
        " row.querySelector('.count')?.innerText])"
    )
    assert dict(map(tuple, counts))["conv1"] == "3"


def test_what_is_unexplained_or_stale_leads_the_page(page):
    shown = page.execute_script("return document.getElementById('attention').innerText")
    assert (
        "2 changes unexplained" in shown
        and "The report is stale: the graphs don't have 1 change" in shown
    )
    assert "scale cancels" in page.execute_script(
        "return document.querySelector('.claim').innerText"
    )  # failed claims come first


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
    assert (
        page.execute_script(
            "return document.querySelector('.row.selected .before .name').innerText"
        )
        == "tower/out"
    )
    assert "was tower/out" in page.execute_script(DETAILS).replace("\n", " ")


def test_counts_of_filters_are_those_of_the_json_form(page):
    diff = sample()
    shown = page.execute_script(
        "return [...document.querySelectorAll('.choice')].map((b) => [b.dataset.group,"
        " ...b.innerText.split('\\n')])"
    )
    counts = {(group, name): int(count) for group, name, count in shown}
    expected = {
        ("category", name): count
        for name, count in collections.Counter(
            c["category"] for c in diff.to_json()["changes"]
        ).items()
    }
    kinds = collections.Counter(change.kind for change in diff.changes + diff.kept if change.kind)
    expected.update({("kind", name): count for name, count in kinds.items()})
    expected.update(
        {
            ("status", "unexplained"): len(diff.unexplained),
            ("status", "explained"): len(diff.changes) - len(diff.unexplained),
        }
    )
    assert counts == expected


def test_every_filter_leaves_the_rows_that_it_counts(page):
    buttons = page.execute_script(
        "return [...document.querySelectorAll('.choice')].map((b) => [b.dataset.group,"
        " b.dataset.value, b.innerText.split('\\n')[0]])"
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
        assert (
            page.execute_script(
                "return document.querySelector(arguments[0]).getAttribute('aria-pressed')", selector
            )
            == "true"
        )
        click(page, selector)
    assert page.execute_script("return document.getElementById('clear').hidden")


def test_choices_of_a_group_add_up_and_groups_narrow(page):
    click(page, ".choice[data-group=category]:last-of-type")  # node added
    found = "return document.getElementById('found').innerText"
    assert page.execute_script(found) == "6 found, 6 changes"
    for name in ("cast up", "scale"):
        page.execute_script(
            "[...document.querySelectorAll('.choice.kind')].find((b) =>"
            " b.innerText.startsWith(arguments[0])).click()",
            name,
        )
    assert page.execute_script(found) == "2 found, 2 changes"
    click(page, "#clear")
    assert page.execute_script(found) == "%d changes" % len(sample().changes)


def test_a_claim_leads_to_its_nodes(page):
    click(page, ".claim.failed")
    assert rows(page) == ["graphmp", "loss_scale", "scaled_loss"]
    assert selected(page) == "scaled_loss"


def test_a_pattern_leads_to_its_nodes(page):
    find = (
        "[...document.querySelectorAll('.pattern')].find((pattern) =>"
        " pattern.innerText.includes('3'))"
    )
    assert "conv*/Conv2D" in page.execute_script(
        "const found = %s; found.click(); return found.textContent" % find
    )
    assert (
        page.execute_script("return document.getElementById('found').innerText")
        == "3 found, 3 changes"
    )


def test_patterns_are_those_of_what_else_is_asked_for(page):
    page.execute_script(
        "[...document.querySelectorAll('.choice.kind')].find((b) =>"
        " b.innerText.startsWith('allow')).click()"
    )
    assert page.execute_script(
        "return [...document.querySelectorAll('.pattern-text')].map((text) => text.textContent)"
    ) == ["conv*/Conv2D"]
    assert page.execute_script(
        "return document.getElementById('pattern-count').innerText"
    ).startswith("1 of ")


def test_every_question_has_an_answer(page):
    questions = page.execute_script(
        "return [...document.querySelectorAll('.question span:first-child')].map((span) =>"
        " span.innerText)"
    )
    assert len(questions) == 6
    for question in questions:
        press(page, key("ESCAPE"), key("ESCAPE"))
        page.execute_script(
            "[...document.querySelectorAll('.question')].find((b) =>"
            " b.innerText.startsWith(arguments[0])).click()",
            question,
        )
        assert selected(page) is not None, question
        assert (
            page.execute_script("return document.getElementById('found').innerText").split(
                " found"
            )[0]
            != "0"
        ), question


def test_details_say_why(page):
    chromium.open_page(page, path_of(page), "node=conv1/Conv2D")
    text = page.execute_script(DETAILS)
    for part in (
        "float32",
        "float16",
        "allow",
        "Conv2D is worth half precision",
        "3 alike",
        "conv1/kernel_graphmp_float16",
        "conv2/Conv2D",
    ):
        assert part in text
    chromium.open_page(page, path_of(page), "node=conv2/kernel")
    text = page.execute_script(DETAILS)
    assert "stayed float32" in text and "stored in float32" in text and "3 of 3 float32" in text


def test_links_of_details_and_boxes_of_the_drawing_select(page):
    chromium.open_page(page, path_of(page), "node=conv1/Conv2D")
    page.execute_script(
        "[...document.querySelectorAll('#details .link')].find((link) => link.innerText ==="
        " 'conv2/Conv2D').click()"
    )
    assert (
        page.execute_script("return document.querySelector('#details h2').innerText")
        == "conv2/Conv2D"
    )
    page.execute_script(
        "document.querySelector('#drawing-before .box:not(.selected)').dispatchEvent(new"
        " MouseEvent('click', {bubbles: true}))"
    )
    assert (
        page.execute_script("return document.querySelector('#details h2').innerText")
        == "conv1/Conv2D"
    )


def test_the_drawing_tells_casts_and_half_precision_apart(page):
    chromium.open_page(page, path_of(page), "node=conv1/Conv2D")
    classes = page.execute_script(
        "return [...document.querySelectorAll('#drawing .box')].map((box) =>"
        " box.getAttribute('class').split(' '))"
    )
    assert sum("cast" in names for names in classes) == 2
    assert any("half" in names and "cast" not in names for names in classes)
