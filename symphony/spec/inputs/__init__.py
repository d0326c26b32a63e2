"""What a process is made of beside its settings: code, secret values, an image that is built."""
