"""The declaration of an experiment: frozen values, converted to their types on the line that sets them."""
