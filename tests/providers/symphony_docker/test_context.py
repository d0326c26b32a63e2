"""The build context: which files are sent, equal digests for equal files, no secrets."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from symphony.errors import SymphonyError
from symphony_docker import context

# Never sent, whatever .dockerignore says.
CANARIES = (
    ".git/config",
    "sub/.git/HEAD",
    ".env",
    "sub/.env.production",
    ".envrc",
    "server.pem",
    "keys/tls.key",
    "id_rsa",
    "sub/id_ed25519",
    ".ssh/known_hosts",
    "kubeconfig",
    "admin.kubeconfig",
    ".kube/config",
    ".aws/credentials",
    ".azure/token",
    ".config/gcloud/application_default_credentials.json",
    "application_default_credentials.json",
    ".docker/config.json",
    ".dockercfg",
    ".netrc",
    ".pypirc",
    ".git-credentials",
    ".pulumi/stacks/rl.json",
    "Pulumi.dev.yaml",
    "symphony-home/state/x.json",
    "store.p12",
    "store.jks",
    "vault.kdbx",
    ".gnupg/secring",
    ".boto",
    ".venv/lib/torch/large.so",
    ".pgpass",
    ".my.cnf",
    "infra/terraform.tfstate",
)
# Named like a credential, or containing one: the user must decide.
SUSPECTS = {
    "conf/credentials.json": "{}",
    "gcp-service-account.json": "{}",
    "secrets.yaml": "a: 1",
    "passwords.txt": "hunter2",
    "hf_token": "hf_x",
    ".npmrc": "//registry/:_authToken=x",
    "notes.txt": "-----BEGIN OPENSSH PRIVATE KEY-----\n",
    "sa.json": '{"type": "service_account", "project_id": "p"}',
    "prod.env": "A=1",
    "wandb_key2.txt": "x",
    "api_key": "x",
    "a.cfg": f"token = ghp_{'a1B2' * 9}",
    "b.cfg": f"token = hf_{'a1B2' * 9}",
    "c.cfg": f"key = sk-{'a1B2c' * 4}T3BlbkFJ{'a1B2c' * 4}",
    "d.cfg": "url = xoxb-123456789012-123456789012-abcdefghij",
    "e.cfg": "id = AKIAIOSFODNN7EXAMPLE",
    "f.cfg": f"token = github_pat_{'a1B2c' * 4}_{'a1B2' * 14}",
    "g.cfg": f"key = sk-ant-api03-{'a1B2-_' * 15}",
    "h.cfg": f"key = sk-proj-{'a1B2' * 12}",
    "i.cfg": f"token = xapp-1-A0123456789-1234567890123-{'a1b2' * 16}",
    "j.cfg": f"key = AIza{'a1B2c' * 7}",
    "k.cfg": f"os.environ['WANDB_API_KEY'] = '{'a1b2' * 10}'",
    "l.json": '{"SecretAccessKey": "' + "a1B2" * 10 + '"}',
    "wandb_key_old": "x",
    "prod.tfvars": "x",
    "cluster.yml": "users:\n- user:\n    client-key-data: LS0t\n",
}
HARMLESS = ("tokenizer.json", "special_tokens_map.json", "secrets.py", ".env.example", "keys.py", "train.py")


@pytest.fixture(autouse=True)
def context_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SYMPHONY_HOME", str(tmp_path / "context" / "symphony-home"))
    folder = tmp_path / "context"
    put(folder, "Dockerfile", "FROM scratch\nCOPY . /\n")
    return folder


def put(folder: Path, name: str, text: str = "canary") -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def sent_files(folder: Path, **given: object) -> set[str]:
    result = context.read(context.Source(str(folder), **given))  # pyright: ignore[reportArgumentType]
    with tarfile.open(fileobj=io.BytesIO(b"".join(context.archive(result)))) as archive:
        return set(archive.getnames())


def digest_of(folder: Path) -> str:
    return context.identity(context.parts(context.read(context.Source(str(folder))), {}))


def test_credential_files_are_left_out(context_folder: Path) -> None:
    for name in (*CANARIES, *HARMLESS):
        put(context_folder, name)
    put(context_folder, ".dockerignore", "!.env\n!**/id_rsa\n")
    assert sent_files(context_folder) == {"Dockerfile", *HARMLESS}
    assert context.read(context.Source(str(context_folder))).problems == ()
    included = context.Source(
        str(context_folder), include=(".ssh", ".config/gcloud/*", "sub/.git/HEAD", "keys")
    )
    assert context.read(included).files == {}


def test_symphony_home_inside_the_context_is_never_sent(
    context_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(context_folder, "symphony-home/passphrase")
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setenv("SYMPHONY_HOME", str(tmp_path / "link" / "context" / "symphony-home"))
    assert sent_files(context_folder) == {"Dockerfile"}
    monkeypatch.setenv("SYMPHONY_HOME", str(context_folder / "symphony-home"))
    assert sent_files(tmp_path / "link" / "context") == {"Dockerfile"}


def test_a_suspected_credential_is_refused_unless_allowed_or_ignored(context_folder: Path) -> None:
    for name, text in SUSPECTS.items():
        put(context_folder, name, text)
    troubles = context.read(context.Source(str(context_folder))).problems
    assert {what.partition(" ")[0] for what, _ in troubles} == {*SUSPECTS}
    assert all(f'allow=["{what.partition(" ")[0]}"]' in remedy for what, remedy in troubles)
    assert context.read(context.Source(str(context_folder), allow=tuple(SUSPECTS))).problems == ()
    put(context_folder, ".dockerignore", "\n".join(SUSPECTS))
    assert context.read(context.Source(str(context_folder))).problems == ()


def test_the_digest_ignores_times_order_and_all_modes_but_x(context_folder: Path, tmp_path: Path) -> None:
    put(context_folder, "a.py", "a")
    put(context_folder, "b/c.py", "c")
    before, archive = (
        digest_of(context_folder),
        b"".join(context.archive(context.read(context.Source(str(context_folder))))),
    )
    other = tmp_path / "elsewhere"
    for name in ("b/c.py", "a.py", "Dockerfile"):
        put(other, name, (context_folder / name).read_text())
        (other / name).chmod(0o666)
        os.utime(other / name, (1, 1))
    assert digest_of(other) == before
    assert b"".join(context.archive(context.read(context.Source(str(other))))) == archive
    for change in (
        lambda: (other / "a.py").chmod(0o744),
        lambda: put(other, "a.py", "b"),
        lambda: (other / "a.py").rename(other / "d.py"),
        lambda: put(other, "Dockerfile", "FROM scratch\nCOPY . /app\n"),
    ):
        changed = digest_of(other)
        change()
        assert digest_of(other) != changed


def test_the_digest_covers_build_args_stage_and_platform(context_folder: Path) -> None:
    result = context.read(context.Source(str(context_folder)))
    every = [
        context.parts(result, {}),
        context.parts(result, {"A": "1"}),
        context.parts(result, {}, target="base"),
        context.parts(result, {}, platform="linux/arm64"),
    ]
    assert len({context.identity(each) for each in every}) == 4


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("sub/*\n!sub/c.txt", {"a.txt", "x.log", "sub/c.txt"}),
        ("**\n!sub/deep", {"sub/deep/d.log"}),
        (r"[^x]*" + "\n" + r"!\a.txt", {"a.txt", "x.log"}),
        (r"\*.txt" + "\n*.log", {"a.txt", "sub/b.log", "sub/c.txt", "sub/deep/d.log"}),
        ("# sub\n\n./a.tx?\n[w-y].log", {"sub/b.log", "sub/c.txt", "sub/deep/d.log"}),
        ("*\n!**/*.txt", {"a.txt", "sub/c.txt"}),
        ("**\n!sub/**/*.log", {"sub/b.log", "sub/deep/d.log"}),
        ("**/sub\n!sub/deep/e.log", {"a.txt", "x.log"}),
        ("SUB\nA.txt\nx.log", {"a.txt", "sub/b.log", "sub/c.txt", "sub/deep/d.log"}),
    ],
)
def test_dockerignore_patterns_match_as_in_docker(context_folder: Path, lines: str, left: set[str]) -> None:
    for name in ("a.txt", "x.log", "sub/b.log", "sub/c.txt", "sub/deep/d.log"):
        put(context_folder, name)
    put(context_folder, ".dockerignore", lines)
    assert sent_files(context_folder, dockerfile_text="FROM scratch") - {"Dockerfile"} == left


def test_an_image_without_dockerfile_sends_only_its_code(context_folder: Path) -> None:
    for name in ("agents/net.py", "agents/__pycache__/net.cpython-311.pyc", "train.py", "data/large.bin"):
        put(context_folder, name)
    names = sent_files(
        context_folder, dockerfile_text=f"FROM x\nCOPY {context.CARAML} /c\n", include=("agents/", "train.py")
    )
    code = {name for name in names if not name.startswith(context.CARAML)}
    assert code == {"Dockerfile", "agents/net.py", "train.py"}
    assert f"{context.CARAML}/__init__.py" in names
    for name in ("agents/deep/net.py", "agents/notes.txt", "old/train.py"):
        put(context_folder, name)
    put(context_folder, ".dockerignore", "old\n")
    globs = ("agents/**/*.py", "*.py", "da?a", "agents/[m-o]*.txt")
    every = {"agents/net.py", "agents/deep/net.py", "agents/notes.txt", "train.py", "data/large.bin"}
    assert sent_files(context_folder, dockerfile_text="FROM x", include=globs) == every | {"Dockerfile"}


def test_each_problem_of_the_context_is_one_line_with_a_remedy(context_folder: Path, tmp_path: Path) -> None:
    def trouble(given: context.Source) -> str:
        ((what, remedy),) = context.read(given).problems
        assert remedy
        return what

    assert trouble(context.Source(str(context_folder / "nowhere"))).endswith("nowhere is not a folder")
    assert "Dockerfile.gpu cannot be read: no such file" in trouble(
        context.Source(str(context_folder), dockerfile="Dockerfile.gpu")
    )
    os.mkfifo(context_folder / "Dockerfile.pipe")
    assert "Dockerfile.pipe cannot be read: not a regular file" in trouble(
        context.Source(str(context_folder), dockerfile="Dockerfile.pipe")
    )
    assert (
        trouble(context.Source(str(context_folder), include=("nothing",)))
        == f"nothing does not exist in {context_folder}"
    )
    assert (
        trouble(context.Source(str(context_folder), include=("no/*.py",)))
        == f"no/*.py does not exist in {context_folder}"
    )
    assert (
        trouble(context.Source(str(context_folder), include=("../x",)))
        == f"../x is outside of the context {context_folder}"
    )
    put(context_folder, "left/out.py")
    put(context_folder, ".dockerignore", "left\n")
    left_out = trouble(context.Source(str(context_folder), include=("left",)))
    assert left_out == "left is empty, or .dockerignore or a rule for credentials excludes every file of it"
    (context_folder / "out").symlink_to(tmp_path)
    assert "outside of the context" in trouble(context.Source(str(context_folder)))
    (context_folder / "out").unlink()
    (context_folder / "up").symlink_to("../x")
    assert "outside of the context" in trouble(context.Source(str(context_folder)))
    (context_folder / "up").unlink()
    (context_folder / "in").symlink_to("Dockerfile")
    assert context.read(context.Source(str(context_folder))).problems == ()
    with (context_folder / "large").open("wb") as file:
        file.truncate(11 * 10**9)
    assert "has 11.0 GB, more than 10; the largest file is large" in trouble(
        context.Source(str(context_folder))
    )


def test_a_file_that_changes_during_the_build_is_an_error(context_folder: Path) -> None:
    put(context_folder, "a.py", "a" * 10)
    result = context.read(context.Source(str(context_folder)))
    pieces = context.archive(result)
    assert b"a" * 10 in iter(pieces)
    put(context_folder, "a.py", "b" * 10)
    os.utime(context_folder / "a.py", (2, 2))
    with pytest.raises(SymphonyError, match=r"a\.py changed while the image was built"):
        list(pieces)
