#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The broker's page in a real browser: live, filtered, sorted, paged, by mouse and keyboard, light and dark.

Usage: page_test.py BINARIES; $ND_SCREENSHOTS: a directory for pictures.
"""
import os
import pathlib
import shutil
import subprocess
import sys

from browser import Browser
from harness import World, start

ROWS = "[...document.querySelectorAll('#rows tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
# The contrast of text with its background, as defined by WCAG; the minimum over all text.
CONTRAST = """(() => {
  const parse = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = (c) => { const [r, g, b] = parse(c).slice(0, 3).map((v) => { v /= 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  let least = [99, ''];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility()) continue;
    if (e.disabled || e.closest('noscript')) continue;
    let ground = e;
    while (ground && parse(getComputedStyle(ground).backgroundColor)[3] === 0) ground = ground.parentElement;
    const a = light(getComputedStyle(e).color), b = light(getComputedStyle(ground || document.body).backgroundColor);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least[0]) least = [ratio, e.tagName + ' ' + e.className + ' ' + e.textContent.slice(0, 40)];
  }
  return least;
})()"""


def main():
    pictures = os.environ.get("ND_SCREENSHOTS")
    with World(sys.argv[1]) as world:
        world.load("ledger-store", 3)
        # The name of a process is that of its file, and the kernel allows any name.
        evil = world.work / "<i id=evil>x"
        shutil.copy(world.bin / "metrics_load", evil)
        hostile = start([evil, world.directory, "", 1], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        world.callback(world.end, hostile)
        assert hostile.stdout.readline() == b"UP\n"
        world.hold(120, processes=2)

        browser = Browser(world.work)
        world.callback(browser.close)
        browser.look(1280, 900, dark=False)
        browser.call("Page.navigate", url=f"http://127.0.0.1:{world.port}/")
        browser.wait("the page is live", "document.getElementById('state-text') && document.getElementById('state-text').textContent === 'Ready'")
        browser.wait("all are connected", "Number(document.querySelector('#tiles dd').textContent) >= 120", 60)
        browser.wait("applications", "document.getElementById('applications').textContent.includes('ledger-store')")
        browser.wait("rates", "/[1-9].*B\\/s sent/.test(document.getElementById('throughput-now').textContent)")
        browser.wait("a curve", "document.querySelector('#throughput polyline').getAttribute('points').split(' ').length > 2")
        browser.wait("events", "document.querySelectorAll('#events li').length > 3")
        browser.wait("refusals", "document.getElementById('trouble').textContent.includes('no listener')")

        # The name of a client is shown as text.
        browser.wait("the hostile name", "document.getElementById('applications').textContent.includes('<i id=evil>')")
        assert browser.run("document.getElementById('evil') === null")

        # Filter by keyboard, sort by mouse, turn pages by both.
        assert len(browser.run(ROWS)) == 50
        browser.key("/")
        assert browser.run("document.activeElement.id") == "filter"
        for letter in "many-0":
            browser.key(letter)
        browser.wait("the filter", "/of 60\\b/.test(document.getElementById('place').textContent)")
        assert all(row[1] == "many-0" for row in browser.run(ROWS))
        browser.key("Escape")
        browser.key("n")
        browser.wait("the second page", "document.getElementById('place').textContent.startsWith('51–60')")
        browser.click("#previous")
        browser.wait("the first page", "document.getElementById('place').textContent.startsWith('1–50')")
        for order in ("descending", "ascending"):
            browser.click("[data-sort=peer]")
            browser.wait(order, f"document.querySelector('th[aria-sort={order}] button[data-sort=peer]') !== null")
        peers = [int(row[4].rsplit(":", 1)[1]) for row in browser.run(ROWS)]
        assert peers == sorted(peers), peers
        browser.run("document.getElementById('filter').value = 'nobody'; document.getElementById('filter').dispatchEvent(new Event('input'))")
        browser.wait("nothing found", "document.getElementById('rows').textContent.includes('No connection matches')")
        browser.run("document.getElementById('filter').value = ''; document.getElementById('filter').dispatchEvent(new Event('input'))")
        browser.wait("all again", "document.querySelectorAll('#rows tbody tr').length === 50")
        # Every control can be reached with the tab key and has a label.
        nameless = browser.run("[...document.querySelectorAll('button, input, a, [tabindex]')].filter((e) => !e.disabled && !(e.textContent.trim()"
                               " || e.getAttribute('aria-label') || e.labels && e.labels.length)).length")
        assert nameless == 0
        browser.run("document.activeElement.blur()")
        browser.key("p")
        assert browser.run("document.getElementById('pause').getAttribute('aria-pressed')") == "true"
        browser.key("p")

        # Light and dark, wide and narrow: text is readable and nothing overflows.
        ground = set()
        for dark in (False, True):
            for width, height in ((1280, 900), (390, 844)):
                browser.look(width, height, dark)
                browser.wait("it fits", f"document.documentElement.scrollWidth <= {width}")
                least = browser.run(CONTRAST)
                assert least[0] >= 4.5, least
                ground.add(browser.run("getComputedStyle(document.body).backgroundColor"))
                browser.run("window.scrollTo(0, 0)")
                if pictures:
                    pathlib.Path(pictures).mkdir(parents=True, exist_ok=True)
                    browser.screenshot(f"{pictures}/page-{'dark' if dark else 'light'}-{width}.png")
        assert len(ground) == 2, ground

        # A broker that ends and starts again.
        browser.look(1280, 900, dark=False)
        world.end(world.broker)
        browser.wait("it says so", "document.getElementById('state-text').textContent.startsWith('No answer')")
        world.start_broker()
        browser.wait("it is back", "document.getElementById('state-text').textContent === 'Ready'")

        # The page asked no other host, and the content security policy blocked nothing.
        browser.run("1")
        for event in browser.events:
            if event.get("method") == "Network.requestWillBeSent":
                url = event["params"]["request"]["url"]
                assert url.startswith((f"http://127.0.0.1:{world.port}/", "about:")), url
            if event.get("method") == "Log.entryAdded":
                entry = event["params"]["entry"]
                assert entry["source"] != "security" and "Content Security" not in entry["text"], entry
            assert event.get("method") != "Runtime.exceptionThrown", event
    print("the page is live, readable and safe")


if __name__ == "__main__":
    main()
