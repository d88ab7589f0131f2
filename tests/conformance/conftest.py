"""--probes DIR: the folder of probe files (default: ../shared/probes)."""


def pytest_addoption(parser):
    parser.addoption(
        "--probes",
        default=None,
        metavar="DIR",
        help="folder of *.jsonl probes (default: shared/probes)",
    )
