"""The declaration: plain frozen values, converted where the program gives them."""
