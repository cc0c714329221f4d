"""The page of a result, opened in a real headless Chromium."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import synthetic

from cohsim.report.html import render_page
from cohsim.results.rundata import LINE_STATS, RunData

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.browser

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")  # fmt: skip
OPEN_SECONDS = 2.0
LINES = 100


def chromium() -> tuple[str, str]:
    """Paths of Chromium and its driver. Skips with the reason where they are missing; fails there if COHSIM_BROWSER=required."""
    browser = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    try:
        import selenium  # noqa: F401
    except ImportError:
        driver = None
    if browser is None or driver is None:
        reason = "needs Chromium, chromedriver (Debian: apt-get install chromium chromium-driver) and the Python package selenium"
        if os.environ.get("COHSIM_BROWSER") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    return browser, driver


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    paths = chromium()
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = paths[0]
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = Chrome(options=options, service=ChromeService(paths[1]))
    chrome.set_page_load_timeout(60)
    yield chrome
    chrome.quit()


def many_lines() -> RunData:
    """A hundred lines whose moves as text sort otherwise than as numbers: 0, 7, 14, ... 693."""
    data = synthetic.run_data()
    data.line_address = 0x100000 + 64 * np.arange(LINES)
    data.line_stats = np.zeros((LINES, len(LINE_STATS)), np.int64)
    data.line_stats[:, LINE_STATS.index("transfers_far")] = 7 * np.arange(LINES)[::-1]
    data.line_stats[:, LINE_STATS.index("stall_fs")] = 1_000_000_000 * (1 + np.arange(LINES))
    return data


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "out.html"
    path.write_text(render_page(synthetic.result(many_lines())), encoding="utf-8")
    return path


def open_page(browser: Chrome, page: Path, width: int = 1200, height: int = 900) -> None:
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    for kind in ("browser", "performance"):
        browser.get_log(kind)  # what earlier pages left
    browser.get(page.as_uri())


def column(browser: Chrome, table: str, number: int) -> list[str]:
    """Texts of a column of the rows that are shown."""
    rows = "document.querySelectorAll(`#table-${arguments[0]} tbody tr:not([hidden])`)"
    script = f"return [...{rows}].map(r => r.cells[arguments[1]].textContent.trim())"
    return browser.execute_script(script, table, number)


def click(browser: Chrome, selector: str) -> None:
    from selenium.webdriver.common.by import By

    element = browser.find_element(By.CSS_SELECTOR, selector)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()


def requests(browser: Chrome) -> list[str]:
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def test_page_opens_in_time_without_an_error_or_a_request(browser: Chrome, page: Path) -> None:
    took = []
    for _ in range(3):  # the first pays for the browser's own start, and the machine may be busy
        open_page(browser, page)
        took.append(browser.execute_script("return performance.getEntriesByType('navigation')[0].duration") / 1000)
    drawn = browser.execute_script("return document.querySelectorAll('svg').length")
    assert browser.get_log("browser") == []
    sent = requests(browser)
    assert sent and all(url == page.as_uri() or url.startswith("data:") for url in sent), sent
    assert drawn == 4, "two charts of bars, latency, transfers"
    assert 0 < min(took) < OPEN_SECONDS, took


def test_tables_sort_numerically_both_ways(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    click(browser, "[data-more=table-lines]")
    assert len(column(browser, "lines", 2)) == LINES
    expected = [f"{7 * n:,}" for n in range(LINES)]
    head = "#table-lines thead th:nth-child(3)"
    click(browser, f"{head} button")
    assert column(browser, "lines", 2) == expected[::-1], "numbers: largest first"
    assert browser.execute_script(f"return document.querySelector('{head}').getAttribute('aria-sort')") == "descending"
    click(browser, f"{head} button")
    assert column(browser, "lines", 2) == expected
    assert browser.execute_script("return document.querySelectorAll('#table-lines [aria-sort]').length") == 1
    click(browser, "#table-primitives thead th:nth-child(1) button")
    assert column(browser, "primitives", 0) == ["atomic_inc", "dst_release", "forward"], "names: alphabetically"


def test_heading_works_from_the_keyboard(browser: Chrome, page: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    open_page(browser, page)
    browser.find_element(By.CSS_SELECTOR, "#table-threads thead th:nth-child(1) button").send_keys(Keys.ENTER)
    assert column(browser, "threads", 0) == ["1", "0"]
    browser.find_element(By.CSS_SELECTOR, "#table-threads thead th:nth-child(1) button").send_keys(Keys.SPACE)
    assert column(browser, "threads", 0) == ["0", "1"]


def test_filter_and_show_all(browser: Chrome, page: Path) -> None:
    from selenium.webdriver.common.by import By

    open_page(browser, page)
    assert len(column(browser, "lines", 0)) == 20
    field = browser.find_element(By.CSS_SELECTOR, "[data-filter=table-lines]")
    field.send_keys("0x1000C0")  # any case
    assert column(browser, "lines", 0) == ["0x1000c0"]
    field.clear()
    field.send_keys("nothing has this name")
    assert column(browser, "lines", 0) == []
    assert browser.find_element(By.CSS_SELECTOR, "[data-count=table-lines]").text == "0 rows"


def test_pointer_explains_and_legend_hides(browser: Chrome, page: Path) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    open_page(browser, page)
    bar = browser.find_element(By.CSS_SELECTOR, "[data-bars='0'] .row:first-of-type .part")
    browser.execute_script("document.documentElement.style.scrollBehavior = 'auto'; arguments[0].scrollIntoView({block: 'center'})", bar)
    time.sleep(0.2)  # the scroll event that closes the tip comes a frame later
    ActionChains(browser).move_to_element(bar).perform()
    tip = browser.find_element(By.ID, "tip")
    assert tip.is_displayed() and tip.text.startswith("CPU 0\n30.00 % of time\n"), tip.text  # issue and remote_dirty: 300 of 1000 us each
    total = "return document.querySelector(`[data-bars='1'] .row text.soft`).textContent"
    assert browser.execute_script(total) == "63 %"  # atomic_inc: 1000 of 1600 us
    click(browser, "[data-category=retry]")
    assert browser.execute_script(total) == "44 %"  # without its 300 us of retry
    assert browser.find_element(By.CSS_SELECTOR, "[data-category=retry]").get_attribute("aria-pressed") == "false"
    click(browser, "[data-category=retry]")
    assert browser.execute_script(total) == "63 %"


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_sticks_out_on_a_phone(browser: Chrome, page: Path, width: int) -> None:
    open_page(browser, page, width, 844)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    svg = "document.querySelector('.chart svg')"
    drawn = f"{svg}.getBoundingClientRect().width / {svg}.viewBox.baseVal.width"
    size = browser.execute_script(f"return parseFloat(getComputedStyle({svg}.querySelector('text')).fontSize) * {drawn}")
    assert size == pytest.approx(12, rel=0.02), "charts are drawn at the width they have, so that their text stays readable"


def luminance(rgb: list[float]) -> float:
    """WCAG relative luminance of 0..255 values."""
    linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_both_schemes(browser: Chrome, page: Path, scheme: str) -> None:
    """WCAG AA: 4.5 to 1, for body, soft text and links on the page's paper."""
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    open_page(browser, page)
    style = "const c = getComputedStyle(document.querySelector(arguments[0]));"
    script = f"{style} return [c.color, c.backgroundColor].map(t => t.match(/[\\d.]+/g).map(Number))"
    paper: Any = browser.execute_script(script, "body")[1][:3]
    assert (luminance(paper) > 0.5) == (scheme == "light")
    for selector in ("body", ".kicker", "nav a", "figcaption small"):
        light, dark = sorted((luminance(browser.execute_script(script, selector)[0][:3]), luminance(paper)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, selector
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_structure_is_accessible(browser: Chrome, page: Path) -> None:
    """Headings in order, every table has scoped headings, every control and picture a name; asked of the browser's accessibility tree."""
    open_page(browser, page)
    levels = browser.execute_script("return [...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1])")
    assert levels[0] == 1 and levels.count(1) == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:], strict=False))
    assert browser.execute_script("return [...document.querySelectorAll('th')].every(h => h.scope === 'col' || h.scope === 'row')")
    browser.execute_cdp_cmd("Accessibility.enable", {})
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    named = [n for n in nodes if n.get("role", {}).get("value") in ("button", "searchbox", "link", "image", "region", "figure")]
    assert len(named) > 50
    nameless = [n for n in named if not n.get("name", {}).get("value") and n["role"]["value"] != "figure"]
    assert not nameless, nameless[:3]


def test_markup_in_names_stays_text(browser: Chrome, tmp_path: Path) -> None:
    import dataclasses

    work = synthetic.workload()
    evil = "<img src=x onerror=window.pwned=1>"
    work = dataclasses.replace(work, func_names=[evil, "dst_release"], name=evil)
    from cohsim.experiment import prepare
    from cohsim.results.build import build_result

    spec = prepare("t4240", "micro/atomic_inc", cpus=1).machine_spec
    result = build_result(spec, synthetic.machine(), work, synthetic.run_data(), synthetic.provenance())
    (tmp_path / "evil.html").write_text(render_page(result), encoding="utf-8")
    open_page(browser, tmp_path / "evil.html")
    assert browser.execute_script("return [window.pwned === undefined, document.images.length]") == [True, 0]
    assert evil in column(browser, "functions", 0)
    assert browser.get_log("browser") == []
