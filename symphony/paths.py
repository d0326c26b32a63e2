"""Paths of symphony's and Pulumi's files on this machine, and the identity of a state store."""

import hashlib
import json
import os
import pwd
from contextlib import suppress
from functools import cache as remembered
from pathlib import Path

from symphony.errors import UserError

# sun_path holds 108 bytes with its terminating NUL; tmux refuses longer ones.
SOCKET_PATH_LIMIT = 107
TEMPORARY = Path("/tmp")
# Experiments run in this tmux server unless the setting `server` names another one.
DEFAULT_SERVER = "default"
# The file beside a copy of code that records its origin; operations.kept_code writes it.
ORIGIN = ".symphony-origin.json"
# The folders that no other user owns or may write to; each is checked once in a process.
_checked_folders: set[Path] = set()


def home() -> Path:
    """Return $SYMPHONY_HOME, else $XDG_STATE_HOME/symphony, else ~/.local/state/symphony.

    Not $XDG_RUNTIME_DIR: it is unset under cron or su, and two folders would mean two tmux servers.

    Raises:
        UserError: Another user owns the folder or may write to it, and so could have symphony run code that
            a state in it names.
    """
    if chosen := os.environ.get("SYMPHONY_HOME"):
        folder = Path(chosen).expanduser().absolute()
    else:
        folder = (_xdg("XDG_STATE_HOME") or _user_home() / ".local" / "state") / "symphony"
    for part in (folder, folder / "state"):
        if part not in _checked_folders:
            _refuse_shared(part)
    return folder


def _refuse_shared(folder: Path) -> None:
    try:
        owners = {folder.lstat().st_uid} - {0}  # the owner of a link can lead it elsewhere
        facts = folder.stat()
    except FileNotFoundError:
        if folder.is_symlink():
            raise UserError(
                f"symphony's folder is a link to a missing folder, {folder.readlink()}",
                where=str(folder),
                remedy="Make that folder, or set another SYMPHONY_HOME",
            ) from None
        return  # Made later, by this user.
    except OSError:
        return
    if others := {*owners, facts.st_uid} - {os.geteuid()}:
        raise UserError(
            f"symphony's folder belongs to another user (uid {others.pop()})",
            where=str(folder),
            remedy="Set SYMPHONY_HOME to a folder of your own",
        )
    if facts.st_mode & 0o022:
        raise UserError(
            f"other users can write to symphony's folder (mode {facts.st_mode & 0o777:03o})",
            where=str(folder),
            remedy=f"Run `chmod go-w {folder}` if its files are yours, or set another SYMPHONY_HOME",
        )
    _checked_folders.add(folder)


def cache() -> Path:
    """Return the folder of files that can be re-created: $XDG_CACHE_HOME/symphony, else ~/.cache/symphony."""
    return (_xdg("XDG_CACHE_HOME") or _user_home() / ".cache") / "symphony"


def project_of_copy(folder: Path) -> str | None:
    """Return the folder of the project of which a folder is a copy; None if it is no copy of ours."""
    file = folder.parent / ORIGIN
    # The folder of a running program has no links.
    if file.is_file() and home().resolve() in folder.resolve().parents:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return str(json.loads(file.read_bytes())["folder"])
    return None


def private_folder(path: Path) -> Path:
    """Create a folder and its missing parents for the owner only, whatever the umask; return it.

    Existing folders below home() are closed too: a plain `pulumi` may have made them under an open umask.
    home() itself and folders outside of it keep their mode, since the user chose them.
    """
    root = home()
    folders = [*reversed(path.parents), path]
    if root in folders and root.is_dir():
        folders = folders[folders.index(root) + 1 :]
    for folder in folders:
        ours = root in folder.parents
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            if ours or folder in (path, root):
                folder.chmod(0o700)
        elif ours and (now := folder.stat()).st_mode & 0o077 and now.st_uid == os.geteuid():
            folder.chmod(0o700)
    return path


def new_file(path: Path, text: str) -> bool:
    """Create a private file atomically; return False if the path exists, even since a moment ago."""
    if path.exists():
        return False
    private_folder(path.parent)
    draft = path.with_name(f"{path.name}.{os.urandom(4).hex()}.new")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # A hard link, not a rename: it fails if another process was first.
        path.hardlink_to(draft)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True


def tmux_socket(server: str) -> Path:
    """Return the socket of a tmux server of this user, the same in every login session."""
    socket = home() / "tmux" / f"{server}.sock"
    if len(os.fsencode(socket)) <= SOCKET_PATH_LIMIT:
        return socket
    digest = hashlib.sha256(os.fsencode(home())).hexdigest()[:8]
    return Path("/tmp") / f"symphony-{os.getuid()}-{digest}" / f"{server}.sock"


def experiments() -> Path:
    """Return the folder that holds the folders of the experiments in tmux."""
    return home() / "experiments"


def experiment_folder(server: str, session: str) -> Path:
    """Return the folder of an experiment, which holds the folders of its processes."""
    # Another server may have a session of that name; names of sessions contain no dot.
    return experiments() / (session if server == DEFAULT_SERVER else f"{server}.{session}")


def server_of(folder: Path) -> str:
    """Return the tmux server of an experiment's folder."""
    return folder.name.rpartition(".")[0] or DEFAULT_SERVER


def store_url() -> str:
    """Return the URL of the state: $PULUMI_BACKEND_URL, else `pulumi login`'s, else symphony's folder."""
    if chosen := os.environ.get("PULUMI_BACKEND_URL") or _logged_in_store():
        return _plain(_absolute(chosen), "#%")
    return _plain(f"file://{home() / 'state'}", "#%?")


def _absolute(url: str) -> str:
    """Return a URL whose folder does not depend on the current folder of the engine."""
    path = url.removeprefix("file://")
    return url if path == url or path.startswith(("/", "~")) else f"file://{Path(path).absolute()}"


def _plain(url: str, special: str) -> str:
    """Return the URL of a store, or raise UserError if Pulumi cannot read its folder's name."""
    if url.startswith("file://") and (invalid := [c for c in url if c in special or not c.isprintable()]):
        raise UserError(
            f"Pulumi cannot keep state in a folder whose name contains {invalid[0]!r}",
            where=repr(url)[1:-1],
            remedy="Set SYMPHONY_HOME or PULUMI_BACKEND_URL to another folder",
        )
    return url


def store_id(url: str | None = None) -> str:
    """Return eight hex digits of the state's URL, for file names on this machine."""
    return hashlib.sha256(_normal(url or store_url()).encode()).hexdigest()[:8]


def store_identity() -> str:
    """Return eight hex digits that identify the state store.

    The URL does not identify a file store: two users who are root in two containers may have stores at the
    same path and share a cluster. So a file store holds random digits, and home() a copy, which remains if
    the store is deleted. The URL is used for a remote store, for one whose folder does not exist yet, and if
    neither place can be written.
    """
    url = _normal(store_url())
    if not url.startswith("file://"):
        return store_id(url)
    folder = Path(url.removeprefix("file://"))
    within, copy = folder / ".pulumi" / "symphony-id", home() / "stores" / store_id(url)
    return _ensure_identity(folder, within, copy) or store_id(url)


def _ensure_identity(folder: Path, *places: Path) -> str | None:
    """Return the identity of a store, written where it is missing or damaged; None if that is impossible."""
    identities = [_identity_or_none(place) for place in places]
    known = next(filter(None, identities), None)
    if all(identities) or not folder.is_dir():
        return known
    for place in (place for place, identity in zip(places, identities, strict=True) if identity is None):
        with suppress(OSError):
            if place.is_dir() and not place.is_symlink():
                place.rmdir()
            else:
                place.unlink(missing_ok=True)
            new_file(place, f"{known or os.urandom(4).hex()}\n")
        # Another process may have been first.
        known = known or _identity_or_none(place)
    return known


def _identity_or_none(file: Path) -> str | None:
    try:
        return _identity_in(file)
    except (OSError, ValueError):
        return None


@remembered
def _identity_in(file: Path) -> str:
    """Return the identity in a file; raise OSError or ValueError if it holds none."""
    if not file.is_file():
        raise ValueError(f"{file} is not a file")
    identity = file.read_text(encoding="ascii").strip()
    if len(identity) != 8 or identity.strip("0123456789abcdef"):
        raise ValueError(f"{file} holds no identity")
    return identity


def pulumi_home() -> Path:
    """Return the folder of Pulumi's own files: $PULUMI_HOME, else .pulumi in the user's home."""
    if chosen := os.environ.get("PULUMI_HOME"):
        return Path(chosen)
    try:
        # As the engine does, which does not read $HOME: containers and `sudo` may set another one.
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        home = _user_home()
    return home / ".pulumi"


def umask() -> int:
    """Return the umask of this process; files that another thread makes meanwhile are private."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def host() -> str:
    """Return the name of this machine in the state; $SYMPHONY_HOST keeps an old name after a renaming."""
    return os.environ.get("SYMPHONY_HOST") or os.uname().nodename


def owner_of(project: str, stack: str) -> str:
    """Return the owner id of a stack's processes and objects, unique among all users and states."""
    return f"{project}/{stack}#{store_identity()}"


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
    """Return the folder that an XDG variable names; the specification ignores relative paths."""
    base = os.environ.get(name, "")
    return Path(base) if os.path.isabs(base) else None  # noqa: PTH117 : an empty one is none


def _user_home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise UserError("this user has no home folder", remedy="Set HOME to a folder of your own") from None
