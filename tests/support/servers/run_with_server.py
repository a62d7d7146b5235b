"""What with-postgres and its siblings have in common: a command is run next to a server, whose address is in its environment."""
import os
import signal
import subprocess
import sys


def interrupted(*_):
    sys.exit(130)


def run_with_server(usage, variable, serve):
    """Runs what the program was given. serve() is entered for a server and gives what the command finds in its environment; where `variable`
    is set already that server is used, unless --own comes first. Exits as the command does."""
    words = sys.argv[1:]
    own = words[:1] == ["--own"]
    words = words[own:]
    if not words:
        sys.exit(usage)
    if os.environ.get(variable) and not own:
        os.execvp(words[0], words)
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGINT, interrupted)
    with serve() as environment:
        status = subprocess.call(words, env=os.environ | environment)
    sys.exit(128 - status if status < 0 else status)
