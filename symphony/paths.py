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
# Checked once in each process.
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
    """Return the folder of files that can be made again: $XDG_CACHE_HOME/symphony, else ~/.cache/symphony."""
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
        # A link, not a rename: it fails where another process was first.
        path.hardlink_to(draft)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True


def tmux_socket(server: str) -> Path:
    """Return the socket of a tmux server of this user, the same for every login of the user."""
    socket = home() / "tmux" / f"{server}.sock"
    if len(os.fsencode(socket)) <= SOCKET_PATH_LIMIT:
        return socket
    digest = hashlib.sha256(os.fsencode(home())).hexdigest()[:8]
    return Path("/tmp") / f"symphony-{os.getuid()}-{digest}" / f"{server}.sock"


def experiments() -> Path:
    """Return the folder that has a folder for each experiment in tmux."""
    return home() / "experiments"


def experiment_folder(server: str, session: str) -> Path:
    """Return the folder of an experiment, with one for each of its processes."""
    # Another server may have a session of that name; names of sessions contain no dot.
    return experiments() / (session if server == DEFAULT_SERVER else f"{server}.{session}")


def server_of(folder: Path) -> str:
    """Return the tmux server of an experiment's folder."""
    return folder.name.rpartition(".")[0] or DEFAULT_SERVER


def store_url() -> str:
    """Return the store of the state: $PULUMI_BACKEND_URL, else that of `pulumi login`, else our folder."""
    if chosen := os.environ.get("PULUMI_BACKEND_URL") or _logged_in_store():
        return _plain(chosen, "#%")
    return _plain(f"file://{home() / 'state'}", "#%?")


def _plain(url: str, special: str) -> str:
    """Return the address of a store. UserError: Pulumi cannot read these characters of its folder."""
    if url.startswith("file://") and (illegal := [c for c in url if c in special or not c.isprintable()]):
        raise UserError(
            f"Pulumi cannot keep its state in a folder with {illegal[0]!r} in its name",
            where=repr(url)[1:-1],
            remedy="Set SYMPHONY_HOME or PULUMI_BACKEND_URL to another folder",
        )
    return url


def store_id(url: str | None = None) -> str:
    """Return eight hex digits of the address of the state; files of this machine have them in their names."""
    return hashlib.sha256(_normal(url or store_url()).encode()).hexdigest()[:8]


def store_mark() -> str:
    """Return eight hex digits that no other state has, also not one at the same path elsewhere.

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
    """Write a mark into a store that has none, and return it; None where none can be written."""
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
    """Return the mark in a file. OSError, ValueError: the file has none, or is a pipe or a folder."""
    if not file.is_file():
        raise ValueError(f"{file} is not a file")
    mark = file.read_text(encoding="ascii").strip()
    if len(mark) != 8 or mark.strip("0123456789abcdef"):
        raise ValueError(f"{file} holds no mark")
    return mark


def pulumi_home() -> Path:
    """Return the folder of Pulumi's own files: $PULUMI_HOME, else ~/.pulumi."""
    chosen = os.environ.get("PULUMI_HOME")
    return Path(chosen) if chosen else _user_home() / ".pulumi"


def umask() -> int:
    """Return the umask of this process; on Linux without changing it for a moment."""
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
    """Return the name of this machine in the state; $SYMPHONY_HOST when the machine was renamed."""
    return os.environ.get("SYMPHONY_HOST") or os.uname().nodename


def owner_of(project: str, stack: str) -> str:
    """Return the mark of a stack on its processes and objects, which no other stack of any user has."""
    return f"{project}/{stack}#{store_mark()}"


def stack_of(owner: str) -> str:
    """Return the name of the stack of an owner."""
    return owner.partition("#")[0].rpartition("/")[2]


def owner_label(owner: str, own: str) -> str:
    """Describe the stack of another owner for messages; own: the owner of the reader's stack."""
    stack = owner.partition("#")[0]
    if stack != own.partition("#")[0]:
        return stack
    return f"a different stack named {stack} (another user or Pulumi backend)"


def _normal(url: str) -> str:
    """Return one spelling for each folder, so that file://~/x/ and file:///home/me/x are one store."""
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
    """Return the folder of a variable of the XDG specification, which ignores relative paths."""
    base = os.environ.get(name, "")
    return Path(base) if os.path.isabs(base) else None  # noqa: PTH117 : an empty one is none


def _user_home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return _temporary_home()


def _temporary_home() -> Path:
    """Return our folder in /tmp. SymphonyError: another user owns it, or may write into it."""
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
