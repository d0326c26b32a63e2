"""`symphony rbac`: prints the Kubernetes Role that symphony needs."""

from importlib import resources


def command() -> None:
    """Print the Kubernetes Role that symphony needs in the namespace of an experiment.

    An administrator applies it in a namespace and binds it to the users who run experiments there.

    Examples:
        symphony rbac | kubectl -n rl apply -f -
        kubectl -n rl create rolebinding me --role=symphony-experimenter --user=YOU
    """
    role = resources.files("symphony.backends.kubernetes").joinpath("role.yaml")
    print(role.read_text(encoding="utf-8"), end="")
