"""The Pulumi resources Session and Window and what their create, diff, read, update and delete do."""
