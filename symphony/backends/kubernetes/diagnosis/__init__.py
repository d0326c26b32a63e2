"""Why a process on Kubernetes is as it is, for `symphony why`."""
