"""Find the Chromium that the browser tests drive, or get one.

Run as a program, it installs one where there is none: from the system's packages as root on Debian
and its relatives, by Playwright's own download elsewhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DEBIAN = ("chromium", "fonts-dejavu-core", "fonts-liberation")


def find_chromium() -> str | None:
    """The path of a Chromium: $CHROMIUM, an installed one, Playwright's own; else None."""
    for name in (os.environ.get("CHROMIUM", ""), *NAMES):
        if path := shutil.which(name):
            return path
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).is_file() else None


def is_root() -> bool:
    """Chromium's sandbox refuses to start as root; and only root may install packages."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def install_chromium() -> None:
    """Raise CalledProcessError where neither way works."""
    if is_root() and shutil.which("apt-get"):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-q"], check=True)
        install = ["apt-get", "install", "-qy", "--no-install-recommends", *DEBIAN]
        subprocess.run(install, check=True, env=environment)
    else:
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True)


if __name__ == "__main__":
    if find_chromium() is None:
        install_chromium()
    print(find_chromium() or sys.exit("Chromium was installed, but is not to be found."))
