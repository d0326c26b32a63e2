"""One verb a file: joins the engine and the backends for the command line; prints nothing."""
