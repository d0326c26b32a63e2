"""Reads a kubeconfig as kubectl does: the server, its certificates, and the user's credentials.

The official client reads the chosen entry: certificates, passwords, OIDC, proxies, a pod's service account.
This module does what the client cannot. With several files, kubectl uses the first current-context, the
client the last. The client also runs exec plugins without a deadline, continues as an anonymous user if one
fails, sends the newline of a token file, does not impersonate, and ignores the user and password of a proxy.
"""

from __future__ import annotations

import base64
import importlib
import ipaddress
import json
import os
import signal
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

import yaml

from symphony.backends.kubernetes.api.fields import listing, mapping, text, texts
from symphony.errors import SymphonyError, UserError

if TYPE_CHECKING:
    from urllib3 import HTTPHeaderDict, PoolManager

# Seconds for an exec plugin, which may have to ask a cloud for the token.
TOKEN_DEADLINE = 20.0
_DEFAULT_FILE = Path("~/.kube/config")
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# Fields of a kubeconfig that name files.
_FILE_FIELDS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
# Exec plugins that did not answer in time; a command waits only once for them.
_silent_plugins: set[tuple[str, ...]] = set()
_CORRECT_THE_FILE = "Correct it, or name another kubeconfig in kubernetes:kubeconfig (else in KUBECONFIG)"


@dataclass(frozen=True)
class Access:
    """The access to a cluster as a user.

    Attributes:
        server: The URL of the API server.
        context: The name of the context in the kubeconfig.
        pool: The connections of the official client.
        headers: The credentials, sent with each request.
        trust: The TLS context with the certificates of both sides; None for http.
        server_name: The name in the server's certificate, if it differs from the address.
    """

    server: str
    context: str
    pool: PoolManager = field(repr=False)
    headers: HTTPHeaderDict = field(repr=False)
    trust: ssl.SSLContext | None = field(default=None, repr=False)
    server_name: str = ""


def access(kubeconfig: str = "", context: str = "") -> Access:
    """Return the access that a kubeconfig gives.

    Args:
        kubeconfig: Its text, its path, or "" for kubectl's default.
        context: The context to use, or "" for the current context.

    Raises:
        UserError: There is no kubeconfig, or an entry is missing or wrong.
        SymphonyError: A program that the kubeconfig names returned no credentials.
    """
    content = _content(kubeconfig)
    configuration = _client_module("kubernetes.client").Configuration()
    if content is None:
        try:
            _client_module("kubernetes.config").load_incluster_config(configuration)
        except _client_module("kubernetes.config").ConfigException as error:
            raise UserError(
                f"this pod has no credentials for its cluster: {error}",
                remedy="Give the pod a service account, or set KUBECONFIG",
            ) from error
        return _access(configuration, "", _trust(configuration), {}, "")
    name, entry = _context(content, context)
    cluster = _entry(content, "cluster", str(entry.get("cluster") or ""))
    if not str(cluster.get("server") or "").startswith(("https://", "http://")):
        raise UserError(
            f'context "{name}" of the kubeconfig names no server URL',
            remedy="Run `kubectl config set-cluster CLUSTER --server=URL` for the cluster of that context",
        )
    user = _entry(content, "user", str(entry["user"])) if entry.get("user") else {}
    # Without `exec`, since the client's loader would run the plugin again if it returned a certificate.
    user = {**{key: user[key] for key in user if key != "exec"}, **_credentials(user, cluster)}
    entries = {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
    }
    loader = _client_module("kubernetes.config.kube_config").KubeConfigLoader
    failures = (_client_module("kubernetes.config").ConfigException, ssl.SSLError, ValueError, OSError)
    # The ssl library reads certificates only from files, which are removed at once.
    with tempfile.TemporaryDirectory(prefix="symphony-") as folder:
        try:
            loader(entries, temp_file_path=folder).load_and_set(configuration)
            trust = _trust(configuration)
        except failures as error:
            raise UserError(
                f"the certificates in the kubeconfig cannot be used: {error}",
                remedy=f"Correct the cluster and the user of context {name}, or create the kubeconfig again",
            ) from error
    return _access(configuration, name, trust, user, str(cluster.get("proxy-url") or ""))


def current() -> tuple[str, str]:
    """Return the files that kubectl reads and its current context, without running programs or requests.

    Raises:
        UserError: There is no kubeconfig, or it has no current context.
    """
    content = _content("")
    if content is None:
        return str(_ACCOUNT), ""
    return os.pathsep.join(map(str, _files(""))), _context(content, "")[0]


def contexts() -> list[str]:
    """Return the names of all contexts in kubectl's default kubeconfig; empty if there is none."""
    content = _content("") if exists() else None
    return [text(entry, "name") for entry in listing(content, "contexts")] if content else []


def exists() -> bool:
    """Return whether kubectl's default kubeconfig exists."""
    return any(file.exists() for file in _files(""))


def resolve(kubeconfig: str, folder: Path) -> str:
    """Return a stack's kubeconfig, its text or a path, with the path made absolute."""
    if not kubeconfig or is_text(kubeconfig):
        return kubeconfig
    return str(folder / Path(kubeconfig).expanduser())


def is_text(kubeconfig: str) -> bool:
    """Return whether this is the text of a kubeconfig, not a path."""
    return "\n" in kubeconfig or kubeconfig.lstrip().startswith("{")


def holds_credentials(text: str) -> bool:
    """Return whether a kubeconfig contains credentials, unlike GKE's, where a program logs in."""
    entries = listing(_parse(text, "kubernetes:kubeconfig"), "users")
    users = [mapping(entry, "user") for entry in entries]
    return any(set(user) != {"exec"} or mapping(user, "exec").get("env") for user in users)


def _client_module(name: str) -> Any:
    """Return a module of the official client, which takes a quarter of a second to load."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise SymphonyError(
            "the Python package kubernetes is not installed",
            remedy="Run `pip install 'symphony-launch[kubernetes]'`",
        ) from None


def _files(kubeconfig: str) -> list[Path]:
    names = (kubeconfig or os.environ.get("KUBECONFIG", "")).split(os.pathsep)
    return [Path(name).expanduser() for name in names if name] or [_DEFAULT_FILE.expanduser()]


def _content(kubeconfig: str) -> dict[str, Any] | None:
    """Return the kubeconfig, merged from several files (the first wins); None in a pod without a file."""
    if is_text(kubeconfig):
        return _parse(kubeconfig, "kubernetes:kubeconfig")
    files = _files(kubeconfig)
    if files == [_DEFAULT_FILE.expanduser()] and not files[0].exists() and (_ACCOUNT / "token").exists():
        return None
    contents = [
        _resolve_paths(_parse(_read(file), str(file)), file.parent)
        for file in files
        if file.exists() or kubeconfig
    ]
    if not contents:
        raise UserError(
            f"there is no kubeconfig at {files[0]}",
            remedy="Set KUBECONFIG, or `kubernetes:kubeconfig: FILE` in the settings of the stack",
        )
    merged: dict[str, Any] = {}
    for content in contents:
        for name, entry in content.items():
            are_lists = isinstance(entry, list) and isinstance(merged.get(name), list)
            merged[name] = [*merged[name], *entry] if are_lists else merged.get(name) or entry
    return merged


def _read(file: Path, what: str = "the kubeconfig") -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (getattr(error, "strerror", None) or "not UTF-8 text").lower()
        raise UserError(f"{what} cannot be read: {why}", where=str(file), remedy=_CORRECT_THE_FILE) from error


def _parse(text: str, where: str) -> dict[str, Any]:
    try:
        content = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError) as error:
        what = "the kubeconfig is not valid YAML"
        raise UserError(what, where=where, remedy=_CORRECT_THE_FILE) from error
    if not isinstance(content, dict):
        raise UserError("the kubeconfig is not a YAML mapping", where=where, remedy=_CORRECT_THE_FILE)
    return cast("dict[str, Any]", content)


def _resolve_paths(content: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Make the paths in a kubeconfig absolute; they are relative to its folder."""
    for kind in ("cluster", "user"):
        for entry in listing(content, f"{kind}s"):
            fields = cast("dict[str, Any]", mapping(entry, kind))
            paths = {name: str(folder / str(fields[name])) for name in _FILE_FIELDS if fields.get(name)}
            fields.update(paths)
            if "/" in (command := text(fields, "exec", "command")):
                fields["exec"] = {**fields["exec"], "command": str(folder / command)}
    return content


def _context(content: Mapping[str, Any], context: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the fields of a context; "" means the current context."""
    name = context or str(content.get("current-context") or "")
    if not name:
        raise UserError(
            "the kubeconfig has no current context",
            remedy="Set kubernetes:context, or run `kubectl config use-context CONTEXT`",
        )
    return name, _entry(content, "context", name)


def _entry(content: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    for entry in listing(content, f"{kind}s"):
        if entry.get("name") == name:
            return dict(mapping(entry, kind))
    names = ", ".join(text(entry, "name") for entry in listing(content, f"{kind}s"))
    remedy = f"Use one of: {names}" if names else "Add one, or name another kubeconfig"
    raise UserError(f'the kubeconfig has no {kind} "{name}"', remedy=remedy)


def _access(
    configuration: Any, context: str, trust: ssl.SSLContext | None, user: Mapping[str, Any], proxy_url: str
) -> Access:
    urllib3 = _client_module("urllib3")
    _set_proxy(configuration, proxy_url)
    # symphony's own Client retries requests.
    configuration.retries = False
    if not configuration.verify_ssl:
        # The user's kubeconfig asks for it, so no warning with every request.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    client = _client_module("kubernetes.client").ApiClient(configuration)
    pool: PoolManager = client.rest_client.pool_manager
    if trust is not None:
        pool.connection_pool_kw["ssl_context"] = trust
    name = configuration.tls_server_name or ""
    return Access(configuration.host, context, pool, _headers(configuration, user), trust, name)


def _trust(configuration: Any) -> ssl.SSLContext | None:
    """Return a TLS context with the certificates of a configuration, and remove them from it."""
    if not configuration.host.startswith("https://"):
        return None
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    # As kubectl: Python 3.13 and later refuse certificates without an Authority Key Identifier, as on EKS.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if configuration.cert_file and configuration.key_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    configuration.ssl_ca_cert = configuration.cert_file = configuration.key_file = None
    return context


def _set_proxy(configuration: Any, proxy_url: str) -> None:
    """Choose the proxy as kubectl does: NO_PROXY applies to the environment's proxy, loopback needs none."""
    host = urlsplit(str(configuration.host)).hostname or ""
    if proxy_url:
        configuration.no_proxy = None
    elif _is_local(host) or _bypasses_proxy(configuration):
        configuration.proxy = None
    proxy = configuration.proxy
    if not proxy:
        return
    configuration.proxy = proxy = proxy if "://" in proxy else f"http://{proxy}"
    parts = urlsplit(proxy)
    # channels.py supports http alone, for exec, ssh, scp and visit; a new scheme must be added there too.
    if parts.scheme not in ("http", "https"):
        raise UserError(
            f"the API server is behind a {parts.scheme} proxy, which symphony does not support",
            remedy=f"Set {'proxy-url of the cluster' if proxy_url else 'HTTPS_PROXY'} to an http:// URL"
            f"{'' if proxy_url else ', or name the server in NO_PROXY'}",
        )
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        configuration.proxy_headers = _client_module("urllib3").make_headers(proxy_basic_auth=user)


def _bypasses_proxy(configuration: Any) -> bool:
    bypasses: Any = _client_module("requests.utils").should_bypass_proxies
    return bool(configuration.proxy and bypasses(configuration.host, configuration.no_proxy or ""))


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _headers(configuration: Any, user: Mapping[str, Any]) -> HTTPHeaderDict:
    headers: HTTPHeaderDict = _client_module("urllib3").HTTPHeaderDict()
    if authorization := configuration.get_api_key_with_prefix("BearerToken"):
        scheme, _, token = authorization.partition(" ")
        headers["Authorization"] = f"{scheme} {_clean_token(token)}"
    if user.get("as"):
        headers["Impersonate-User"] = str(user["as"])
        if user.get("as-uid"):
            headers["Impersonate-Uid"] = str(user["as-uid"])
        for group in texts(user, "as-groups"):
            headers.add("Impersonate-Group", group)
        extra = mapping(user, "as-user-extra")
        for key in extra:
            for entry in texts(extra, key):
                headers.add(f"Impersonate-Extra-{key}", entry)
    return headers


def _credentials(user: Mapping[str, Any], cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return the credentials of a user that come from a token, a token file or an exec plugin."""
    # As for kubectl, the file counts before the token.
    if user.get("tokenFile"):
        return {"token": _read(Path(str(user["tokenFile"])), "the token file of the kubeconfig")}
    if user.get("token"):
        return {"token": str(user["token"])}
    if user.get("exec"):
        return _run_plugin(mapping(user, "exec"), cluster)
    return {}


def _clean_token(token: str) -> str:
    """Return the token without the newline of its file; errors must not show it."""
    token = token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        what = "the token for the cluster has invalid characters"
        raise UserError(what, remedy="Log in to the cluster again")
    return token


def _output_of(words: tuple[str, ...], env: Mapping[str, str]) -> str:
    """Return the output of an exec plugin, which is killed with its children at the deadline."""
    if words in _silent_plugins:
        raise subprocess.TimeoutExpired(words, TOKEN_DEADLINE)
    with subprocess.Popen(
        words,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as plugin:
        try:
            output, errors = plugin.communicate(timeout=TOKEN_DEADLINE)
        except BaseException as error:
            os.killpg(plugin.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                _silent_plugins.add(words)
            raise
    if plugin.returncode:
        raise subprocess.CalledProcessError(plugin.returncode, words, output, errors)
    return output


def _run_plugin(plugin: Mapping[str, Any], cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return the token or the certificate that an exec plugin (such as gke-gcloud-auth-plugin) prints."""
    command = str(plugin.get("command") or "")
    spec: dict[str, Any] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = {name: value for name, value in cluster.items() if name != "extensions"}
        for extension in listing(cluster, "extensions"):
            if extension.get("name") == "client.authentication.k8s.io/exec":
                spec["cluster"]["config"] = extension.get("extension")
    request = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": spec}
    env = {text(variable, "name"): text(variable, "value") for variable in listing(plugin, "env")}
    try:
        output = _output_of(
            (command, *texts(plugin, "args")), {**env, "KUBERNETES_EXEC_INFO": json.dumps(request)}
        )
        status = json.loads(output)["status"]
        if status.get("token"):
            return {"token": str(status["token"])}
        return {
            f"client-{name}-data": base64.b64encode(status[field].encode()).decode()
            for name, field in (("certificate", "clientCertificateData"), ("key", "clientKeyData"))
        }
    except FileNotFoundError as error:
        hint = str(plugin.get("installHint") or "").strip().splitlines()
        remedy = hint[0].rstrip(".") if hint else f"Install {command}"
        missing = "does not exist" if "/" in command else "is not on PATH"
        raise SymphonyError(f"the kubeconfig needs {command}, which {missing}", remedy=remedy) from error
    except subprocess.CalledProcessError as error:
        # gcloud surrounds its error with other output.
        lines = str(error.stderr or "").strip().splitlines()
        causes = [line.rpartition("ERROR: ")[2] for line in lines if "ERROR: " in line] or lines[-1:]
        why = causes[0].rstrip(".")[:200] if causes else f"exit {error.returncode}"
        remedy = "Run `gcloud auth login`" if "gcloud" in command else "Log in to the cluster again"
        raise SymphonyError(f"{command} returned no credentials: {why}", remedy=remedy) from error
    except subprocess.TimeoutExpired as error:
        raise SymphonyError(
            f"{command} returned no credentials within {TOKEN_DEADLINE:.0f} s",
            remedy="Run `kubectl get pods` once and log in if asked",
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        remedy = "Run `kubectl get pods` to see whether that program works"
        raise SymphonyError(f"{command} returned no credentials", remedy=remedy) from error
