"""Pure: a spec and a target give a Plan, or every Problem; no Pulumi, tmux, Kubernetes or ZeroMQ in here."""
