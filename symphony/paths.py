"""The places of symphony's and Pulumi's files on this machine."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from functools import cache as remembered
from pathlib import Path

from symphony.errors import SymphonyError, UserError

# sun_path holds 108 bytes with its terminating NUL; tmux refuses longer ones.
SOCKET_PATH_LIMIT = 107
TEMPORARY = Path("/tmp")
# Experiments run in this tmux server unless the setting `server` names another one.
DEFAULT_SERVER = "default"
# Looked at once a process.
_own_folders: set[Path] = set()


def home() -> Path:
    """Return $SYMPHONY_HOME, else $XDG_STATE_HOME/symphony, else ~/.local/state/symphony.

    Not $XDG_RUNTIME_DIR: that one is absent under cron or su, and two folders would mean two servers.

    Raises:
        UserError: another user owns it or its state, or may write there: a state names code that is run.
    """
    if chosen := os.environ.get("SYMPHONY_HOME"):
        folder = Path(chosen).expanduser().absolute()
    else:
        folder = (_xdg("XDG_STATE_HOME") or _user_home() / ".local" / "state") / "symphony"
    for part in (folder, folder / "state"):
        if part not in _own_folders:
            _refuse_of_others(part)
    return folder


def _refuse_of_others(folder: Path) -> None:
    try:
        facts = folder.stat()
    except OSError:
        return  # Made later, by this user.
    if facts.st_uid != os.geteuid():
        raise UserError(
            f"symphony's folder belongs to another user (uid {facts.st_uid})",
            where=str(folder),
            remedy="Set SYMPHONY_HOME to a folder of your own",
        )
    if facts.st_mode & 0o022:
        raise UserError(
            f"other users can write to symphony's folder (mode {facts.st_mode & 0o777:03o})",
            where=str(folder),
            remedy=f"Run `chmod go-w {folder}` if its files are yours, or set another SYMPHONY_HOME",
        )
    _own_folders.add(folder)


def cache() -> Path:
    """Return the folder of what can be built again: $XDG_CACHE_HOME/symphony, else ~/.cache/symphony."""
    return (_xdg("XDG_CACHE_HOME") or _user_home() / ".cache") / "symphony"


def private_folder(path: Path) -> Path:
    """Make path and what is missing above it readable by the owner only, whatever the umask; return it.

    One of ours that a plain `pulumi` made under an open umask is closed as well; what is outside of home() is
    not ours to close, nor is home() itself, which a user may have put anywhere.
    """
    for folder in [*reversed(path.parents), path]:
        ours = home() in folder.parents
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            if folder == path or ours or folder == home():
                folder.chmod(0o700)
        elif ours and (now := folder.stat()).st_mode & 0o077 and now.st_uid == os.geteuid():
            folder.chmod(0o700)
    return path


def new_file(path: Path, text: str) -> bool:
    """Write a file for its owner only, whole or not at all; False where there is one, also just made."""
    if path.exists():
        return False
    private_folder(path.parent)
    draft = path.with_name(f"{path.name}.{os.urandom(4).hex()}.new")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # A link, not a rename: whoever comes second keeps the first one's.
        path.hardlink_to(draft)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True


def tmux_socket(server: str) -> Path:
    """The socket of the named tmux server of this user; the same for every login of the user."""
    socket = home() / "tmux" / f"{server}.sock"
    if len(os.fsencode(socket)) <= SOCKET_PATH_LIMIT:
        return socket
    digest = hashlib.sha256(os.fsencode(home())).hexdigest()[:8]
    return Path("/tmp") / f"symphony-{os.getuid()}-{digest}" / f"{server}.sock"


def experiments() -> Path:
    """Below it every experiment in tmux has a folder."""
    return home() / "experiments"


def experiment_folder(server: str, session: str) -> Path:
    """Return the folder of an experiment, with one for each of its processes."""
    # Another server may hold a session of that name; the dot is in no name of a session.
    return experiments() / (session if server == DEFAULT_SERVER else f"{server}.{session}")


def server_of(folder: Path) -> str:
    """The tmux server of an experiment's folder."""
    return folder.name.rpartition(".")[0] or DEFAULT_SERVER


def store_url() -> str:
    """The Pulumi state in use: $PULUMI_BACKEND_URL, else the user's `pulumi login`, else a folder of ours."""
    if chosen := os.environ.get("PULUMI_BACKEND_URL") or _logged_in_store():
        return _plain(chosen, "#%")
    return _plain(f"file://{home() / 'state'}", "#%?")


def _plain(url: str, special: str) -> str:
    """The address of a state. UserError: Pulumi reads these characters of a folder as something else."""
    if url.startswith("file://") and (result := [c for c in url if c in special or not c.isprintable()]):
        raise UserError(
            f"Pulumi cannot keep its state in a folder with {result[0]!r} in its name",
            where=repr(url)[1:-1],
            remedy="Set SYMPHONY_HOME or PULUMI_BACKEND_URL to another folder",
        )
    return url


def store_id(url: str | None = None) -> str:
    """Eight hex digits for where the state lies, by which files of this machine are named."""
    return hashlib.sha256(_normal(url or store_url()).encode()).hexdigest()[:8]


def store_mark() -> str:
    """Eight hex digits that tell this state from every other, also from one at the same path elsewhere.

    Two people who are root in two containers may share a cluster. A store of files has the digits in it, and
    home() has a copy, which outlives a state that is deleted. A store with an address is told by that.
    """
    url = _normal(store_url())
    if not url.startswith("file://"):
        return store_id(url)
    folder = Path(url.removeprefix("file://"))
    within, copy = folder / ".pulumi" / "symphony-id", home() / "stores" / store_id(url)
    try:
        return _mark_in(within)
    except (OSError, ValueError):
        return _marked(folder, within, copy) or store_id(url)


def _marked(folder: Path, *places: Path) -> str | None:
    """The mark of a store that does not have it yet, from then on; None where none can be written."""
    known = next((mark for place in places if (mark := _mark_or_none(place))), None)
    if not folder.is_dir():
        return known
    for place in places:
        try:
            if _mark_or_none(place) is None:
                place.unlink(missing_ok=True)
            new_file(place, f"{known or os.urandom(4).hex()}\n")
        except OSError:
            continue
        # Another may have been first.
        known = known or _mark_or_none(place)
    return known


def _mark_or_none(file: Path) -> str | None:
    try:
        return _mark_in(file)
    except (OSError, ValueError):
        return None


@remembered
def _mark_in(file: Path) -> str:
    """The mark that a file holds. OSError, ValueError: it holds none."""
    mark = file.read_text(encoding="ascii").strip()
    if len(mark) != 8 or mark.strip("0123456789abcdef"):
        raise ValueError(f"{file} holds no mark")
    return mark


def pulumi_home() -> Path:
    """Return the folder of Pulumi's own files: $PULUMI_HOME, else ~/.pulumi."""
    chosen = os.environ.get("PULUMI_HOME")
    return Path(chosen) if chosen else _user_home() / ".pulumi"


def umask() -> int:
    """The umask of this process, without a moment in which it is another one where Linux tells it."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123 : hot path
            for line in status:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def host() -> str:
    """The name under which state remembers this machine; $SYMPHONY_HOST when the machine was renamed."""
    return os.environ.get("SYMPHONY_HOST") or os.uname().nodename


def owner_of(project: str, stack: str) -> str:
    """Return the mark of a stack on what it owns, which no other stack of any user has."""
    return f"{project}/{stack}#{store_mark()}"


def stack_of(owner: str) -> str:
    """The name of the stack that an owner is."""
    return owner.partition("#")[0].rpartition("/")[2]


def owner_label(owner: str, own: str) -> str:
    """The stack of another owner in words, for whom the stack of the reader is `own`."""
    stack = owner.partition("#")[0]
    if stack != own.partition("#")[0]:
        return stack
    return f"a different stack named {stack} (another user or Pulumi backend)"


def _normal(url: str) -> str:
    """One spelling for each folder, so that file://~/x/ and file:///home/me/x are one store."""
    if not url.startswith("file://"):
        return url.rstrip("/")
    path = url.removeprefix("file://").partition("?")[0]
    return f"file://{os.path.normpath(Path(path).expanduser().absolute())}"


def _logged_in_store() -> str | None:
    try:
        current = json.loads((pulumi_home() / "credentials.json").read_text()).get("current")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return current if isinstance(current, str) and current else None


def _xdg(name: str) -> Path | None:
    """The folder that a variable of the XDG specification names, which has a relative one ignored."""
    base = os.environ.get(name, "")
    return Path(base) if os.path.isabs(base) else None  # noqa: PTH117 : an empty one is none


def _user_home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return _temporary_home()


def _temporary_home() -> Path:
    """A folder in /tmp. SymphonyError: another made it, or may write into it, and so into what we believe."""
    folder = TEMPORARY / f"symphony-home-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        facts = folder.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
            raise SymphonyError(
                f"{folder} is not a private folder of this user", remedy="Set HOME, or remove that folder"
            ) from None
    return folder
