"""The operations of the Pulumi resources Session and Window: create, diff, read, update and delete."""
