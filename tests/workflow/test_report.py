"""The report, opened in a browser without a network: every figure displays, and nothing complains or calls out.

Chromium (Debian's package chromium) is driven over a pipe by its DevTools protocol: JSON messages, each closed by a
null byte, written to its file descriptor 3 and read from its file descriptor 4.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elastiqueue.scenarios.reading import read_yaml
from tests.conftest import ROOT, copy_project

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
)  # fmt: skip
CONFIG = read_yaml(ROOT / "config" / "config.yaml")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: the Debian package chromium is not installed"),
]


class Browser:
    """A page in headless Chromium and the events that it has sent."""

    def __init__(self, profile: Path) -> None:
        to_browser, self.write = os.pipe()
        self.read, from_browser = os.pipe()
        assert CHROMIUM is not None
        # A shell puts the two ends where Chromium looks for them.
        redirect = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(
            ["bash", "-c", redirect, "bash", CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.events: list[dict[str, Any]] = []
        self.rest, self.count, self.session = b"", 0, ""
        page = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Network", "Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")

    def message(self, seconds: float) -> dict[str, Any]:
        while b"\0" not in self.rest:
            if not select.select([self.read], [], [], seconds)[0]:
                raise TimeoutError("the browser is silent")
            if not (data := os.read(self.read, 1 << 20)):
                raise EOFError("the browser is gone")
            self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        os.write(self.write, json.dumps(message | ({"sessionId": self.session} if self.session else {})).encode())
        os.write(self.write, b"\0")
        while (answer := self.message(60)).get("id") != self.count:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def value(self, script: str) -> Any:
        return self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)["result"].get(
            "value"
        )

    def until(self, script: str, seconds: float = 30) -> Any:
        """The value of a script once it is true."""
        end = time.monotonic() + seconds
        while not (value := self.value(script)):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.1)
        return value

    def open(self, path: Path) -> None:
        self.call("Page.navigate", url=path.as_uri())
        self.until("document.readyState == 'complete'")

    def complaints(self) -> list[str]:
        """Errors on the console and in scripts, and requests for anything but the page itself and what is in it."""
        self.value("new Promise(done => setTimeout(done, 300))")
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(f"exception: {params['exceptionDetails'].get('text')}")
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
                found.append(f"console: {params['args']}")
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(f"log: {params['entry']['text']}")
            elif event["method"] == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("file:", "data:", "blob:", "about:")):
                    found.append(f"request: {url}")
        return found

    def close(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            self.call("Browser.close")
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read)
        os.close(self.write)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a finished quick run."""
    folder = copy_project(tmp_path_factory.mktemp("project"))
    shutil.copytree(ROOT / "paper_figures" / "reference", folder / "paper_figures" / "reference", dirs_exist_ok=True)
    options = ["--cores", "2", "--config", "replications=3", "--configfile", "config/quick.yaml"]
    targets = ["everything", "evaluate"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONWARNINGS": ""}
    for more in ([], ["--report", "report.html"]):
        targets = targets if not more else ["everything"]
        command = [sys.executable, "-m", "snakemake", *targets, *options, *more]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1500)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return folder / "report.html"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    one = Browser(tmp_path / "profile")
    yield one
    one.close()


def click(browser: Browser, text: str) -> None:
    """Follow the link with this text."""
    found = f"[...document.querySelectorAll('a')].find(a => a.innerText.trim() == {json.dumps(text)})"
    browser.until(f"!!{found}")
    browser.value(f"{found}.click()")


def row_button(browser: Browser, label: str, icon: str) -> None:
    """Press the button with this icon in the row of a result."""
    row = f"[...document.querySelectorAll('tr')].find(r => r.cells[0].innerText.trim() == {json.dumps(label)})"
    button = f"{row}.querySelector('a[iconname={icon}]')"
    browser.until(f"!!({row}) && !!{button}")
    browser.value(f"{button}.click()")


def test_every_figure_displays_with_its_caption_and_nothing_complains(report: Path, browser: Browser) -> None:
    browser.open(report)
    for name, figure in CONFIG["figures"].items():
        click(browser, f"Paper {figure.get('paper', 'A')}")
        row_button(browser, name, "eye")
        image = f"[...document.images].find(i => i.src.includes('filename={name}.png'))"
        browser.until(f"!!({image}) && {image}.complete && {image}.naturalWidth > 800 && {image}.clientWidth > 100")
        row_button(browser, name, "information-circle")
        caption = " ".join(figure["caption"].partition("{{")[0].split())[:40]
        browser.until(f"document.body.innerText.replace(/\\s+/g, ' ').includes({json.dumps(caption)})")
        browser.value("document.querySelector('nav ol a').click()")  # home
    assert browser.complaints() == []


CLAIMS = read_yaml(ROOT / "config" / "claims.yaml")["claims"]


def test_the_report_opens_on_what_was_run_and_leads_to_figures_and_claims(report: Path, browser: Browser) -> None:
    browser.open(report)
    browser.until("document.body.innerText.includes('Results of the run quick')")
    text = browser.value("document.body.innerText")
    assert browser.value("document.querySelector('h1').getBoundingClientRect().top") >= 0
    for word in ("commit", "seed", "20120712", "machine", "duration", f"of {len(CLAIMS)} claims", *CLAIMS):
        assert word in text
    click(browser, "fig3")
    browser.until("document.body.innerText.includes('Paper A, Figure 3')")
    browser.value("document.querySelector('nav ol a').click()")
    click(browser, "Results and claims")
    row_button(browser, "what was run, claims, figures", "eye")
    source = browser.until("(document.querySelector('iframe') || {}).src")
    assert '<h2 id="A1">' in base64.b64decode(source.partition("base64,")[2]).decode()
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_of_a_run_fits_its_window_and_its_links_lead_somewhere(
    report: Path, browser: Browser, width: int
) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500)
    for page in ("index.html", "evaluation/index.html"):
        folder = (report.parent / "results" / "quick" / page).parent
        browser.open(folder / "index.html")
        assert browser.value("document.documentElement.scrollWidth") <= width
        links = browser.value("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
        missing = [
            link for link in set(links)
            if not (browser.value(f"!!document.querySelector('[id=\"{link[1:]}\"]')") if link[0] == "#"
                    else (folder / link).is_file())
        ]  # fmt: skip
        assert missing == []
        assert browser.value("[...document.images].every(i => i.naturalWidth > 300 && i.clientWidth <= innerWidth)")
        click(browser, "A1")
        assert browser.until("location.hash == '#A1'")
    assert browser.complaints() == []


def test_a_page_that_complains_and_calls_out_is_found(tmp_path: Path, browser: Browser) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<!doctype html><img src='http://127.0.0.1:9/a.png'><script>console.error('one'); undefinedName</script>"
    )
    browser.open(page)
    kinds = {complaint.partition(":")[0] for complaint in browser.complaints()}
    assert {"exception", "console", "request"} <= kinds
