"""Reads a page of metrics with the reference parser of OpenMetrics."""

import sys
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families

KIND = "application/openmetrics-text"


def main():
    (url,) = sys.argv[1:]
    with urllib.request.urlopen(url, timeout=30) as answer:
        kind, page = answer.headers.get_content_type(), answer.read().decode()
    if kind != KIND:
        sys.exit(f"the page is called {kind}, and not {KIND}")
    # It refuses histograms without a last bucket, wrong names and units, and a page without an end.
    families = list(text_string_to_metric_families(page))
    histograms = [family for family in families if family.type == "histogram"]
    filled = [family.name for family in histograms if any(sample.value for sample in family.samples)]
    if len(histograms) < 4 or not filled:
        sys.exit(f"of {len(histograms)} histograms these hold something: {filled}")
    print(f"{len(families)} metrics read, {len(histograms)} of them histograms")


main()
