"""The page in a browser: rows, keys, clicks."""

from __future__ import annotations

ROWS = (
    "return [...document.querySelectorAll('[role=treeitem]')].map((row) => "
    "row.getAttribute('aria-label').split(',')[0])"
)


SELECTED = (
    "const row = document.querySelector('[role=treeitem][aria-selected=true]'); return row && "
    "row.getAttribute('aria-label').split(',')[0]"
)


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


def path_of(driver):
    return driver.execute_script("return decodeURIComponent(location.pathname)")


CONTRAST = """
const luminance = (rgb) => {
  const [r, g, b] = rgb.map((part) => part / 255).map(
    (part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const [r, g, b, a = 1] = parse(getComputedStyle(at).backgroundColor);
    if (a === 1) return [r, g, b];
  }
  const dark = getComputedStyle(document.documentElement).colorScheme === 'dark';
  return dark ? [0, 0, 0] : [255, 255, 255];
};
let worst = [99, ''];
for (const element of document.querySelectorAll('body *')) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || !element.checkVisibility()) continue;
  if (['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(element.tagName)) continue;
  const style = getComputedStyle(element);
  const colour = element instanceof SVGElement ? style.fill : style.color;
  const both = [parse(colour).slice(0, 3), behind(element)];
  const [light, dark] = both.map(luminance).sort((a, b) => b - a);
  const contrast = (light + 0.05) / (dark + 0.05);
  const name = `${element.tagName}.${element.getAttribute('class')} ${element.textContent}`;
  if (contrast < worst[0]) worst = [contrast, name];
}
return worst;
"""


def click(driver, selector):
    driver.execute_script("document.querySelector(arguments[0]).click()", selector)
