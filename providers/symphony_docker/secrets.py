"""Rules that keep credentials out of images: files to leave out or to refuse unless allow= names them."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

# Left out, in any folder, unless allow= names them: version control, keys, state, and files of this Python,
# some of which would change the image each time.
_FOLDERS = re.compile(r"\.(git|hg|svn|ssh|aws|azure|kube|docker|gnupg|pulumi|venv)|__pycache__")
_FILES = re.compile(
    r"\.env(rc|\..+)?|.+\.(pem|key|ppk|p12|pfx|jks|keystore|kdbx|kubeconfig|py[co])|id_(rsa|dsa|ecdsa|ed25519)(_sk)?"
    r"|kubeconfig(\..+)?|\.netrc|\.pypirc|\.git-credentials|\.git|\.dockercfg|\.dockerconfigjson|\.boto|\.s3cfg"
    r"|application_default_credentials\.json|Pulumi\..+\.yaml|\.pgpass|\.my\.cnf|.+\.tfstate(\.backup)?"
)
_HARMLESS = re.compile(r"\.env\.(example|sample|template|dist)")
_GCLOUD = re.compile(r"(.*/)?\.config/gcloud")
# Names that may belong to a credential; the user decides.
_SUSPECT = re.compile(
    r"(?i)(.*[-_.])?(credentials?|secrets?|service[-_]?account([-_]?key)?|passwords?|passwd|api[-_]?keys?)"
    r"([-_.].*)?\.?(json|ya?ml|toml|ini|cfg|conf|txt|env|csv)|\.?(credentials?|htpasswd|npmrc|vault-token|api[-_]?keys?)"
    r"|\.?([a-z]+[-_])?token(\.txt)?|.+\.(env|tfvars)"
    r"|\.?(wandb|comet|neptune|openai|hf)[-_]?(api[-_]?)?keys?\d*([-_.].*)?"
)
# Formats, as their vendors document them, for which detect-secrets has no rule or an outdated one.
_CONTENTS = (
    ("GitHub token", re.compile(r"\bgithub_pat_[A-Za-z0-9_]{60,}")),
    ("OpenAI key", re.compile(r"\bsk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,}")),
    ("Anthropic key", re.compile(r"\bsk-ant-[A-Za-z0-9_-]{40,}")),
    ("Slack token", re.compile(r"\bxapp-\d-[A-Z0-9]+-\d+-[a-f0-9]{32,}")),
    ("Google API key", re.compile(r"\bAIza[A-Za-z0-9_-]{35}")),
    ("Weights & Biases key", re.compile(r"(?i)wandb_api_key\W{1,6}[a-f0-9]{40}\b")),
    ("Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{30,}\b")),
    ("key of a Google service account", re.compile(r'"type"\s*:\s*"service_account"')),
    ("kubeconfig", re.compile(r"(?m)^\s*client-key-data\s*:\s*\S")),
    ("AWS secret key", re.compile(r"(?i)secret_?access_?key\W{1,6}[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])")),
    ("registry password", re.compile(r'"auths?"\s*:\s*\{.{0,400}"auth"\s*:\s*"', re.DOTALL)),
    # detect-secrets looks for `BEGIN RSA PRIVATE KEY` without the dashes, which source code may mention.
    ("private key", re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----")),
)
# A credential is short; larger files are data.
MAX_BYTES_READ = 256 * 1024


def is_left_out(name: str, is_folder: bool) -> bool:
    """Return whether images leave out a file or folder of this name, unless allow= names it.

    >>> is_left_out("a/.git", True), is_left_out("keys/id_rsa", False), is_left_out("train.py", False)
    (True, True, False)
    """
    base = name.rpartition("/")[2]
    if is_folder:
        return _FOLDERS.fullmatch(base) is not None or _GCLOUD.fullmatch(name) is not None
    return _FILES.fullmatch(base) is not None and _HARMLESS.fullmatch(base) is None


def is_withheld(path: str) -> bool:
    """Return whether a path of the context, or a folder above it, is left out, unless allow= names it.

    >>> is_withheld(".aws/credentials"), is_withheld("./.env"), is_withheld("train.py")
    (True, True, False)
    """
    parts = Path(path.lstrip("/")).parts
    folders = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    return bool(parts) and (is_left_out(path, False) or any(is_left_out(folder, True) for folder in folders))


def suspicion(name: str, path: str) -> str:
    """Return why a file may contain a credential, by its name or content; else an empty string."""
    if _SUSPECT.fullmatch(name.rpartition("/")[2]) and _HARMLESS.fullmatch(name.rpartition("/")[2]) is None:
        return "is named like a credential"
    if os.lstat(path).st_size > MAX_BYTES_READ:
        return ""
    kind = credential_in(Path(path).read_bytes().decode("utf-8", "replace"))
    return f"holds a credential ({kind})" if kind else ""


def credential_in(text: str) -> str:
    """Return the kind of a credential in a text; empty if there is none."""
    return next((kind for kind, pattern in (*_CONTENTS, *_known_formats()) if pattern.search(text)), "")


@cache
def _known_formats() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the token formats of detect-secrets.

    Only its patterns are used: its scanner takes 60 ms a file.
    """
    from detect_secrets.plugins.aws import AWSKeyDetector
    from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
    from detect_secrets.plugins.github_token import GitHubTokenDetector
    from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
    from detect_secrets.plugins.npm import NpmDetector
    from detect_secrets.plugins.openai import OpenAIDetector
    from detect_secrets.plugins.pypi_token import PypiTokenDetector
    from detect_secrets.plugins.slack import SlackDetector
    from detect_secrets.plugins.stripe import StripeDetector

    detectors: tuple[Any, ...] = (
        AWSKeyDetector,
        AzureStorageKeyDetector,
        GitHubTokenDetector,
        GitLabTokenDetector,
        NpmDetector,
        OpenAIDetector,
        PypiTokenDetector,
        SlackDetector,
        StripeDetector,
    )
    return tuple((detector.secret_type, pattern) for detector in detectors for pattern in detector.denylist)
