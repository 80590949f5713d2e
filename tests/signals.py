"""What a command that a test starts does about signals."""

import signal


def heed_ctrl_c() -> None:
    """For `preexec_fn`: what a shell puts in the background ignores SIGINT, and so would all that the tests start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
