"""Questions on the page and their answers, the most important first."""

from __future__ import annotations

from tests.support import chromium
from tests.support.page_head import ask, focused
from tests.support.page_in_browser import key, press

chromium.skip_without_one()


FOUND = "return document.getElementById('found').innerText"


def test_questions_stay_in_sight(scaled):
    in_sight = """
      const box = document.querySelector('.question').getBoundingClientRect();
      return box.top >= 0 && box.bottom <= innerHeight && document.querySelector('.question').checkVisibility();
    """
    assert scaled.execute_script(in_sight)
    press(scaled, "e", key("END"))
    scaled.execute_script(
        "document.getElementById('details').scrollTop = 10000;"
        " document.getElementById('tree').scrollTop = 10000"
    )
    assert scaled.execute_script(in_sight)


def test_a_asks_by_keyboard_and_again_takes_the_question_back(scaled):
    press(scaled, "a")
    assert focused(scaled).startswith("What does the report not explain?")
    press(scaled, key("ENTER"))
    asked = "return [...document.querySelectorAll('.question[aria-pressed=true]')].length"
    assert scaled.execute_script(asked) == 1
    press(scaled, "a", key("ENTER"))
    assert scaled.execute_script(asked) == 0 and scaled.execute_script(
        "return document.getElementById('clear').hidden"
    )


def test_answers_come_by_importance(scaled):
    ask(scaled, "What stayed float32")
    answers = scaled.execute_script(
        "return [...document.querySelectorAll('.pattern-text')].map((text) => text.textContent)"
    )
    assert answers[0] == "first/MatMul"  # a matmul, then what is work, then what only holds values
    assert (
        scaled.execute_script(
            "return document.getElementById('details').querySelector('h2').textContent"
        )
        == "first/MatMul"
    )
    assert (
        scaled.execute_script("return document.getElementById('pattern-title').textContent")
        == "Answers"
    )


def test_an_answer_leads_to_its_nodes(scaled):
    ask(scaled, "What stayed float32")
    scaled.execute_script(
        "[...document.querySelectorAll('.pattern')].find((b) =>"
        " b.textContent.includes('kernel')).click()"
    )
    assert scaled.execute_script(FOUND).startswith("1 found")
